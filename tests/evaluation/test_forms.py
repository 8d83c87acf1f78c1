"""The forms in which rows are attacked, against float64 written out here."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.errors import RowRangeError
from salcli.evaluation.attack import attack
from salcli.evaluation.forms import distinct, in_form, in_forms, notes_on_forms, scale_of, scale_rows
from salcli.evaluation.learning import learning_curves
from salcli.evaluation.stages import Stages
from salcli.options import FORMS, EvaluateOptions
from salcli.streaming.progress import Advance, Progress, Silent

Array = NDArray[Any]


def stages(before: Array, after: Array | None = None) -> Stages:
    return Stages(np.arange(len(before)), before, before, after)


def rows(seed: int, n: int = 20, d: int = 5, dtype: str = "f4") -> Array:
    x = np.random.default_rng(seed).normal(size=(n, d)) * np.logspace(-2, 2, d)
    x[3] = 0
    return x.astype(dtype)


@given(st.integers(0, 99), st.sampled_from(["f2", "f4", "f8"]))
def test_forms_are_what_their_names_say_before_and_after(seed: int, dtype: str) -> None:
    x, y = rows(seed, dtype=dtype), rows(seed + 1, d=4, dtype=dtype)
    fitted = np.arange(0, 20, 2)
    found = {form: in_form(stages(x, y), form, fitted) for form in FORMS}
    for stage, raw in (("before", x), ("after", y)):
        shown = {form: of.named()[stage] for form, of in found.items()}
        wide = raw.astype(np.float64)
        assert shown["raw"] is raw
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        units = wide / np.where(lengths > 0, lengths, 1)
        assert shown["unit"].dtype == raw.dtype
        np.testing.assert_allclose(shown["unit"], units, atol=2 * float(np.finfo(dtype).eps))
        assert not shown["unit"][3].any()
        np.testing.assert_array_equal(shown["float16"], wide.astype(np.float16))
        step = np.abs(wide[fitted]).max(axis=0) / 127
        codes = np.clip(np.rint(wide / step), -127, 127)
        np.testing.assert_array_equal(shown["int8"], codes)
        assert shown["int8"].dtype == np.int8
        np.testing.assert_array_equal(shown["binary"], np.where(wide > 0, 1, -1))
    assert scale_of(stages(x, y), fitted).scale == tuple(np.abs(y[fitted].astype(np.float64)).max(axis=0) / 127)
    assert scale_of(stages(x), fitted).scale == tuple(np.abs(x[fitted].astype(np.float64)).max(axis=0) / 127)


def test_a_column_of_zeros_has_a_scale_and_stays_zero() -> None:
    x = rows(0)
    x[:, 1] = 0
    found = in_form(stages(x), "int8", np.arange(20)).before
    assert not found[:, 1].any()
    assert scale_of(stages(x), np.arange(20)).scale[1] == 1
    assert np.abs(found[:, 0]).max() == 127


def test_forms_that_change_nothing_at_any_stage_are_left_out_and_noted() -> None:
    x = rows(1)
    units = in_form(stages(x), "unit", np.arange(20)).before
    halves = x.astype("f2").astype("f4")
    names = ("raw", "unit", "float16", "binary")
    assert distinct(stages(x, x), names) == dict.fromkeys(names, frozenset())
    assert set(distinct(stages(units, units), names)) == {"raw", "float16", "binary"}
    assert distinct(stages(units, x), names)["unit"] == {"before"}
    assert distinct(stages(x, units), names)["unit"] == {"after"}
    assert set(distinct(stages(halves), names)) == {"raw", "unit", "binary"}
    assert distinct(stages(units), ("unit",)) == {"unit": frozenset()}  # nothing else stands for it
    found = in_forms(stages(units), names, np.arange(20))
    assert [form.name for form in found] == ["raw", "float16", "binary"]
    assert notes_on_forms(names, found) == ("the rows are of length 1 already: raw stands for unit",)


def test_numbers_that_float16_does_not_hold_are_named() -> None:
    x = rows(2, dtype="f8")
    x[7, 2] = -70_000
    with pytest.raises(
        RowRangeError, match=r"`forms=float16`: row 7 has 70000 after erasure, but float16 ends at 65,504"
    ):
        in_form(stages(rows(2), x), "float16", np.arange(20))


def test_the_scale_is_taken_from_fitted_rows_and_from_all_where_none_is_in_memory() -> None:
    x = rows(4)
    part = Stages(np.arange(10, 30), x, x, None)
    assert scale_of(part, np.array([0, 1, 12])).n_rows == 1
    assert scale_of(part, np.array([0, 1])).n_rows == 20
    labels = GuardedLabels("l.csv", (Attribute("g", np.arange(40, dtype=np.int32) % 2, ("a", "b")),), None)
    split = EvaluationSplit.of(np.arange(30), {"fresh": np.arange(30, 35)}, np.arange(35, 40), has_held_out=True)
    options = EvaluateOptions(forms=("int8",), attacker_rows=8)
    assert len(scale_rows(labels, split, options)) == 8
    assert set(scale_rows(labels, split, options)) <= set(range(30))
    assert not len(scale_rows(labels, split, EvaluateOptions()))


N = 240


class Counted(Silent):
    """Progress that knows how many attackers were trained."""

    n_trained = 0

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Advance]:
        self.n_trained += total
        yield lambda _: None


def attacked(
    x: Array, y: Array, codes: Array, *forms: str, progress: Progress | None = None
) -> dict[tuple[str, str, str], float]:
    labels = GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b")),), None)
    train = np.arange(N // 2)
    split = EvaluationSplit.of(train, {"in-sample": train}, np.arange(N // 2, N), has_held_out=True)
    results, notes = attack(
        stages(x, y), labels, split, ("linear",), EvaluateOptions(forms=forms), progress or Silent()
    )
    assert len(notes) == len(forms) - len({r.form for r in results})
    return {(r.form, r.probe, r.stage): r.accuracy for r in results}


def test_what_lengths_or_signs_alone_tell_is_read_in_the_form_that_shows_it() -> None:
    rng = np.random.default_rng(0)
    codes = (np.arange(N) % 2).astype(np.int32)
    # The class is the sign of a column with a length of its own in each row: faint in the rows, plain in their signs.
    x = rng.normal(size=(N, 6)).astype("f4")
    y = x.copy()
    y[:, 0] = 1e-3 * np.abs(rng.normal(size=N)) ** 4 * np.where(codes == 1, 1, -1)
    found = attacked(x, y, codes, "raw", "binary")
    assert found["binary", "linear", "after"] == 1.0
    assert found["raw", "linear", "after"] < 0.9
    assert found["binary", "linear", "before"] < 0.65


def test_stages_that_are_the_raw_ones_share_their_figures() -> None:
    rng = np.random.default_rng(1)
    codes = (np.arange(N) % 2).astype(np.int32)
    x = rng.normal(size=(N, 6)) + codes[:, None]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    progress = Counted()
    found = attacked(x, x * rng.uniform(0.5, 2, (N, 1)), codes, "raw", "unit", progress=progress)
    assert progress.n_trained == 3
    assert found["unit", "linear", "before"] == found["raw", "linear", "before"] == found["unit", "linear", "after"]
    assert set(attacked(x, x, codes, "raw", "unit")) == {("raw", "linear", stage) for stage in ("before", "after")}


def test_a_learning_curve_is_of_the_form_that_reads_most() -> None:
    rng = np.random.default_rng(0)
    n = 700
    codes = (np.arange(n) % 2).astype(np.int32)
    x = rng.normal(size=(n, 6))
    x[:, 0] = 1e-3 * np.abs(rng.normal(size=n)) ** 4 * np.where(codes == 1, 1, -1)
    labels = GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b")),), None)
    split = EvaluationSplit.of(np.arange(350), {"fresh": np.arange(350)}, np.arange(350, n), has_held_out=True)
    options = EvaluateOptions(forms=("raw", "binary"))
    results, _ = attack(stages(x), labels, split, ("linear",), options, Silent())
    (curve,) = learning_curves(stages(x), labels, split, results, 0, Silent())
    accuracy = {r.form: r.balanced_accuracy for r in results}
    assert accuracy["raw"] < 0.95
    assert (curve.form, curve.points[-1].mean) == ("binary", accuracy["binary"]) == ("binary", 1.0)
