"""`CrossMoments`: what fitting needs to know of X and Z, as a monoid that folds over any split of the rows."""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ShapeError

Array = NDArray[np.float64]
BLOCK_ROWS = 1024
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """Count, means and centred co-moments of rows x ∈ ℝᵈ and z ∈ ℝᶜ, in float64."""

    n: int
    """Rows folded in so far."""
    mean_x: Array
    """`[d]` (1/n) Σ x"""
    mean_z: Array
    """`[c]` (1/n) Σ z"""
    comoment: Array
    """`[d, c]` Σ (x − mean_x)(z − mean_z)ᵀ"""
    squares_x: Array
    """`[d]` Σ (x − mean_x)²"""
    squares_z: Array
    """`[c]` Σ (z − mean_z)²"""

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Give the neutral element of `+`."""
        return cls(0, np.zeros(d), np.zeros(c), np.zeros((d, c)), np.zeros(d), np.zeros(c))

    @classmethod
    def of(cls, x: NDArray[Any], z: NDArray[Any]) -> Self:
        """Take the moments of rows, block by block, each about its own mean.

        Parameters
        ----------
        x : `[n, d]` of any float dtype
        z : `[n, c]`

        Raises
        ------
        ShapeError : x and z differ in rows
        """
        if x.ndim != 2 or z.ndim != 2 or len(x) != len(z):
            raise ShapeError(f"x {x.shape} and z {z.shape} are not [n, d] and [n, c]")
        blocks = (
            cls._of_block(x[start : start + BLOCK_ROWS], z[start : start + BLOCK_ROWS])
            for start in range(0, len(x), BLOCK_ROWS)
        )
        return reduce(cls.__add__, blocks, cls.zero(x.shape[1], z.shape[1]))

    @classmethod
    def _of_block(cls, x: NDArray[Any], z: NDArray[Any]) -> Self:
        n = len(x)
        mean_z = z.mean(axis=0, dtype=np.float64)
        mean_x = x.mean(axis=0, dtype=np.float64)
        deviation = np.subtract(x, mean_x, dtype=np.float64)
        # A mean is rounded to eps·|mean|, which is not small beside the signal when means are large. The column of
        # ones brings back what the rounding left over, so that both the mean and the co-moment can be put right.
        with_ones = np.column_stack([z - mean_z, np.ones(n)])
        products = deviation.T @ with_ones
        left_over = products[:, -1] / n
        squares_x = np.einsum("ij,ij->j", deviation, deviation) - n * left_over**2
        centred_z = with_ones[:, :-1]
        return cls(
            n,
            mean_x + left_over,
            mean_z,
            products[:, :-1] - np.outer(left_over, centred_z.sum(axis=0)),
            np.maximum(squares_x, 0),
            np.einsum("ij,ij->j", centred_z, centred_z),
        )

    def __add__(self, other: Self) -> Self:
        """Merge the moments of disjoint rows: exact in real arithmetic (Chan, Golub & LeVeque 1983)."""
        if self.comoment.shape != other.comoment.shape:
            raise ShapeError(f"moments of shape {self.comoment.shape} and {other.comoment.shape} do not add up")
        if self.n == 0 or other.n == 0:
            return self if other.n == 0 else other
        n = self.n + other.n
        step_x, step_z = other.mean_x - self.mean_x, other.mean_z - self.mean_z
        weight = self.n * (other.n / n)
        return type(self)(
            n,
            self.mean_x + step_x * (other.n / n),
            self.mean_z + step_z * (other.n / n),
            self.comoment + other.comoment + weight * np.outer(step_x, step_z),
            self.squares_x + other.squares_x + weight * step_x**2,
            self.squares_z + other.squares_z + weight * step_z**2,
        )

    def cross_covariance(self, *, is_centred: bool = True) -> Array:
        """Ω `[d, c]`: (1/n) Σ (x − mean)(z − mean)ᵀ, or uncentred (1/n) Σ x zᵀ as in the paper's experiments."""
        centred = self.comoment / self.n
        return centred if is_centred else centred + np.outer(self.mean_x, self.mean_z)

    def rounding_floor(self) -> float:
        """Bound what rounding alone can put into a singular value of Ω: 64 eps · rms‖x‖ · rms‖z‖."""
        power_x = np.sum(self.squares_x) / self.n + np.sum(self.mean_x**2)
        power_z = np.sum(self.squares_z) / self.n + np.sum(self.mean_z**2)
        return float(64 * EPS * np.sqrt(power_x) * np.sqrt(power_z))
