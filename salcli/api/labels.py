"""Labels of Python (arrays, series, frames, dicts of columns) as the labels of a CSV."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, smallest_code
from salcli.errors import LabelError, ShapeError

Columns = dict[str, NDArray[Any]]
MISSING = ("NAType", "NaTType")  # of pandas, which does not compare


def label_table(
    guarded: Any,
    n: int,
    name: str,
    numeric: bool | Collection[str] = False,
    *,
    task: Any = None,
    task_name: str = "task",
) -> GuardedLabels:
    """Return labels as a label CSV would have them, joined by position.

    Parameters
    ----------
    guarded : `[n]`, `[n, a]`, a series or a frame, or columns by name; None, NaN and empty texts are no labels
    n : rows
    name : of the labels in messages, and of a column without a name
    numeric : whether columns hold numbers instead of classes, or the names of those that do
    task : classes of the main task, one column
    task_name : its name, if it has none

    Raises
    ------
    ShapeError : labels of another number of rows, or with more than two axes
    LabelError : a number that is not finite, no such column, or a task of several columns
    """
    columns = columns_of(guarded, name)
    of_numbers = set(columns) if numeric is True else set() if numeric is False else set(map(str, numeric))
    if unknown := sorted(of_numbers - set(columns)):
        raise LabelError(f"`numeric`: there is no column {unknown[0]!r}, expected some of {', '.join(columns)}")
    attributes = [
        numbers_of(each, values) if each in of_numbers else classes_of(each, values) for each, values in columns.items()
    ]
    found = None if task is None else _task(task, task_name)
    for attribute in (*attributes, *(() if found is None else (found,))):
        if len(attribute.values) != n:
            raise ShapeError(f"{attribute.name}: {len(attribute.values):,} labels, but X has {n:,} rows")
    return GuardedLabels(name, tuple(attributes), None, task=found)


def _task(task: Any, name: str) -> Attribute:
    columns = columns_of(task, name)
    if len(columns) != 1:
        raise LabelError(f"task: {len(columns)} columns, expected one of classes")
    return classes_of(*columns.popitem())


def columns_of(values: Any, name: str) -> Columns:
    """Return columns `[n]` by name.

    Parameters
    ----------
    values : `[n]`, `[n, a]`, a series or a frame, or columns by name
    name : of a column without a name; several are numbered from 0

    Raises
    ------
    ShapeError : an array has more than two axes, or none
    LabelError : a frame has no column, or two of one name
    """
    named = getattr(values, "columns", None)
    if isinstance(values, Mapping) or named is not None:
        names = list(values) if named is None else list(named)
        if not names or len(set(map(str, names))) < len(names):
            raise LabelError(f"{name}: {len(names)} columns, expected at least one, and each name once")
        return {str(each): _array(values[each]) for each in names}
    array = _array(values)
    if array.ndim == 1:
        return {str(getattr(values, "name", None) or name): array}
    if array.ndim != 2 or not array.shape[1]:
        raise ShapeError(f"{name} {array.shape}: expected labels [n], or [n, a] of several attributes")
    return {name if array.shape[1] == 1 else f"{name}{i}": array[:, i] for i in range(array.shape[1])}


def _array(values: Any) -> NDArray[Any]:
    """Return an array of labels: as it is, or of objects where a list could mix types."""
    if hasattr(values, "detach"):  # a tensor of torch
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray):
        return values
    if isinstance(getattr(values, "dtype", None), np.dtype):  # a series of plain numbers
        return np.asarray(values)
    return np.array(values.to_list() if hasattr(values, "to_list") else values, object)


def is_label(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return `[n]` whether each of the `values` `[n]` is a label: not None, NaN or an empty text."""
    if values.dtype.kind in "f":
        return np.asarray(values == values, np.bool_)  # NaN is not equal to itself
    if values.dtype.kind in "biu":
        return np.ones(len(values), np.bool_)
    return np.array([_is_there(value) for value in values.tolist()], np.bool_).reshape(len(values))


def _is_there(value: Any) -> bool:
    if value is None or type(value).__name__ in MISSING:
        return False
    return bool(value == value) and value != ""


def classes_of(name: str, values: NDArray[Any]) -> Attribute:
    """Return classes as text, sorted by code point; what is no label has the code −1.

    Parameters
    ----------
    name : of the attribute
    values : `[n]` of any type
    """
    is_there = is_label(values)
    known = values[is_there]
    distinct, codes = np.unique(known if known.dtype.kind in "biuf" else known.astype(str), return_inverse=True)
    names, order = np.unique(distinct.astype(str), return_inverse=True)  # by code point: 10 is before 2
    found = np.full(len(values), -1, smallest_code(len(names)))
    found[is_there] = order[codes]
    return Attribute(name, found, tuple(names.tolist()))


def numbers_of(name: str, values: NDArray[Any]) -> Attribute:
    """Return numbers, NaN where there is none.

    Parameters
    ----------
    name : of the attribute
    values : `[n]`

    Raises
    ------
    LabelError : a label is no finite real number
    """
    is_there, numbers = is_label(values), np.full(len(values), np.nan)
    try:
        if values.dtype.kind == "c":
            raise TypeError(f"{values.dtype} numbers, expected real ones")
        numbers[is_there] = values[is_there].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise LabelError(f"{name}: {error}") from error
    if np.isinf(numbers).any():
        raise LabelError(f"{name}: a number is not finite")
    return Attribute(name, numbers, None)
