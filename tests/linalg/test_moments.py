from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from salcli.errors import ShapeError
from salcli.linalg.class_sums import WIDE_ELEMENTS, RowSums
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import CrossMoments

from .strategies import Rows, labelled_rows


def close(one: CrossMoments, other: CrossMoments, rtol: float = 1e-12) -> None:
    """Compare moments relative to the size of each, not of each entry: entries may cancel to nothing."""
    assert one.n == other.n
    for name in ("mean_x", "mean_z", "comoment", "root_x", "root_z"):
        a, b = getattr(one, name), getattr(other, name)
        assert_allclose(a, b, rtol=0, atol=rtol * max(np.linalg.norm(b), 1e-300), err_msg=name)


@given(labelled_rows(), st.booleans())
def test_moments_equal_the_plain_formulas(rows: Rows, is_numeric: bool) -> None:
    x, z = rows
    if is_numeric:
        z = z * np.linspace(-1, 2, len(z))[:, None] + 0.5
    moments = CrossMoments.of(x, z)
    xc, zc = x - x.mean(0), z - z.mean(0)
    assert moments.n == len(x)
    assert_allclose(moments.mean_x, x.mean(0), atol=1e-12)
    assert_allclose(moments.comoment, xc.T @ zc, atol=1e-11)
    assert_allclose(moments.root_x**2, (xc**2).sum(), rtol=1e-11)
    assert_allclose(moments.root_z**2, (zc**2).sum(), rtol=1e-11)
    assert_allclose(moments.cross_covariance(), xc.T @ zc / len(x), atol=1e-12)
    assert_allclose(moments.cross_covariance(is_centred=False), x.T @ z / len(x), atol=1e-11)


@given(
    labelled_rows(scales=(1e-12, 1.0, 1e12)),
    st.lists(st.integers(0, 60), max_size=6),
    st.randoms(use_true_random=False),
)
def test_any_split_of_the_rows_in_any_order_folds_to_the_same_moments(
    rows: Rows, cuts: list[int], random: object
) -> None:
    x, z = rows
    borders = sorted({0, len(x), *(cut for cut in cuts if cut < len(x))})
    parts = [CrossMoments.of(x[a:b], z[a:b]) for a, b in pairwise(borders)]
    random.shuffle(parts)  # type: ignore[attr-defined]
    close(reduce(CrossMoments.__add__, parts), CrossMoments.of(x, z))


@given(labelled_rows())
def test_zero_is_neutral_and_addition_is_associative_and_commutative(rows: Rows) -> None:
    x, z = rows
    a, b, c = (CrossMoments.of(x[i::3], z[i::3]) for i in range(3))
    zero = CrossMoments.zero(x.shape[1], z.shape[1])
    close(zero + a, a, rtol=0)
    close(a + zero, a, rtol=0)
    close((a + b) + c, a + (b + c))
    close(a + b, b + a)


@given(labelled_rows())
def test_moments_survive_bytes_and_are_the_same_bytes_again(rows: Rows) -> None:
    moments = CrossMoments.of(*rows)
    found = CrossMoments.from_bytes(moments.to_bytes())
    close(found, moments, rtol=0)
    assert found.most_grouped == moments.most_grouped
    assert found.to_bytes() == moments.to_bytes()


@given(labelled_rows(), st.integers(0, 60))
def test_rows_that_are_added_are_those_of_one_call(rows: Rows, cut: int) -> None:
    x, z = rows
    close(CrossMoments.zero(x.shape[1], z.shape[1]).add(x[:cut], z[:cut]).add(x[cut:], z[cut:]), CrossMoments.of(x, z))


@given(labelled_rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: Rows, random: object) -> None:
    x, z = rows
    order = list(range(len(x)))
    random.shuffle(order)  # type: ignore[attr-defined]
    close(CrossMoments.of(x[order], z[order]), CrossMoments.of(x, z))


@pytest.mark.parametrize("n_classes", [3, 9])
def test_blocks_within_one_call_add_up(n_classes: int) -> None:
    rng = np.random.default_rng(3)
    n = 3 * WIDE_ELEMENTS // 4 + 17
    x, z = rng.normal(size=(n, 4)) + 100, np.eye(n_classes)[rng.integers(0, n_classes, n)]
    assert_allclose(CrossMoments.of(x, z).comoment, (x - x.mean(0)).T @ (z - z.mean(0)), atol=1e-9)


