"""`WeightedMoments`: sums of rows and of their squares by class, each row with a weight, which may be negative."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ShapeError
from salcli.linalg.blas import subtract_product
from salcli.linalg.class_sums import Grouping, RowSums, ScatterSums
from salcli.linalg.decompositions import symmetric_eigen
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import Read, as_label_matrix, in_memory, packed, unpacked

Array = NDArray[np.float64]


class WeightedSums(RowSums):
    """Σ w x and Σ w x xᵀ of each class, of rows of Z with the weight w in the column of a class."""

    @staticmethod
    def best_rows(d: int) -> int:
        """Return how many rows of `d` dimensions make a block: half of those of `ScatterSums`, as a copy is divided."""
        return max(1, ScatterSums.best_rows(d) // 2)

    def __init__(self, d: int, width: int) -> None:
        """Start from zero (see `RowSums`)."""
        super().__init__(d, width)
        self.scatters = np.zeros((width, d, d))
        """Σ w x xᵀ, without the rows that still wait."""

    def _sum_up(self, x: NDArray[Any], z: LabelMatrix) -> None:
        super()._sum_up(x, z)
        weights = (z if z.columns.shape[1] == z.width else z.to_dense()).values
        assert weights is not None
        for scatter, w in zip(self.scatters, weights.T, strict=False):  # the last column is of ones
            rows = x[w != 0]
            subtract_product(scatter, (rows * w[w != 0, None]).T, rows, times=-1.0)


@dataclass(frozen=True, eq=False)
class WeightedMoments:
    """Sums of weighted rows by class, from an origin near the rows: squares are not centred until the end."""

    may_group: ClassVar[bool] = False
    n: int
    """Rows added so far."""
    weights: Array
    """`[c]` Σ w"""
    sums: Array
    """`[c, d]` Σ w x"""
    scatters: Array
    """`[c, d, d]` Σ w x xᵀ"""

    @classmethod
    def zero(cls, d: int, c: int) -> Self:
        """Return the neutral element of `+` (see `Statistics.zero`)."""
        return cls(0, np.zeros(c), np.zeros((c, d)), np.zeros((c, d, d)))

    @classmethod
    def of_batches(cls, read: Read, d: int, c: int, *, grouping: Grouping | None = None) -> Self:
        """Return the moments of rows that come in batches, always in float64 (see `Statistics`)."""
        assert grouping is None
        sums = WeightedSums(d, c)
        for x, z in read(WeightedSums.best_rows(d)):
            sums.add(x, z)
        totals = sums.totals()
        return cls(totals.n, totals.sum_z, totals.sum_zx, sums.scatters)

    def add(self, x: NDArray[Any], z: NDArray[Any]) -> Self:
        """Return the moments with further rows (see `Statistics.add`)."""
        labels = as_label_matrix(x, z)
        return self + self.of_batches(in_memory(x, labels), x.shape[1], labels.width)

    def __add__(self, other: Self) -> Self:
        """Return the moments of both sets of rows."""
        if self.scatters.shape != other.scatters.shape:
            raise ShapeError(f"moments of shape {self.scatters.shape} and {other.scatters.shape} do not add up")
        return type(self)(
            self.n + other.n,
            self.weights + other.weights,
            self.sums + other.sums,
            self.scatters + other.scatters,
        )

    def covariances(self) -> Array:
        """Return the weighted covariance `[c, d, d]` of each class, without what weights below 0 make negative."""
        means = self.sums / self.weights[:, None]
        found = self.scatters / self.weights[:, None, None]
        for covariance, mean in zip(found, means, strict=True):
            covariance -= np.outer(mean, mean)
            values, vectors = symmetric_eigen((covariance + covariance.T) / 2)
            covariance[:] = (vectors * np.maximum(values, 0)) @ vectors.T
        return found

    def is_accurate_enough(self, *, is_centred: bool = True) -> bool:  # noqa: ARG002 (the protocol has it)
        """Return True: all sums are float64 (see `Statistics.is_accurate_enough`)."""
        return True

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        return bool(np.isfinite(self.sums).all() and np.isfinite(self.scatters).all())

    @property
    def n_sums(self) -> int:
        """Entries of the sums."""
        return self.sums.size + self.scatters.size

    def to_bytes(self) -> bytes:
        """Return the moments as the bytes of an `.npz`."""
        return packed({"n": self.n, "weights": self.weights, "sums": self.sums, "scatters": self.scatters})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the moments from `data`, which `to_bytes` returned."""
        found = unpacked(data)
        return cls(int(found["n"]), found["weights"], found["sums"], found["scatters"])
