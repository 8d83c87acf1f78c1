"""Training of attackers on their rows, and their results on the test rows, before and after erasure."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.splits import FRESH, TEST, WHITE_BOX, EvaluationSplit
from salcli.erasers.artifact import Artifact
from salcli.errors import ParameterError, UsageError
from salcli.evaluation.answers import pooled
from salcli.evaluation.attackers import ATTACKERS, REGRESSORS, WEIGHTED, attacker_of, base_name, names_of
from salcli.evaluation.attackers.base import Settings
from salcli.evaluation.attackers.scores import (
    Answers,
    areas,
    balanced_accuracy,
    class_counts,
    errors,
    majority_rate,
    rated_classes,
    recalls,
    silence_convergence_warnings,
    wilson,
)
from salcli.evaluation.attackers.tuning import tuned
from salcli.evaluation.forms import Form, in_form, in_forms, notes_on_forms, read_by
from salcli.evaluation.gates import Asked
from salcli.evaluation.intersections import LEAST_ROWS, Product, attacked, least_rows
from salcli.evaluation.readings import Reading, reading_of, training_rows
from salcli.evaluation.report import ProbeResult
from salcli.evaluation.stages import Stages
from salcli.evaluation.text import listed_counts
from salcli.options import RAW, EvaluateOptions, Limit
from salcli.streaming.engine import LOCAL, map_in_threads
from salcli.streaming.memory import require_memory
from salcli.streaming.progress import Progress

UNEQUAL = 0.6
"""Share of the most frequent class among an attacker's rows above which its weighted twin takes part too."""

ALL = "all"
"""In place of names: every attacker that can read what there is."""
QUICK = ("linear", "quadratic")
"""Attackers whose time does not grow with the square of their rows."""
UNCONVERGED = "{} of {} attackers did not converge: their figures are not to be trusted"
NOTHING_TO_INVERT = (
    "white-box: erased rows have no trace of what the eraser removed, so whoever holds it reads what the fresh "
    "attacker reads"
)
TOO_RARE = "{} is not attacked: fewer than two of its classes have {} test rows (`intersections=False` leaves it out)"


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
    labels: Index
    """Labels of the test rows."""
    untrained: dict[str, int]
    """Test rows that are left out, by their class, of which there are no training rows."""
    rare: dict[str, int]
    """Test rows that are left out, by their class of a product, of which there are fewer than `LEAST_ROWS`."""
    rows: Form

    def name(self, stage: str, *, adversary: str | None = None, form: str | None = None) -> tuple[str, ...]:
        """Return what distinguishes it from others at a stage, or its name with another adversary or form."""
        return self.attribute.name, adversary or self.adversary, form or self.rows.name, self.probe, stage


def require_attackers(options: EvaluateOptions) -> None:
    """Check that `ATTACKERS` has the names in `options`, and that one of them reads vectors if a sweep needs it.

    Raises
    ------
    UsageError : it names the option
    """
    every = dict.fromkeys((*ATTACKERS, *REGRESSORS))
    if options.probes not in (None, (ALL,)) and not (options.probes and set(options.probes) <= set(every)):
        raise ParameterError("probes", options.probes, f"expected some of {', '.join(every)}, or {ALL}")
    for name in ("max_accuracy", "max_gain", "max_leak", "max_r2"):
        limits: tuple[Limit, ...] = getattr(options, name)
        suited = REGRESSORS if name == "max_r2" else ATTACKERS
        for limit in limits:
            if limit.probe is not None and limit.probe not in suited:
                value = f"{limit.probe}={limit.limit:g}"
                raise ParameterError(name, value, f"no probe {limit.probe!r}, expected one of {', '.join(suited)}")
    if (options.sweep is not None or options.repeats is not None) and not _read_vectors(options.probes):
        raise UsageError(
            f"`sweep` and `repeats` need vectors: request another probe than {','.join(options.probes or ())} alone"
        )


def needs_vectors(options: EvaluateOptions) -> bool:
    """Return whether any attacker or measure of `options` needs vectors, not only the kernel's inner products."""
    measures = (options.similarity, options.bias, options.neighbors, options.task, options.sweep, options.repeats)
    return any(measures) or options.min_neighbors_kept is not None or _read_vectors(options.probes)


def _read_vectors(names: Sequence[str] | None) -> bool:
    vectors = {name for name, each in (*ATTACKERS.items(), *REGRESSORS.items()) if each.reads == "vectors"}
    return names in (None, (ALL,)) or not set(names or ()).isdisjoint(vectors)


