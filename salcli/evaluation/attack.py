"""Training of attackers on their rows, and their results on the test rows, before and after erasure."""

from dataclasses import replace

import numpy as np

from salcli.data.labels import GuardedLabels, Index
from salcli.data.split_parts import TEST
from salcli.data.splits import WHITE_BOX, EvaluationSplit
from salcli.evaluation.answers import pooled
from salcli.evaluation.attack_jobs import Job, effort, jobs_of, require_room, stage_names, twin_of
from salcli.evaluation.attackers import attacker_of, base_name
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
from salcli.evaluation.intersections import LEAST_ROWS, Product, attacked, least_rows
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.readings import Reading, reading_of, training_rows
from salcli.evaluation.requested import readers_of
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions
from salcli.streaming.engine import map_in_threads
from salcli.streaming.progress import Progress

UNCONVERGED = "{} of {} attackers did not converge: their figures are not to be trusted"
NOTHING_TO_INVERT = (
    "white-box: erased rows have no trace of what the eraser removed, so whoever holds it reads what the fresh "
    "attacker reads"
)


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
    jobs, least = list[Job](), least_rows(LEAST_ROWS, options)
    forms = in_forms(stages, options.attacked_forms, split.fitted)
    notes = [] if only == "before" else list(notes_on_forms(options.attacked_forms, forms))  # rows after may differ
    for attribute in attacked(labels, options):
        for adversary in split.trainers:
            at_train, at_test = (stages.at(split.having(attribute, name, labels)) for name in (adversary, TEST))
            for form in read_by(adversary, forms):
                readers = readers_of(form.name, probes)
                of_form, doubts = jobs_of(attribute, adversary, at_train, at_test, form, readers, least)
                jobs += of_form
                notes += doubts
    require_room(jobs)
    is_pooled = options.folds is not None or labels.groups is not None
    work = [(job, name) for job in jobs for name in stage_names(job) if only in (None, name)]
    places = {job.name(name): at for at, (job, name) in enumerate(work)}
    shared = {
        at: place for at, (job, name) in enumerate(work) if (place := places.get(twin_of(job, name, stages), at)) != at
    }
    order = [at for at in range(len(work)) if at not in shared]
    order.sort(key=lambda at: -effort(work[at][0]))  # the longest first: all threads end at once

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
    stages: Stages, labels: GuardedLabels, split: EvaluationSplit, result: ProbeResult, index: Index, seed: int
) -> ProbeResult | None:
    """Train an attacker again, in its form and with its settings, and measure it on other rows than the test rows.

    Parameters
    ----------
    stages : the rows of the split
    labels : with the guarded attributes
    split : with the rows that trained it
    result : its result
    index : labels of the other rows
    seed : of its random choices

    Returns
    -------
    None where none of the rows has a class that it was trained on
    """
    attribute = next(each for each in labels.attributes if each.name == result.attribute)
    at_train, at = stages.at(split.having(attribute, result.adversary, labels)), stages.at(index)
    at = at[attribute.codes(stages.labels[at]) >= 0]
    rows = Form(result.form, in_form(stages.read_by(result.adversary), result.form, split.fitted))
    jobs, _ = jobs_of(attribute, result.adversary, at_train, at, rows, (result.probe,))
    if not jobs:
        return None
    reading = reading_of(attacker_of(result.probe), rows.stages, at_train, jobs[0].at_test)
    return _result(jobs[0], reading, result.stage, result.hyperparameters, seed, is_capped=result.capped)


def _tuned(job: Job, reading: Reading, stage: str, seed: int) -> Settings:
    return tuned(attacker_of(job.probe), training_rows(reading, stage, job.y_train), seed)


def _result(
    job: Job, reading: Reading, stage: str, settings: Settings, seed: int, *, is_capped: bool, is_pooled: bool = False
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
