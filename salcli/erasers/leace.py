"""LEACE: the least-squares concept erasure of Belrose et al. 2023 (Theorem 4.3), from streamed second moments.

x' = x − W⁻¹ P W (x − μ) with W = Σ_xx^(−1/2) and P the orthogonal projection on the column space of W Σ_xz. Of all
affine maps after which x' and z are uncorrelated it changes x least, in every norm that an inner product gives.
"""

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute
from salcli.erasers.base import Fit, SpectralParameters, choose_k
from salcli.erasers.linear import LinearEraser
from salcli.errors import RankError
from salcli.linalg.decompositions import numerical_rank, symmetric_eigen, thin_svd
from salcli.linalg.moments import SecondMoments
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource, fold
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]
LEAST_EIGENVALUE = 1e-7  # of the largest: smaller ones are raised to it, so that W is invertible and W⁻¹ W = I


class LEACEMethod:
    """Removes what is correlated with z by the smallest change of x; one pass over second moments (d² numbers)."""

    name = "leace"
    summary = "changes the embeddings least while it stops every linear classifier: for models that are not retrained"
    Parameters = SpectralParameters

    def fit(
        self,
        rows: LabelledSource,
        parameters: SpectralParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has them)
        seed: int = 0,  # noqa: ARG002
        engine: Engine,
        progress: Progress,
    ) -> Fit[LinearEraser]:
        """Fit LEACE to labelled rows (see `Method.fit`, and `fit_leace` for what is raised)."""
        moments = fold(rows.standardized(is_centred=True), SecondMoments, engine, progress)
        return fit_leace(moments, parameters.k, alpha=parameters.alpha)


METHOD = LEACEMethod()


def fit_leace(moments: SecondMoments, k: int | None = None, *, alpha: float | None = None) -> Fit[LinearEraser]:
    """Return the oblique projection of Belrose et al. 2023, Theorem 4.3.

    Eigenvalues of Σ_xx are floored, never cut: then W⁻¹ W = I and Cov(x', z) = 0 whatever the floor, also where labels
    vary along directions in which x hardly does.

    Parameters
    ----------
    moments : of X [n, d] and Z [n, c]
    k : left singular vectors of W Σ_xz to remove, 1 ≤ k ≤ rank; default: all, which is LEACE
    alpha : instead of k, the least k with σ₁/σₖ₊₁ > alpha, alpha ≥ 1

    Returns
    -------
    Fit, whose eraser has left = W⁻¹U and right = W U for orthonormal U [d, k], and keeps the mean

    Raises
    ------
    RankError : Σ_xz is zero to rounding, or k is above its rank
    RangeError : values whose squares float64 cannot hold
    ParameterError : k < 1, alpha < 1, or both given
    """
    cross = moments.cross
    cross.require_finite()
    values, vectors = symmetric_eigen(moments.covariance())
    values = np.maximum(values, LEAST_EIGENVALUE * values[0])
    if values[0] <= 0:
        raise RankError(f"zero covariance (rank 0): the embeddings do not vary on these {cross.n:,} rows")
    root = np.sqrt(values)
    whitened = vectors @ ((vectors.T @ cross.cross_covariance()) / root[:, None])  # W Σ_xz
    u, s, _ = thin_svd(whitened)
    floor = cross.rounding_floor() / root[-1]  # rounding of Σ_xz, multiplied by at most ‖W‖
    rank = numerical_rank(s, whitened.shape, floor)
    if rank == 0:
        raise RankError(
            f"zero covariance (rank 0): the embeddings do not vary with the labels on these {cross.n:,} rows "
            f"(largest singular value {s[0] if len(s) else 0.0:.3g}, of which rounding may be {floor:.3g}); "
            "there is nothing to remove"
        )
    chosen, rule = choose_k(s, rank, k, alpha)
    in_basis = vectors.T @ u[:, :chosen]
    left, right = vectors @ (in_basis * root[:, None]), vectors @ (in_basis / root[:, None])
    return Fit(LinearEraser(cross.mean_x, left, right), s, rank, rule)
