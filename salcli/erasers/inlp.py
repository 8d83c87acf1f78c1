"""INLP: iterative nullspace projection (Ravfogel, Elazar, Gonen, Twiton & Goldberg, ACL 2020).

In each round a linear classifier of the guarded classes is trained on rows without the directions found so far, and its
normals are added to them. The directions are an orthonormal basis, so that the eraser is an exact orthogonal projection
on the intersection of all nullspaces. The rounds end when the accuracy on held-out rows of the fit is at chance: a
fixed number of rounds takes the main task to chance as well. Some are removed in any case: of a
first round at chance, all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute
from salcli.erasers.base import Fit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.linear_probes import ProbeRows, ProbeScore, require_classes
from salcli.erasers.unit import UnitMap, fit_unit, require_unit, unit_option, unit_rounds_option
from salcli.errors import RankError
from salcli.linalg.decompositions import numerical_rank, thin_svd
from salcli.linalg.moments import CrossMoments
from salcli.options import Record, option
from salcli.streaming.engine import Engine
from salcli.streaming.memory import release_freed_memory
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress
from salcli.streaming.sums import fold

Array = NDArray[np.float64]
SAME = 1e-6  # of the largest singular value: normals with less are linearly dependent on others


@dataclass(frozen=True)
class INLPParameters(Record):
    """How INLP is fitted."""

    rounds: int = option(
        35,
        help="Most rounds; they end earlier if the accuracy on held-out rows of the fit is at chance.",
        metavar="N",
        bounds=(1, None),
    )
    training_rows: int | None = option(
        None,
        help="Most training rows of the classifiers, stratified by class; default: as many as 32 MiB of memory hold.",
        metavar="N",
        bounds=(2, None),
    )
    keep_mean: bool = option(
        False,
        off="--no-keep-mean",
        help="Set removed coordinates to their mean instead of 0, for models that are not retrained.",
    )
    unit: bool = unit_option()
    unit_rounds: int = unit_rounds_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_unit(self, keeps_mean=self.keep_mean)


class INLPMethod:
    """Removes the normals of linear classifiers, round after round; passes for the mean and for the training rows."""

    name = "inlp"
    summary = "trains linear classifiers and removes their normals, round after round: slower, removes more directions"
    Parameters = INLPParameters

    def fit(
        self,
        rows: LabelledSource,
        parameters: INLPParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has it)
        seed: int = 0,
        engine: Engine,
        progress: Progress,
    ) -> Fit[LinearEraser]:
        """Fit INLP to labelled rows (see `Method.fit`).

        Raises
        ------
        LabelError : an attribute is numeric, or few rows are all of one group
        RankError : rows do not vary
        RangeError : values whose squares float64 cannot hold
        """
        require_classes(rows.labels, self.name)
        moments = fold(rows, CrossMoments, engine, progress, UnitMap(rows.source.d) if parameters.unit else None)
        moments.require_finite()
        release_freed_memory()  # of the pass
        sample = ProbeRows.of(
            rows, parameters.training_rows, seed, progress, method=self.name, is_unit=parameters.unit, may_fold=True
        )
        release_freed_memory()  # of the rows' chunks
        basis, rounds = _rounds(sample, parameters.rounds, progress, is_unit=parameters.unit)
        mean = moments.mean_x if parameters.keep_mean else np.zeros_like(moments.mean_x)
        n_rounds, is_at_chance = len(rounds) - 1, all(score.is_at_chance for score in rounds[-1])
        about = {
            "n_rounds": n_rounds,
            "accuracies": [[score.accuracy for score in scores] for scores in rounds],
            "chance": [score.chance for score in rounds[0]],
            "is_at_chance": is_at_chance,
            "n_train": len(sample.train),
            "n_held_out": 0 if sample.folds is not None else len(sample.held_out),
        }
        rule = {"rounds": n_rounds}
        doubts = _doubts(sample, rounds)
        if parameters.unit:
            return fit_unit(
                partial(fold, rows, CrossMoments, engine),
                lambda of: _with_means(basis, of, rule, about, doubts),
                CrossMoments.cross_covariance,
                rows.source.d,
                parameters.unit_rounds,
                progress,
            )
        eraser, spectrum = LinearEraser(mean, basis, basis), _strengths(moments, basis)
        return Fit(eraser, spectrum, basis.shape[1], rule, header={"inlp": about}, doubts=doubts)


METHOD = INLPMethod()


def _rounds(
    sample: ProbeRows, most: int, progress: Progress, *, is_unit: bool
) -> tuple[Array, list[tuple[ProbeScore, ...]]]:
    """Return the removed directions `[d, k]`, and the scores in each round and after the last.

    Raises
    ------
    RankError : classifiers have no normals, as rows do not vary
    """
    d = sample.train.shape[1]
    basis, rounds = np.zeros((d, 0)), list[tuple[ProbeScore, ...]]()
    with progress.stage("inlp", most, "rounds") as advance:
        for _ in range(most + 1):
            rounds.append(sample.scores(basis, is_unit=is_unit))
            found = [score for score in rounds[-1] if not score.is_at_chance] or rounds[-1][: 0 if basis.size else None]
            if len(rounds) > most or not found or basis.shape[1] == d:
                break
            basis = extended(basis, np.hstack([score.planes.normals for score in found]))
            if not basis.shape[1]:
                raise RankError("rows do not vary, and linear classifiers have no normals: there is nothing to remove")
            advance(1)
    return basis, rounds


def extended(basis: Array, normals: Array) -> Array:
    """Return an orthonormal basis extended by further directions.

    Parameters
    ----------
    basis : `[d, k]` orthonormal
    normals : `[d, p]` directions that the result is to span too

    Returns
    -------
    `[d, k + r]`, with r ≤ p, as linearly dependent normals add none
    """
    for _ in range(2):  # twice, because of cancellation
        normals = normals - basis @ (basis.T @ normals)
    lengths = np.linalg.norm(normals, axis=0)
    u, s, _ = thin_svd(normals[:, lengths > 0] / lengths[lengths > 0])
    new = u[:, s > SAME * s.max(initial=0.0)]
    new = new - basis @ (basis.T @ new)
    return np.hstack([basis, new / np.linalg.norm(new, axis=0)])[:, : len(basis)]


def _with_means(
    basis: Array, moments: CrossMoments, rule: dict[str, Any], about: dict[str, Any], doubts: tuple[str, ...]
) -> Fit[LinearEraser]:
    """Return the eraser of a basis `[d, k]` and of the directions besides in which class means still differ (SAL).

    Parameters
    ----------
    basis : of the classifiers' normals
    moments : of rows divided by the lengths that they have without some directions
    rule, about, doubts : of the fit
    """
    omega = moments.cross_covariance()
    left = omega - basis @ (basis.T @ omega)
    u, s, _ = thin_svd(left)
    rank = numerical_rank(s, left.shape, moments.rounding_floor())
    whole = extended(basis, u[:, :rank])
    eraser = LinearEraser(np.zeros(len(basis)), whole, whole)
    header = {"inlp": {**about, "n_of_means": whole.shape[1] - basis.shape[1]}}
    return Fit(eraser, _strengths(moments, whole), whole.shape[1], rule, header=header, doubts=doubts)


def _strengths(moments: CrossMoments, basis: Array) -> Array:
    """Return how much rows covary with labels along each removed direction `[k]`, descending."""
    return np.sort(np.linalg.norm(moments.cross_covariance().T @ basis, axis=0))[::-1]


def _doubts(sample: ProbeRows, rounds: list[tuple[ProbeScore, ...]]) -> tuple[str, ...]:
    doubts, on = list[str](), "held-out rows of the fit"
    if sample.folds is not None:
        on = "rows that it was not trained on"
        doubts.append(
            f"{len(sample.train):,} fitted rows are too few to hold any out: each is scored by a linear classifier of "
            "other fitted rows, so `rounds` may end too early"
        )
    if all(score.is_at_chance for score in rounds[0]):
        doubts.append(
            f"before anything is removed, the balanced accuracy of a linear classifier on {on} is at chance: "
            f"{_named(rounds[0])}; the normals of the first round are removed all the same"
        )
    if left := [score for score in rounds[-1] if not score.is_at_chance]:
        doubts.append(
            f"after {len(rounds) - 1} rounds the balanced accuracy of a linear classifier on {on} is still above "
            f"chance: {_named(left)}; more `rounds` remove more"
        )
    if n := sum(not score.planes.converged for scores in rounds for score in scores):
        doubts.append(f"{n} of {sum(map(len, rounds))} classifiers of inlp did not converge")
    return tuple(doubts)


def _named(scores: Iterable[ProbeScore]) -> str:
    return ", ".join(f"{score.name} {score.accuracy:.3f} (chance {score.chance:.3f})" for score in scores)
