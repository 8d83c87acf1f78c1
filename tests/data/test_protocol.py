import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import RowRule, divide_rows


def labels(n: int, splits: tuple[str, ...] | None = None, keys: tuple[str, ...] | None = None) -> GuardedLabels:
    attribute = Attribute("g", (np.arange(n) % 2).astype(np.int32), ("a", "b"))
    return GuardedLabels("l.csv", (attribute,), keys, splits, "split" if splits else None)


@given(
    st.lists(st.sampled_from(["train", "dev", "test", "other", ""]), min_size=8, max_size=60).filter(
        lambda s: "train" in s
    ),
    st.integers(0, 9),
)
def test_fresh_and_test_rows_never_overlap_with_the_fitted_ones(splits: list[str], seed: int) -> None:
    given_labels = labels(len(splits), tuple(splits))
    rows = divide_rows(given_labels, np.arange(len(splits)), RowRule("train", seed=seed))
    assert set(rows.fitted) == {i for i, name in enumerate(splits) if name == "train"}
    if rows.has_held_out:
        assert not set(rows.fitted) & (set(rows.fresh) | set(rows.test))
        assert not set(rows.fresh) & set(rows.test)
        assert {splits[i] for i in rows.test} == {"test"}
        if "dev" in splits:
            assert set(rows.fresh) == {i for i, name in enumerate(splits) if name == "dev"}
        else:
            assert set(rows.fresh) | set(rows.test) == {i for i, name in enumerate(splits) if name == "test"}
    else:
        assert_array_equal(rows.test, rows.fitted)
        assert not len(rows.fresh)


@given(st.integers(10, 200), st.floats(0.1, 0.9), st.integers(0, 9), st.booleans())
def test_a_hold_out_is_halved_between_the_fresh_attacker_and_the_test(
    n: int, share: float, seed: int, by_key: bool
) -> None:
    keys = tuple(f"w{i}" for i in range(n)) if by_key else None
    rule = RowRule(holdout=share, seed=seed)
    rows = divide_rows(labels(n, keys=keys), np.arange(n), rule)
    if rows.has_held_out:
        together = np.concatenate([rows.fitted, rows.fresh, rows.test])
        assert sorted(together.tolist()) == list(range(n))


def test_the_halves_are_independent_of_the_hold_out() -> None:
    rows = divide_rows(labels(4000), np.arange(4000), RowRule(holdout=0.5, seed=0))
    assert abs(len(rows.fresh) - len(rows.test)) < 200


def test_without_held_out_rows_the_test_is_on_the_fitted_rows_and_says_so() -> None:
    rows = divide_rows(labels(10), np.arange(10), RowRule())
    assert not rows.has_held_out
    assert_array_equal(rows.test, np.arange(10))


def test_a_sample_leaves_the_other_train_rows_out_of_everything() -> None:
    splits = ("train",) * 10 + ("dev",) * 4 + ("test",) * 4
    rows = divide_rows(labels(18, splits), np.arange(18), RowRule("train", sample=4))
    assert len(rows.fitted) == 4
    assert_array_equal(rows.fresh, np.arange(10, 14))
    assert_array_equal(rows.test, np.arange(14, 18))


@pytest.mark.parametrize("fitted", ["test", "dev", "other"])
def test_whatever_part_is_fitted_is_neither_fresh_nor_the_test(fitted: str) -> None:
    splits = ("test", "dev", "other", "test", "dev", "other", "test", "test")
    rows = divide_rows(labels(len(splits), splits), np.arange(len(splits)), RowRule(fitted))
    assert not set(rows.fitted) & set(rows.fresh)
    if rows.has_held_out:
        assert not set(rows.fitted) & set(rows.test)
    assert rows.has_held_out == (fitted != "test")