@given(
    labelled_rows(scales=(1e-12, 1.0, 1e12)),
    st.lists(st.integers(0, 60), max_size=6),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.integers(2, 8),
    st.booleans(),
    st.sampled_from([1, 7, 64, WIDE_ELEMENTS]),
)
def test_rows_add_up_to_the_same_bits_in_any_batches(
    rows: Rows, cuts: list[int], dtype: type[np.floating], n_classes: int, is_one_hot: bool, at_once: int
) -> None:
    x, z = rows
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    x[~np.isfinite(x)] = 1
    if not is_one_hot:  # a class and a number
        numbers = np.linspace(-1, 2, len(x))
        codes = np.column_stack([z.argmax(axis=1), np.full(len(x), z.shape[1])]).astype(np.int32)
        design = LabelMatrix(codes, np.column_stack([np.ones(len(x)), numbers]), z.shape[1] + 1, z.shape[1])
        z = np.column_stack([z, numbers])
    else:
        codes = (np.arange(len(x), dtype=np.int32) ** 2 % n_classes)[:, None]  # up to 4 in a dense product, or more
        z = np.eye(n_classes)[codes[:, 0]]
        design = LabelMatrix(codes, None, n_classes, n_classes)
    borders = sorted({0, *(cut for cut in cuts if cut < len(x)), len(x)})
    anchor, rows = (x[0].astype(np.float64) if x.dtype == np.float64 else None), max(1, at_once // x.shape[1])

    def added(cuts: list[int]) -> CrossMoments:
        sums = RowSums(x.shape[1], z.shape[1], n_one_hot=design.n_one_hot, anchor=anchor, rows=rows)
        for a, b in pairwise(cuts):
            sums.add(x[a:b], design.take(slice(a, b)))
        return CrossMoments.of_sums(sums)

    one, other = added([0, len(x)]), added(borders)
    assert one.n == other.n
    for name in ("mean_x", "mean_z", "comoment"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    plain = CrossMoments.of(x, z)
    scale = float(np.linalg.norm(x.astype(np.float64)) * np.linalg.norm(z))
    assert_allclose(one.comoment, plain.comoment, rtol=0, atol=1e-13 * scale)
    assert_allclose(one.mean_x, plain.mean_x, rtol=0, atol=1e-14 * scale)


def class_signal(mean: float, n: int = 40_000, d: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make float32 rows whose classes differ by about 1 along one direction, on top of a mean in every dimension."""
    rng = np.random.default_rng(7)
    labels = np.arange(n) % 2
    direction = np.ones(d) / np.sqrt(d)
    x = rng.normal(size=(n, d)) + np.outer(labels - 0.5, direction) + mean * rng.uniform(0.5, 1.5, size=d)
    return x.astype(np.float32), np.eye(2)[labels], direction


@pytest.mark.parametrize("mean", [1e5, 1e6])
def test_means_far_larger_than_the_signal_do_not_disturb_the_direction_as_they_do_in_float32(mean: float) -> None:
    x, z, _ = class_signal(mean)
    exact = x.astype(np.float64)
    difference = exact[z[:, 0] == 1].mean(0) - exact[z[:, 1] == 1].mean(0)
    difference /= np.linalg.norm(difference)

    ours = np.linalg.svd(CrossMoments.of(x, z).cross_covariance())[0][:, 0]
    assert abs(ours @ difference) > 1 - 1e-12

    z32 = z.astype(np.float32)  # the float32 way: E[xz] − E[x]E[z]
    plain = x.T @ z32 / np.float32(len(x)) - np.outer(x.mean(0), z32.mean(0))
    assert abs(np.linalg.svd(plain)[0][:, 0] @ difference) < 0.99


def test_float16_rows_whose_sums_pass_its_range_are_summed_exactly() -> None:
    x = np.full((400, 3), 300, np.float16)
    x[::2] += np.float16(1)
    z = np.eye(2)[np.arange(400) % 2]
    assert_allclose(CrossMoments.of(x, z).mean_x, 300.5, rtol=1e-15)


def test_rounding_alone_stays_below_the_floor() -> None:
    rng = np.random.default_rng(0)
    half = rng.normal(size=(500, 30)) + 1e4  # each row once in each class: the cross-covariance is exactly zero
    x, z = np.concatenate([half, half]), np.repeat(np.eye(2), 500, axis=0)
    moments = CrossMoments.of(x, z)
    assert np.linalg.svd(moments.cross_covariance())[1][0] < moments.rounding_floor() < 1e-8


def test_rows_that_do_not_match_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(3, 2\).*\(4, 2\)"):
        CrossMoments.of(np.zeros((3, 2)), np.zeros((4, 2)))
    with pytest.raises(ShapeError, match=r"z \(3,\)"):
        CrossMoments.of(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(ShapeError, match="do not add up"):
        CrossMoments.zero(2, 2) + CrossMoments.zero(3, 2)
