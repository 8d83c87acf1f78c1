"""`BlockEraser`: an eraser that changes rows within their space, block by block in float64."""

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from salcli.erasers.base import Eraser
from salcli.errors import ParameterError, RowRangeError, ShapeError
from salcli.linalg.decompositions import TILE, all_finite, whole_tiles

Array = NDArray[np.float64]
Change = Callable[[Array, Array], Array]  # of a block, with another one to work in
WIDE_ELEMENTS = 1 << 18  # numbers widened to float64 at once: large beside Python's overhead, small enough for a cache
MOST_ELEMENTS = 1 << 20  # numbers widened at once, of rows so long that a tile of them is too large for the cache
BATCH_ELEMENTS = 1 << 20  # in a batch: up to 4 MiB of float32
_local = threading.local()


def _scratch(rows: int, d: int) -> tuple[Array, Array]:
    """Return this thread's two blocks `[rows, d]`, which are reused: page faults of new memory cost more than work."""
    size = max(WIDE_ELEMENTS, rows * d)
    found = getattr(_local, "blocks", None)
    if found is None or found.shape[1] < size:
        found = _local.blocks = np.empty((2, size))
    one, other = found[:, : rows * d].reshape(2, rows, d)
    return one, other


class BlockEraser(Eraser):
    """What erasers have in common whose result for a block of rows is that for each of them."""

    @abstractmethod
    def _changed(self, x: NDArray[Any], strength: float, dtype: np.dtype[Any]) -> Change:
        """Return what erases a block of rows such as `x`, λ = `strength` of the way; the result becomes `dtype`."""

    @property
    def d_out(self) -> int:
        """Width of the rows it returns."""
        return self.d

    @property
    def rows_at_once(self) -> int | None:
        """Best number of rows of a batch: large beside Python's overhead for each, small enough for the cache."""
        rows = _rows_of_block(self.d)
        return max(1, BATCH_ELEMENTS // (rows * self.d)) * rows

    def __call__(
        self,
        x: NDArray[Any],
        *,
        strength: float = 1.0,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return erased rows, or rows that are moved λ = strength of the way there.

        Parameters
        ----------
        x : `[n, d]`
        strength : λ ∈ [0, 1]
        dtype : of the result, default: x's; the arithmetic is float64
        out : an earlier result, or x itself, that may be overwritten: its memory is used if it suffices

        Returns
        -------
        `[n, d]`

        Raises
        ------
        ShapeError : rows of another width
        ParameterError : strength outside [0, 1]
        RowRangeError : a result that dtype cannot hold, also of rows that hold NaN or Inf
        """
        if not 0 <= strength <= 1:
            raise ParameterError("strength", strength, "outside 0…1")
        require_rows(x, self.d)
        result = result_for(x, self.d, dtype, out)
        return in_blocks(x, self._changed(x, strength, result.dtype), result)

    def residue(self, x: NDArray[Any], dtype: DTypeLike) -> float:
        """Return what rounding erased rows to `dtype` brings back: its root mean square over all coordinates.

        Parameters
        ----------
        x : rows `[n, d]` before erasure
        dtype : that erased rows are rounded to

        Raises
        ------
        RowRangeError : values that `dtype` cannot hold
        """
        rounded = self(x, dtype=dtype).astype(np.float64)
        return float(np.sqrt(np.mean((rounded - self(x, dtype=np.float64)) ** 2)))


def result_for(x: NDArray[Any], width: int, dtype: DTypeLike | None, out: NDArray[Any] | None) -> NDArray[Any]:
    """Return memory `[n, width]` for the result of changing rows: that of `out` if it suffices.

    Parameters
    ----------
    x : `[n, d]` the rows
    width : of the result
    dtype : of the result, default: x's
    out : an earlier result, or x itself, that may be overwritten
    """
    kind = x.dtype if dtype is None else np.dtype(dtype)
    if out is not None and out.dtype == kind and len(out) >= len(x) and out.shape[1:] == (width,):
        return out[: len(x)]
    # A long double has six bytes of padding, which would carry old memory into files.
    return (np.zeros if kind.itemsize > 8 else np.empty)((len(x), width), kind)


def in_blocks(x: NDArray[Any], change: Change, result: NDArray[Any]) -> NDArray[Any]:
    """Return `result`, filled with rows changed block by block, all blocks of one size.

    So no row's digits depend on its batch.

    Parameters
    ----------
    x : `[n, d]`
    change : of a block, with another one to work in; both are overwritten
    result : memory `[n, d']`

    Raises
    ------
    RowRangeError : a result that its dtype cannot hold, also of rows that hold NaN or Inf
    """
    rows, d = _rows_of_block(x.shape[1]), x.shape[1]
    block, spare = _scratch(rows, d)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(x), rows):
            part, target = x[start : start + rows], result[start : start + rows]
            np.copyto(block[: len(part)], part, casting="same_kind")
            block[len(part) :] = 0
            changed = change(block, spare)[: len(part)]
            target[:] = changed
            if not all_finite(target):
                row, column = (int(i) for i in np.argwhere(~np.isfinite(target))[0])
                value = changed[row, column]
                hint = "choose a wider `dtype`" if np.isfinite(value) else "scale the embeddings down"
                raise RowRangeError(start + row, f"dimension {column}: {value:.6g} does not fit {result.dtype}: {hint}")
    return result


def _rows_of_block(d: int) -> int:
    """Return how many rows are widened at once: whole tiles; a quarter of one if rows are long; of longer ones, one.

    With other numbers of rows, BLAS kernels round the last rows differently.
    """
    if TILE * d <= MOST_ELEMENTS:
        return whole_tiles(WIDE_ELEMENTS // d)
    return TILE // 4 if TILE // 4 * d <= MOST_ELEMENTS else 1


def require_rows(x: Any, d: int) -> None:
    """Check that `x` is an array `[n, d]` of floats, of width `d`: rows of integers would be rounded to integers.

    Raises
    ------
    ShapeError : it is not
    """
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        kind = x.dtype if isinstance(x, np.ndarray) else type(x).__name__
        raise ShapeError(f"the eraser takes a numpy array of floats, not {kind}: convert it with np.asarray(x, float)")
    if x.ndim != 2 or x.shape[1] != d:
        raise ShapeError(f"the eraser takes rows of {d} dimensions, not {x.shape}")


def require_float64(arrays: dict[str, NDArray[Any]], name: str) -> Array:
    """Return the array called `name` of the `arrays` of an artifact, after checking that it is float64.

    Raises
    ------
    ShapeError : it has another type
    """
    if arrays[name].dtype != np.float64:
        raise ShapeError(f"{name} is {arrays[name].dtype}, expected float64")
    return arrays[name]
