"""Attackers at work: trained on their own rows, measured on the test rows, before and after erasure."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.splits import EvaluationSplit
from salcli.erasers.artifact import Artifact
from salcli.erasers.kernel import KernelEraser
from salcli.errors import AlignmentError, ParameterError, UsageError
from salcli.evaluation.attackers import (
    ATTACKERS,
    TUNING_ROWS,
    VALIDATION,
    Array,
    Scaling,
    Settings,
    balanced_accuracy,
    class_counts,
    majority_rate,
    names_of,
    silence_convergence_warnings,
    tuned,
    wilson,
)
from salcli.evaluation.gates import Asked
from salcli.evaluation.report import ProbeResult
from salcli.evaluation.stages import Stages
from salcli.evaluation.text import listed_counts
from salcli.options import EvaluateOptions
from salcli.streaming.engine import LOCAL, map_in_threads
from salcli.streaming.memory import require_memory
from salcli.streaming.progress import Progress

LONG = 60.0  # seconds; a probe that will take longer is announced
FARTHEST = 1e6  # spreads of the rows before
GROWTH = 2.2  # how a kernel machine's time grows with its rows

UNCONVERGED = "{} of {} attackers did not converge: their figures are not to be trusted"


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
    untrained: dict[str, int]
    """Test rows that are left out, by their class, of which there are no training rows."""


def require_attackers(options: EvaluateOptions) -> None:
    """Check that `ATTACKERS` has the requested names, and that one of them can read what a sweep writes.

    Raises
    ------
    UsageError : it names the option
    """
    known = ", ".join(ATTACKERS)
    if options.probes is not None and not (options.probes and set(options.probes) <= set(ATTACKERS)):
        raise ParameterError("probes", options.probes, f"expected some of {known}")
    for name, limits in (("max_accuracy", options.max_accuracy), ("max_gain", options.max_gain)):
        for limit in limits:
            if limit.probe is not None and limit.probe not in ATTACKERS:
                value = f"{limit.probe}={limit.limit:g}"
                raise ParameterError(name, value, f"no probe {limit.probe!r}, expected one of {known}")
    if (options.sweep is not None or options.repeats is not None) and not _read_vectors(options.probes):
        raise UsageError(
            "`sweep` and `repeats` look at written vectors: ask for another probe than "
            f"{','.join(options.probes or ())} alone"
        )


def needs_vectors(options: EvaluateOptions) -> bool:
    """Whether any requested attacker reads written vectors, not only at the kernel's inner products."""
    measures = (options.similarity, options.neighbors, options.task, options.sweep, options.repeats)
    return any(measures) or options.min_neighbors_kept is not None or _read_vectors(options.probes)


def _read_vectors(names: Sequence[str] | None) -> bool:
    return names is None or not set(names).isdisjoint(names_of("vectors"))


def chosen_probes(artifact: Artifact | None, options: EvaluateOptions) -> tuple[str, ...]:
    """Return the names of the attackers: those requested, else all that can read what there is.

    Raises
    ------
    UsageError : a requested attacker reads a kernel, and the eraser has none
    """
    is_kernel = artifact is not None and artifact.eraser.by_inner_products() is not None
    suited = tuple(ATTACKERS) if is_kernel else names_of("vectors")
    for name in options.probes or ():
        if name not in suited:
            raise UsageError(f"`probes={name}`: only an eraser that `salcli kfit` wrote has a kernel")
    return options.probes or suited


