"""Kernels, their Gram matrices in blocks, and the explicit features that landmarks give (Nyström)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RankError, ShapeError, UsageError

Array = NDArray[np.float64]
KERNELS = ("rbf", "poly", "linear")
BLOCK_ROWS = 512
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Kernel:
    """rbf exp(−γ‖x−x'‖²), poly (γ xᵀx' + c₀)ᵖ, or linear xᵀx'; the defaults are the paper's."""

    name: str = "rbf"
    """rbf, poly or linear."""
    gamma: float | None = None
    """γ > 0; default: 0.1 for rbf, 1 for poly."""
    degree: int = 2
    """p ≥ 1 of poly."""
    coef0: float = 1.0
    """c₀ ≥ 0 of poly."""

    def __post_init__(self) -> None:
        if self.name not in KERNELS:
            raise UsageError(f"--kernel {self.name}: expected one of {', '.join(KERNELS)}")
        if self.gamma is None:
            object.__setattr__(self, "gamma", 0.1 if self.name == "rbf" else 1.0)
        if not 0 < float(self.gamma or 0) < np.inf:
            raise UsageError(f"--gamma {self.gamma}: expected a positive number")
        if self.degree < 1 or not 0 <= self.coef0 < np.inf:
            raise UsageError(f"--degree {self.degree} and --coef0 {self.coef0}: expected p ≥ 1 and c₀ ≥ 0")

    def gram(self, x: NDArray[Any], y: NDArray[Any]) -> Array:
        """Evaluate the kernel on all pairs, in float64 (differences of squares cancel).

        Parameters
        ----------
        x : `[n, d]`
        y : `[m, d]`

        Returns
        -------
        `[n, m]`
        """
        if x.shape[1] != y.shape[1]:
            raise ShapeError(f"the kernel compares rows of {y.shape[1]} dimensions, not {x.shape}")
        x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
        if self.name == "rbf":  # distances do not change when both move, and cancel less about a common centre
            centre = y.mean(axis=0)
            x, y = x - centre, y - centre
        products: Array = x @ y.T
        gamma = float(self.gamma or 0)
        if self.name == "rbf":
            products *= 2 * gamma
            products -= gamma * np.einsum("ij,ij->i", x, x)[:, None]
            products -= gamma * np.einsum("ij,ij->i", y, y)
            return np.exp(np.minimum(products, 0, out=products), out=products)
        if self.name == "poly":
            products *= gamma
            products += self.coef0
            return np.power(products, self.degree, out=products)
        return products


@dataclass(frozen=True, eq=False)
class NystromMap:
    """φ̃(x) = whitenerᵀ κ̃(x): explicit features whose inner products are the kernel's, on the landmarks' span.

    Rows whose kernel function lies in the span of the landmarks' (the landmarks themselves, or all rows of a fit whose
    rows are the landmarks) keep their kernel values exactly (Williams & Seeger 2001).
    """

    kernel: Kernel
    landmarks: NDArray[Any]
    """`[m, d]`"""
    whitener: Array
    """`[m, r]` V Λ^(−1/2) of the landmarks' Gram matrix, without what is zero to rounding."""

    @classmethod
    def of(cls, kernel: Kernel, landmarks: NDArray[Any]) -> "NystromMap":
        """Whiten the landmarks' Gram matrix.

        Raises
        ------
        RankError : the Gram matrix is zero to rounding
        """
        values, vectors = np.linalg.eigh(kernel.gram(landmarks, landmarks))
        kept = np.flatnonzero(values > max(values[-1], 0) * len(values) * EPS * 10)[::-1]
        if not len(kept):
            raise RankError("the landmarks' kernel matrix is zero: there are no features to erase from")
        vectors = vectors[:, kept]
        largest = np.argmax(np.abs(vectors), axis=0)
        vectors *= np.where(vectors[largest, np.arange(len(kept))] < 0, -1.0, 1.0)
        return cls(kernel, landmarks, vectors / np.sqrt(values[kept]))

    @property
    def width(self) -> int:
        """Features r."""
        return int(self.whitener.shape[1])

    def __call__(self, x: NDArray[Any]) -> Array:
        """Map rows `[n, d]` to features `[n, r]`, block by block."""
        features = np.empty((len(x), self.width))
        for start in range(0, len(x), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            features[rows] = self.kernel.gram(x[rows], self.landmarks) @ self.whitener
        return features
