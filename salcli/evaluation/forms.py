"""The forms in which a consumer uses rows: as they are, of length 1, rounded, quantized, or their signs alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index
from salcli.data.sampling import capped
from salcli.data.splits import EvaluationSplit
from salcli.errors import RangeError, RowRangeError
from salcli.evaluation.cosine import unit_rows
from salcli.evaluation.stages import Stages
from salcli.options import RAW, WHITE_BOX, EvaluateOptions

Array = NDArray[Any]
INT8 = "int8"
LEVELS = 127
"""Largest code of int8, on either side of 0."""
UNIT_ERROR = 1e-5
"""Of the length of a row that counts as 1; files of few decimals round as much."""
ALREADY = {
    "unit": "the rows are of length 1 already: raw stands for unit",
    "float16": "the rows are float16 numbers already: raw stands for float16",
}
"""Notes on forms that are left out."""


@dataclass(frozen=True)
class Scale:
    """The units of int8 codes, one for each column."""

    n_rows: int
    """Fitted rows that they are taken from."""
    scale: tuple[float, ...]
    """max|x| / 127 of each column at the stage that is judged; 1 where the column is zero."""


@dataclass(frozen=True, eq=False)
class Form:
    """Rows in one form."""

    name: str
    stages: Stages
    equal: frozenset[str] = frozenset()
    """Stages at which the rows are the raw ones, to rounding."""


def distinct(stages: Stages, forms: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the forms in which rows differ from the raw ones at some stage; by form, the stages at which they do not.

    Parameters
    ----------
    stages : the rows as they are
    forms : names in `salcli.options.FORMS`; without raw among them, all of them differ
    """
    rows = stages.named()

    def is_already(stage: str, x: Array, form: str) -> bool:
        if stage != "before":
            return _is_already(x, form)
        return stages.once((_is_already, form), lambda: _is_already(x, form))

    equal = {
        form: frozenset(name for name, x in rows.items() if RAW in forms and is_already(name, x, form))
        for form in forms
    }
    return {form: names for form, names in equal.items() if len(names) < len(rows)}


def in_forms(stages: Stages, forms: Sequence[str], fitted: Index) -> tuple[Form, ...]:
    """Return rows in several forms, without those in which they are the raw ones at every stage.

    Parameters
    ----------
    stages : the rows as they are
    forms : names in `salcli.options.FORMS`
    fitted : labels of the fitted rows, whose columns give int8 its scale

    Raises
    ------
    RangeError : float16 does not hold a number; of rows that another tool erased it names their file
    """
    return tuple(Form(form, in_form(stages, form, fitted), same) for form, same in distinct(stages, forms).items())


def read_by(adversary: str, forms: Iterable[Form]) -> Iterator[Form]:
    """Yield rows in those of the `forms` that an `adversary` reads: a white-box one inverts raw rows."""
    for form in forms:
        if adversary != WHITE_BOX:
            yield form
        elif form.name == RAW:
            yield replace(form, stages=form.stages.white_box)


def notes_on_forms(forms: Sequence[str], found: Sequence[Form]) -> tuple[str, ...]:
    """Return a note on each of the `forms` that is not among those `found`."""
    names = {form.name for form in found}
    return tuple(ALREADY[form] for form in forms if form not in names)


def _is_already(x: Array, form: str) -> bool:
    """Return whether rows are in a form already, to rounding."""
    if form == "unit":
        error = max(UNIT_ERROR, float(np.finfo(x.dtype).eps))
        lengths = np.linalg.norm(x.astype(np.float64), axis=1)
        return bool(np.all((np.abs(lengths - 1) <= error) | (lengths == 0)))
    if form == "float16":
        with np.errstate(over="ignore"):
            return np.array_equal(x.astype(np.float16), x)
    return False


def in_form(stages: Stages, form: str, fitted: Index) -> Stages:
    """Return rows in one form, before and after erasure alike; of a kernel's eraser, its features (see `in_forms`)."""
    if form == RAW:
        return stages
    at = _fitted(stages, fitted)
    key = _converted, form, at.tobytes() if form == INT8 else b""
    before = stages.once(key, lambda: _converted(stages, "before", form, at))
    after = None if stages.after is None else _converted(stages, "after", form, at)
    is_foreign = stages.is_foreign or form == INT8  # whose units depend on the stage
    return replace(stages, before=before, after=after, is_foreign=is_foreign, known={})


def _fitted(stages: Stages, fitted: Index) -> Index:
    """Return the positions of fitted rows; of all rows where none of them is in memory."""
    at = stages.at(fitted)
    return at if len(at) else np.arange(len(stages.labels))


def _converted(stages: Stages, stage: str, form: str, fitted: Index) -> Array:
    x = stages.named()[stage]
    if form == "unit":
        return unit_rows(x)[0].astype(x.dtype)
    if form == "float16":
        return _to_float16(stages, stage)
    if form == INT8:
        return to_int8(x, int8_scale(x[fitted]))
    return np.where(x > 0, 1, -1).astype(np.int8)


def _to_float16(stages: Stages, stage: str) -> Array:
    x = stages.named()[stage]
    with np.errstate(over="ignore"):
        rounded = x.astype(np.float16)
    if len(bad := np.flatnonzero(~np.isfinite(rounded).all(axis=1))):
        largest = float(np.abs(x[bad[0]].astype(np.float64)).max())
        why = f"but float16 ends at {float(np.finfo(np.float16).max):,.0f}"
        row = int(bad[0] if stages.of_file is None else stages.of_file[bad[0]])
        other = None if stages.erasure is None else stages.erasure.against
        if stage == "after" and other is not None:
            raise RangeError(f"{other.path}: `forms=float16`: {other.place(row)} has {largest:.6g}, {why}")
        raise RowRangeError(row, f"`forms=float16`: row {row} has {largest:.6g} {stage} erasure, {why}")
    return rounded


def int8_scale(x: Array) -> NDArray[np.float64]:
    """Return max|x| / 127 of each column of rows `x` `[n, d]`, 1 where it is zero: `[d]`."""
    scale: NDArray[np.float64] = np.abs(x.astype(np.float64)).max(axis=0, initial=0.0) / LEVELS
    return np.where(scale > 0, scale, 1.0)


def to_int8(x: Array, scale: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return rows `x` `[n, d]` in units of the `scale` `[d]` of their columns, rounded and cut off at ±127."""
    with np.errstate(over="ignore"):
        return np.clip(np.rint(x.astype(np.float64) / scale), -LEVELS, LEVELS).astype(np.int8)


def scale_rows(labels: GuardedLabels, split: EvaluationSplit, options: EvaluateOptions) -> Index:
    """Return the labels `[n]` of fitted rows that give int8 its scale, at most `attacker_rows`; none without int8.

    Parameters
    ----------
    labels : that the split is of
    split : with the fitted rows
    options : with the forms, the most rows and the seed
    """
    if INT8 not in options.attacked_forms:
        return split.fitted[:0]
    return capped(labels, split.fitted, options.attacker_rows, options.seed)


def scale_of(stages: Stages, fitted: Index) -> Scale:
    """Return the scale of int8 at the last stage there is.

    Parameters
    ----------
    stages : the rows as they are
    fitted : labels of the fitted rows
    """
    at = _fitted(stages, fitted)
    judged = stages.before if stages.after is None else stages.after
    return Scale(len(at), tuple(int8_scale(judged[at]).tolist()))