def chosen_probes(artifact: Artifact | None, options: EvaluateOptions) -> tuple[str, ...]:
    """Return the names of the attackers of classes: those in `options`, else all default ones that suit the eraser.

    Parameters
    ----------
    artifact : the eraser; None: without one
    options : of the evaluation

    Raises
    ------
    UsageError : a requested attacker reads a kernel, and the eraser has none
    """
    is_kernel = artifact is not None and artifact.eraser.by_inner_products() is not None
    suited = tuple(ATTACKERS) if is_kernel else names_of("vectors")
    if options.probes == (ALL,):
        return suited
    for name in options.probes or ():
        if name not in suited and (name not in REGRESSORS or REGRESSORS[name].reads == "kernel"):
            raise UsageError(f"`probes={name}`: only an eraser that `salcli kfit` wrote has a kernel")
    named = tuple(name for name in options.probes or () if name in suited)
    chosen = named or tuple(name for name in suited if ATTACKERS[name].is_default)
    if not any(readers_of(form, chosen) for form in options.attacked_forms):
        asked = ",".join(options.attacked_forms)
        raise UsageError(f"`forms={asked}`: {','.join(chosen)} reads inner products, which are raw: ask for raw")
    return chosen


def readers_of(form: str, probes: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the `probes` that read rows in a `form`: inner products of a kernel are raw."""
    return probes if form == RAW else tuple(name for name in probes if ATTACKERS[name].reads == "vectors")


def attack(
    stages: Stages,
    labels: GuardedLabels,
    split: EvaluationSplit,
    probes: tuple[str, ...],
    options: EvaluateOptions,
    progress: Progress,
    only: str | None = None,
) -> tuple[tuple[ProbeResult, ...], tuple[str, ...]]:
    """Train every attacker on every guarded attribute, on threads.

    Parameters
    ----------
    stages : the rows of the split, before and after erasure
    labels : with the guarded attributes
    split : rows that train each adversary, and test rows
    probes : names in `ATTACKERS`
    options : with the forms of the rows, the seed, and whether attackers are tuned
    progress : shows the stage
    only : the stage to look at; default: all there are

    Returns
    -------
    results in the order of the attributes, adversaries, forms and probes, and notes

    Raises
    ------
    NotEnoughMemory : the attackers that are trained at once would not fit into memory
    """
    jobs, least = list[_Job](), least_rows(LEAST_ROWS, options)
    forms = in_forms(stages, options.attacked_forms, split.fitted)
    notes = [] if only == "before" else list(notes_on_forms(options.attacked_forms, forms))  # rows after may differ
    for attribute in attacked(labels, options):
        for adversary in split.trainers:
            at_train, at_test = (stages.at(split.having(attribute, name, labels)) for name in (adversary, TEST))
            for form in read_by(adversary, forms):
                readers = readers_of(form.name, probes)
                of_form, doubts = _jobs(attribute, adversary, at_train, at_test, form, readers, least)
                jobs += of_form
                notes += doubts
    _require_memory(jobs)
    is_pooled = options.folds is not None or labels.groups is not None
    work = [(job, name) for job in jobs for name in _stage_names(job) if only in (None, name)]
    places = {job.name(name): at for at, (job, name) in enumerate(work)}
    shared = {
        at: place for at, (job, name) in enumerate(work) if (place := places.get(_twin(job, name, stages), at)) != at
    }
    order = [at for at in range(len(work)) if at not in shared]
    order.sort(key=lambda at: -_effort(work[at][0]))  # the longest first: all threads end at once

    def run(at: int) -> ProbeResult:
        job, stage = work[at]
        attacker = attacker_of(job.probe)
        reading = reading_of(attacker, job.rows.stages, job.at_train, job.at_test)
        settings = attacker.usual(reading.d) if options.quick else _tuned(job, reading, stage, options.seed)
        is_capped = split.is_capped(job.adversary)
        return _result(job, reading, stage, settings, options.seed, is_capped=is_capped, is_pooled=is_pooled)

    results: dict[int, ProbeResult] = {}
    with silence_convergence_warnings(), progress.stage("attack", len(order), "probes") as advance:
        for at, found in zip(order, map_in_threads(run, order), strict=True):
            results[at] = found
            advance(1)
    for at, same in shared.items():
        job = work[at][0]
        results[at] = replace(results[same], form=job.rows.name, adversary=job.adversary)
    if labels.groups is not None and options.folds is None:
        results = {at: pooled([found], labels) for at, found in results.items()}
    if WHITE_BOX in split.trainers and stages.after is not None and stages.white_box is stages:
        notes.append(NOTHING_TO_INVERT)
    n_unmet = sum(not result.converged for result in results.values())
    if n_unmet:
        notes.append(UNCONVERGED.format(n_unmet, len(results)))
    return tuple(results[at] for at in range(len(work))), tuple(dict.fromkeys(notes))


def attack_again(
    stages: Stages, labels: GuardedLabels, split: EvaluationSplit, of: ProbeResult, index: Index, seed: int
) -> ProbeResult | None:
    """Train an attacker again, in its form and with its settings, and measure it on other rows than the test rows.

    Parameters
    ----------
    stages : the rows of the split
    labels : with the guarded attributes
    split : with the rows that trained it
    of : its result
    index : labels of the other rows
    seed : of its random choices

    Returns
    -------
    None where none of the rows has a class that it was trained on
    """
    attribute = next(each for each in labels.attributes if each.name == of.attribute)
    at_train, at = stages.at(split.having(attribute, of.adversary, labels)), stages.at(index)
    at = at[attribute.codes(stages.labels[at]) >= 0]
    rows = Form(of.form, in_form(stages.read_by(of.adversary), of.form, split.fitted))
    jobs, _ = _jobs(attribute, of.adversary, at_train, at, rows, (of.probe,))
    if not jobs:
        return None
    reading = reading_of(attacker_of(of.probe), rows.stages, at_train, jobs[0].at_test)
    return _result(jobs[0], reading, of.stage, of.hyperparameters, seed, is_capped=of.capped)


def _twin(job: _Job, stage: str, stages: Stages) -> tuple[str, ...]:
    """Return the name of the job on the same rows: raw ones, or those of the fresh attacker where nothing is inverted.

    Parameters
    ----------
    job : any
    stage : before or after
    stages : the rows as they are in the file
    """
    if stage in job.rows.equal:
        return job.name(stage, form=RAW)
    if job.adversary == WHITE_BOX and (stage == "before" or job.rows.stages.after is stages.after):
        return job.name(stage, adversary=FRESH)
    return job.name(stage)


def _stage_names(job: _Job) -> Sequence[str]:
    """Return the names of the stages; inner products exist after erasure even without vectors."""
    return ("before", "after") if attacker_of(job.probe).reads == "kernel" else tuple(job.rows.stages.named())


def _effort(job: _Job) -> float:
    """Return about how long an attacker takes, in no unit."""
    return float(len(job.at_train)) ** (1 if base_name(job.probe) in QUICK else 2)


def _tuned(job: _Job, reading: Reading, stage: str, seed: int) -> Settings:
    return tuned(attacker_of(job.probe), training_rows(reading, stage, job.y_train), seed)


def _jobs(
    attribute: Attribute,
    adversary: str,
    at_train: Index,
    at_test: Index,
    rows: Form,
    probes: tuple[str, ...],
    least: int = LEAST_ROWS,
) -> tuple[list[_Job], list[str]]:
    """Return the jobs of the probes on the test rows of classes that are trained on, and notes on the others.

    Classes of a product with fewer than `least` test rows are left out of training and test.
    """
    y_train, y_test = (attribute.codes(rows.stages.labels[at]) for at in (at_train, at_test))
    if not len(y_test):
        return [], [f"{attribute.name}: no test row is left"]
    if len(np.unique(y_train)) < 2:
        return [], [f"{attribute.name}: the {adversary} attacker's training rows are all of one class"]
    is_known = np.isin(y_test, y_train)
    untrained = class_counts(attribute, y_test[~is_known])
    at_test, y_test = at_test[is_known], y_test[is_known]
    rare = dict[str, int]()
    if isinstance(attribute, Product):
        found, counts = np.unique(y_test, return_counts=True)
        is_rare = np.isin(y_test, found[counts < least])
        is_used = np.isin(y_train, found[counts >= least])
        rare = class_counts(attribute, y_test[is_rare])
        at_train, y_train, at_test, y_test = at_train[is_used], y_train[is_used], at_test[~is_rare], y_test[~is_rare]
        if len(np.unique(y_train)) < 2:
            return [], [TOO_RARE.format(attribute.name, least)]
    if len(y_test) and UNEQUAL < max(majority_rate(y_train), majority_rate(y_test)) < 1:
        probes = tuple(
            name for probe in probes for name in (probe, *((probe + WEIGHTED,) if attacker_of(probe).twin() else ()))
        )
    sides = at_train, at_test, y_train, y_test
    index = rows.stages.labels[at_test]
    jobs = [_Job(attribute, adversary, probe, *sides, index, untrained, rare, rows) for probe in probes]
    return jobs if len(y_test) else [], _doubts(attribute, adversary, y_test, untrained, rare, least)


def _doubts(
    attribute: Attribute,
    adversary: str,
    y_test: NDArray[Any],
    untrained: dict[str, int],
    rare: dict[str, int],
    least: int,
) -> list[str]:
    """Return notes on what limits the meaning of the figures on these test rows."""
    notes = []
    if len(np.unique(y_test)) == 1:
        notes.append(
            f"{attribute.name}: the test rows are all of one class: no attacker does better than a blind guess"
        )
    if untrained:
        n = sum(untrained.values())
        n_all = n + sum(rare.values()) + len(y_test)
        notes.append(
            f"{attribute.name}: {n:,} of {n_all:,} test rows are left out, of classes that the {adversary} "
            f"attacker was not trained on: {listed_counts(untrained)}"
        )
    if rare:
        n = sum(rare.values())
        notes.append(
            f"{attribute.name}: {n:,} of {n + len(y_test):,} test rows are left out, of classes with fewer than "
            f"{least} of them: {listed_counts(rare)}"
        )
    return notes


def _result(
    job: _Job, reading: Reading, stage: str, settings: Settings, seed: int, *, is_capped: bool, is_pooled: bool = False
) -> ProbeResult:
    """Train the attacker on one stage and measure it on the test rows."""
    classifier = attacker_of(job.probe).fit(reading.train(stage, settings), job.y_train, settings, seed)
    new, true = reading.test(stage, settings), job.y_test
    predicted = classifier.predict(new)
    n_right, classes = int(np.sum(predicted == true)), np.unique(job.y_train)
    error, balanced_error = errors(predicted, true)
    scores = classifier.decision(new)
    area = areas(scores, true, classes)
    shares, counts = recalls(predicted, true)
    names = class_counts(job.attribute, true)
    unrated = {} if len(classes) == 2 else class_counts(job.attribute, true[~np.isin(true, rated_classes(true))])
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
        n_classes=len(classes),
        n_left_out=sum(job.untrained.values()) + sum(job.rare.values()),
        untrained_classes=tuple(job.untrained),
        rare_classes=tuple(job.rare),
        factors=job.attribute.factors if isinstance(job.attribute, Product) else (),
        hyperparameters=settings,
        weighted=job.probe != base_name(job.probe),
        form=job.rows.name,
        n_test_classes=len(np.unique(true)),
        accuracy_error=error,
        balanced_error=balanced_error,
        areas=area,
        unrated_classes=tuple(unrated),
        answers=Answers(job.labels, true, predicted, scores, classes, job.attribute.classes or ())
        if is_pooled
        else None,
        recalls=dict(zip(names, zip(shares.tolist(), counts.astype(int).tolist(), strict=True), strict=True)),
    )


def _require_memory(jobs: list[_Job]) -> None:
    sizes = sorted(_job_bytes(job) for job in jobs)
    require_memory(sum(sizes[-LOCAL.n_workers :]), "training the attackers", "lower `attacker_rows`")


def _job_bytes(job: _Job) -> int:
    """Return a bound of the bytes of one job: its rows or inner products, and what the attacker takes besides."""
    n, m, d = len(job.at_train), len(job.at_test), job.rows.stages.width
    attacker = attacker_of(job.probe)
    if attacker.reads == "kernel":
        return 8 * n * (n + 2 * m) + attacker.memory_bytes(n, m, d)
    return int(8 * 4 * (n + m) * d) + attacker.memory_bytes(n, m, d)  # whitened, too


def asked_for(
    labels: GuardedLabels, options: EvaluateOptions, probes: tuple[str, ...], forms: Iterable[str] | None = None
) -> Asked:
    """Return what gates expect to have been measured.

    Parameters
    ----------
    labels : with the guarded attributes
    options : of the evaluation
    probes : names of the attackers
    forms : of the rows that are attacked; default: raw alone, if it is among those of the options
    """
    read = [attribute.name for attribute in attacked(labels, options)]
    unjudged = [attribute.name for attribute in labels.attributes if attribute.classes is None and not options.max_r2]
    if forms is None:
        forms = (RAW,) if RAW in options.attacked_forms else options.attacked_forms
    due = {probe: tuple(form for form in forms if readers_of(form, (probe,))) for probe in probes}
    unit = "test rows" if labels.groups is None else "test rows in groups of such sizes"
    return Asked(tuple(itertools.product(read, options.adversaries, probes)), tuple(unjudged), forms=due, unit=unit)
