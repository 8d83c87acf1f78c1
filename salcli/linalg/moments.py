"""`CrossMoments`: the statistics of X and Z that fitting needs, which can be added up over any split of the rows."""

import io
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, ShapeError
from salcli.linalg.class_sums import GroupedSums, Grouping, RowSums, ScatterSums
from salcli.linalg.decompositions import norm, singular_values
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.relabelled import LabelMap

Array = NDArray[np.float64]
Read = Callable[[int], Iterable[tuple[NDArray[Any], LabelMatrix]]]
CLEARLY = 8.0  # least multiple of the bound on rounding
EPS, HALF_EPS32 = float(np.finfo(np.float64).eps), 2.0**-24


class Statistics(Protocol):
    """Statistics of rows x and their labels z that a method needs: a monoid, so that any split of the rows will do."""

    may_group: ClassVar[bool]
    """Whether float32 rows may be added up in groups first (see `Grouping`)."""

    @property
    def n(self) -> int:
        """Rows added so far."""

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Return the neutral element of `+`, for rows of `d` dimensions and `c` columns of labels."""

    @classmethod
    def of_batches(cls, read: Read, d: int, c: int, *, grouping: Grouping | None = None) -> Self:
        """Return the statistics of rows that come in batches, the same to the last bit for any batch sizes.

        Parameters
        ----------
        read : called with the most rows a batch should have; returns batches x `[b, d]` (which may share one buffer),
            each with the labels of its rows
        d, c : columns of x and of the labels
        grouping : add up in such float32 groups first; None: float64 throughout
        """

    def add(self, x: NDArray[Any], z: NDArray[Any]) -> Self:
        """Return the statistics with further rows `x` `[n, d]` and their labels `z` `[n, c]`."""

    def __add__(self, other: Self) -> Self:
        """Return the statistics of the rows of both."""

    def relabelled(self, labels: LabelMap) -> Self:
        """Return the statistics of the same rows with the labels that `labels` makes of theirs."""

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite: NaN and Inf in a row propagate to them."""

    def is_accurate_enough(self, *, is_centred: bool = True) -> bool:
        """Return whether rounding is small enough; otherwise the rows are added up again without groups.

        Parameters
        ----------
        is_centred : the fit uses the centred cross-covariance
        """

    @property
    def n_sums(self) -> int:
        """Number of sums: a partition has several times as many numbers, so that `+` costs little."""

    def to_bytes(self) -> bytes:
        """Return the statistics as bytes, which are the same on every machine."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the statistics from `data`, which `to_bytes` returned."""


