"""Sums of rows and of their squares by class, each row with a weight, which may be negative."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.linalg.blas import subtract_product
from salcli.linalg.class_sums import RowSums, ScatterSums
from salcli.linalg.decompositions import symmetric_eigen
from salcli.linalg.label_matrix import LabelMatrix

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
        self._scatters = np.zeros((width, d, d))

    def _sum_up(self, x: NDArray[Any], z: LabelMatrix) -> None:
        super()._sum_up(x, z)
        weights = (z if z.columns.shape[1] == z.width else z.to_dense()).values
        assert weights is not None
        for scatter, w in zip(self._scatters, weights.T, strict=False):  # the last column is of ones
            rows = x[w != 0]
            subtract_product(scatter, (rows * w[w != 0, None]).T, rows, times=-1.0)

    def covariances(self) -> Array:
        """Return Σ w x xᵀ − m mᵀ, m = Σ w x, `[c, d, d]` of each class, w with sum 1, of all rows added so far.

        What weights below 0 make negative is left out. Squares are not centred until the end, so rows are best measured
        from near their mean.
        """
        totals = self.totals()
        found = self._scatters / totals.sum_z[:, None, None]
        for covariance, mean in zip(found, totals.sum_zx / totals.sum_z[:, None], strict=True):
            covariance -= np.outer(mean, mean)
            values, vectors = symmetric_eigen((covariance + covariance.T) / 2)
            covariance[:] = (vectors * np.maximum(values, 0)) @ vectors.T
        return found
