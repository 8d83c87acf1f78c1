"""Attackers on rows near the labelled ones."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit, SplitRule
from salcli.evaluation.attack import attack, attack_again
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.bands import attack_bands, notes_on_bands, numbers_on_bands
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.gates import Expected, Judge, leak_gate, r2_gate
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Silent

N = 400
PARTS = tuple(("train", "dev", "test", "band1", "band2")[i % 5] for i in range(N))
RULE = SplitRule("train")


def given(seed: int = 0) -> tuple[GuardedLabels, EvaluationSplit, Stages]:
    """Rows whose class shows; after erasure it shows in the bands alone."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, N).astype(np.int32)
    noise = rng.normal(size=(N, 4))
    shift = 6.0 * codes[:, None] * np.eye(4)[0]
    is_band = np.array([part.startswith("band") for part in PARTS])
    is_dev = np.array(PARTS) == "dev"
    after = noise + shift * (is_band[:, None] | (is_dev[:, None] & (rng.random((N, 1)) < 0.5)))
    labels = GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b")),), None, PARTS, "split")
    return labels, RULE.divide(labels, np.arange(N)), Stages(np.arange(N), noise + shift, noise + shift, after)


def test_bands_train_nothing_and_are_needed() -> None:
    labels, split, _ = given()
    parts = np.array(PARTS)
    assert {name: set(parts[index]) for name, index in split.bands.items()} == {"band1": {"band1"}, "band2": {"band2"}}
    assert set(parts[split.fitted]) == {"train"}
    assert set(parts[split.trainers["fresh"]]) == {"dev"}
    assert set(parts[split.trainers["pooled"]]) == {"train", "dev"}
    assert set(parts[split.test]) == {"test"}
    assert len(split.needed) == N
    assert {len(index) for index in split.capped(labels, 5, 0, test_rows=2).bands.values()} == {10}


def test_bands_are_parts_of_a_split_column_in_the_order_of_their_numbers() -> None:
    names = ("train", "test", "band10", "band2", "band1", "band0", "band", "xband1", "band1x")
    parts = tuple(names[i % len(names)] for i in range(90))
    labels = GuardedLabels(
        "l.csv", (Attribute("g", np.arange(90, dtype=np.int32) % 2, ("a", "b")),), None, parts, "split"
    )
    assert list(RULE.divide(labels, np.arange(90)).bands) == ["band1", "band2", "band10"]
    assert list(SplitRule("band2").divide(labels, np.arange(90)).bands) == ["band1", "band10"]
    whole = GuardedLabels("l.csv", labels.attributes, None)
    assert SplitRule(None, 0.5).divide(whole, np.arange(90)).bands == {}


def right(
    x: NDArray[Any], y: NDArray[Any], train: NDArray[Any], test: NDArray[Any], settings: dict[str, float]
) -> float:
    scaling = Scaling.of(x[train])
    fitted = ATTACKERS["quadratic"].fit(scaling(x[train]), y[train], settings, 0)
    return float(np.mean(fitted.predict(scaling(x[test])) == y[test]))


def test_fresh_attackers_are_measured_on_each_band_with_their_settings() -> None:
    labels, split, stages = given()
    options = EvaluateOptions(forms=("raw", "unit"))
    results, _ = attack(stages, labels, split.only(options.adversaries), ("quadratic",), options, Silent())
    found, _ = attack_bands(stages, labels, split, results, 0, Silent())
    assert [(r.band, r.adversary, r.form, r.stage) for r in found] == [
        (band, "fresh", "raw", stage) for band in ("band1", "band2") for stage in ("before", "after")
    ]
    y = labels.attributes[0].codes(np.arange(N))
    before = next(r for r in results if (r.adversary, r.stage, r.form) == ("fresh", "before", "raw"))
    assert before.hyperparameters.get("whitened", 0) == 0, "the oracle does not whiten"
    expected = right(stages.before, y, split.trainers["fresh"], split.bands["band2"], before.hyperparameters)
    assert found[2].accuracy == expected
    assert found[2].attacker == "quadratic, fresh, band2"
    after = next(r for r in results if (r.adversary, r.stage, r.form) == ("fresh", "after", "raw"))
    assert found[1].accuracy > after.accuracy + 0.2
    assert (found[1].n_test, found[1].n_train) == (80, 80)


