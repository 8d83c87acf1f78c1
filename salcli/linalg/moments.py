"""`CrossMoments`: what fitting needs to know of X and Z, as a monoid that folds over any split of the rows."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, ShapeError
from salcli.linalg.class_sums import GroupedSums, RowSums, anchor_of
from salcli.linalg.decompositions import norm, singular_values
from salcli.linalg.label_matrix import SparseDesign

Array = NDArray[np.float64]
SPREAD_ELEMENTS = 1 << 22  # fewer numbers are added up sooner than threads are there
PART_ELEMENTS, PARTS = 1 << 23, 4  # of rows in memory, added up before they join the others
CLEARLY = 8.0  # so many times what rounding may be, at the very worst
EPS, HALF_EPS32 = float(np.finfo(np.float64).eps), 2.0**-24


class Spread(Protocol):
    """Like `map`, perhaps on threads."""

    def __call__(self, work: Callable[[slice], RowSums], parts: Iterable[slice], /) -> Iterable[RowSums]:
        """Give `work` of each part, in order."""


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
    most_grouped: int = 0
    """The most rows that were added up in float32 before float64 took over; 0: none (see `RowSums`)."""

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Give the neutral element of `+`."""
        return cls(0, np.zeros(d), np.zeros(c), np.zeros((d, c)), 0.0, 0.0)

    @classmethod
    def of(
        cls, x: NDArray[Any], z: NDArray[Any] | SparseDesign, *, spread: Spread = map, is_grouped: bool = False
    ) -> "CrossMoments":
        """Take the moments of rows.

        Parameters
        ----------
        x : `[n, d]` of any float dtype
        z : `[n, c]`, dense or by its entries
        spread : maps parts of the rows to their sums, in order, perhaps on threads
        is_grouped : by groups in float32 (see `GroupedSums`; x float32, z one-hot)

        Raises
        ------
        ShapeError : x and z differ in rows
        """
        design = z if isinstance(z, SparseDesign) else SparseDesign.of(z)
        if x.ndim != 2 or len(x) != len(design):
            raise ShapeError(f"x {x.shape} and z {(len(design), design.width)} are not [n, d] and [n, c]")
        anchor = anchor_of(x)

        def zero() -> RowSums:
            if is_grouped:
                return GroupedSums(x.shape[1], design.width)
            return RowSums(x.shape[1], design.width, n_one_hot=design.n_one_hot, anchor=anchor)

        def sums_of(part: slice) -> RowSums:
            sums, rows, step = zero(), x[part], at_once
            sums.add((rows[i : i + step] for i in range(0, len(rows), step)), design.take(part))
            return sums

        is_spread, at_once = x.size >= SPREAD_ELEMENTS, zero().rows_at_once
        wanted = min(PART_ELEMENTS // max(1, x.shape[1]), -(-len(x) // PARTS)) if is_spread else len(x)
        rows = -(-max(1, wanted) // at_once) * at_once
        parts = [slice(start, start + rows) for start in range(0, len(x), rows)]
        every = iter((spread if is_spread else map)(sums_of, parts or [slice(0, 0)]))
        total = next(every)
        for sums in every:
            total += sums
        return cls.of_sums(total)

    @classmethod
    def of_sums(cls, sums: RowSums) -> Self:
        """Take the moments of all rows that were added up."""
        n, anchor, sum_x, sum_z, sum_zx, root_x, root_z, most_grouped = sums.totals()
        if n == 0:
            return cls.zero(len(sum_x), len(sum_z))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by `require_finite`
            off, mean_z = sum_x / n, sum_z / n
            return cls(
                n,
                off if anchor is None else anchor + off,
                mean_z,
                sum_zx.T - np.outer(sum_x, mean_z),
                _leg(root_x, math.sqrt(n) * norm(off)),
                _leg(root_z, math.sqrt(n) * norm(mean_z)),
                most_grouped,
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
            math.hypot(self.root_x, other.root_x, math.sqrt(weight) * norm(step_x)),
            math.hypot(self.root_z, other.root_z, math.sqrt(weight) * norm(step_z)),
            max(self.most_grouped, other.most_grouped),
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

    def rounding_floor(self, *, of_groups: bool = True) -> float:
        """Bound what rounding alone can put into a singular value of Ω: 64 eps · rms‖x‖ · rms‖z‖, more with groups.

        A sum of m float32 numbers is right to m · 2⁻²⁴ times the sum of their sizes (Higham 2002, eq. 4.4). Summed over
        the groups of class c that is n · mean(|x| z_c), which is at most n · √(mean(x² z_c) · mean(z_c)), and so the
        error of Ω at most m · 2⁻²⁴ · rms‖x‖ · √(share of the largest class), and as much again by centring.
        """
        rms_x = math.hypot(self.root_x / math.sqrt(self.n), norm(self.mean_x))
        rms_z = math.hypot(self.root_z / math.sqrt(self.n), norm(self.mean_z))
        floor = 64 * EPS * rms_x * rms_z
        if of_groups and self.most_grouped:
            floor += 2 * self.most_grouped * HALF_EPS32 * rms_x * math.sqrt(float(self.mean_z.max()))
        return floor


def is_settled(moments: CrossMoments, *, is_centred: bool = True) -> bool:
    """Tell whether float32 groups in the sums leave no doubt about Ω: its rank, and the directions that count.

    Every singular value must stand well above what rounding may have put there, or be zero to float64's own rounding
    (as one is for centred classes, which add up to 1).
    """
    omega = moments.cross_covariance(is_centred=is_centred)
    if not np.isfinite(omega).all():
        return False
    s = singular_values(omega)
    is_clear = s > CLEARLY * moments.rounding_floor()
    return bool(np.all(is_clear | (s <= moments.rounding_floor(of_groups=False))))
