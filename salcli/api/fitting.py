"""`fit`: an eraser of rows in memory, by the route of the command."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from salcli.api.labels import label_table
from salcli.commands.fit import fit_rows
from salcli.data.source import ArrayReader, Source
from salcli.erasers.base import Eraser, Fit, find_method
from salcli.errors import ShapeError, UsageError
from salcli.options import FitOptions
from salcli.streaming.engine import one_blas_thread
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
    x, shape = np.asarray(x), np.shape(np.asarray(y))
    if x.ndim != 2 or x.dtype.kind != "f" or shape != (len(x),):
        raise ShapeError(f"x {x.dtype} {x.shape} and y {shape} are not floats [n, d] and [n]")
    found = find_method(method)
    if task is not None and not hasattr(found.Parameters(), "task"):
        raise UsageError(f"`task`: method {method} keeps no main task")
    if task is None and hasattr(found.Parameters(), "task"):
        raise UsageError(f"method {method} keeps a main task: give its classes by `task`")
    names = {each.name for each in fields(found.Parameters)}
    if unknown := sorted(set(parameters) - names):
        raise UsageError(f"method {method} has no `{unknown[0]}`, expected some of {', '.join(sorted(names))}")
    table = label_table(y, len(x), "y", numeric, task=task)
    known = found.Parameters(**parameters, **({} if table.task is None else {"task": table.task.name}))
    options = FitOptions(method=method, parameters=known, seed=seed)
    with one_blas_thread():
        return fit_rows(Source([ArrayReader(x)]), table, options, Silent())[0]
