"""`LinearEraser`: a projection of rank d − k, orthogonal or oblique."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from salcli.erasers.base import Eraser
from salcli.errors import ParameterError, RangeError, RowRangeError, ShapeError, UsageError
from salcli.linalg.blas import subtract_product
from salcli.linalg.decompositions import (
    TILE,
    Reflections,
    all_finite,
    completing_reflections,
    orthonormality_error,
    tiled_product,
    whole_tiles,
)

Array = NDArray[np.float64]
Change = Callable[[Array, Array], Array]  # of a block, with another one to work in
WIDE_ELEMENTS = 1 << 18  # numbers widened to float64 at once: large beside Python's overhead, small enough for a cache
MOST_ELEMENTS = 1 << 20  # numbers widened at once, of rows so long that a tile of them is too large for the cache
BATCH_ELEMENTS = 1 << 20  # in a batch: up to 4 MiB of float32
ORTHONORMAL = 1e-8  # written and read in float64, directions are orthonormal to about 1e-15


_local = threading.local()


def _scratch(rows: int, d: int) -> tuple[Array, Array]:
    """Return this thread's two blocks `[rows, d]`, which are reused: page faults of new memory cost more than work."""
    size = max(WIDE_ELEMENTS, rows * d)
    found = getattr(_local, "blocks", None)
    if found is None or found.shape[1] < size:
        found = _local.blocks = np.empty((2, size))
    one, other = found[:, : rows * d].reshape(2, rows, d)
    return one, other


