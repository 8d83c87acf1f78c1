"""The split of an evaluation: which rule, checked against what, and what is said about it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.commands.fit import fit
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.split_parts import DEV_NAMES
from salcli.data.splits import SplitRule
from salcli.errors import AlignmentError, UsageError
from salcli.evaluation.plan import note_on_splits, notes_on, require_same_labels, split_rows
from salcli.options import EvaluateOptions, FitOptions, LabelOptions

from ..cli.helpers import save_npy, write_csv

N = 200


def labels(splits: tuple[str, ...] | None = None) -> GuardedLabels:
    attribute = Attribute("g", (np.arange(N) % 2).astype(np.int8), ("a", "b"))
    return GuardedLabels("l.csv", (attribute,), None, splits, "split" if splits else None)


PARTS = tuple(("train", "train", "dev", "test")[i % 4] for i in range(N))


def test_without_an_eraser_the_options_are_the_rule() -> None:
    held_out = split_rows(labels(), np.arange(N), None, EvaluateOptions(holdout=0.5, seed=3))
    assert_array_equal(held_out.fitted, SplitRule(holdout=0.5, seed=3).fitted(labels(), np.arange(N)))
    of_parts = split_rows(labels(PARTS), np.arange(N), None, EvaluateOptions(fit_split="dev"))
    assert {PARTS[i] for i in of_parts.fitted} == {"dev"}
    default = split_rows(labels(PARTS), np.arange(N), None, EvaluateOptions())
    assert {PARTS[i] for i in default.trainers["in-sample"]} == {"train"}
    with pytest.raises(UsageError, match="there is no split column"):
        split_rows(labels(), np.arange(N), None, EvaluateOptions(fit_split="dev"))


def test_what_is_left_out_is_said() -> None:
    options = EvaluateOptions(attacker_rows=3)
    found = split_rows(labels(PARTS), np.arange(N), None, options)
    assert {name: len(index) for name, index in found.trainers.items()} == {"in-sample": 3, "fresh": 3}
    assert len(found.test) == 30
    assert notes_on(found, labels(PARTS), options) == (
        "in-sample: 3 of 100 training rows used (`attacker_rows`)",
        "fresh: 3 of 50 training rows used (`attacker_rows`)",
        "30 of 50 test rows used (10 times `attacker_rows`)",
    )
    whole = EvaluateOptions()
    assert notes_on(split_rows(labels(PARTS), np.arange(N), None, whole), labels(PARTS), whole) == ()


@pytest.mark.parametrize(
    ("splits", "options", "says"),
    [
        (None, EvaluateOptions(), "no rows were held out .*there are only in-sample figures"),
        (None, EvaluateOptions(adversaries=("fresh",)), "so there is no fresh attacker"),
        (("train",) * N, EvaluateOptions(), "no row is marked test: there are only in-sample"),
        ((*("train",) * (N - 1), "test"), EvaluateOptions(seed=1), "no row is left to train a fresh attacker"),
    ],
)
def test_rows_that_are_missing_are_said(splits: tuple[str, ...] | None, options: EvaluateOptions, says: str) -> None:
    found = split_rows(labels(splits), np.arange(N), None, options)
    (note,) = notes_on(found, labels(splits), options)
    assert re.search(says, note)


def test_an_erasers_rule_holds_and_its_rows_and_labels_are_checked(tmp_path: Path) -> None:
    x = save_npy(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(N, 3)))
    table = write_csv(
        tmp_path / "y.csv", ["g", "split"], zip(np.array(["a", "b"])[np.arange(N) % 2], PARTS, strict=True)
    )
    artifact = fit(str(x), str(table), str(tmp_path / "e.npz"), FitOptions(labels=LabelOptions(attributes=("g",))))
    found = split_rows(labels(PARTS), np.arange(N), artifact, EvaluateOptions(seed=9))
    assert {PARTS[i] for i in found.fitted} == {"train"}
    with pytest.raises(UsageError, match="which records its rows"):
        split_rows(labels(PARTS), np.arange(N), artifact, EvaluateOptions(holdout=0.2))
    with pytest.raises(UsageError, match="`no_split`"):
        split_rows(labels(), np.arange(N), artifact, EvaluateOptions())
    with pytest.raises(AlignmentError, match="lead to 99 fitted rows, not to the 100 rows"):
        split_rows(labels(("dev", *PARTS[1:])), np.arange(N), artifact, EvaluateOptions())
    swapped = Attribute("g", (np.arange(N) % 2 == 0).astype(np.int8), ("a", "b"))
    with pytest.raises(AlignmentError, match="column 'g' has other labels"):
        split_rows(replace(labels(PARTS), attributes=(swapped,)), np.arange(N), artifact, EvaluateOptions())
    other_attribute = replace(labels(PARTS), attributes=(replace(swapped, name="h"),))
    require_same_labels(artifact, other_attribute, found.fitted)  # nothing is known of it


@pytest.mark.parametrize("name", DEV_NAMES)
def test_rows_for_development_train_the_fresh_attacker_under_any_of_their_names(name: str) -> None:
    parts = tuple(name if part == "dev" else part for part in PARTS)
    found = split_rows(labels(parts), np.arange(N), None, EvaluateOptions())
    expected = split_rows(labels(PARTS), np.arange(N), None, EvaluateOptions())
    assert_array_equal(found.trainers["fresh"], expected.trainers["fresh"])
    assert_array_equal(found.test, expected.test)
    assert note_on_splits(labels(parts), np.arange(N), SplitRule("train")) == ()


def test_parts_that_are_nearly_called_as_bands_are_named() -> None:
    for name, number in (("Band1", 1), ("band01", 1), ("BAND_2", 2), ("band 012", 12)):
        (note,) = note_on_splits(labels((*PARTS[:-4], *[name] * 4)), np.arange(N), SplitRule("train"))
        assert f"rows marked {name!r} (4 rows) are not used" in note
        assert note.endswith(f"; did you mean band{number} by {name!r}?")
    for name in ("band", "band0", "bandit1", "test1"):
        (note,) = note_on_splits(labels((*PARTS[:-4], *[name] * 4)), np.arange(N), SplitRule("train"))
        assert "did you mean" not in note


def test_names_of_the_split_that_have_no_part_are_said() -> None:
    parts = (*PARTS[:-4], "holdout", "Test", "Test", "")
    (note,) = note_on_splits(labels(parts), np.arange(N), SplitRule("train"))
    assert "rows marked '' (1 rows), 'Test' (2 rows), 'holdout' (1 rows) are not used" in note
    assert note_on_splits(labels(parts), np.arange(N - 4), SplitRule("train")) == ()
    assert note_on_splits(labels(), np.arange(N), SplitRule()) == ()
    many = tuple(f"p{i:03}" for i in range(N))
    assert "and 194 more are not used" in note_on_splits(labels(many), np.arange(N), SplitRule("train"))[0]
