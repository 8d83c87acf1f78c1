"""Attackers at work: trained on their own rows, measured on the test rows, before and after erasure."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.erasers.artifact import Artifact
from salcli.errors import AlignmentError, UsageError
from salcli.evaluation.attackers import (
    TUNING_ROWS,
    VALIDATION,
    Attacker,
    KernelProbe,
    Scaling,
    Settings,
    balanced_accuracy,
    grid,
    kernel_bytes,
    majority_rate,
    tuned,
    untold,
    wilson,
)
from salcli.evaluation.gates import Asked
from salcli.evaluation.plan import RowPlan
from salcli.evaluation.report import ProbeResult
from salcli.evaluation.stages import Stages
from salcli.options import SAME_KERNEL, VECTOR_PROBES, EvaluateOptions
from salcli.streaming.engine import N_THREADS, ordered_map
from salcli.streaming.memory import require_room
from salcli.streaming.progress import Progress

LONG = 60.0  # seconds; a probe that will take longer is announced
FARTHEST = 1e6  # spreads of the rows before
GROWTH = 2.2  # how a kernel machine's time grows with its rows

UNCONVERGED = "{} of {} attackers did not converge: their figures are not to be trusted"

Answers = Iterator[tuple[str, NDArray[Any], bool, Settings]]
"""stage, predicted classes, whether the probe converged, its settings"""


@dataclass(frozen=True, eq=False)
class _Job:
    """One probe of one attribute by one adversary."""

    attribute: Attribute
    adversary: str
    probe: str
    at_train: Index
    """Positions among the rows of the stages."""
    at_test: Index
    y_train: NDArray[Any]
    y_test: NDArray[Any]


def chosen_probes(artifact: Artifact | None, options: EvaluateOptions) -> tuple[str, ...]:
    """Name the probes: those asked for, else all that suit."""
    is_kernel = artifact is not None and artifact.eraser.by_inner_products() is not None
    if SAME_KERNEL in (options.probes or ()) and not is_kernel:
        raise UsageError("`probes=same-kernel`: only an eraser that `salcli kfit` wrote has a kernel")
    return options.probes or (*VECTOR_PROBES, *((SAME_KERNEL,) if is_kernel else ()))


def attack(
    stages: Stages,
    labels: GuardedLabels,
    plan: RowPlan,
    probes: tuple[str, ...],
    options: EvaluateOptions,
    progress: Progress,
    only: str | None = None,
) -> tuple[tuple[ProbeResult, ...], tuple[str, ...]]:
    """Train every attacker on every guarded attribute, on threads; results come in the order asked for.

    Parameters
    ----------
    only : the stage to look at; default: all there are

    Returns
    -------
    results, and notes
    """
    notes, jobs = [], []
    for attribute in labels.attributes:
        if attribute.classes is None:
            notes.append(f"{attribute.name} is numeric: no probe reads it")
            continue
        for adversary, train in plan.trainers.items():
            at_train, at_test = stages.at(train), stages.at(plan.test)
            y_train, y_test = (attribute.codes(stages.labels[at]) for at in (at_train, at_test))
            if len(np.unique(y_train)) < 2 or not len(y_test):
                notes.append(f"{attribute.name}: the {adversary} attacker's training rows are all of one class")
                continue
            notes += _doubts(attribute, adversary, y_train, y_test)
            jobs += [_Job(attribute, adversary, probe, at_train, at_test, y_train, y_test) for probe in probes]
    _require_room(jobs, stages)

    def run(job: _Job) -> list[ProbeResult]:
        answer = _answers_by_kernel if job.probe == SAME_KERNEL else _answers_by_vectors
        return [
            _result(job, stage, predicted, converged, settings, is_capped=plan.is_capped(job.adversary))
            for stage, predicted, converged, settings in answer(job, stages, options.seed, progress, only)
        ]

    results: list[ProbeResult] = []
    with untold(), progress.stage("attack", len(jobs), "probes") as advance:
        for found in ordered_map(run, jobs):
            results += found
            advance(1)
    n_unmet = sum(not result.converged for result in results)
    if n_unmet:
        notes.append(UNCONVERGED.format(n_unmet, len(results)))
    return tuple(results), tuple(notes)


def _doubts(attribute: Attribute, adversary: str, y_train: NDArray[Any], y_test: NDArray[Any]) -> list[str]:
    """Say what makes a test tell less than it seems to."""
    told = []
    if len(np.unique(y_test)) < 2:
        told.append(f"{attribute.name}: the test rows are all of one class: no attacker does better than a blind guess")
    if n := int(np.sum(~np.isin(y_test, y_train))):
        told.append(
            f"{attribute.name}: {n} of {len(y_test)} test rows are of classes that the {adversary} attacker "
            "was not trained on"
        )
    return told


def _answers_by_vectors(job: _Job, stages: Stages, seed: int, progress: Progress, only: str | None) -> Answers:
    named = stages.named()
    judged = named.get("after", stages.before)
    scalings = {stage: Scaling.of(x[job.at_train]) for stage, x in named.items()}
    if not stages.is_foreign and judged.shape[1] == stages.before.shape[1]:
        scalings = dict.fromkeys(named, scalings["before"])  # so that C means the same before and after
        _require_same_scale(scalings["before"](judged[job.at_train]))
    start = perf_counter()
    of_judged = scalings["after" if "after" in named else "before"]
    settings = tuned(job.probe, of_judged(judged[job.at_train]), job.y_train, seed=seed)
    _tell_if_long(job, perf_counter() - start, len(named) if only is None else 1, stages.before.shape[1], progress)
    for stage, x in named.items():
        if only in (None, stage):
            scaling = scalings[stage]
            attacker = Attacker.train(job.probe, scaling(x[job.at_train]), job.y_train, settings, seed=seed)
            yield stage, attacker.predict(scaling(x[job.at_test])), attacker.converged, settings


def _require_same_scale(scaled: NDArray[np.float64]) -> None:
    """Refuse rows that erasure has taken far away: no attacker's solver comes to an end on them.

    Raises
    ------
    AlignmentError : they are
    """
    size = float(np.max(np.abs(scaled), initial=0.0))
    if size > FARTHEST:
        raise AlignmentError(
            f"erasing moves the rows {size:.2g} times as far as they lie apart: "
            "the eraser was fitted on rows of another size than these"
        )


def _answers_by_kernel(job: _Job, stages: Stages, _: int, __: Progress, only: str | None) -> Answers:
    assert stages.kernel is not None
    eraser, train, test = stages.kernel, stages.rows[job.at_train], stages.rows[job.at_test]
    among, across = eraser.kernel.gram(train, train), eraser.kernel.gram(test, train)
    for stage in ("before", "after"):
        if stage == "after":
            of_train, of_test = eraser.coordinates(train), eraser.coordinates(test)
            eraser.erase_gram(among, of_train, of_train)
            eraser.erase_gram(across, of_test, of_train)
        if only in (None, stage):
            probe = KernelProbe.train(among, job.y_train)
            yield stage, probe.predict(across), probe.converged, {"C": 1.0}


def _result(
    job: _Job, stage: str, predicted: NDArray[Any], converged: bool, settings: Settings, *, is_capped: bool
) -> ProbeResult:
    true = job.y_test
    n_right = int(np.sum(predicted == true))
    return ProbeResult(
        attribute=job.attribute.name,
        probe=job.probe,
        adversary=job.adversary,
        stage=stage,
        accuracy=n_right / len(true),
        ci95=wilson(n_right, len(true)),
        balanced_accuracy=balanced_accuracy(predicted, true),
        majority=majority_rate(true),
        n_train=len(job.y_train),
        n_test=len(true),
        converged=converged,
        capped=is_capped,
        n_classes=len(np.unique(job.y_train)),
        hyperparameters=settings,
    )


def _require_room(jobs: list[_Job], stages: Stages) -> None:
    needed = [0, *(_job_bytes(job, stages) for job in jobs)]
    most = sum(sorted(needed)[-min(N_THREADS, len(needed)) :])
    require_room(most, "training the attackers", "lower `probe_rows`")


def _job_bytes(job: _Job, stages: Stages) -> int:
    n, m, d = len(job.at_train), len(job.at_test), stages.before.shape[1]
    if job.probe == SAME_KERNEL:
        return 8 * n * (2 * n + 2 * m)
    scaled = int(8 * 2 * (n + m) * d)
    return scaled + (kernel_bytes(n, d) if job.probe != "linear" else 8 * 2 * n * d)


def _tell_if_long(job: _Job, tuning_seconds: float, n_stages: int, d: int, progress: Progress) -> None:
    n = len(job.at_train)
    tried = min(TUNING_ROWS, n) * (1 - VALIDATION)
    seconds = tuning_seconds / len(grid(job.probe, d)) * n_stages * (n / max(1.0, tried)) ** GROWTH
    if seconds > LONG:
        progress.tell(f"{job.probe}, {job.adversary}, {job.attribute.name}: about {seconds / 60:.0f} min")


def asked_for(labels: GuardedLabels, options: EvaluateOptions, probes: tuple[str, ...]) -> Asked:
    """Name all that a gate may expect to have been measured."""
    read = [attribute.name for attribute in labels.attributes if attribute.classes is not None]
    unread = [attribute.name for attribute in labels.attributes if attribute.classes is None]
    return Asked(tuple(itertools.product(read, options.adversaries, probes)), tuple(unread))
