"""The Python interface: functions of arrays, with the same moments and methods as the command line."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from salcli.data.labels import Attribute, GuardedLabels, smallest_code
from salcli.data.source import ArrayReader, Source
from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import Eraser, Fit, find_method, warn_of_doubts
from salcli.errors import LabelError, ShapeError, UsageError
from salcli.streaming.engine import current_engine, one_blas_thread
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Silent


def fit(
    x: NDArray[Any],
    y: ArrayLike,
    *,
    method: str = "sal",
    numeric: bool = False,
    task: ArrayLike | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Fit[Eraser]:
    """Fit an eraser to rows in memory: the same bits as `salcli fit` on a file of these rows.

    Parameters
    ----------
    x : `[n, d]` of a float dtype
    y : `[n]` the guarded attribute: classes, or numbers if `numeric`; rows where it is None or NaN are not fitted
    method : a name that `salcli methods` lists
    numeric : whether y holds numbers instead of classes
    task : `[n]` classes of the main task, None where there is none, for methods that keep one
    seed : of the random number generator
    parameters : of the method, as `salcli fit --method NAME --help` lists them

    Returns
    -------
    Fit, whose `eraser` is called with rows `[n, d]`

    Raises
    ------
    ShapeError : x is no matrix of floats, or y has another length
    LabelError : y has one value only
    ParameterError : the method has no such value of a parameter
    UsageError : the method keeps a main task and there is none, or the reverse
    RankError : the rows do not covary with y

    Examples
    --------
    >>> import numpy as np
    >>> import salcli
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 50)
    >>> x = rng.normal(size=(100, 5)) + np.outer(y == "b", [3, 0, 0, 0, 0])
    >>> eraser = salcli.fit(x, y).eraser
    >>> erased = eraser(x)
    >>> bool(np.allclose(erased[y == "a"].mean(axis=0), erased[y == "b"].mean(axis=0)))
    True
    """
    x, values = np.asarray(x), np.asarray(y)
    if x.ndim != 2 or x.dtype.kind != "f" or values.shape != (len(x),):
        raise ShapeError(f"x {x.dtype} {x.shape} and y {values.shape} are not floats [n, d] and [n]")
    found = find_method(method)
    is_labelled = np.array([value is not None and value == value for value in values.tolist()], np.bool_)
    labels = GuardedLabels("y", (_attribute(values[is_labelled], is_numeric=numeric),), None)
    labels.require_variety()
    rows = LabelledSource.of(Source([ArrayReader(x)]), labels, np.flatnonzero(is_labelled))
    of_task = None if task is None else _task(np.asarray(task, object), is_labelled)
    if of_task is not None and not hasattr(found.Parameters(), "task"):
        raise UsageError(f"`task`: method {method} keeps no main task")
    names = {each.name for each in fields(found.Parameters)}
    if unknown := sorted(set(parameters) - names):
        raise UsageError(f"method {method} has no `{unknown[0]}`, expected some of {', '.join(sorted(names))}")
    known = found.Parameters(**parameters, **({} if of_task is None else {"task": of_task.name}))
    with one_blas_thread():
        result = found.fit(rows, known, task=of_task, seed=seed, engine=current_engine(), progress=Silent())
    warn_of_doubts(result)
    return result


def load(path: str) -> Eraser:
    """Return the eraser of the artifact at `path`, which `salcli fit` wrote.

    Raises
    ------
    FormatError : it is no artifact, of another schema, or damaged
    """
    return read_artifact(path).eraser


def _task(values: NDArray[Any], is_labelled: NDArray[np.bool_]) -> Attribute:
    """Return the classes of the main task at the labelled rows; rows without one have the code −1."""
    if values.shape != is_labelled.shape:
        raise ShapeError(f"task {values.shape} is not [n] = [{len(is_labelled)}]")
    chosen = values[is_labelled]
    is_there = np.array([value is not None and value == value for value in chosen.tolist()], np.bool_)
    names, codes = np.unique(chosen[is_there].astype(str), return_inverse=True)
    found = np.full(len(chosen), -1, smallest_code(len(names)))
    found[is_there] = codes
    return Attribute("task", found, tuple(names.tolist()))


def _attribute(values: NDArray[Any], *, is_numeric: bool) -> Attribute:
    if is_numeric:
        if values.dtype.kind == "c":
            raise LabelError(f"y: {values.dtype} numbers, expected real ones")
        numbers = values.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise LabelError("y: a number is not finite")
        return Attribute("y", numbers, None)
    names, codes = np.unique(values.astype(str), return_inverse=True)
    return Attribute("y", codes.astype(smallest_code(len(names))), tuple(names.tolist()))
