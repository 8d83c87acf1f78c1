"""`Whitening`: W = Σ_xx^(−1/2) and its inverse, which LEACE and SPLINCE measure covariances in."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RankError
from salcli.linalg.decompositions import numerical_rank, symmetric_eigen, thin_svd
from salcli.linalg.moments import CrossMoments, SecondMoments

Array = NDArray[np.float64]
LEAST_EIGENVALUE = 1e-7  # of the largest: smaller ones are raised to it, so that W is invertible and W⁻¹ W = I


@dataclass(frozen=True, eq=False)
class Whitening:
    """W = V diag(1 / root) Vᵀ. Eigenvalues of Σ_xx are raised where they are small, never cut: W⁻¹ W = I.

    Constant columns have exact zeros in both products: an erased row would otherwise have, in such a column, a multiple
    of the coordinate that is removed, as small as rounding but readable.
    """

    vectors: Array
    """`[d, d]` V, eigenvectors of Σ_xx as columns."""
    root: Array
    """`[d]` square roots of its eigenvalues, descending."""
    varies: NDArray[np.bool_]
    """`[d]` which columns are not constant."""

    @classmethod
    def of(cls, moments: SecondMoments, shrinkage: float = 0.0) -> Self:
        """Return the whitening of rows.

        Parameters
        ----------
        moments : of X [n, d] and Z [n, c]
        shrinkage : share s in [0, 1] of the way from Σ_xx to (tr Σ_xx / d) I, for few rows in many dimensions

        Raises
        ------
        RankError : the rows do not vary
        """
        covariance = moments.covariance()
        values, vectors = symmetric_eigen(covariance)
        if shrinkage:
            values = (1 - shrinkage) * values + shrinkage * values.mean()
        values = np.maximum(values, LEAST_EIGENVALUE * values[0])
        if values[0] <= 0:
            raise RankError(f"zero covariance (rank 0): the embeddings do not vary on these {moments.n:,} rows")
        return cls(vectors, np.sqrt(values), np.diagonal(covariance) > 0)

    def __call__(self, columns: Array) -> Array:
        """Return W times `columns` `[d, c]`."""
        whitened: Array = self.vectors @ ((self.vectors.T @ columns) / self.root[:, None])
        whitened[~self.varies] = 0
        return whitened

    def inverse(self, columns: Array) -> Array:
        """Return W⁻¹ times `columns` `[d, c]`."""
        unwhitened: Array = self.vectors @ ((self.vectors.T @ columns) * self.root[:, None])
        unwhitened[~self.varies] = 0
        return unwhitened

    def covarying(self, covariance: Array, cross: CrossMoments) -> tuple[Array, Array, int, float]:
        """Return the directions in which whitened rows covary with labels: the left singular vectors of W Σ_xz.

        Parameters
        ----------
        covariance : `[d, c]` Σ_xz
        cross : the moments that it is of, which bound its rounding

        Returns
        -------
        directions `[d, m]`, their singular values `[m]`, the rank, and what rounding may add to a singular value
        """
        whitened = self(covariance)
        u, s, _ = thin_svd(whitened)
        floor = cross.rounding_floor() / float(self.root[-1])  # rounding of Σ_xz, multiplied by at most ‖W‖
        return u, s, numerical_rank(s, whitened.shape, floor), floor


def require_rank(rank: int, s: Array, floor: float, n: int) -> None:
    """Check that rows covary with the guarded labels.

    Parameters
    ----------
    rank, s, floor : as `Whitening.covarying` returns them
    n : rows

    Raises
    ------
    RankError : they do not
    """
    if rank == 0:
        raise RankError(
            f"zero covariance (rank 0): the embeddings do not vary with the labels on these {n:,} rows "
            f"(largest singular value {s[0] if len(s) else 0.0:.3g}, of which rounding may be {floor:.3g}); "
            "there is nothing to remove"
        )
