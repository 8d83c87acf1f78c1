"""`CrossMoments`: what fitting needs to know of X and Z, as a monoid that folds over any split of the rows."""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, ShapeError

Array = NDArray[np.float64]
BLOCK_ROWS = 1024
PROVISIONAL_ROWS = 32
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
    power_x: float
    """Σ ‖x − mean_x‖²"""
    power_z: float
    """Σ ‖z − mean_z‖²"""

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Give the neutral element of `+`."""
        return cls(0, np.zeros(d), np.zeros(c), np.zeros((d, c)), 0.0, 0.0)

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
        with np.errstate(over="ignore", invalid="ignore"):  # `require_finite` refuses what overflowed
            return reduce(cls.__add__, blocks, cls.zero(x.shape[1], z.shape[1]))

    @classmethod
    def _of_block(cls, x: NDArray[Any], z: NDArray[Any]) -> Self:
        n = len(x)
        mean_z = z.mean(axis=0, dtype=np.float64)
        # Means may be far larger than the signal, so products are taken about a mean: a provisional one, of a few rows,
        # is near enough. What it is off by comes back in the column of ones, and is put right exactly.
        deviation = x.astype(np.float64)
        provisional = deviation[:PROVISIONAL_ROWS].mean(axis=0)
        deviation -= provisional
        with_ones = np.column_stack([z - mean_z, np.ones(n)])
        products = deviation.T @ with_ones
        off = products[:, -1] / n
        centred_z, flat = with_ones[:, :-1], deviation.reshape(-1)
        return cls(
            n,
            provisional + off,
            mean_z,
            products[:, :-1] - np.outer(off, centred_z.sum(axis=0)),
            float(np.maximum(flat @ flat - n * (off @ off), 0.0)),
            float(np.sum(centred_z**2)),
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
            self.power_x + other.power_x + weight * float(step_x @ step_x),
            self.power_z + other.power_z + weight * float(step_z @ step_z),
        )

    def require_finite(self) -> None:
        """Refuse moments whose sums of squares have passed float64.

        Raises
        ------
        RangeError : they have
        """
        with np.errstate(over="ignore"):
            power = self.power_x + self.power_z + self.mean_x @ self.mean_x + self.mean_z @ self.mean_z
        if not np.isfinite(power):
            raise RangeError(
                f"squares of values (mean up to {np.max(np.abs(self.mean_x), initial=0):.3g}) pass the range of "
                "float64: scale the embeddings, or numeric labels, down"
            )

    def cross_covariance(self, *, is_centred: bool = True) -> Array:
        """Ω `[d, c]`: (1/n) Σ (x − mean)(z − mean)ᵀ, or uncentred (1/n) Σ x zᵀ as in the paper's experiments."""
        centred = self.comoment / self.n
        return centred if is_centred else centred + np.outer(self.mean_x, self.mean_z)

    def rounding_floor(self) -> float:
        """Bound what rounding alone can put into a singular value of Ω: 64 eps · rms‖x‖ · rms‖z‖."""
        rms_x = np.hypot(np.sqrt(self.power_x / self.n), np.linalg.norm(self.mean_x))
        rms_z = np.hypot(np.sqrt(self.power_z / self.n), np.linalg.norm(self.mean_z))
        return float(64 * EPS * rms_x * rms_z)