@dataclass(frozen=True, eq=False)
class LinearEraser(Eraser):
    """x' = x − ((x − mean) right) leftᵀ. For SAL left = right = U₁..ₖ: the projection off their span."""

    kind: ClassVar[str] = "linear"
    names: ClassVar[tuple[str, ...]] = ("mean", "left", "right")

    mean: Array
    """`[d]` zeros, or with `keep_mean` the mean μ of the fitted rows."""
    left: Array
    """`[d, k]` directions that are subtracted."""
    right: Array
    """`[d, k]` directions whose inner products with x − mean are the coefficients: leftᵀ right = I."""

    def __post_init__(self) -> None:
        d, k = self.left.shape if self.left.ndim == 2 else (0, 0)
        if self.mean.shape != (d,) or self.right.shape != (d, k) or not 1 <= k <= d:
            raise ShapeError(
                f"mean {self.mean.shape}, left {self.left.shape} and right {self.right.shape} "
                "are not [d], [d, k] and [d, k]"
            )
        if not all(np.isfinite(part).all() for part in (self.mean, self.left, self.right)):
            raise RangeError("an eraser's mean and directions must be finite")
        if (error := float(np.max(np.abs(self.left.T @ self.right - np.eye(k))))) > ORTHONORMAL:
            raise ShapeError(f"leftᵀ right is not the identity (largest error {error:.2g}): not a projection")

    @property
    def d(self) -> int:
        """Width of the rows it takes."""
        return len(self.mean)

    @property
    def d_out(self) -> int:
        """Width of the rows it returns."""
        return self.d

    @property
    def rows_at_once(self) -> int | None:
        """Best number of rows of a batch: large beside Python's overhead for each, small enough for the cache."""
        return rows_at_once(self.d)

    @property
    def k(self) -> int:
        """Directions it removes."""
        return int(self.left.shape[1])

    @property
    def is_orthogonal(self) -> bool:
        """Whether it is an orthogonal projection: left = right, orthonormal."""
        return bool(np.array_equal(self.left, self.right)) and orthonormality_error(self.left) <= ORTHONORMAL

    def __call__(
        self,
        x: NDArray[Any],
        *,
        strength: float = 1.0,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return erased rows, or rows that are moved λ = strength of the way there (paper, "Perturbed Inputs").

        A strength below 1 can be inverted.

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

    def _changed(self, x: NDArray[Any], strength: float, dtype: np.dtype[Any]) -> Change:
        """Return what erases a block of rows such as `x`, in place.

        If float64 is written, coordinates are corrected by what a trial leaves of them: uᵀu differs from 1 by rounding,
        so that one subtraction leaves a multiple of the coordinate, by which classes can be predicted, however small.
        """
        if self.k == self.d:  # nothing is left but the mean, not what rounding leaves of the row
            return lambda block, _: np.add(block * (1 - strength), strength * self.mean)
        is_exact = strength == 1 and dtype.itemsize > 4
        right, left_t, of_mean = self._factors
        is_narrow = x.dtype.itemsize <= 4  # float64 has digits to spare: μ may be subtracted afterwards

        def coordinates_of(block: Array, spare: Array) -> Array:
            found = tiled_product(block if is_narrow else np.subtract(block, self.mean, out=spare), right)
            if is_narrow:
                found -= of_mean
            return found

        def change(block: Array, spare: Array) -> Array:
            coordinates = coordinates_of(block, spare)
            if is_exact:
                trial = block.copy()
                subtract_product(trial, coordinates, left_t)
                coordinates += coordinates_of(trial, spare)
            subtract_product(block, coordinates, left_t, times=strength)
            return block

        return change

    def inverse(self, x: NDArray[Any], strength: float) -> NDArray[Any]:
        """Return rows as they were before they were moved λ = strength of the way: I − λ right leftᵀ is undone.

        Parameters
        ----------
        x : `[n, d]` moved rows
        strength : λ < 1

        Returns
        -------
        `[n, d]` of x's dtype

        Raises
        ------
        ParameterError : strength outside [0, 1)
        ShapeError : rows of another width
        """
        if not 0 <= strength < 1:
            raise ParameterError(
                "strength", strength, "what is erased wholly cannot be undone: expected 0…1, less than 1"
            )
        require_rows(x, self.d)
        along = (x.astype(np.float64) - self.mean) @ self.right
        restored: NDArray[Any] = (x + (strength / (1 - strength)) * along @ self.left.T).astype(x.dtype)
        return restored

    def reduce(
        self, x: NDArray[Any], *, dtype: DTypeLike | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return the coordinates of x − mean in the complement of the removed directions (paper: Ūᵀx).

        Parameters
        ----------
        x : `[n, d]`
        dtype : of the result, default: x's
        out : an earlier result that may be overwritten

        Returns
        -------
        `[n, d − k]`, with the same inner products as the erased rows less `mean`

        Raises
        ------
        ShapeError : rows of another width
        UsageError : the eraser is no orthogonal projection, or removes all d directions
        """
        if not self.is_orthogonal:
            raise UsageError("`reduces` needs an orthogonal projection; this eraser's method is oblique")
        if self.k == self.d:
            raise UsageError(f"`reduces`: all {self.d} directions are removed, nothing is left to write")
        require_rows(x, self.d)
        return in_blocks(x, self._reduced(), result_for(x, self.d - self.k, dtype, out))

    def _reduced(self) -> Change:
        """Return what takes a block of rows to the coordinates that are left."""
        v, t = self._reflections
        vt, rest_t = v @ t, v[self.k :].T

        def change(block: Array, _: Array) -> Array:
            centred = np.subtract(block, self.mean, out=block)
            rest: Array = centred[:, self.k :] - tiled_product(centred, vt) @ rest_t
            return rest

        return change

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array]:
        right = np.ascontiguousarray(self.right)
        return right, self.left.T.copy(), self.mean @ right

    @cached_property
    def _reflections(self) -> Reflections:
        return completing_reflections(self.left)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return its arrays for an artifact."""
        return {"mean": self.mean, "left": self.left, "right": self.right}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:
        """Return the eraser of an artifact (see `Eraser.from_arrays`).

        Raises
        ------
        ShapeError, RangeError : the arrays are no such eraser
        """
        found = cls(*(require_float64(arrays, name) for name in cls.names))
        if header.get("is_orthogonal", True) and not found.is_orthogonal:  # of schema 1, all are
            raise ShapeError("its directions are not orthonormal")
        if not header["is_centred"] and found.mean.any():
            raise ShapeError("`is_centred` is false in its header, but its mean is not zero")
        return found

    def truncated(self, k: int) -> Self:
        """Return the eraser that removes the first `k` of its directions only."""
        return type(self)(self.mean, self.left[:, :k], self.right[:, :k])

    def projection(self, rows: slice = slice(None)) -> Array:
        """Return rows of P `[d, d]` with x' − mean = (x − mean) P. For inspection only: erasing never forms it.

        Parameters
        ----------
        rows : consecutive rows, as P may be too large for memory; default: all
        """
        at = np.arange(self.d)[rows]
        projection: Array = self.right[rows] @ self.left.T
        np.subtract(0.0, projection, out=projection)  # in place: of wide rows, one such matrix is much already
        projection[np.arange(len(at)), at] += 1.0
        return projection

    def preimages(self, y: NDArray[Any], *, strength: float = 1.0) -> Array | None:
        """Return the rows before erasure, exactly, if the strength is below 1 (see `Eraser.preimages`).

        leftᵀ right = I, so (y − mean) right = (1 − λ)(x − mean) right, and x = y + λ/(1 − λ) (y − mean) right leftᵀ.
        Of full strength a projection leaves nothing. Rows of length 1 are returned up to a factor each.
        """
        if strength in (0, 1):
            return None
        x = y.astype(np.float64)
        x += (strength / (1 - strength)) * ((x - self.mean) @ self.right) @ self.left.T
        return x

    def residue(self, x: NDArray[Any], dtype: DTypeLike) -> float:
        """Return what rounding erased rows to `dtype` brings back.

        Parameters
        ----------
        x : rows `[n, d]` before erasure
        dtype : that erased rows are rounded to

        Returns
        -------
        the largest rms of (x' − μ)ᵀ right over the directions, or the rms of rounding over all coordinates if that is
        larger: of rows on a grid it depends on the class in any direction

        Raises
        ------
        RowRangeError : values that `dtype` cannot hold
        """
        rounded = self(x, dtype=dtype).astype(np.float64)
        along = np.sqrt(np.mean(((rounded - self.mean) @ self.right) ** 2, axis=0)).max()
        return float(max(along, np.sqrt(np.mean((rounded - self(x, dtype=np.float64)) ** 2))))


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


def rows_at_once(d: int) -> int:
    """Return the best number of rows of width `d` in a batch: large beside Python's overhead, small for the cache."""
    rows = _rows_of_block(d)
    return max(1, BATCH_ELEMENTS // (rows * d)) * rows


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
