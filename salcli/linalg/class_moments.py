"""`ClassMoments`: the mean and the scatter of each class, for methods that model a class by a Gaussian."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ShapeError
from salcli.linalg.blas import add_gram, subtract_product
from salcli.linalg.class_sums import Grouping, RowSums, ScatterSums
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import CrossMoments, Read, as_label_matrix, in_memory, packed, unpacked
from salcli.linalg.relabelled import LabelMap

Array = NDArray[np.float64]


class ClassScatterSums(RowSums):
    """Σ (x − anchor)(x − anchor)ᵀ of each class beside the class sums, for rows with one class each."""

    @staticmethod
    def best_rows(d: int) -> int:
        """Return how many rows of `d` dimensions make a block: few beside the matrices of all classes."""
        return max(1, ScatterSums.best_rows(d) // 4)

    def __init__(self, d: int, width: int, *, anchor: Array) -> None:
        """Start from zero (see `RowSums`)."""
        super().__init__(d, width, n_one_hot=width, anchor=anchor)
        self._scatters = np.zeros((width, d, d))

    def _sum_up(self, x: NDArray[Any], z: LabelMatrix) -> None:
        super()._sum_up(x, z)
        codes = z.columns[:, 0] if z.values is None else np.argmax(z.values, axis=1)
        for code, scatter in enumerate(self._scatters):
            add_gram(scatter, x[codes == code])

    def scatters(self) -> Array:
        """Return Σ (x − anchor)(x − anchor)ᵀ of each class `[c, d, d]` over all rows added so far."""
        self._finish()
        for scatter in self._scatters:
            for i in range(1, len(scatter)):  # row by row, as there may be no memory for another such matrix
                scatter[:i, i] = scatter[i, :i]
        return self._scatters


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """`CrossMoments` of rows with one class each, and the scatter matrix of x in each class."""

    may_group: ClassVar[bool] = False  # squares of rows lose too much in float32
    cross: CrossMoments
    scatters: Array
    """`[c, d, d]` of class z: Σ (x − m_z)(x − m_z)ᵀ"""

    @property
    def n(self) -> int:
        """Rows added so far."""
        return self.cross.n

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """`[c]` rows of each class."""
        return np.rint(self.cross.mean_z * self.n).astype(np.int64)

    @cached_property
    def means(self) -> Array:
        """`[c, d]` m_z, the mean of each class; of one without rows, that of all rows."""
        means: Array = self.cross.mean_x + self.cross.comoment.T / np.maximum(self.counts, 1)[:, None]
        return means

    def covariances(self) -> Array:
        """Return C_z `[c, d, d]`: (1/n_z) Σ (x − m_z)(x − m_z)ᵀ over the rows of class z."""
        covariances: Array = self.scatters / np.maximum(self.counts, 1)[:, None, None]
        return covariances

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Return the neutral element of `+` (see `Statistics.zero`)."""
        return cls(CrossMoments.zero(d, c), np.zeros((c, d, d)))

    @classmethod
    def of(cls, x: NDArray[Any], z: NDArray[Any] | LabelMatrix) -> Self:
        """Return the moments of rows in memory (see `CrossMoments.of`); `z` is one-hot.

        Raises
        ------
        ShapeError : z is not one-hot
        """
        labels = as_label_matrix(x, z)
        if len(labels) and labels.n_one_hot != labels.width:
            raise ShapeError("moments of classes need one class for each row")
        return cls.of_batches(in_memory(x, labels), x.shape[1], labels.width)

    @classmethod
    def of_batches(cls, read: Read, d: int, c: int, *, grouping: Grouping | None = None) -> Self:
        """Return the moments of rows that come in batches, always in float64 (see `Statistics`)."""
        assert grouping is None
        sums: ClassScatterSums | None = None
        anchor = np.zeros(d)
        for x, z in read(ClassScatterSums.best_rows(d)):
            if sums is None:
                anchor = x[0].astype(np.float64)
                sums = ClassScatterSums(d, c, anchor=anchor)
            sums.add(x, z)
        if sums is None:
            return cls.zero(d, c)
        found = cls(CrossMoments.of_sums(sums), sums.scatters())
        with np.errstate(over="ignore", invalid="ignore"):
            for scatter, n, off in zip(found.scatters, found.counts, found.means - anchor, strict=True):
                _add_square(scatter, -n, off)
        return found

    def add(self, x: NDArray[Any], z: NDArray[Any]) -> Self:
        """Return the moments with further rows (see `Statistics.add`)."""
        return self + self.of(x, z)

    def __add__(self, other: Self) -> Self:
        """Return the moments of both sets of rows, class by class (Chan, Golub & LeVeque 1983)."""
        if self.scatters.shape != other.scatters.shape:
            raise ShapeError(f"moments of shape {self.scatters.shape} and {other.scatters.shape} do not add up")
        if self.n == 0 or other.n == 0:
            return self if other.n == 0 else other
        scatters = self.scatters + other.scatters
        weights = self.counts * (other.counts / np.maximum(self.counts + other.counts, 1))
        for scatter, weight, step in zip(scatters, weights, other.means - self.means, strict=True):
            _add_square(scatter, weight, step)
        return type(self)(self.cross + other.cross, scatters)

    def relabelled(self, labels: LabelMap) -> Self:
        """Return the moments with further classes, which have no row (see `CrossMoments.relabelled`)."""
        scatters = np.zeros((labels.width, *self.scatters.shape[1:]))
        scatters[labels.columns] = self.scatters
        return type(self)(self.cross.relabelled(labels), scatters)

    def is_accurate_enough(self, *, is_centred: bool = True) -> bool:  # noqa: ARG002 (the protocol has it)
        """Return True: all sums are float64 (see `Statistics.is_accurate_enough`)."""
        return True

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        return self.cross.is_finite and bool(np.isfinite(self.scatters).all())

    @property
    def n_sums(self) -> int:
        """Entries of the co-moment and of the scatter matrices."""
        return self.cross.n_sums + self.scatters.size

    def to_bytes(self) -> bytes:
        """Return the moments as the bytes of an `.npz`."""
        return packed({**self.cross.to_dict(), "scatter": self.scatters})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the moments from `data`, which `to_bytes` returned."""
        return cls(CrossMoments.from_bytes(data), unpacked(data)["scatter"])


def _add_square(scatter: Array, times: float, step: Array) -> None:
    """Add `times` step stepᵀ to `scatter` `[d, d]` in place."""
    row = np.ascontiguousarray(step)[None]
    subtract_product(scatter, times * row.T, row, times=-1.0)