def test_the_first_adversary_attacks_where_none_is_fresh() -> None:
    labels, split, stages = given()
    alone = split.only(("in-sample",))
    options = EvaluateOptions(forms=("unit",), adversaries=("in-sample",))
    results, _ = attack(stages, labels, alone, ("quadratic",), options, Silent())
    found, _ = attack_bands(stages, labels, alone, results, 0, Silent())
    assert {(r.adversary, r.form) for r in found} == {("in-sample", "unit")}


def test_rows_of_no_class_or_of_one_that_was_not_trained_on_are_left_out() -> None:
    labels, split, stages = given()
    codes = labels.attributes[0].values.copy()
    codes[split.bands["band1"]] = 2
    codes[split.bands["band2"][:30]] = -1
    changed = GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b", "c")),), None, PARTS, "split")
    results, _ = attack(stages, changed, split, ("quadratic",), EvaluateOptions(forms=("raw",)), Silent())
    fresh = next(r for r in results if r.adversary == "fresh")
    assert attack_again(stages, changed, split, fresh, split.bands["band1"], 0) is None
    found = attack_again(stages, changed, split, fresh, split.bands["band2"], 0)
    assert found is not None
    assert (found.n_test, found.n_left_out, found.untrained_classes) == (50, 0, ())
    assert {r.band for r in attack_bands(stages, changed, split, results, 0, Silent())[0]} == {"band2"}


def test_a_band_of_one_class_or_of_classes_that_nobody_knows_is_named_and_passes_no_gate() -> None:
    labels, split, stages = given()
    codes, parts = labels.attributes[0].values.copy(), np.array(PARTS)
    codes[parts == "band1"], codes[parts == "band2"] = 0, 2
    changed = GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b", "c")),), None, PARTS, "split")
    options = EvaluateOptions(forms=("raw",))
    results, _ = attack(stages, changed, split, ("linear",), options, Silent(), "after")
    found, unread = attack_bands(stages, changed, split, results, 0, Silent())
    assert unread == ("band2: no row has a class of g that the fresh attacker was trained on",)
    assert notes_on_bands(found) == (
        "g: the 80 rows of band1 are all of one class: no attacker does better than a blind guess",
    )
    gate = leak_gate(1.0, None, Expected((("g", "fresh", "linear"),)), (*results, *found), "after", Judge())
    assert (gate.status, gate.reason) == ("failed", "the rows of band1 are all of one class of g")
    codes[np.flatnonzero(parts == "band1")[:40]] = 2  # half of the band is of a class that trains nobody
    codes[np.flatnonzero(parts == "band1")[:60:2]] = 1
    found, _ = attack_bands(stages, changed, split, results, 0, Silent())
    gate = leak_gate(1.0, None, Expected((("g", "fresh", "linear"),)), (*results, *found), "after", Judge())
    assert "of 80 rows of band1 are of classes of g" in gate.reason


def test_numbers_of_a_band_are_not_attacked_so_no_gate_on_numbers_passes() -> None:
    labels, split, _ = given()
    ages = np.where(np.array(PARTS) == "band2", np.nan, 1.0 * np.arange(N))
    numbered = GuardedLabels("l.csv", (*labels.attributes, Attribute("age", ages, None)), None, PARTS, "split")
    (reason,) = numbers_on_bands(numbered, split)
    assert reason.startswith("band1: rows have a number in age, and numbers are not attacked on bands")
    assert numbers_on_bands(labels, split) == ()
    found = NumericResult("age", "ridge", "fresh", "after", 0.0, 0.001, 900.0, 900, 900, True, False)
    expected = Expected(of_numbers=(("age", "fresh", "ridge"),))
    assert r2_gate(0.1, None, expected, (found,), "after", Judge()).passed
    gate = r2_gate(0.1, None, replace(expected, doubts_of_numbers=(reason,)), (found,), "after", Judge())
    assert (gate.status, gate.reason) == ("failed", reason)
