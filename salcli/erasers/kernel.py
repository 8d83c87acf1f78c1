"""Erasers of a kernel's feature space: by its inner products (`KernelEraser`), or with explicit features."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from salcli.erasers.linear import LinearEraser
from salcli.errors import RangeError, ShapeError
from salcli.linalg.kernels import Kernel, KernelRow, NystromMap, blocks, counted_from

Array = NDArray[np.float64]
ORTHONORMAL = 1e-5  # of directions rebuilt from a dual: an ill-conditioned Gram matrix costs digits


@dataclass(frozen=True, eq=False)
class KernelEraser:
    """Removes directions u = Σ wⱼ φ(x̃ⱼ) of feature space, known by inner products alone."""

    kernel: Kernel
    landmarks: NDArray[Any]
    """`[m, d]` x̃; of the exact route: all fitted rows."""
    dual: Array
    """`[m, k]` W, orthonormal under the landmarks' Gram matrix: WᵀK̃W = I."""
    offset: Array
    """`[k]` Uᵀμ, the mean coordinate of the fitted rows, which erased rows keep; zero where the fit was not centred."""

    def __post_init__(self) -> None:
        m, k = self.dual.shape if self.dual.ndim == 2 else (0, 0)
        if self.landmarks.ndim != 2 or len(self.landmarks) != m or self.offset.shape != (k,) or not 1 <= k <= m:
            raise ShapeError(
                f"landmarks {self.landmarks.shape}, dual {self.dual.shape} and offset {self.offset.shape} "
                "are not [m, d], [m, k] and [k]"
            )
        if not all(np.isfinite(part).all() for part in (self.landmarks, self.dual, self.offset)):
            raise RangeError("an eraser's landmarks and coefficients must be finite")

    @property
    def d(self) -> int:
        """Width of the rows it takes."""
        return int(self.landmarks.shape[1])

    @property
    def k(self) -> int:
        """Directions it removes."""
        return int(self.dual.shape[1])

    @property
    def explicit_bytes(self) -> int:
        """Memory that `explicit` takes: the landmarks' Gram matrix, and as much again while it is factored."""
        return 2 * 8 * len(self.landmarks) ** 2

    @cached_property
    def _row(self) -> KernelRow:
        return self.kernel.against(self.landmarks)

    def coordinates(self, x: NDArray[Any]) -> Array:
        """Give Uᵀφ(x) = Wᵀκ(x) (paper, eq. kernel-proj) of rows `[n, d]`: `[n, k]`."""
        found = np.empty((len(x), self.k))
        for rows in blocks(len(x), len(self.landmarks)):
            with counted_from(rows.start):
                found[rows] = self._row(x[rows]) @ self.dual
        return found

    def erased_gram(self, x: NDArray[Any], y: NDArray[Any], *, strength: float = 1.0) -> Array:
        """Give K̂, the inner products of erased rows: of `x` `[a, d]` with `y` `[b, d]`.

        Returns
        -------
        `[a, b]`; not centred: K(x, y) − (Wᵀκ(x))ᵀ (Wᵀκ(y)), as in the paper
        """
        return self.erase_gram(self.kernel.gram(x, y), self.coordinates(x), self.coordinates(y), strength=strength)

    def erase_gram(self, gram: Array, at_x: Array, at_y: Array, *, strength: float = 1.0) -> Array:
        """Turn K `[a, b]` into K̂ in place, given the coordinates `[a, k]` and `[b, k]` of its rows and columns.

        An erased row is f − λ U c with c = Uᵀf − offset; multiply two of them out.
        """
        c_x, c_y = at_x - self.offset, at_y - self.offset
        left = np.concatenate([at_x, c_x], axis=1) * -strength
        right = np.concatenate([c_y, at_y - strength * c_y], axis=1)
        gram += left @ right.T
        return gram

    def explicit(self) -> "FeatureEraser":
        """Find features for the landmarks' whole span, so that any row can be written as an erased vector.

        Raises
        ------
        RangeError : the landmarks' Gram matrix is too ill-conditioned for the directions to be rebuilt
        """
        features = NystromMap.spanning(self.kernel, self.landmarks)
        directions = features.whitener.T @ self.coordinates(features.landmarks)
        values, vectors = np.linalg.eigh(directions.T @ directions)
        if np.max(np.abs(values - 1)) > ORTHONORMAL:
            raise RangeError(
                f"the kernel matrix of {len(self.landmarks)} landmarks is too ill-conditioned to write features "
                "(its directions come back with length "
                f"{np.sqrt(max(values[0], 0)):.6g}): fit with `landmarks=M`"
            )
        directions = directions @ (vectors / np.sqrt(values)) @ vectors.T
        return FeatureEraser(features, LinearEraser(directions @ self.offset, directions, directions))