def _leg(hypotenuse: float, other: float) -> float:
    """Return √(c² − a²), and 0 where rounding makes a > c."""
    return math.sqrt(hypotenuse - other) * math.sqrt(hypotenuse + other) if hypotenuse > other else 0.0


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """Count, means and centred co-moments of rows x ∈ ℝᵈ and z ∈ ℝᶜ, in float64."""

    may_group: ClassVar[bool] = True
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
        """Return the neutral element of `+` (see `Statistics.zero`)."""
        return cls(0, np.zeros(d), np.zeros(c), np.zeros((d, c)), 0.0, 0.0)

    @classmethod
    def of(cls, x: NDArray[Any], z: NDArray[Any] | LabelMatrix) -> Self:
        """Return the moments of rows in memory.

        Parameters
        ----------
        x : `[n, d]` of any float dtype
        z : `[n, c]`, dense or by its entries

        Raises
        ------
        ShapeError : x and z differ in rows
        """
        labels = as_label_matrix(x, z)
        return cls.of_batches(in_memory(x, labels), x.shape[1], labels.width)

    @classmethod
    def of_batches(cls, read: Read, d: int, c: int, *, grouping: Grouping | None = None) -> Self:
        """Return the moments of rows that come in batches (see `Statistics`)."""
        sums: RowSums | None = None
        for x, z in read(grouping.block_rows(d) if grouping else RowSums.best_rows(d)):
            if sums is None:
                plain = RowSums(d, c, n_one_hot=z.n_one_hot, anchor=_anchor(x))
                sums = GroupedSums(d, c, grouping) if grouping else plain
            sums.add(x, z)
        return cls.zero(d, c) if sums is None else cls.of_sums(sums)

    def add(self, x: NDArray[Any], z: NDArray[Any]) -> Self:
        """Return the moments with further rows (see `of`)."""
        return self + self.of(x, z)

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        return math.isfinite(self.root_x) and bool(np.isfinite(self.mean_x).all() and np.isfinite(self.comoment).all())

    @property
    def n_sums(self) -> int:
        """Entries of the co-moment."""
        return self.comoment.size

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(CrossMoments)}

    def to_bytes(self) -> bytes:
        """Return the moments as the bytes of an `.npz`."""
        return packed(self.to_dict())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the moments from `data`, which `to_bytes` returned."""
        values = unpacked(data)
        numbers = {"n": int(values["n"]), "most_grouped": int(values["most_grouped"])}
        values.pop("scatter", None)
        return cls(**{**values, **numbers, "root_x": float(values["root_x"]), "root_z": float(values["root_z"])})

    @classmethod
    def of_sums(cls, sums: RowSums) -> Self:
        """Return the moments of all rows that were added to `sums`."""
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

    def relabelled(self, labels: LabelMap) -> Self:
        """Return the moments of the same x and of the z' that `labels` makes of z: exact in real arithmetic."""
        mean_z, comoment = np.zeros(labels.width), np.zeros((len(self.mean_x), labels.width))
        if self.n:
            mean_z[labels.columns] = self.mean_z * labels.scales + labels.shifts
            comoment[:, labels.columns] = self.comoment * labels.scales
        grown = self.n * float(np.sum(labels.variances * (labels.scales**2 - 1)))
        root_z = math.sqrt(max(0.0, self.root_z**2 + grown))
        return replace(self, mean_z=mean_z, comoment=comoment, root_z=root_z)

    def require_finite(self) -> None:
        """Check that the sums of squares are finite in float64.

        Raises
        ------
        RangeError : they are not
        """
        roots = (self.root_x, self.root_z, norm(self.mean_x), norm(self.mean_z))
        if not math.isfinite(sum(root * root for root in roots)):
            raise RangeError(
                f"squares of values (mean up to {np.max(np.abs(self.mean_x), initial=0):.3g}) pass the range of "
                "float64: scale the embeddings, or numeric labels, down"
            )

    def cross_covariance(self, *, is_centred: bool = True) -> Array:
        """Return Ω `[d, c]`, (1/n) Σ (x − mean)(z − mean)ᵀ.

        Parameters
        ----------
        is_centred : False: uncentred, (1/n) Σ x zᵀ, as in the paper's experiments
        """
        centred = self.comoment / self.n
        return centred if is_centred else centred + np.outer(self.mean_x, self.mean_z)

    def rounding_floor(self, *, of_groups: bool = True) -> float:
        """Return a bound on what rounding alone can add to a singular value of Ω.

        It is 64 eps · rms‖x‖ · rms‖z‖, and more with groups: a sum of m float32 numbers is right to m · 2⁻²⁴ times the
        sum of their sizes (Higham 2002, eq. 4.4). Summed over the groups of class c that is n · mean(|x| z_c), which is
        at most n · √(mean(x² z_c) · mean(z_c)), and so the error of Ω at most m · 2⁻²⁴ · rms‖x‖ · √(share of the
        largest class), and as much again by centring.

        Parameters
        ----------
        of_groups : add the bound for float32 groups too
        """
        rms_x = math.hypot(self.root_x / math.sqrt(self.n), norm(self.mean_x))
        rms_z = math.hypot(self.root_z / math.sqrt(self.n), norm(self.mean_z))
        floor = 64 * EPS * rms_x * rms_z
        if of_groups and self.most_grouped:
            floor += 2 * self.most_grouped * HALF_EPS32 * rms_x * math.sqrt(float(self.mean_z.max()))
        return floor

    def is_accurate_enough(self, *, is_centred: bool = True) -> bool:
        """Return whether Ω is accurate enough, in spite of float32 groups, for its rank and its directions.

        Every singular value must be well above the bound on rounding, or zero to float64's own rounding (as one is for
        centred classes, which add up to 1).

        Parameters
        ----------
        is_centred : judge the centred Ω
        """
        if not self.most_grouped:
            return True
        omega = self.cross_covariance(is_centred=is_centred)
        if not np.isfinite(omega).all():
            return False
        s = singular_values(omega)
        is_clear = s > CLEARLY * self.rounding_floor()
        return bool(np.all(is_clear | (s <= self.rounding_floor(of_groups=False))))


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """`CrossMoments` and the scatter matrix of x: all that whitening methods (LEACE) need."""

    may_group: ClassVar[bool] = False  # squares of rows lose too much in float32
    cross: CrossMoments
    scatter: Array
    """`[d, d]` Σ (x − mean_x)(x − mean_x)ᵀ"""

    @property
    def n(self) -> int:
        """Rows added so far."""
        return self.cross.n

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Return the neutral element of `+` (see `Statistics.zero`)."""
        return cls(CrossMoments.zero(d, c), np.zeros((d, d)))

    @classmethod
    def of(cls, x: NDArray[Any], z: NDArray[Any] | LabelMatrix) -> Self:
        """Return the moments of rows in memory (see `CrossMoments.of`)."""
        labels = as_label_matrix(x, z)
        return cls.of_batches(in_memory(x, labels), x.shape[1], labels.width)

    @classmethod
    def of_batches(cls, read: Read, d: int, c: int, *, grouping: Grouping | None = None) -> Self:
        """Return the moments of rows that come in batches, always in float64 (see `Statistics`)."""
        assert grouping is None
        sums: ScatterSums | None = None
        anchor = np.zeros(d)
        for x, z in read(ScatterSums.best_rows(d)):
            if sums is None:
                anchor = x[0].astype(np.float64)
                sums = ScatterSums(d, c, n_one_hot=z.n_one_hot, anchor=anchor)
            sums.add(x, z)
        if sums is None:
            return cls.zero(d, c)
        cross = CrossMoments.of_sums(sums)
        off = cross.mean_x - anchor
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(cross, sums.scatter() - cross.n * np.outer(off, off))

    def add(self, x: NDArray[Any], z: NDArray[Any]) -> Self:
        """Return the moments with further rows (see `Statistics.add`)."""
        return self + self.of(x, z)

    def __add__(self, other: Self) -> Self:
        """Return the moments of both sets of rows (Chan, Golub & LeVeque 1983)."""
        if self.scatter.shape != other.scatter.shape:
            raise ShapeError(f"moments of shape {self.scatter.shape} and {other.scatter.shape} do not add up")
        if self.n == 0 or other.n == 0:
            return self if other.n == 0 else other
        step = other.cross.mean_x - self.cross.mean_x
        weight = self.n * (other.n / (self.n + other.n))
        return type(self)(self.cross + other.cross, self.scatter + other.scatter + weight * np.outer(step, step))

    def relabelled(self, labels: LabelMap) -> Self:
        """Return the moments with other labels (see `CrossMoments.relabelled`)."""
        return replace(self, cross=self.cross.relabelled(labels))

    def is_accurate_enough(self, *, is_centred: bool = True) -> bool:  # noqa: ARG002 (the protocol has it)
        """Return True: all sums are float64 (see `Statistics.is_accurate_enough`)."""
        return True

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        return self.cross.is_finite and bool(np.isfinite(self.scatter).all())

    @property
    def n_sums(self) -> int:
        """Entries of the co-moment and of the scatter matrix."""
        return self.cross.n_sums + self.scatter.size

    def covariance(self) -> Array:
        """Return Σ_xx `[d, d]`: (1/n) Σ (x − mean)(x − mean)ᵀ."""
        return self.scatter / self.n

    def to_bytes(self) -> bytes:
        """Return the moments as the bytes of an `.npz`."""
        return packed({**self.cross.to_dict(), "scatter": self.scatter})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the moments from `data`, which `to_bytes` returned."""
        return cls(CrossMoments.from_bytes(data), unpacked(data)["scatter"])


