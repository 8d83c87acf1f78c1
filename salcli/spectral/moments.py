"""`CrossMoments`: what fitting needs to know of X and Z, as a monoid that folds over any split of the rows."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, ShapeError
from salcli.spectral.design import SparseDesign
from salcli.spectral.linalg import norm

Array = NDArray[np.float64]
WIDE_ELEMENTS = 1 << 17  # numbers widened to float64 at once: a MiB, about what a core's own cache holds
NARROW = 4  # up to so many columns of Z, a dense product is as fast as adding rows to their classes' sums
PART_ELEMENTS, PARTS = 1 << 22, 4  # of rows in memory, added up before they join the others
EPS = float(np.finfo(np.float64).eps)
LEAST_NARROW_POWER = 1e-30  # float32 squares that underflow are lost beside such a sum, but not in a smaller one


class Spread(Protocol):
    """Like `map`, perhaps on threads."""

    def __call__(self, work: Callable[[slice], "RowSums"], parts: Iterable[slice], /) -> Iterable["RowSums"]:
        """Give `work` of each part, in order."""


class RowSums:
    """Σ (x − anchor) zᵀ and what belongs to it, added up in float64, in place.

    Rows are taken in their order and always so many at once, whatever the batches they come in: the sums are the same
    to the last bit.
    """

    def __init__(self, d: int, width: int, *, n_one_hot: int = 0, anchor: Array | None = None) -> None:
        # Σ x comes with the classes' sums, if every row has a class; else a column of ones is added to Z.
        self._d, self._width, self._n_one_hot = d, width, n_one_hot
        self._sums = np.zeros((width + (n_one_hot == 0), d))
        self._anchor = anchor
        self._n, self._root_x, self._root_z = 0, 0.0, 0.0
        self._sum_z = np.zeros(len(self._sums))
        # Rows wait here, widened, and their rows of Z, until there are enough of them.
        self._wide = np.empty((max(1, WIDE_ELEMENTS // max(1, d)), d))
        self._waiting: list[SparseDesign] = []
        self._n_waiting = 0

    def add(self, x: NDArray[Any], z: SparseDesign) -> None:
        """Add rows: x `[n, d]` of any float dtype."""
        with np.errstate(over="ignore", invalid="ignore"):  # sums that are not finite are refused in the end
            self._root_z = math.hypot(self._root_z, z.norm)
            z = z if self._n_one_hot else z.with_ones()
            z.add_sums_to(self._sum_z)
            z = z.spelt_out() if z.width <= NARROW else z
            start = 0
            while start < len(x):
                stop = min(start + len(self._wide) - self._n_waiting, len(x))
                part, wide = x[start:stop], self._wide[self._n_waiting : self._n_waiting + stop - start]
                np.copyto(wide, part, casting="same_kind")
                if self._anchor is not None:
                    wide -= self._anchor
                self._root_x = math.hypot(self._root_x, self._root_of(part) or norm(wide))
                self._waiting.append(z.take(slice(start, stop)))
                self._n_waiting += stop - start
                if self._n_waiting == len(self._wide):
                    self._add_waiting()
                start = stop
            self._n += len(x)

    def _add_waiting(self) -> None:
        if self._n_waiting:
            SparseDesign.concatenated(self._waiting).add_products_to(self._sums, self._wide[: self._n_waiting])
            self._waiting, self._n_waiting = [], 0

    def _root_of(self, x: NDArray[Any]) -> float | None:
        """√Σ ‖x‖² in float32, if that will do: it only tells how large rounding may be. None if it will not."""
        if self._anchor is not None or x.dtype != np.float32 or not x.flags.c_contiguous:
            return None
        flat = x.reshape(-1)
        power = float(flat @ flat)
        return math.sqrt(power) if LEAST_NARROW_POWER < power < math.inf else None

    def __iadd__(self, other: Self) -> Self:
        """Add the sums of other rows, about the same anchor."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_waiting()
            other._add_waiting()
            self._sums += other._sums
        self._sum_z += other._sum_z
        self._n, self._root_x = self._n + other._n, math.hypot(self._root_x, other._root_x)
        self._root_z = math.hypot(self._root_z, other._root_z)
        return self

    @property
    def is_finite(self) -> bool:
        """Whether neither NaN nor Inf was added, nor squares that overflow."""
        return math.isfinite(self._root_x)

    def __len__(self) -> int:
        return self._n

    def moments(self) -> "CrossMoments":
        """Give the moments of all rows added so far."""
        if self._n == 0:
            return CrossMoments.zero(self._d, self._width)
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_waiting()
            return self._moments()

    def _moments(self) -> "CrossMoments":
        n, of_z = self._n, self._sums[: self._width]
        sum_x = of_z[: self._n_one_hot].sum(axis=0) if self._n_one_hot else self._sums[-1]
        off, mean_z = sum_x / n, self._sum_z[: self._width] / n
        return CrossMoments(
            n,
            off if self._anchor is None else self._anchor + off,
            mean_z,
            of_z.T - np.outer(sum_x, mean_z),
            _leg(self._root_x, math.sqrt(n) * norm(off)),
            _leg(self._root_z, math.sqrt(n) * norm(mean_z)),
        )


