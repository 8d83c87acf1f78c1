"""Attackers of numeric attributes at work: trained on their own rows, measured by R², before and after erasure."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index
from salcli.data.split_parts import TEST
from salcli.data.splits import FRESH, WHITE_BOX, EvaluationSplit
from salcli.erasers.artifact import Artifact
from salcli.errors import UsageError
from salcli.evaluation.answers import pooled_numbers
from salcli.evaluation.attackers import ATTACKERS, REGRESSORS
from salcli.evaluation.attackers.base import Attacker
from salcli.evaluation.attackers.tuning import tuned
from salcli.evaluation.explained import Guesses, NumericResult, explained
from salcli.evaluation.forms import Form, in_forms, read_by
from salcli.evaluation.intersections import least_rows
from salcli.evaluation.probe_result import reader
from salcli.evaluation.readings import reading_of, training_rows
from salcli.evaluation.stages import Stages
from salcli.options import RAW, EvaluateOptions
from salcli.streaming.engine import LOCAL, map_in_threads
from salcli.streaming.memory import require_memory
from salcli.streaming.progress import Progress

LEAST_ROWS = 10
"""Test rows of a numeric attribute below which R² means nothing."""


@dataclass(frozen=True, eq=False)
class _Job:
    """One attacker of one attribute by one adversary, at one stage."""

    attribute: str
    adversary: str
    probe: str
    stage: str
    rows: Form
    at_train: Index
    """Positions among the rows of the stages."""
    at_test: Index
    y_train: NDArray[np.float64]
    y_test: NDArray[np.float64]

    @property
    def attacker(self) -> Attacker:
        return REGRESSORS[self.probe]

    def name(self, *, adversary: str | None = None, form: str | None = None) -> tuple[str, ...]:
        """Return what distinguishes it from all others, or the name that it has with another adversary or form."""
        return self.attribute, adversary or self.adversary, form or self.rows.name, self.probe, self.stage

    def twin(self, stages: Stages) -> tuple[str, ...]:
        """Return the name of the job on the same rows (see `salcli.evaluation.attack`), `stages` as in the file."""
        if self.stage in self.rows.equal:
            return self.name(form=RAW)
        if self.adversary == WHITE_BOX and (self.stage == "before" or self.rows.stages.after is stages.after):
            return self.name(adversary=FRESH)
        return self.name()


def chosen_regressors(artifact: Artifact | None, labels: GuardedLabels, options: EvaluateOptions) -> tuple[str, ...]:
    """Return the names of the attackers of numeric attributes: those requested, or all where none of them is named.

    Parameters
    ----------
    artifact : the eraser, or None
    labels : with the guarded attributes; without a numeric one there is no attacker
    options : with `probes`

    Raises
    ------
    UsageError : only attackers of numbers are named, and no attribute is numeric
    """
    named = [name for name in options.probes or () if name in REGRESSORS]
    if all(attribute.classes is not None for attribute in labels.attributes):
        if named and set(named).isdisjoint(ATTACKERS) and len(named) == len(options.probes or ()):
            raise UsageError(f"`probes={','.join(named)}` reads numbers, and no guarded attribute is numeric")
        return ()
    is_kernel = artifact is not None and artifact.eraser.by_inner_products() is not None
    return tuple(
        name
        for name, attacker in REGRESSORS.items()
        if (is_kernel or attacker.reads == "vectors") and (not named or name in named)
    )


def attack_numbers(
    stages: Stages,
    labels: GuardedLabels,
    split: EvaluationSplit,
    probes: tuple[str, ...],
    options: EvaluateOptions,
    progress: Progress,
    only: str | None = None,
) -> tuple[tuple[NumericResult, ...], tuple[str, ...]]:
    """Train every attacker on every numeric attribute, on threads.

    Parameters
    ----------
    probes : names in `REGRESSORS`
    only : the stage to look at; default: all there are

    Returns
    -------
    results in the order of the attributes, adversaries, forms and probes, and notes

    Raises
    ------
    NotEnoughMemory : the attackers that are trained at once would not fit into memory
    """
    jobs, notes = _jobs(stages, labels, split, probes, options, only)
    if not jobs:
        return (), notes
    sizes = sorted(map(_bytes, jobs))
    require_memory(sum(sizes[-LOCAL.n_workers :]), "training the attackers", "lower `attacker_rows`")
    places = {job.name(): at for at, job in enumerate(jobs)}
    shared = {at: place for at, job in enumerate(jobs) if (place := places.get(job.twin(stages), at)) != at}
    order = [at for at in range(len(jobs)) if at not in shared]
    order.sort(key=lambda at: -len(jobs[at].at_train))

    def run(at: int) -> NumericResult:
        found = _result(jobs[at], options, is_capped=split.is_capped(jobs[at].adversary))
        return pooled_numbers([found], labels) if labels.groups is not None and options.folds is None else found

    results: dict[int, NumericResult] = {}
    with progress.stage("attack numbers", len(order), "probes") as advance:
        for at, found in zip(order, map_in_threads(run, order), strict=True):
            results[at] = found
            advance(1)
    for at, same in shared.items():
        results[at] = replace(results[same], form=jobs[at].rows.name, adversary=jobs[at].adversary)
    return tuple(results[at] for at in range(len(jobs))), notes


def expected_of_numbers(
    labels: GuardedLabels, options: EvaluateOptions, probes: tuple[str, ...], forms: Iterable[str]
) -> tuple[tuple[str, str, str], ...]:
    """Return each numeric attribute, adversary and reader whose figure a gate may expect.

    Parameters
    ----------
    labels : with the guarded attributes
    options : with the adversaries
    probes : names in `REGRESSORS`
    forms : of the rows that are attacked
    """
    names = [attribute.name for attribute in labels.attributes if attribute.classes is None]
    return tuple(
        (name, adversary, reader(probe, form))
        for name, adversary, form in itertools.product(names, options.adversaries, forms)
        if form == RAW or adversary != WHITE_BOX
        for probe in _suited(probes, form)
    )


def _suited(probes: Sequence[str], form: str) -> Sequence[str]:
    """Return those of the probes that read rows in a form: inner products of a kernel are raw."""
    return [name for name in probes if form == RAW or REGRESSORS[name].reads == "vectors"]


def _jobs(
    stages: Stages,
    labels: GuardedLabels,
    split: EvaluationSplit,
    probes: Sequence[str],
    options: EvaluateOptions,
    only: str | None,
) -> tuple[list[_Job], tuple[str, ...]]:
    """Return what is trained on at least some test rows, and notes on what cannot be."""
    jobs, notes = list[_Job](), list[str]()
    if not probes:
        return jobs, ()
    forms, least = in_forms(stages, options.attacked_forms, split.fitted), least_rows(LEAST_ROWS, options)
    for attribute in labels.attributes:
        if attribute.classes is not None:
            continue
        values = attribute.standardized(is_centred=True).values  # so that no square overflows; R² has no unit
        for adversary in split.trainers:
            at_train, at_test = (stages.at(split.having(attribute, name, labels)) for name in (adversary, TEST))
            y_train, y_test = (values[stages.labels[at]].astype(np.float64) for at in (at_train, at_test))
            if len(y_test) < least or np.ptp(y_test) == 0:
                notes.append(f"{attribute.name}: fewer than {least} test rows, or all of one value: not attacked")
            elif not len(y_train) or np.ptp(y_train) == 0:
                notes.append(f"{attribute.name}: the {adversary} attacker's training rows are all of one value")
            else:
                jobs += [
                    _Job(attribute.name, adversary, probe, stage, form, at_train, at_test, y_train, y_test)
                    for form in read_by(adversary, forms)
                    for probe in _suited(probes, form.name)
                    for stage in _stages(probe, form.stages, only)
                ]
    return jobs, tuple(dict.fromkeys(notes))


def _stages(probe: str, stages: Stages, only: str | None) -> Sequence[str]:
    names = ("before", "after") if REGRESSORS[probe].reads == "kernel" else tuple(stages.named())
    return [name for name in names if only in (None, name)]


def _result(job: _Job, options: EvaluateOptions, *, is_capped: bool) -> NumericResult:
    reading = reading_of(job.attacker, job.rows.stages, job.at_train, job.at_test)
    usual = job.attacker.usual(reading.d)
    rows = training_rows(reading, job.stage, job.y_train)
    settings = usual if options.quick else tuned(job.attacker, rows, options.seed)
    fitted = job.attacker.fit(reading.train(job.stage, settings), job.y_train, settings, options.seed)
    predicted = fitted.predict(reading.test(job.stage, settings)).astype(np.float64)
    return NumericResult(
        job.attribute,
        job.probe,
        job.adversary,
        job.stage,
        *explained(predicted, job.y_test),
        len(job.y_train),
        len(job.y_test),
        fitted.converged,
        is_capped,
        settings,
        form=job.rows.name,
        guesses=Guesses(job.rows.stages.labels[job.at_test], predicted, job.y_test),
    )


def _bytes(job: _Job) -> int:
    """Bound the memory of one job: what its attacker reads, and what the attacker takes beside it."""
    n, m, d = len(job.at_train), len(job.at_test), job.rows.stages.width
    read = 8 * n * (n + 2 * m) if job.attacker.reads == "kernel" else 8 * 4 * (n + m) * d
    return read + job.attacker.memory_bytes(n, m, d)
