"""SPLINCE: removes what LEACE removes, and keeps the covariance with the main task exactly.

Holstege, Ravfogel & Wouters, "Preserving Task-Relevant Information Under Linear Concept Removal", NeurIPS 2025. With
W = Σ_xx^(−1/2), A and B orthonormal bases of the columns of W Σ_xz (guarded) and W Σ_xy (task), and V one of the
columns of (I − BBᵀ)A:

    x' = x − W⁻¹ A (VᵀA)⁻¹ Vᵀ W (x − μ)

Then Cov(x', z) = 0 and Cov(x', y) = Cov(x, y), and of all such maps it changes whitened rows least. Of a model that is
trained afterwards without a penalty it changes nothing against LEACE: both have the same kernel.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, smallest_code
from salcli.erasers.base import Fit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.spectrum import SpectralParameters, choose_k
from salcli.erasers.unit import fit_unit, require_unit, unit_option, unit_rounds_option
from salcli.erasers.whitening import Whitening, require_rank
from salcli.errors import LabelError, RankError
from salcli.linalg.decompositions import thin_svd
from salcli.linalg.moments import SecondMoments
from salcli.options import option
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress
from salcli.streaming.sums import fold

Array = NDArray[np.float64]
LEAST_SINE = 0.05  # of the angle between task and guarded directions; at this value whitened rows can grow twentyfold
NOTHING_KEPT = (
    "the embeddings do not covary with the task {!r}: there is nothing to keep, and the eraser is that of leace"
)
NO_TASK = "there is no main task to keep, and the eraser is that of leace: give `task`"


@dataclass(frozen=True)
class SPLINCEParameters(SpectralParameters):
    """How SPLINCE is fitted."""

    task: str | None = option(
        None,
        help="Column of the main task's classes, whose covariance with the rows is kept.",
        metavar="COL",
        text=True,
    )
    shrinkage: float = option(
        0.0,
        help="Share of the way from Σ_xx to a multiple of I, for few rows in many dimensions.",
        metavar="S",
        bounds=(0, 1),
    )
    keep_mean: bool = option(
        True,
        off="--no-keep-mean",
        help="Set removed coordinates to their mean, for models that are not retrained, instead of 0.",
    )
    unit: bool = unit_option()
    unit_rounds: int = unit_rounds_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_unit(self)


class SPLINCEMethod:
    """Removes the covariance with z and keeps that with the task; one pass over second moments."""

    name = "splince"
    summary = "like leace, and keeps the covariance with a main task exactly: for task models that are not retrained"
    Parameters = SPLINCEParameters
    Statistics = SecondMoments

    def fit(
        self,
        rows: LabelledSource,
        parameters: SPLINCEParameters,
        *,
        task: Attribute | None = None,
        seed: int = 0,  # noqa: ARG002 (the protocol has it)
        engine: Engine,
        progress: Progress,
    ) -> Fit[LinearEraser]:
        """Fit SPLINCE to labelled rows (see `Method.fit`, and `fit_splince` for what is raised).

        Without a task nothing is kept but what leace keeps, which is a doubt.

        Raises
        ------
        LabelError : the task has one class
        """
        rows = rows if task is None else with_task(rows, task)
        n_guarded = _n_guarded(rows.labels)
        moments_of = partial(fold, rows, SecondMoments, engine)
        if not parameters.unit:
            return self.fit_sums(moments_of(progress), rows.labels, parameters)

        def fitted(moments: SecondMoments) -> Fit[LinearEraser]:
            return self.fit_sums(moments, rows.labels, parameters)

        def covariance(moments: SecondMoments) -> Array:
            return moments.cross.cross_covariance()[:, :n_guarded]

        fit = fit_unit(moments_of, fitted, covariance, rows.source.d, parameters.unit_rounds, progress)
        fit.header["projection"]["norm"] = projection_norm(fit.eraser.left, fit.eraser.right)
        return fit

    def needs_sums_only(self, parameters: SPLINCEParameters) -> bool:
        """Return whether `parameters` need no class means that are equal after division, fit after fit."""
        return not parameters.unit

    def centres(self, parameters: SPLINCEParameters) -> bool:  # noqa: ARG002 (the protocol has it)
        """Return True (see `SummedMethod.centres`)."""
        return True

    def summed(self, labels: GuardedLabels) -> GuardedLabels:
        """Return the labels, and the classes of a task as the last attribute (see `SummedMethod.summed`)."""
        return labels if labels.task is None else labels_with_task(labels, labels.task)

    def fit_sums(
        self, statistics: SecondMoments, labels: GuardedLabels, parameters: SPLINCEParameters
    ) -> Fit[LinearEraser]:
        """Fit SPLINCE to moments (see `SummedMethod.fit_sums`, and `fit_splince` for what is raised)."""
        task = labels.task
        if task is not None:
            _require_task(labels, task)
        fit = fit_splince(
            statistics,
            _n_guarded(labels),
            parameters.k,
            alpha=parameters.alpha,
            shrinkage=parameters.shrinkage,
            keep_mean=parameters.keep_mean,
        )
        if task is None:
            del fit.header["kept_task"]
            return replace(fit, doubts=(NO_TASK,), statistics=statistics)
        kept = {**fit.header["kept_task"], "name": task.name, "classes": [name for name in task.classes or () if name]}
        doubts = (NOTHING_KEPT.format(task.name),) if kept["rank"] == 0 else ()
        header = {**fit.header, "kept_task": kept}
        return replace(fit, header=header, doubts=doubts, statistics=statistics)


def _n_guarded(labels: GuardedLabels) -> int:
    """Return the number of columns of Z that are guarded: all but those of the last attribute, if it is the task."""
    return labels.n_columns - (0 if labels.task is None else len(labels.attributes[-1].classes or ()))


METHOD = SPLINCEMethod()


def with_task(rows: LabelledSource, task: Attribute) -> LabelledSource:
    """Return the `rows` with the classes of the `task` as the last columns of their Z (see `labels_with_task`).

    Raises
    ------
    LabelError : the task has one class
    """
    _require_task(rows.labels, task)
    return replace(rows, labels=labels_with_task(rows.labels, task))


def labels_with_task(labels: GuardedLabels, task: Attribute) -> GuardedLabels:
    """Return the `labels` with the classes of the `task`, of the same rows, as their last attribute.

    Rows without a task label are a class of their own, whose name is empty and which is the last: what is kept is the
    mean of every class of the task.
    """
    classes, is_labelled, values = task.classes or (), task.is_labelled, task.values
    if not is_labelled.all():
        codes = values.astype(smallest_code(len(classes) + 1))
        codes[~is_labelled] = len(classes)
        values, classes = codes, (*classes, "")
    return replace(labels, attributes=(*labels.attributes, Attribute(task.name, values, classes)), task=task)


def _require_task(labels: GuardedLabels, task: Attribute) -> None:
    classes = [name for name in task.classes or () if name]
    if len(classes) < 2:
        named = f"one class ({classes[0]})" if classes else "no class"
        raise LabelError(f"{labels.path}: column {task.name!r} has {named} on the fitted rows: no task to keep")


def fit_splince(
    moments: SecondMoments,
    n_guarded: int,
    k: int | None = None,
    *,
    alpha: float | None = None,
    shrinkage: float = 0.0,
    keep_mean: bool = True,
) -> Fit[LinearEraser]:
    """Return the oblique projection of Holstege et al. 2025, Theorem 1.

    Eigenvalues of Σ_xx are floored, never cut, and any shrinkage of them leaves both covariances exact.

    Parameters
    ----------
    moments : of X [n, d] and Z [n, c], whose last columns are the task
    n_guarded : columns of Z that are guarded, the first ones
    k : of the left singular vectors of W Σ_xz, those to remove, 1 ≤ k ≤ rank; default: all. The others stay as they are
    alpha : instead of k, the least k with σ₁/σₖ₊₁ > alpha, alpha ≥ 1
    shrinkage : share s of the way from Σ_xx to (tr Σ_xx / d) I
    keep_mean : subtract the projection of x − μ, not of x

    Returns
    -------
    Fit, with left = W⁻¹A and right = W V (AᵀV)⁻¹. Its header has `projection`: `norm` ‖P‖₂, `condition` of AᵀV, the
    least `angle` in degrees between the guarded and the task's directions, and the `shrinkage`

    Raises
    ------
    RankError : Σ_xz is zero to rounding, k is above its rank, or its directions are nearly those of the task
    RangeError : values whose squares float64 cannot hold
    ParameterError : k < 1, alpha < 1, or both given
    """
    cross = moments.cross
    cross.require_finite()
    covariance, whitening = cross.cross_covariance(), Whitening.of(moments, shrinkage)
    u, s, rank, floor = whitening.covarying(covariance[:, :n_guarded], cross)
    require_rank(rank, s, floor, cross.n)
    of_task, _, task_rank, _ = whitening.covarying(covariance[:, n_guarded:], cross)
    a, b = u[:, :rank], of_task[:, :task_rank]
    v, sines, vt = thin_svd(a - b @ (b.T @ a))  # AᵀV = vtᵀ diag(sines)
    if sines[-1] < LEAST_SINE:
        raise RankError(
            f"the covariances with the guarded labels and with the task are nearly parallel (an angle of "
            f"{_degrees(sines[-1]):.2g}°, at least {_degrees(LEAST_SINE):.2g}° is needed): to remove one and keep the "
            "other would scale rows up; choose another task, or method leace"
        )
    chosen, rule = choose_k(s, rank, k, alpha)
    left, right = whitening.inverse(a[:, :chosen]), whitening((v @ (vt / sines[:, None]))[:, :chosen])
    mean = cross.mean_x if keep_mean else np.zeros_like(cross.mean_x)
    about = {
        "norm": projection_norm(left, right),
        "condition": float(sines[0] / sines[-1]),
        "angle": _degrees(sines[-1]),
        "shrinkage": float(shrinkage),
    }
    header: dict[str, Any] = {"projection": about, "kept_task": {"rank": task_rank}}
    return Fit(LinearEraser(mean, left, right), s, rank, rule, header=header)


def projection_norm(left: Array, right: Array) -> float:
    """Return ‖P‖₂ of the projection P = I − left rightᵀ, for `left` and `right` `[d, k]` with leftᵀ right = I.

    It is that of I − P, for P is neither 0 nor I (Szyld 2006); 0 where k = d.
    """
    if left.shape[0] == left.shape[1]:
        return 0.0
    return float(np.linalg.norm(np.linalg.qr(left)[1] @ np.linalg.qr(right)[1].T, 2))


def _degrees(sine: float) -> float:
    return float(np.degrees(np.arcsin(min(1.0, float(sine)))))