def _leg(hypotenuse: float, other: float) -> float:
    """√(c² − a²), and 0 where rounding makes a > c."""
    return math.sqrt(hypotenuse - other) * math.sqrt(hypotenuse + other) if hypotenuse > other else 0.0


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
    root_x: float
    """√Σ ‖x − mean_x‖²; its square is right to eps Σ ‖x‖² of the rows' own dtype."""
    root_z: float
    """√Σ ‖z − mean_z‖²"""

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Give the neutral element of `+`."""
        return cls(0, np.zeros(d), np.zeros(c), np.zeros((d, c)), 0.0, 0.0)

    @classmethod
    def of(cls, x: NDArray[Any], z: NDArray[Any], *, spread: Spread = map) -> "CrossMoments":
        """Take the moments of rows.

        Parameters
        ----------
        x : `[n, d]` of any float dtype
        z : `[n, c]`
        spread : maps parts of the rows to their sums, in order, perhaps on threads

        Raises
        ------
        ShapeError : x and z differ in rows
        """
        if x.ndim != 2 or z.ndim != 2 or len(x) != len(z):
            raise ShapeError(f"x {x.shape} and z {z.shape} are not [n, d] and [n, c]")
        design, anchor = SparseDesign.of(z), anchor_of(x)

        def sums_of(part: slice) -> RowSums:
            sums = RowSums(x.shape[1], z.shape[1], n_one_hot=design.n_one_hot, anchor=anchor)
            sums.add(x[part], design.take(part))
            return sums

        rows = max(1, min(PART_ELEMENTS // max(1, x.shape[1]), -(-len(x) // PARTS)))
        total = sums_of(slice(0, 0))
        for sums in spread(sums_of, [slice(start, start + rows) for start in range(0, len(x), rows)]):
            total += sums
        return total.moments()

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
            math.hypot(self.root_x, other.root_x, math.sqrt(weight) * norm(step_x)),
            math.hypot(self.root_z, other.root_z, math.sqrt(weight) * norm(step_z)),
        )

    def require_finite(self) -> None:
        """Refuse moments whose sums of squares have passed float64.

        Raises
        ------
        RangeError : they have
        """
        roots = (self.root_x, self.root_z, norm(self.mean_x), norm(self.mean_z))
        if not math.isfinite(sum(root * root for root in roots)):
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
        rms_x = math.hypot(self.root_x / math.sqrt(self.n), norm(self.mean_x))
        rms_z = math.hypot(self.root_z / math.sqrt(self.n), norm(self.mean_z))
        return 64 * EPS * rms_x * rms_z


def anchor_of(x: NDArray[Any]) -> Array | None:
    """Choose what rows are measured from: the first of them, or zero where float64 is exact enough without.

    Means may be far larger than the signal: a sum of float64 values then loses the signal's digits, unless they are
    taken from a value near the mean. Values of 32 bits and fewer leave 29 bits of room in a float64.
    """
    return None if x.dtype.itemsize <= 4 or not len(x) else x[0].astype(np.float64)