@dataclass(frozen=True, eq=False)
class FeatureEraser:
    """A linear eraser behind a feature map: rows go in, erased feature vectors come out."""

    features: NystromMap
    linear: LinearEraser
    """In the r dimensions of the features."""

    def __post_init__(self) -> None:
        m, r = self.features.whitener.shape if self.features.whitener.ndim == 2 else (0, 0)
        if self.features.landmarks.ndim != 2 or len(self.features.landmarks) != m or self.linear.d != r:
            raise ShapeError(
                f"landmarks {self.features.landmarks.shape}, whitener {self.features.whitener.shape} and directions "
                f"{self.linear.left.shape} are not [m, d], [m, r] and [r, k]"
            )
        if not all(np.isfinite(part).all() for part in (self.features.landmarks, self.features.whitener)):
            raise RangeError("an eraser's landmarks and whitener must be finite")

    @property
    def d(self) -> int:
        """Width of the rows it takes."""
        return int(self.features.landmarks.shape[1])

    @property
    def k(self) -> int:
        """Directions it removes."""
        return self.linear.k

    @property
    def width(self) -> int:
        """Width r of the vectors it gives."""
        return self.linear.d

    def __call__(
        self,
        x: NDArray[Any],
        *,
        strength: float = 1.0,
        dtype: DTypeLike = np.float64,
        out: NDArray[Any] | None = None,  # noqa: ARG002 (a linear eraser makes use of it)
    ) -> NDArray[Any]:
        """Map rows `[n, d]` to features `[n, r]` and erase those (see `LinearEraser`)."""
        erased = np.empty((len(x), self.width), dtype)
        for rows in blocks(len(x), self.width):
            with counted_from(rows.start):
                erased[rows] = self.linear(self.features(x[rows]), strength=strength, dtype=dtype)
        return erased

    def reduce(
        self,
        x: NDArray[Any],
        *,
        dtype: DTypeLike = np.float64,
        out: NDArray[Any] | None = None,  # noqa: ARG002 (a linear eraser makes use of it)
    ) -> NDArray[Any]:
        """Map rows `[n, d]` to the r − k coordinates that remain (see `LinearEraser.reduce`)."""
        erased = np.empty((len(x), self.width - self.k), dtype)
        for rows in blocks(len(x), self.width):
            with counted_from(rows.start):
                erased[rows] = self.linear.reduce(self.features(x[rows]), dtype=dtype)
        return erased

    def residue(self, x: NDArray[Any], dtype: DTypeLike) -> float:
        """Measure what rounding to `dtype` brings back (see `LinearEraser.residue`)."""
        return self.linear.residue(self.features(x), dtype)

    def by_inner_products(self) -> KernelEraser:
        """Give the same directions as combinations of the landmarks: U = Φ̃ (whitener right)."""
        whitener, linear = self.features.whitener, self.linear
        return KernelEraser(
            self.features.kernel, self.features.landmarks, whitener @ linear.right, linear.mean @ linear.right
        )


AnyEraser = LinearEraser | FeatureEraser | KernelEraser