def attack(
    stages: Stages,
    labels: GuardedLabels,
    split: EvaluationSplit,
    probes: tuple[str, ...],
    options: EvaluateOptions,
    progress: Progress,
    only: str | None = None,
    *,
    long_seconds: float = LONG,
    clock: Callable[[], float] = perf_counter,
) -> tuple[tuple[ProbeResult, ...], tuple[str, ...]]:
    """Train every attacker on every guarded attribute, on threads.

    Parameters
    ----------
    probes : names in `ATTACKERS`
    only : the stage to look at; default: all there are
    long_seconds : an attacker that will take longer, to judge by its tuning, is announced with its minutes
    clock : seconds

    Returns
    -------
    results in the order of the attributes, adversaries and probes, and notes

    Raises
    ------
    NotEnoughMemory : the attackers that are trained at once would not fit into memory
    """
    notes, jobs = list[str](), list[_Job]()
    for attribute in labels.attributes:
        if attribute.classes is None:
            notes.append(f"{attribute.name} is numeric: no probe reads it")
            continue
        for adversary, train in split.trainers.items():
            at_train, at_test = stages.at(train), stages.at(split.test)
            of_attribute, doubts = _jobs(attribute, adversary, at_train, at_test, stages, probes)
            jobs += of_attribute
            notes += doubts
    _require_memory(jobs, stages)

    def run(job: _Job) -> list[ProbeResult]:
        reading = (
            _Vectors.of(job, stages) if ATTACKERS[job.probe].reads == "vectors" else _InnerProducts.of(job, stages)
        )
        names = [name for name in reading.stages if only in (None, name)]
        start = clock()
        settings = _tuned(job, reading, options.seed)
        seconds = _estimated_seconds(job, clock() - start, len(names), reading.d)
        if seconds > long_seconds:
            progress.say(f"{job.probe}, {job.adversary}, {job.attribute.name}: about {seconds / 60:.0f} min")
        return [
            _result(job, reading, name, settings, options.seed, is_capped=split.is_capped(job.adversary))
            for name in names
        ]

    results: list[ProbeResult] = []
    with silence_convergence_warnings(), progress.stage("attack", len(jobs), "probes") as advance:
        for found in map_in_threads(run, jobs):
            results += found
            advance(1)
    n_unmet = sum(not result.converged for result in results)
    if n_unmet:
        notes.append(UNCONVERGED.format(n_unmet, len(results)))
    return tuple(results), tuple(notes)


class _Reading(Protocol):
    """What an attacker reads, by stage."""

    @property
    def stages(self) -> Sequence[str]: ...
    @property
    def d(self) -> int: ...
    def train(self, stage: str) -> Array: ...
    def test(self, stage: str) -> Array: ...


@dataclass(frozen=True, eq=False)
class _Vectors:
    """Scaled rows."""

    job: _Job
    rows: dict[str, NDArray[Any]]
    """`[m, d]` by stage."""
    scalings: dict[str, Scaling]

    @classmethod
    def of(cls, job: _Job, stages: Stages) -> "_Vectors":
        """Scale each stage as the rows before, or by its own scale if its units are others."""
        rows = stages.named()
        scalings = {stage: Scaling.of(x[job.at_train]) for stage, x in rows.items()}
        judged = rows[_judged(list(rows))]
        if not stages.is_foreign and judged.shape[1] == stages.before.shape[1]:
            scalings = dict.fromkeys(rows, scalings["before"])  # so that C means the same before and after
            _require_same_scale(scalings["before"](judged[job.at_train]))
        return cls(job, rows, scalings)

    @property
    def stages(self) -> Sequence[str]:
        return list(self.rows)

    @property
    def d(self) -> int:
        return int(self.rows["before"].shape[1])

    def train(self, stage: str) -> Array:
        return self.scalings[stage](self.rows[stage][self.job.at_train])

    def test(self, stage: str) -> Array:
        return self.scalings[stage](self.rows[stage][self.job.at_test])


@dataclass(frozen=True, eq=False)
class _InnerProducts:
    """Inner products of rows with the training rows, in the eraser's kernel."""

    eraser: KernelEraser
    of_train: NDArray[Any]
    """`[n, d]` training rows, as they are in the file."""
    of_test: NDArray[Any]

    stages = ("before", "after")

    @classmethod
    def of(cls, job: _Job, stages: Stages) -> "_InnerProducts":
        assert stages.kernel is not None
        return cls(stages.kernel, stages.rows[job.at_train], stages.rows[job.at_test])

    @property
    def d(self) -> int:
        return int(self.of_train.shape[1])

    def train(self, stage: str) -> Array:
        return self._products(stage, self.of_train)

    def test(self, stage: str) -> Array:
        return self._products(stage, self.of_test)

    def _products(self, stage: str, rows: NDArray[Any]) -> Array:
        if stage == "before":
            return self.eraser.kernel.gram(rows, self.of_train)
        return self.eraser.erased_gram(rows, self.of_train)


def _judged(stages: Sequence[str]) -> str:
    """Return the stage that settings are chosen on: after erasure, if there is one."""
    return "after" if "after" in stages else "before"


