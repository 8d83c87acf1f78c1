"""`LinearEraser`: a projection of rank d − k, orthogonal or oblique."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from salcli.erasers.blocks import BlockEraser, Change, in_blocks, require_float64, require_rows, result_for
from salcli.errors import ParameterError, RangeError, ShapeError, UsageError
from salcli.linalg.blas import subtract_product
from salcli.linalg.decompositions import (
    Reflections,
    completing_reflections,
    orthonormality_error,
    tiled_product,
)

Array = NDArray[np.float64]
ORTHONORMAL = 1e-8  # written and read in float64, directions are orthonormal to about 1e-15


@dataclass(frozen=True, eq=False)
class LinearEraser(BlockEraser):
    """x' = x − ((x − mean) right) leftᵀ. For SAL left = right = U₁..ₖ: the projection off their span.

    With a strength λ below 1 (paper, "Perturbed Inputs") rows are moved λ of the way, and have an `inverse`.
    """

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
    def k(self) -> int:
        """Directions it removes."""
        return int(self.left.shape[1])

    @property
    def is_orthogonal(self) -> bool:
        """Whether it is an orthogonal projection: left = right, orthonormal."""
        return bool(np.array_equal(self.left, self.right)) and orthonormality_error(self.left) <= ORTHONORMAL

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
