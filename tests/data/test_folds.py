"""Rows take turns as fit, attack and test."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.data.folds import fold_numbers, fold_splits, reciprocity
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import FRESH, IN_SAMPLE, POOLED
from salcli.errors import LabelError

from .test_groups import labels

ADVERSARIES = (IN_SAMPLE, FRESH, POOLED)


@given(st.integers(3, 9), st.integers(9, 90), st.integers(0, 9), st.booleans())
def test_each_row_is_tested_once_and_never_trains_for_itself(n: int, n_rows: int, seed: int, is_grouped: bool) -> None:
    of = labels([i % 17 if is_grouped and n_rows > 60 else -1 for i in range(n_rows)])
    turns = list(fold_splits(of, np.arange(n_rows), n, seed))
    assert sorted(np.concatenate([turn.test for turn in turns]).tolist()) == list(range(n_rows))
    for turn in turns:
        parts = (turn.fitted, turn.trainers[FRESH], turn.test)
        assert sorted(np.concatenate(parts).tolist()) == list(range(n_rows))
        assert turn.trainers[POOLED].tolist() == np.union1d(*parts[:2]).tolist()
        assert turn.has_held_out
    times = np.bincount(np.concatenate([turn.trainers[FRESH] for turn in turns]), minlength=n_rows)
    assert set(times.tolist()) == {(n - 1) // 2}


@given(st.integers(3, 8), st.lists(st.integers(8, 40), min_size=2, max_size=2), st.integers(0, 9))
def test_parts_have_each_class_in_proportion(n: int, sizes: list[int], seed: int) -> None:
    codes = np.repeat([0, 1], sizes)
    of = labels([-1] * len(codes), codes.tolist())
    found = fold_numbers(of, np.arange(len(codes)), n, seed)
    for chosen in (codes == 0, codes == 1, codes >= 0):
        counts = np.bincount(found[chosen], minlength=n)
        assert counts.max() - counts.min() <= 1


@given(st.permutations(range(40)), st.integers(0, 9), st.booleans())
def test_the_part_of_a_key_does_not_depend_on_the_order_of_the_file(
    order: list[int], seed: int, is_grouped: bool
) -> None:
    def parts(at: list[int]) -> dict[str, int]:
        attribute = Attribute("g", np.array([i % 3 for i in at], np.int32), ("x", "y", "z"))
        groups = Attribute("author", np.array([i // 3 for i in at], np.int32), tuple(f"a{i:02}" for i in range(14)))
        keys = tuple(f"w{i}" for i in at)
        of = GuardedLabels("l.csv", (attribute,), keys, groups=groups if is_grouped else None)
        return dict(zip(keys, fold_numbers(of, np.arange(40), 5, seed).tolist(), strict=True))

    assert parts(order) == parts(list(range(40)))


def test_groups_stay_whole_and_classes_in_proportion_as_far_as_they_allow() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 60, 600)
    codes = (rng.random(600) < np.where(groups % 2, 0.9, 0.1)).astype(int)
    found = fold_numbers(labels(groups.tolist(), codes.tolist()), np.arange(600), 5, 0)
    assert all(len(set(found[groups == group].tolist())) == 1 for group in range(60))
    for code in (0, 1):
        counts = np.bincount(found[codes == code], minlength=5)
        assert counts.max() - counts.min() < 0.15 * counts.mean()


def test_too_few_rows_or_groups_are_refused() -> None:
    with pytest.raises(LabelError, match="4 labelled rows cannot be divided into `folds=5` parts"):
        fold_numbers(labels([-1] * 4), np.arange(4), 5, 0)
    with pytest.raises(
        LabelError, match=r"'author' has 2 groups on 30 rows, 'group a1' with 20 .* part 3 of `folds=3`"
    ):
        fold_numbers(labels([0] * 10 + [1] * 20), np.arange(30), 3, 0)


def test_a_sample_of_the_fitted_rows_is_stratified() -> None:
    of = labels([-1] * 90)
    for turn in fold_splits(of, np.arange(90), 3, 0, sample=10):
        assert np.bincount(of.attributes[0].codes(turn.fitted)).tolist() == [5, 5]
        assert turn.trainers[IN_SAMPLE] is turn.fitted


@pytest.mark.parametrize("n", range(3, 12))
def test_reciprocity_counts_the_parts_that_train_for_each_other(n: int) -> None:
    """Found here from the splits themselves, one row a part."""
    turns = sorted(fold_splits(labels([-1] * n, [0] * n), np.arange(n), n, 0), key=lambda turn: turn.test[0])
    for adversary in ADVERSARIES:
        trains = [set(turn.trainers[adversary].tolist()) for turn in turns]
        mutual = sum(i in trains[j] and j in trains[i] for i, j in itertools.permutations(range(n), 2))
        assert reciprocity(n)[adversary] == pytest.approx(1 + mutual / sum(map(len, trains)))
    assert reciprocity(n)[FRESH] == 1
    assert n % 2 == 0 or reciprocity(n)[IN_SAMPLE] == 1
    assert reciprocity(n)[POOLED] == 2