def _tuned(job: _Job, reading: _Reading, seed: int) -> Settings:
    attacker = ATTACKERS[job.probe]
    if len(choices := attacker.grid(reading.d)) == 1:
        return choices[0]
    return tuned(attacker, reading.train(_judged(reading.stages)), job.y_train, reading.d, seed=seed)


def _jobs(
    attribute: Attribute, adversary: str, at_train: Index, at_test: Index, stages: Stages, probes: tuple[str, ...]
) -> tuple[list[_Job], list[str]]:
    """Return the jobs of the probes on the test rows of classes that are trained on, and notes on the others."""
    y_train, y_test = (attribute.codes(stages.labels[at]) for at in (at_train, at_test))
    if not len(y_test):
        return [], [f"{attribute.name}: no test row is left"]
    if len(np.unique(y_train)) < 2:
        return [], [f"{attribute.name}: the {adversary} attacker's training rows are all of one class"]
    is_known = np.isin(y_test, y_train)
    untrained = class_counts(attribute, y_test[~is_known])
    at_test, y_test = at_test[is_known], y_test[is_known]
    jobs = [_Job(attribute, adversary, probe, at_train, at_test, y_train, y_test, untrained) for probe in probes]
    return jobs if len(y_test) else [], _doubts(attribute, adversary, y_test, untrained)


def _doubts(attribute: Attribute, adversary: str, y_test: NDArray[Any], untrained: dict[str, int]) -> list[str]:
    """Return what makes the figures on these test rows mean less than they seem to."""
    notes = []
    if len(np.unique(y_test)) == 1:
        notes.append(
            f"{attribute.name}: the test rows are all of one class: no attacker does better than a blind guess"
        )
    if untrained:
        n = sum(untrained.values())
        notes.append(
            f"{attribute.name}: {n:,} of {n + len(y_test):,} test rows are left out, of classes that the {adversary} "
            f"attacker was not trained on: {listed_counts(untrained)}"
        )
    return notes


def _require_same_scale(scaled: NDArray[np.float64]) -> None:
    """Check that erasure has not moved rows far away: no solver would converge on them.

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


def _result(job: _Job, reading: _Reading, stage: str, settings: Settings, seed: int, *, is_capped: bool) -> ProbeResult:
    """Train the attacker on one stage and measure it on the test rows."""
    classifier = ATTACKERS[job.probe].fit(reading.train(stage), job.y_train, settings, seed)
    true, predicted = job.y_test, classifier.predict(reading.test(stage))
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
        converged=classifier.converged,
        capped=is_capped,
        n_classes=len(np.unique(job.y_train)),
        n_left_out=sum(job.untrained.values()),
        untrained_classes=tuple(job.untrained),
        hyperparameters=settings,
    )


def _require_memory(jobs: list[_Job], stages: Stages) -> None:
    sizes = sorted(_job_bytes(job, stages) for job in jobs)
    require_memory(sum(sizes[-LOCAL.n_workers :]), "training the attackers", "lower `probe_rows`")


def _job_bytes(job: _Job, stages: Stages) -> int:
    """Bound the memory of one job: what its attacker reads, and what the attacker takes beside it."""
    n, m, d = len(job.at_train), len(job.at_test), stages.before.shape[1]
    attacker = ATTACKERS[job.probe]
    if attacker.reads == "kernel":
        return 8 * n * (n + 2 * m) + attacker.memory_bytes(n, m, d)
    return int(8 * 2 * (n + m) * d) + attacker.memory_bytes(n, m, d)


def _estimated_seconds(job: _Job, tuning_seconds: float, n_stages: int, d: int) -> float:
    """Estimate the time of all stages from that of the tuning, which fitted each of the grid on fewer rows."""
    n = len(job.at_train)
    tried = min(TUNING_ROWS, n) * (1 - VALIDATION)
    return tuning_seconds / len(ATTACKERS[job.probe].grid(d)) * n_stages * float((n / max(1.0, tried)) ** GROWTH)


def asked_for(labels: GuardedLabels, options: EvaluateOptions, probes: tuple[str, ...]) -> Asked:
    """Return the attributes, adversaries and probes whose figures a gate may expect."""
    read = [attribute.name for attribute in labels.attributes if attribute.classes is not None]
    unread = [attribute.name for attribute in labels.attributes if attribute.classes is None]
    return Asked(tuple(itertools.product(read, options.adversaries, probes)), tuple(unread))
