"""LEACE: the least-squares concept erasure of Belrose et al. 2023 (Theorem 4.3), from streamed second moments.

x' = x − W⁻¹ P W (x − μ) with W = Σ_xx^(−1/2) and P the orthogonal projection on the column space of W Σ_xz. Of all
affine maps after which x' and z are uncorrelated it changes x least, in every norm that comes from an inner product.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.erasers.base import Fit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.spectrum import SpectralParameters, choose_k
from salcli.erasers.unit import fit_unit, require_unit, unit_option, unit_rounds_option
from salcli.erasers.whitening import Whitening, require_rank
from salcli.linalg.moments import SecondMoments
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress
from salcli.streaming.sums import fold


@dataclass(frozen=True)
class LEACEParameters(SpectralParameters):
    """How LEACE is fitted."""

    unit: bool = unit_option()
    unit_rounds: int = unit_rounds_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_unit(self)


class LEACEMethod:
    """Removes what is correlated with z by the smallest change of x; one pass over second moments (d² numbers)."""

    name = "leace"
    summary = "changes the embeddings least while it stops every linear classifier: for models that are not retrained"
    Parameters = LEACEParameters
    Statistics = SecondMoments

    def fit(
        self,
        rows: LabelledSource,
        parameters: LEACEParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has them)
        seed: int = 0,  # noqa: ARG002
        engine: Engine,
        progress: Progress,
    ) -> Fit[LinearEraser]:
        """Fit LEACE to labelled rows (see `Method.fit`, and `fit_leace` for what is raised)."""
        moments_of = partial(fold, rows, SecondMoments, engine)
        if parameters.unit:
            return fit_unit(moments_of, fit_leace, _covariance, rows.source.d, parameters.unit_rounds, progress)
        return self.fit_sums(moments_of(progress), rows.labels, parameters)

    def needs_sums_only(self, parameters: LEACEParameters) -> bool:
        """Return whether `parameters` need no class means that are equal after division, fit after fit."""
        return not parameters.unit

    def centres(self, parameters: LEACEParameters) -> bool:  # noqa: ARG002 (the protocol has it)
        """Return True (see `SummedMethod.centres`)."""
        return True

    def summed(self, labels: GuardedLabels) -> GuardedLabels:
        """Return the labels as they are (see `SummedMethod.summed`)."""
        return labels

    def fit_sums(
        self,
        statistics: SecondMoments,
        labels: GuardedLabels,  # noqa: ARG002 (the protocol has it)
        parameters: LEACEParameters,
    ) -> Fit[LinearEraser]:
        """Fit LEACE to moments (see `SummedMethod.fit_sums`, and `fit_leace` for what is raised)."""
        return replace(fit_leace(statistics, parameters.k, alpha=parameters.alpha), statistics=statistics)


METHOD = LEACEMethod()


def _covariance(moments: SecondMoments) -> NDArray[np.float64]:
    return moments.cross.cross_covariance()


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
    whitening = Whitening.of(moments)
    u, s, rank, floor = whitening.covarying(cross.cross_covariance(), cross)
    require_rank(rank, s, floor, cross.n)
    chosen, rule = choose_k(s, rank, k, alpha)
    directions = u[:, :chosen]
    return Fit(LinearEraser(cross.mean_x, whitening.inverse(directions), whitening(directions)), s, rank, rule)
