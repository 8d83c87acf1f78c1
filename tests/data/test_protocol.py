import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.sampling import capped
from salcli.data.splits import EvaluationSplit, SplitRule


def labels(n: int, splits: tuple[str, ...] | None = None, keys: tuple[str, ...] | None = None) -> GuardedLabels:
    attribute = Attribute("g", (np.arange(n) % 2).astype(np.int32), ("a", "b"))
    return GuardedLabels("l.csv", (attribute,), keys, splits, "split" if splits else None)


def fresh_of(split: EvaluationSplit) -> NDArray[np.int64]:
    return split.trainers.get("fresh", np.zeros(0, np.int64))


@given(
    st.lists(st.sampled_from(["train", "dev", "test", "other", ""]), min_size=8, max_size=60).filter(
        lambda s: "train" in s
    ),
    st.integers(0, 9),
)
def test_fresh_and_test_rows_never_overlap_with_the_fitted_ones(splits: list[str], seed: int) -> None:
    given_labels = labels(len(splits), tuple(splits))
    rows = SplitRule("train", seed=seed).divide(given_labels, np.arange(len(splits)))
    assert set(rows.fitted) == {i for i, name in enumerate(splits) if name == "train"}
    if rows.has_held_out:
        assert not set(rows.fitted) & (set(fresh_of(rows)) | set(rows.test))
        assert not set(fresh_of(rows)) & set(rows.test)
        assert {splits[i] for i in rows.test} == {"test"}
        if "dev" in splits:
            assert set(fresh_of(rows)) == {i for i, name in enumerate(splits) if name == "dev"}
        else:
            assert set(fresh_of(rows)) | set(rows.test) == {i for i, name in enumerate(splits) if name == "test"}
    else:
        assert_array_equal(rows.test, rows.fitted)
        assert not len(fresh_of(rows))


@given(st.integers(10, 200), st.floats(0.1, 0.9), st.integers(0, 9), st.booleans())
def test_a_hold_out_is_halved_between_the_fresh_attacker_and_the_test(
    n: int, share: float, seed: int, by_key: bool
) -> None:
    keys = tuple(f"w{i}" for i in range(n)) if by_key else None
    rule = SplitRule(holdout=share, seed=seed)
    rows = rule.divide(labels(n, keys=keys), np.arange(n))
    if rows.has_held_out:
        together = np.concatenate([rows.fitted, fresh_of(rows), rows.test])
        assert sorted(together.tolist()) == list(range(n))


def test_the_halves_are_independent_of_the_hold_out() -> None:
    rows = SplitRule(holdout=0.5, seed=0).divide(labels(4000), np.arange(4000))
    assert abs(len(fresh_of(rows)) - len(rows.test)) < 200


def test_without_held_out_rows_the_test_is_on_the_fitted_rows_and_says_so() -> None:
    rows = SplitRule().divide(labels(10), np.arange(10))
    assert not rows.has_held_out
    assert_array_equal(rows.test, np.arange(10))


def test_a_sample_leaves_the_other_train_rows_out_of_everything() -> None:
    splits = ("train",) * 10 + ("dev",) * 4 + ("test",) * 4
    rows = SplitRule("train", sample=4).divide(labels(18, splits), np.arange(18))
    assert len(rows.fitted) == 4
    assert_array_equal(fresh_of(rows), np.arange(10, 14))
    assert_array_equal(rows.test, np.arange(14, 18))


@pytest.mark.parametrize("fitted", ["test", "dev", "other"])
def test_whatever_part_is_fitted_is_neither_fresh_nor_the_test(fitted: str) -> None:
    splits = ("test", "dev", "other", "test", "dev", "other", "test", "test")
    rows = SplitRule(fitted).divide(labels(len(splits), splits), np.arange(len(splits)))
    assert not set(rows.fitted) & set(fresh_of(rows))
    if rows.has_held_out:
        assert not set(rows.fitted) & set(rows.test)
    assert rows.has_held_out == (fitted != "test")


@pytest.mark.parametrize("most", [2, 10, 39, 40, 1000])
def test_a_cap_leaves_a_stratified_part_and_says_what_it_leaves_out(most: int) -> None:
    whole = SplitRule(holdout=0.6, seed=1).divide(labels(200), np.arange(200))
    few = whole.capped(labels(200), most, 0, test_rows=3)
    assert set(few.trainers) == {"in-sample", "fresh", "pooled", "white-box"}
    parts = {**{name: (few.trainers[name], whole.trainers[name], most) for name in few.trainers}}
    for name, (kept, available, limit) in {**parts, "test": (few.test, whole.test, 3 * most)}.items():
        assert len(kept) == min(limit, len(available))
        assert set(kept) <= set(available)
        assert few.is_capped(name) == (limit < len(available))
        assert few.n_available[name] == len(available)
        if few.is_capped(name):
            assert abs(np.mean(kept % 2) - np.mean(available % 2)) <= 1 / len(kept)
    assert_array_equal(few.fitted, whole.fitted)
    assert_array_equal(few.needed, np.unique(np.concatenate([*few.trainers.values(), few.test])))


def test_ten_times_as_many_rows_test_as_train_at_most() -> None:
    whole = SplitRule(holdout=0.9, seed=1).divide(labels(400), np.arange(400))
    assert len(whole.capped(labels(400), 5, 0).test) == 50


def test_adversaries_that_are_not_asked_for_train_on_nothing() -> None:
    whole = SplitRule(holdout=0.5).divide(labels(100), np.arange(100))
    assert list(whole.only(["fresh", "in-sample"]).trainers) == ["fresh", "in-sample"]
    alone = whole.only(["fresh"])
    assert set(alone.needed) == set(alone.trainers["fresh"]) | set(alone.test)
    none_held_out = SplitRule().divide(labels(10), np.arange(10))
    assert none_held_out.only(["fresh"]).trainers == {}


def test_in_a_fit_on_some_rows_those_train_the_in_sample_attacker() -> None:
    whole = SplitRule(holdout=0.5).divide(labels(100), np.arange(100))
    part = whole.fitted[:20]
    again = whole.fitted_on(part, labels(100), 8, 0)
    assert_array_equal(again.fitted, part)
    assert_array_equal(again.trainers["in-sample"], capped(labels(100), part, 8, 0))
    assert again.is_capped("in-sample")
    assert_array_equal(again.trainers["fresh"], whole.trainers["fresh"])
    assert_array_equal(again.test, whole.test)
    fresh_alone = whole.only(["fresh"]).fitted_on(part, labels(100), 8, 0)
    assert list(fresh_alone.trainers) == ["fresh"]
