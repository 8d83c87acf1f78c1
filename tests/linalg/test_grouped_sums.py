"""Sums by groups: how far float32 may take them from the plain sums, and when that is too far."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.linalg.class_sums import GROUP, NARROW, GroupedSums, Grouping
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import CrossMoments

GROUPING = Grouping()
KINDS = ("normal", "shifted", "constant", "outliers", "tiny")


def rows_of(kind: str, n: int, d: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    if kind == "shifted":
        x += 300 * rng.uniform(size=d)
    elif kind == "constant":
        x[:] = rng.uniform(0.1, 1, size=d)
    elif kind == "outliers":
        x[:: n // 7 + 1] *= 1e6
    elif kind == "tiny":
        x *= 1e-25
    return x.astype(np.float32)


def grouped(
    x: np.ndarray,
    codes: np.ndarray,
    c: int,
    batches: list[int] | None = None,
    calls: list[int] | None = None,
    grouping: Grouping = GROUPING,
) -> CrossMoments:
    """Add rows up, cut into batches at `batches` and `calls`."""
    sums = GroupedSums(x.shape[1], c, grouping)
    design = LabelMatrix(codes.astype(np.int32)[:, None], None, c, c)
    for a, b in pairwise(sorted({0, *(batches or []), *(calls or []), len(x)})):
        sums.add(x[a:b], design.take(slice(a, b)))
    return CrossMoments.of_sums(sums)


@given(
    st.sampled_from(KINDS), st.integers(1, 700), st.integers(1, 9), st.integers(2, 2 * NARROW), st.booleans(),
    st.integers(0, 99), st.sampled_from([1, 4]),
)  # fmt: skip
def test_sums_by_groups_are_as_near_to_the_plain_ones_as_they_say(
    kind: str, n: int, d: int, c: int, is_even: bool, seed: int, at_once: int
) -> None:
    x = rows_of(kind, n, d, seed)
    rng = np.random.default_rng(seed + 1)
    codes = rng.integers(0, c, n) if is_even else np.minimum(rng.geometric(0.8, n) - 1, c - 1)
    moments = grouped(x, codes, c, grouping=Grouping(block_elements=at_once * GROUP * d, measured=1))
    z, exact = np.eye(c)[codes], x.astype(np.float64)
    assert moments.n == n
    np.testing.assert_array_equal(moments.mean_z, z.mean(0))
    bound = (moments.most_grouped * 2.0**-24 + 1e-14) * np.abs(exact)
    assert 1 <= moments.most_grouped <= max(GROUP, n)
    assert np.all(np.abs(moments.mean_x - exact.mean(0)) <= bound.mean(0))
    assert np.all(np.abs(moments.comoment / n + np.outer(moments.mean_x, moments.mean_z) - exact.T @ z / n)
                  <= bound.T @ z / n + 1e-14 * np.abs(exact).mean(0)[:, None])  # fmt: skip
    for is_centred, z_used in ((True, z - z.mean(0)), (False, z)):
        off = moments.cross_covariance(is_centred=is_centred) - exact.T @ z_used / n
        assert np.linalg.norm(off, 2) <= moments.rounding_floor() * (1 + 1e-6)


CUTS = st.lists(st.integers(0, 1500), max_size=5)


@given(
    st.integers(1, 1500), st.integers(1, 5), st.integers(2, 2 * NARROW), CUTS, CUTS,
    st.integers(0, 99), st.sampled_from([1 << 6, 1 << 8, 1 << 10]), st.booleans(),
)  # fmt: skip
def test_rows_add_up_to_the_same_bits_in_any_batches(
    n: int, d: int, c: int, cuts: list[int], calls: list[int], seed: int, elements: int, is_fitting: bool
) -> None:
    x, codes = rows_of("shifted", n, d, seed), np.random.default_rng(seed).integers(0, c, n)
    batches, calls = (sorted({0, *(cut for cut in some if cut < n), n}) for some in (cuts, calls))
    grouping = Grouping(block_elements=elements, sums_elements=elements)
    rows = grouping.block_rows(d)
    if is_fitting:  # as they are read, but that calls do not begin where they do
        batches = sorted({*range(0, n, rows), n, *range(calls[len(calls) // 2], n, rows)})
    one, other = grouped(x, codes, c, grouping=grouping), grouped(x, codes, c, batches, calls, grouping)
    as_read = grouped(x, codes, c, [*range(0, n, rows), n], grouping=grouping)
    for name in ("n", "mean_x", "mean_z", "comoment", "root_x", "most_grouped"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert np.array_equal(getattr(one, name), getattr(as_read, name)), name
    exact, z = x.astype(np.float64), np.eye(c)[codes]
    np.testing.assert_allclose(as_read.mean_x, exact.mean(0), rtol=1e-5)
    np.testing.assert_allclose(
        as_read.comoment + n * np.outer(as_read.mean_x, as_read.mean_z), exact.T @ z, rtol=1e-5, atol=1e-3
    )


@pytest.mark.parametrize("c", [2, 9])
def test_full_batches_behind_others_are_not_taken_out_of_turn(c: int) -> None:
    grouping = Grouping(block_elements=128 * 5)
    rows = grouping.block_rows(5)
    n = 4 * rows
    x, codes = rows_of("shifted", n, 5, 1), np.random.default_rng(1).integers(0, c, n)
    plain = grouped(x, codes, c, grouping=grouping)
    behind_five = grouped(x, codes, c, [0, 5, 5 + rows, 5 + 2 * rows, n], grouping=grouping)
    behind_a_group = grouped(x, codes, c, [0, GROUP, GROUP + rows, GROUP + 2 * rows, n], grouping=grouping)
    in_another_call = grouped(x, codes, c, [0, rows - 5, rows, 2 * rows, n], [0, rows - 5, n], grouping)
    for other in (behind_five, behind_a_group, in_another_call):
        assert np.array_equal(other.comoment, plain.comoment)
        assert np.array_equal(other.mean_x, plain.mean_x)


def test_groups_of_parts_add_up_to_those_of_all_rows() -> None:
    x, codes = rows_of("normal", 5000, 6, 0), np.arange(5000) % 3
    small = Grouping(block_elements=64 * 6)
    parts = [grouped(x[a:b], codes[a:b], 3, grouping=small) for a, b in ((0, 1999), (1999, 2000), (2000, 5000))]
    moments, plain = parts[0] + parts[1] + parts[2], CrossMoments.of(x.astype(np.float64), np.eye(3)[codes])
    np.testing.assert_allclose(moments.comoment, plain.comoment, atol=1e-3)
    assert moments.n == 5000
    assert moments.root_x == pytest.approx(plain.root_x, rel=0.05)  # by some of the rows


def signal(n: int = 6000, d: int = 4, mean: float = 0.0, strength: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    codes = np.arange(n) % 2
    return (rng.normal(size=(n, d)) + mean + strength * codes[:, None]).astype(np.float32), codes


def test_a_signal_well_above_rounding_is_settled_and_its_direction_right() -> None:
    x, codes = signal()
    moments = grouped(x, codes, 2)
    assert (moments).is_accurate_enough()
    exact = x.astype(np.float64)
    difference = exact[codes == 1].mean(0) - exact[codes == 0].mean(0)
    ours = np.linalg.svd(moments.cross_covariance())[0][:, 0]
    off = ours - difference * (ours @ difference) / (difference @ difference)
    assert np.linalg.norm(off) < 1e-6


@pytest.mark.parametrize("mean", [1e4, 1e5])
def test_means_far_above_the_signal_are_not_settled_by_groups(mean: float) -> None:
    x, codes = signal(mean=mean)
    assert not (grouped(x, codes, 2)).is_accurate_enough()
    assert (CrossMoments.of(x, np.eye(2)[codes])).is_accurate_enough()


@pytest.mark.parametrize("mean", [0.0, 10.0])
def test_labels_that_carry_nothing_are_not_settled_by_groups(mean: float) -> None:
    half, _ = signal(mean=mean, strength=0)
    x, codes = np.concatenate([half, half]), np.repeat([0, 1], [len(half)] * 2)
    order = np.random.default_rng(0).permutation(len(x))
    assert not (grouped(x[order], codes[order], 2)).is_accurate_enough()


def test_sums_that_float32_cannot_hold_are_not_settled_and_not_taken_for_finite() -> None:
    x = np.full((GROUP, 2), 3e38, np.float32)
    codes = np.arange(GROUP) % 2
    sums = GroupedSums(2, 2, GROUPING)
    sums.add(x, LabelMatrix(codes.astype(np.int32)[:, None], None, 2, 2))
    assert not CrossMoments.of_sums(sums).is_finite
    assert not (CrossMoments.of_sums(sums)).is_accurate_enough()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("c", [2, 9])
def test_a_number_that_is_not_finite_never_leaves_the_sums(value: float, c: int) -> None:
    x = rows_of("normal", 100_000, 8, 0)
    sums = GroupedSums(8, c, GROUPING)
    x[GROUPING.block_rows(8) - 5, 3] = value  # among rows that are not measured
    sums.add(x, LabelMatrix((np.arange(len(x)) % c).astype(np.int32)[:, None], None, c, c))
    assert not CrossMoments.of_sums(sums).is_finite


def test_a_class_gathers_rows_of_several_blocks_up_to_a_group_before_float64_takes_over() -> None:
    c, n = 40, 40_000
    codes, ones = np.arange(n) % c, np.ones((n, 2), np.float32)
    moments = grouped(ones, codes, c, grouping=Grouping(block_elements=1 << 11))  # 1,024 rows: 25 or 26 of a class
    assert GROUP // 2 < moments.most_grouped <= GROUP
    np.testing.assert_allclose(moments.mean_x, 1, rtol=1e-15)


@pytest.mark.parametrize("n", [8192 + 1, 8192 + 1025, 3 * 8192])
def test_a_last_block_with_fewer_groups_joins_those_before_it_and_loses_none(n: int) -> None:
    c = 42  # classes that take turns: 25 rows at most in a group of 1,024, so that two blocks share their groups
    codes, x = np.arange(n) % c, rows_of("normal", n, 2, 4)
    moments = grouped(x, codes, c, grouping=Grouping(block_elements=8192 * 2))
    assert 25 < moments.most_grouped <= GROUP  # the control: they did
    np.testing.assert_allclose(moments.mean_x, x.astype(np.float64).mean(0), atol=1e-7)