def as_label_matrix(x: NDArray[Any], z: NDArray[Any] | LabelMatrix) -> LabelMatrix:
    """Return `z` `[n, c]` as a label matrix, after checking that it has a row for each row of `x` `[n, d]`.

    Raises
    ------
    ShapeError : x is not a matrix, or x and z differ in rows
    """
    labels = z if isinstance(z, LabelMatrix) else LabelMatrix.of(z)
    if x.ndim != 2 or len(x) != len(labels):
        raise ShapeError(f"x {x.shape} and z {(len(labels), labels.width)} are not [n, d] and [n, c]")
    return labels


def in_memory(x: NDArray[Any], z: LabelMatrix) -> Read:
    """Return a function of n that yields `x` `[m, d]` and its labels `z` `[m, c]`, both in memory, n rows at a time."""
    return lambda rows: ((x[i : i + rows], z.take(slice(i, i + rows))) for i in range(0, len(x), rows))


def _anchor(x: NDArray[Any]) -> Array | None:
    """Return what is subtracted from all rows: the first of them, or None where float64 is exact enough without.

    Means may be far larger than the signal: a sum of float64 values then loses the signal's digits, unless a value near
    the mean is subtracted first. Values of 32 bits and fewer leave 29 of float64's bits unused.
    """
    return x[0].astype(np.float64) if x.dtype.itemsize > 4 else None


def packed(values: dict[str, Any]) -> bytes:
    """Return arrays and numbers `values`, by name, as the bytes of an `.npz`."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: np.asarray(value) for name, value in values.items()})
    return buffer.getvalue()


def unpacked(data: bytes) -> dict[str, Any]:
    """Return the fields of `CrossMoments`, and a scatter, from `data` that `packed` returned."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        names = (*(field.name for field in fields(CrossMoments)), "scatter")
        return {name: file[name] for name in names if name in file.files}
