import hashlib
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.sampling import seeded_shares, stratified_parts, stratified_sample
from salcli.data.splits import FRESH, SplitRule, shared_by
from salcli.errors import LabelError, SalcliWarning, UsageError


def labels(
    codes: np.ndarray, keys: tuple[str, ...] | None = None, splits: tuple[str, ...] | None = None
) -> GuardedLabels:
    attribute = Attribute("g", codes.astype(np.int32), tuple("abcdefgh"[: int(codes.max()) + 1]))
    return GuardedLabels("l.csv", (attribute,), keys, splits, "split" if splits else None)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 99), st.data())
def test_a_stratified_sample_takes_every_class_in_its_share(sizes: list[int], seed: int, data: st.DataObject) -> None:
    strata = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    n = len(strata)
    size = data.draw(st.integers(1, n))
    index = np.arange(n) * 3
    of_all = labels(np.repeat(strata, 3))
    sample = stratified_sample(of_all, index, size, seed)
    assert len(sample) == len(set(sample.tolist())) == size
    assert_array_equal(sample, np.sort(sample))
    taken = np.bincount(strata[sample // 3], minlength=len(sizes))
    assert (np.abs(taken - np.array(sizes) * size / n) < 1).all()  # largest remainder: never a whole row off
    assert_array_equal(sample, stratified_sample(of_all, index, size, seed))


@given(st.integers(2, 60), st.integers(0, 99), st.data())
def test_a_sample_is_of_the_same_keys_in_whatever_order_they_are_listed(n: int, seed: int, data: st.DataObject) -> None:
    codes, keys = np.arange(n) % 3, [f"w{i}" for i in range(n)]
    order = np.array(data.draw(st.permutations(range(n))))
    size = data.draw(st.integers(1, n))
    drawn = []
    for at in (np.arange(n), order):
        listed = tuple(keys[i] for i in at)
        sample = stratified_sample(labels(codes[at], listed), np.arange(n), size, seed)
        drawn.append({listed[i] for i in sample})
    assert drawn[0] == drawn[1]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any), st.integers(0, 99))
def test_parts_are_disjoint_and_have_their_shares(sizes: list[int], seed: int) -> None:
    strata = np.repeat(np.arange(len(sizes)), sizes)
    parts = stratified_parts(strata, [0.49, 0.21, 0.30], seed)
    together = np.concatenate(parts)
    assert sorted(together.tolist()) == list(range(len(strata)))
    for part, share in zip(parts, [0.49, 0.21, 0.30], strict=True):
        assert abs(len(part) - share * len(strata)) < 1


def test_the_papers_split_has_the_papers_sizes() -> None:
    parts = stratified_parts(np.repeat([0, 1], 7500), [0.49, 0.21, 0.30], seed=0)
    assert [len(part) for part in parts] == [7350, 3150, 4500]


def test_hold_out_follows_the_key_and_not_the_row() -> None:
    keys = tuple(f"word{i}" for i in range(500))
    codes = np.arange(500) % 2
    forward, backward = labels(codes, keys), labels(codes[::-1], keys[::-1])
    rule, every = SplitRule(holdout=0.3, seed=5), np.arange(500)
    kept = {keys[i] for i in rule.fitted(forward, every)}
    assert kept == {keys[::-1][i] for i in rule.fitted(backward, every)}
    assert 0.6 < len(kept) / 500 < 0.8
    split = rule.divide(forward, every)
    held_out = [*split.trainers.get(FRESH, ()), *(split.test if split.has_held_out else ())]
    assert kept.isdisjoint({keys[i] for i in held_out})
    assert kept != {keys[i] for i in SplitRule(holdout=0.3, seed=6).fitted(forward, every)}


def test_shares_are_uniform_and_pinned() -> None:
    every = np.arange(2000)
    shares = seeded_shares(labels(every % 2), every, 0)
    assert shares.min() >= 0
    assert shares.max() < 1
    assert_array_equal(np.abs(np.histogram(shares, 4, (0, 1))[0] - 500) < 90, True)
    key = hashlib.sha256(b"salcli holdout 0").digest()
    for row in range(5):  # artifacts rely on this hash for ever
        word = hashlib.blake2b(str(row).encode(), digest_size=8, key=key).digest()
        assert shares[row] == pytest.approx(int.from_bytes(word, "big") / 2**64, abs=1e-15)


def test_a_split_names_the_fitted_rows() -> None:
    splits = ("train", "dev", "train", "test", "train")
    given_labels = labels(np.array([0, 1, 1, 0, 0]), splits=splits)
    assert_array_equal(SplitRule("train").fitted(given_labels, np.array([0, 1, 2, 3])), [0, 2])
    with pytest.raises(LabelError, match=r"no labelled row is marked 'trian' \(column 'split': dev, test, train\)"):
        SplitRule("trian").fitted(given_labels, np.arange(5))


def test_a_sample_larger_than_what_is_there_takes_all_and_says_so() -> None:
    with pytest.warns(SalcliWarning, match="only 4 labelled rows"):
        assert len(SplitRule(sample=10).fitted(labels(np.array([0, 1, 0, 1])), np.arange(4))) == 4


@pytest.mark.parametrize(
    "options", [{"holdout": 1.0}, {"holdout": -0.1}, {"sample": 1}, {"fit_split": "train", "holdout": 0.5}]
)
def test_rules_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SplitRule(**options)  # type: ignore[arg-type]


