"""Spectral Attribute removaL: from moments to an eraser (Shao, Ziser & Cohen 2023, "The SAL Algorithm").

The directions are those that scikit-learn's `PLSSVD` calls `x_weights_`.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.erasers.auto_k import AUTO, Trial, parse_k, try_k
from salcli.erasers.base import Fit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.spectrum import ProjectionParameters, choose_k
from salcli.erasers.unit import fit_unit, require_unit, unit_option, unit_rounds_option
from salcli.errors import ParameterError, RankError
from salcli.linalg.decompositions import numerical_rank, thin_svd
from salcli.linalg.moments import CrossMoments
from salcli.options import option
from salcli.streaming.engine import Engine
from salcli.streaming.memory import release_freed_memory
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress
from salcli.streaming.sums import fold

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SALParameters(ProjectionParameters):
    """How SAL is fitted."""

    k: int | str | None = option(  # type: ignore[assignment]  # other methods have no auto
        None,
        "-k",
        "--k",
        help="Directions to remove; auto: the fewest after which a linear classifier is at chance on held-out rows of "
        "the fit; default: all of the rank.",
        metavar="N|auto",
        parse=parse_k,
    )
    unit: bool = unit_option()
    unit_rounds: int = unit_rounds_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.k, str) and self.k != AUTO:
            raise ParameterError("k", self.k, "expected a number of directions, or auto")
        require_unit(self, keeps_mean=self.keep_mean)


class SALMethod:
    """Removes the directions of X that covary most with Z; one pass."""

    name = "sal"
    summary = "the default: stops every linear classifier by removing as few directions as the labels span; fastest"
    Parameters = SALParameters
    Statistics = CrossMoments

    def fit(
        self,
        rows: LabelledSource,
        parameters: SALParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has it)
        seed: int = 0,
        engine: Engine,
        progress: Progress,
    ) -> Fit[LinearEraser]:
        """Fit SAL to labelled rows (see `Method.fit`, and `fit_sal` for what is raised)."""
        moments_of = partial(fold, rows, CrossMoments, engine)
        if parameters.unit:
            return fit_unit(
                moments_of, fit_sal, CrossMoments.cross_covariance, rows.source.d, parameters.unit_rounds, progress
            )
        trial = _trial(rows, parameters, seed, engine, progress) if parameters.k == AUTO else None
        chosen = parameters if trial is None else replace(parameters, k=trial.k)
        fit = self.fit_sums(moments_of(progress, is_centred=parameters.center), rows.labels, chosen)
        return fit if trial is None else trial.recorded(fit)

    def needs_sums_only(self, parameters: SALParameters) -> bool:
        """Return whether `parameters` need neither a k by held-out rows nor class means equal after division."""
        return parameters.k != AUTO and not parameters.unit

    def centres(self, parameters: SALParameters) -> bool:
        """Return whether moments are centred by these `parameters`."""
        return parameters.center

    def summed(self, labels: GuardedLabels) -> GuardedLabels:
        """Return the labels as they are (see `SummedMethod.summed`)."""
        return labels

    def fit_sums(
        self,
        statistics: CrossMoments,
        labels: GuardedLabels,  # noqa: ARG002 (the protocol has it)
        parameters: SALParameters,
    ) -> Fit[LinearEraser]:
        """Fit SAL to moments (see `SummedMethod.fit_sums`, and `fit_sal` for what is raised)."""
        k, is_centred = parameters.k, parameters.center
        assert not isinstance(k, str)
        fit = fit_sal(statistics, k, alpha=parameters.alpha, is_centred=is_centred, keep_mean=parameters.keep_mean)
        return replace(fit, statistics=statistics)


METHOD = SALMethod()


def _trial(rows: LabelledSource, parameters: SALParameters, seed: int, engine: Engine, progress: Progress) -> Trial:
    def fit(part: LabelledSource) -> Fit[LinearEraser]:
        moments = fold(part, CrossMoments, engine, progress, is_centred=parameters.center)
        return fit_sal(moments, is_centred=parameters.center)

    trial = try_k(rows, fit, seed, progress)
    release_freed_memory()  # of its rows
    return trial


def fit_sal(
    moments: CrossMoments,
    k: int | None = None,
    *,
    alpha: float | None = None,
    is_centred: bool = True,
    keep_mean: bool = False,
) -> Fit[LinearEraser]:
    """Fit an eraser of the k directions of X that covary most with Z (paper, "The SAL Algorithm").

    Parameters
    ----------
    moments : of X [n, d] and Z [n, c]
    k : left singular vectors of Ω to remove, 1 ≤ k ≤ rank(Ω); default: all rank(Ω) of them
    alpha : instead of k, the least k with σ₁/σₖ₊₁ > alpha, alpha ≥ 1
    is_centred : False takes Ω uncentred, as the paper's experiments do
    keep_mean : subtract UUᵀ(x − μ) instead of the paper's UUᵀx, which leaves the constant UUᵀμ on every row

    Returns
    -------
    Fit, whose eraser's directions [d, k] are orthonormal, the largest entry of each positive

    Raises
    ------
    RankError : Ω is zero to rounding, or k is above its rank; the message states the rank and the spectrum
    RangeError : values whose squares float64 cannot hold
    ParameterError : k < 1, alpha < 1, or both given
    """
    moments.require_finite()
    omega = moments.cross_covariance(is_centred=is_centred)
    u, s, _ = thin_svd(omega)
    floor = moments.rounding_floor()
    rank = numerical_rank(s, omega.shape, floor)
    if rank == 0:
        largest = s[0] if len(s) else 0.0
        raise RankError(
            f"zero covariance (rank 0): the embeddings do not vary with the labels on these {moments.n:,} rows "
            f"(largest singular value {largest:.3g}, of which rounding may be {floor:.3g}); there is nothing to remove"
        )
    chosen, rule = choose_k(s, rank, k, alpha)
    mean = moments.mean_x if keep_mean else np.zeros_like(moments.mean_x)
    directions = u[:, :chosen]
    directions[~omega.any(axis=1)] = 0  # exactly, or erased rows have the removed coordinate in constant columns
    return Fit(LinearEraser(mean, directions, directions), s, rank, rule, is_centred)
