"""Rows in and out: tensors of torch become arrays, and results tensors again."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.base import Eraser
from salcli.streaming.engine import map_in_threads, one_blas_thread

DTYPES = (np.float64, np.float32, np.float16)


def float_types(x: Any) -> Any:
    """Return the dtypes that rows `x` may keep; of a frame of polars its own, as scikit-learn would widen it."""
    if type(x).__module__.partition(".")[0] == "polars" and (own := x.head(0).to_numpy().dtype) in DTYPES:
        return own
    return DTYPES


def is_tensor(x: Any) -> bool:
    """Return whether `x` is a tensor of torch."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "detach")


def is_bfloat16(x: Any) -> bool:
    """Return whether `x` is a tensor of a type that numpy has not, with 8 significant bits."""
    return is_tensor(x) and bool(x.dtype == sys.modules["torch"].bfloat16)


def to_numpy(x: Any) -> tuple[Any, Callable[[NDArray[Any]], Any]]:
    """Return rows `x` as scikit-learn takes them, and a function that returns an array as x's kind.

    A tensor is copied to main memory if it is elsewhere; a gradient is not passed on. The function returns a tensor on
    the same device and, if x holds floats, of the same type. Anything else is returned as it is.
    """
    if not is_tensor(x):
        return x, lambda result: result
    torch: Any = sys.modules["torch"]
    found = x.detach()
    if is_bfloat16(found):
        found = found.float()
    kind = x.dtype if x.is_floating_point() else None
    return found.cpu().numpy(), lambda result: torch.from_numpy(result).to(device=x.device, dtype=kind)


def erase(eraser: Eraser, x: NDArray[Any], strength: float) -> NDArray[Any]:
    """Return erased rows, of x's dtype where the eraser can write it; the same bits as `salcli apply`.

    Parameters
    ----------
    eraser : that is called
    x : `[n, d]`, C-contiguous
    strength : λ ∈ [0, 1]
    """
    dtype = np.promote_types(x.dtype, eraser.least_dtype)
    n = eraser.rows_at_once
    if n is None or len(x) <= n:
        with one_blas_thread():
            return eraser(x, strength=strength, dtype=dtype)
    result = np.empty((len(x), eraser.d_out), dtype)

    def change(rows: slice) -> None:
        result[rows] = eraser(x[rows], strength=strength, dtype=dtype)

    for _ in map_in_threads(change, (slice(start, start + n) for start in range(0, len(x), n))):
        pass
    return result