def test_a_rule_survives_the_way_through_plain_values() -> None:
    rule = SplitRule("train", 0.0, 50, 7)
    assert SplitRule.from_dict(rule.to_dict()) == rule


def test_a_part_of_almost_the_name_is_hinted_at() -> None:
    every = np.arange(4)
    parts = replace(labels(every % 2), splits=("Train", "test", "test", "Train"), split_column="split")
    with pytest.raises(LabelError, match=r"no labelled row is marked 'train' .*did you mean Train\?"):
        SplitRule("train").fitted(parts, every)


RULES = st.one_of(
    st.builds(SplitRule, fit_split=st.just("train"), sample=st.none() | st.integers(2, 9), seed=st.integers(0, 3)),
    st.builds(SplitRule, holdout=st.sampled_from([0.0, 0.3, 0.8]), seed=st.integers(0, 3)),
)


@given(st.lists(RULES, min_size=1, max_size=3), st.integers(0, 99))
def test_what_fits_share_is_fitted_by_none_and_held_out_by_all(rules: list[SplitRule], seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = rng.choice(["train", "dev", "test"], 60).tolist()
    of_all = labels(np.arange(60) % 3, splits=("train", "train", *parts[2:]))
    try:
        splits = [rule.divide(of_all, np.arange(60)) for rule in rules]
    except LabelError:  # everything was held out
        return
    fitted = {int(i) for split in splits for i in split.fitted}
    held_out = [{*split.trainers.get(FRESH, []), *split.test} if split.has_held_out else set[int]() for split in splits]
    left = set.intersection(*held_out) - fitted
    if len(left) < 5:  # one of the halves may be empty
        with suppress(LabelError):
            shared_by(splits, of_all, 0)
        return
    shared = shared_by(splits, of_all, 0)
    fresh = set(shared.trainers.get(FRESH, np.zeros(0, int)).tolist())
    assert set(shared.fitted.tolist()) == fitted == set(shared.trainers["in-sample"].tolist())
    assert fresh | set(shared.test.tolist()) == left
    assert not fresh & set(shared.test.tolist())
    if all(rule == rules[0] for rule in rules):
        assert_array_equal(shared.test, splits[0].test)
        assert_array_equal(shared.trainers.get(FRESH, []), splits[0].trainers.get(FRESH, []))


def partly(n: int, *, every: int, splits: tuple[str, ...] | None = None) -> GuardedLabels:
    """Two attributes, of which the second has a value in one row of `every`."""
    one, rng = np.arange(n) % 2, np.random.default_rng(0)
    two = np.where(np.arange(n) % every == 0, rng.integers(0, 2, n), -1)
    attributes = tuple(Attribute(f"g{i}", of.astype(np.int8), ("a", "b")) for i, of in enumerate((one, two)))
    return GuardedLabels("l.csv", attributes, None, splits, "split" if splits else None)


@pytest.mark.parametrize("rule", [SplitRule(holdout=0.5, seed=1), SplitRule(fit_split="train")])
def test_rows_with_some_attributes_are_tested_and_attack_and_only_complete_ones_are_fitted(rule: SplitRule) -> None:
    n = 400
    parts = tuple(("train", "train", "dev", "test")[i // 3 % 4] for i in range(n))
    given = partly(n, every=3, splits=parts if rule.fit_split else None)
    every, complete = np.arange(n), np.flatnonzero(given.has_all(["g0", "g1"]))
    split = rule.divide(given, every, complete)
    assert_array_equal(split.fitted, rule.fitted(given, complete))
    whole = rule.divide(given, every)
    assert_array_equal(split.test, whole.test)
    assert_array_equal(split.trainers[FRESH], whole.trainers[FRESH])
    _, two = given.attributes
    assert_array_equal(split.having(two, "test", given), split.test[split.test % 3 == 0])
    assert_array_equal(split.having(given.attributes[0], "test", given), split.test)


def test_labels_without_all_named_attributes_are_complete_by_those_that_are_there() -> None:
    given = partly(12, every=3)
    assert_array_equal(given.has_all(["g0"]), np.ones(12, bool))
    assert_array_equal(given.has_all(["g0", "g1"]), given.is_labelled)
    assert_array_equal(given.has_all(["g0", "elsewhere"]), given.is_labelled)
    assert given.has_any.all()


def test_each_attribute_has_as_many_rows_as_are_allowed_however_few_have_the_other() -> None:
    given, rule = partly(6_000, every=10), SplitRule(holdout=0.5)
    whole = rule.divide(given, np.arange(6_000))
    split = whole.capped(given, 200, 0, test_rows=1)
    one, two = given.attributes
    for name in (FRESH, "test"):
        for attribute in (one, two):
            index = split.having(attribute, name, given)
            n_there = int(attribute.is_labelled[whole.test if name == "test" else whole.trainers[FRESH]].sum())
            assert len(index) == min(200, n_there)
            assert attribute.is_labelled[index].all()
            assert np.isin(index, split.needed).all()
    complete = labels(np.arange(3_000) % 2)
    capped = rule.divide(complete, np.arange(3_000)).capped(complete, 200, 0)
    assert len(capped.trainers[FRESH]) == 200
    assert_array_equal(capped.having(complete.attributes[0], FRESH, complete), capped.trainers[FRESH])
