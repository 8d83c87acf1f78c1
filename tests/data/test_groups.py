"""Rows of one group lie in one part, whatever divides them."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.groups import RowGroups, group_shares, grouped_parts, hashed_shares
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import FRESH, SplitRule
from salcli.errors import LabelError


def labels(
    groups: Sequence[int],
    codes: Sequence[int] | None = None,
    splits: tuple[str, ...] | None = None,
    *,
    keyed: bool = False,
) -> GuardedLabels:
    """Rows 0…n − 1 of two classes in turn, with the group of each, −1: none."""
    n, names = len(groups), tuple(f"a{i}" for i in range(max(groups, default=0) + 1))
    attribute = Attribute("g", np.array(codes or [i % 2 for i in range(n)], np.int32), ("x", "y"))
    return GuardedLabels(
        "l.csv",
        (attribute,),
        tuple(f"w{i}" for i in range(n)) if keyed else None,
        splits,
        "split" if splits else None,
        groups=Attribute("author", np.array(groups, np.int32), names or ("a0",)),
    )


some_groups = st.lists(st.integers(-1, 12), min_size=8, max_size=80)


@given(some_groups, st.integers(0, 9))
def test_rows_of_a_group_have_one_share_and_others_have_their_own(groups: list[int], seed: int) -> None:
    shares = group_shares(labels(groups), np.arange(len(groups)), seed, "holdout")
    found = {
        (group if group >= 0 else f"row {i}"): share
        for i, (group, share) in enumerate(zip(groups, shares, strict=True))
    }
    assert len(set(found.values())) == len(found)
    for i, group in enumerate(groups):
        assert shares[i] == found[group if group >= 0 else f"row {i}"]
    if len(found) > 1:
        assert shares.min() < 0.5 <= shares.max()  # so that neither half is empty


@given(some_groups, st.permutations(range(8)), st.integers(0, 9))
def test_a_share_does_not_depend_on_the_order_of_the_rows(groups: list[int], order: list[int], seed: int) -> None:
    of = labels(groups, keyed=True)
    index = np.arange(len(groups))
    moved = np.concatenate([index[8:], np.array(order)])
    assert_array_equal(group_shares(of, moved, seed, "x"), group_shares(of, index, seed, "x")[moved])


def test_a_hold_out_has_its_share_of_the_rows_in_whole_groups() -> None:
    groups = np.random.default_rng(0).integers(0, 200, 4_000)
    of = labels(groups.tolist())
    split = SplitRule(holdout=0.3, seed=3).divide(of, np.arange(4_000))
    parts = (split.fitted, split.trainers[FRESH], split.test)
    assert sorted(np.concatenate(parts).tolist()) == list(range(4_000))
    assert [len(part) / 4_000 for part in parts] == pytest.approx([0.7, 0.15, 0.15], abs=0.01)
    found = [set(groups[part].tolist()) for part in parts]
    assert len(set.union(*found)) == sum(map(len, found))
    assert_array_equal(SplitRule(holdout=0.3, seed=3).fitted(of, range(4_000)), split.fitted)


@pytest.mark.parametrize(
    ("groups", "holdout", "says"),
    [
        ([0] * 20, 0.3, r"l.csv: column 'author' has 1 groups on 20 rows, 'group a0' with 20 of them: no row is left"),
        ([0] * 10 + [1] * 10, 0.3, "no row is left for the fresh attacker|for the test"),
        ([0] * 18 + [1, 2], 0.9, "'group a0' with 18 of them"),
    ],
)
def test_a_group_that_leaves_a_part_empty_is_named(groups: list[int], holdout: float, says: str) -> None:
    with pytest.raises(LabelError, match=says):
        SplitRule(holdout=holdout).divide(labels(groups), np.arange(len(groups)))


def test_a_split_column_that_tears_a_group_apart_is_refused() -> None:
    splits = ("train", "train", "dev", "test", "other", "other")
    rule = SplitRule("train")
    assert len(rule.fitted(labels([0, 0, 1, 2, 0, 1], splits=splits), range(6))) == 2  # other rows are not used
    with pytest.raises(LabelError, match=r"'a1' has rows in dev and test of column 'split', and so have 0 more"):
        rule.fitted(labels([0, 0, 1, 1, 2, 2], splits=splits), range(6))
    names = ("train", "train", "val", "dev", "test", "test")
    assert len(rule.fitted(labels([0, 0, 1, 1, 2, 2], splits=names), range(6))) == 2  # val is another name of dev


def test_groups_are_counted() -> None:
    found = RowGroups.of(labels([3, -1, 3, 0, -1]), np.arange(5))
    assert found.sizes.tolist() == [1, 2, 1, 1]
    assert found.names == ("group a0", "group a3", "row 1", "row 4")
    assert found.codes.tolist() == [1, 2, 1, 0, 3]


def test_hashes_are_spread_evenly() -> None:
    shares = hashed_shares(map(str, range(4_000)), 0, "x")
    assert np.histogram(shares, 4, (0, 1))[0] == pytest.approx([1_000] * 4, abs=120)


@given(
    some_groups,
    st.lists(st.integers(0, 1), min_size=80, max_size=80),
    st.sampled_from([(0.49, 0.21, 0.3), (0.5, 0.5, 0.0), (0.3, 0.2, 0.1), (1 / 3, 1 / 3, 1 / 3)]),
    st.integers(0, 9),
)
def test_parts_of_groups_have_their_shares_up_to_one_group(
    groups: list[int], classes: list[int], shares: tuple[float, ...], seed: int
) -> None:
    n = len(groups)
    of = RowGroups.of(labels(groups), np.arange(n))
    parts = grouped_parts(of, np.array(classes[:n]), shares, seed)
    rest = np.setdiff1d(np.arange(n), np.concatenate(parts))
    every = [*parts, rest]
    assert_array_equal(np.sort(np.concatenate(every)), np.arange(n))
    kinds = [set(of.codes[part].tolist()) for part in every]
    assert sum(map(len, kinds)) == len(of.names)  # no group in two parts
    largest = int(of.sizes.max())
    for part, share in zip(every, (*shares, 1 - sum(shares)), strict=True):
        assert len(part) < share * n + largest
        assert len(part) > share * n - len(shares) * largest
        assert share > 1e-9 or not len(part)


def test_parts_of_many_groups_have_their_shares_of_each_class() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 150, 1_000).tolist()
    classes = np.array(groups) % 2  # each group is of one class
    of = RowGroups.of(labels(groups), np.arange(1_000))
    shares = (0.49, 0.21, 0.3)
    for part, share in zip(grouped_parts(of, classes, shares, 0), shares, strict=True):
        assert np.bincount(classes[part]) == pytest.approx(share * np.bincount(classes), abs=8)


@given(some_groups, st.randoms(use_true_random=False), st.integers(0, 9))
def test_the_part_of_a_group_does_not_depend_on_the_order_of_the_rows(
    groups: list[int], random: Random, seed: int
) -> None:
    of, n = labels(groups, keyed=True), len(groups)
    order = np.array(random.sample(range(n), n))
    strata = np.array(groups) % 2
    one = grouped_parts(RowGroups.of(of, np.arange(n)), strata, (0.5, 0.2, 0.3), seed)
    other = grouped_parts(RowGroups.of(of, order), strata[order], (0.5, 0.2, 0.3), seed)
    for here, there in zip(one, other, strict=True):
        assert_array_equal(here, np.sort(order[there]))
