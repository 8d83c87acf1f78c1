"""Repeated measurements: for several values of one parameter of the erasure, and over fits on few labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index
from salcli.data.sampling import stratified_sample
from salcli.data.source import Source
from salcli.data.splits import EvaluationSplit
from salcli.erasers.artifact import Artifact
from salcli.erasers.base import Eraser
from salcli.errors import LabelError, RankError, UsageError
from salcli.evaluation.attack import UNCONVERGED, attack
from salcli.evaluation.attack_numbers import attack_numbers, chosen_regressors
from salcli.evaluation.attackers import REGRESSORS, names_of
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.measures import recorded, run_swept
from salcli.evaluation.not_retrained import trained_before
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Measurement, RepeatedFigure, Repeats, SweepStep
from salcli.evaluation.requested import chosen_probes
from salcli.evaluation.stages import Erasure, Stages, stage_rows
from salcli.evaluation.task import TASK
from salcli.options import EvaluateOptions
from salcli.streaming.engine import current_engine
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress, Silent


@dataclass(frozen=True, eq=False)
class Again:
    """The inputs of repeated measurements."""

    source: Source
    labels: GuardedLabels
    """The labels that are attacked."""
    guarded: GuardedLabels
    """The labels that erasers are fitted to, of the same rows."""
    artifact: Artifact
    erasure: Erasure
    stages: Stages
    plan: EvaluationSplit
    row_of_label: NDArray[np.int64]
    rows: BeforeAfter
    """The input of the evaluation's measures."""


def require_repeatable(
    artifact: Artifact, erasure: Erasure, guarded: GuardedLabels, plan: EvaluationSplit, options: EvaluateOptions
) -> None:
    """Check, before anything is trained, that the eraser can be fitted again.

    Parameters
    ----------
    artifact : of the eraser
    erasure : what is evaluated
    guarded : the labels that the eraser is fitted to
    plan : which rows were fitted
    options : with `sweep`, `repeats` and `sample`

    Raises
    ------
    LabelError : fewer rows were fitted than `sample`, or a sample has nothing to fit
    RankError : all values of a sweep are above the rank
    UsageError : the eraser writes no vectors
    """
    rank, sweep = int(artifact.header["rank"]), options.sweep
    if sweep is not None and sweep.parameter == "k" and sweep.values[0] > rank:
        raise RankError(f"`sweep=k={sweep.values[0]:g}…`: the rank is {rank}, so there is nothing to measure")
    if options.sweep is not None or options.repeats is not None:
        whole = _written(erasure)
        refits_k = sweep is not None and sweep.parameter == "k" and (whole.k != rank or whole.truncated(1) is None)
        if options.repeats is not None or refits_k:
            _parameters_of(artifact, k=rank if refits_k else None)
    if options.repeats is not None and (options.sample or 0) > len(plan.fitted):
        raise LabelError(f"`sample={options.sample}`: only {len(plan.fitted):,} rows were fitted")
    for index in _samples(guarded, plan.fitted, options):
        try:
            guarded.restricted_to(index).require_variety()
        except LabelError as error:
            raise LabelError(f"`sample={options.sample}` is too small for `repeats`: on one sample, {error}") from error


def _samples(guarded: GuardedLabels, fitted: Index, options: EvaluateOptions) -> Iterator[Index]:
    """Yield the labels of each repeated fit."""
    for i in range(options.repeats or 0):
        yield stratified_sample(guarded, fitted, options.sample or 0, options.seed + 1 + i)


def sweep(
    again: Again,
    options: EvaluateOptions,
    progress: Progress,
    results: Sequence[ProbeResult] = (),
) -> tuple[tuple[SweepStep, ...], tuple[str, ...]]:
    """Return the results of attackers and swept measures for each value of `sweep`.

    Parameters
    ----------
    again : what is measured
    options : with `sweep`, or without
    progress : shows the stage
    results : of the attackers at both stages; along strength those of before are applied without training them again

    Returns
    -------
    a step for each value, and notes

    Raises
    ------
    UsageError : the eraser writes no vectors, or `sweep=k` and the method has no k
    """
    if options.sweep is None:
        return (), ()
    parameter, values = options.sweep.parameter, options.sweep.values
    whole, notes = _written(again.erasure), []
    if parameter == "k":
        whole, rank = _of_full_rank(again, whole, progress)
        if values[-1] > rank:
            notes.append(f"`sweep=k`: the rank is {rank}, so the sweep ends there")
        values = tuple(value for value in values if value <= rank)
    trained = []
    if parameter == "strength":
        trained = list(trained_before(again.stages, again.labels, again.plan, results, options.seed))
    steps: list[SweepStep] = []
    with progress.stage("sweep", len(values), "values") as advance:
        for value in values:
            erasure = _at(again, whole, parameter, value)
            stages = replace(again.stages, after=erasure.erased(again.stages.rows), kernel=None, erasure=erasure)
            found = _measured(again, erasure, stages, again.plan, options)
            step = SweepStep(
                probes=found.probes, numeric=found.numeric, measures=found.measures, parameter=parameter, value=value
            )
            if stages.after is not None and stages.after.shape[1] == stages.before.shape[1]:
                step = replace(step, not_retrained=tuple(each.read(stages.after) for each in trained))
            steps.append(step)
            advance(1)
    return tuple(steps), (*notes, *_doubts("sweep", steps))


def repeat_fits(
    again: Again,
    options: EvaluateOptions,
    progress: Progress,
) -> tuple[Repeats | None, tuple[str, ...]]:
    """Return the mean of every figure over fits on `repeats` stratified subsets of `sample` fitted rows.

    In-sample attackers are trained on the rows of each fit, the main task on all fitted rows.

    Parameters
    ----------
    again : what is measured
    options : with `repeats`, or without
    progress : shows the stage

    Returns
    -------
    mean and standard deviation of every figure (None: without repeats), and notes

    Raises
    ------
    UsageError : the eraser writes no vectors
    """
    if options.repeats is None:
        return None, ()
    found: list[Measurement] = []
    _written(again.erasure)
    with progress.stage("repeat", options.repeats, "fits") as advance:
        for index in _samples(again.guarded, again.plan.fitted, options):
            eraser = _refitted(again, index, Silent())
            changed = replace(again.erasure, eraser=eraser, kernel=None)
            plan = again.plan.fitted_on(index, again.labels, options.attacker_rows, options.seed)
            needed = np.union1d(again.plan.needed, plan.needed)
            stages = stage_rows(again.source, changed, again.row_of_label, needed, Silent())
            found.append(_measured(again, changed, stages, plan, options))
            advance(1)
    repeats = Repeats(options.repeats, options.sample or 0, repeated_figures(found), tuple(found))
    return repeats, _doubts("repeats", found)


def repeated_figures(found: Sequence[Measurement]) -> tuple[RepeatedFigure, ...]:
    """Return mean and sample standard deviation of the figures that every measurement in `found`, at least one, has."""
    runs = [dict(_figures(each)) for each in found]
    values = {name: [run[name] for run in runs] for name in runs[0] if all(name in run for run in runs)}
    return tuple(
        RepeatedFigure(name, float(np.mean(each)), float(np.std(each, ddof=1)) if len(each) > 1 else None, tuple(each))
        for name, each in values.items()
    )


def _doubts(name: str, found: Sequence[Measurement]) -> tuple[str, ...]:
    """Return how many attackers and main tasks did not converge."""
    attackers = [probe.converged for each in found for probe in each.probes]
    tasks = [task.converged for each in found if (task := each.of(TASK)) is not None]
    notes = []
    if not all(attackers):
        notes.append(f"{name}: {UNCONVERGED.format(attackers.count(False), len(attackers))}")
    if not all(tasks):
        notes.append(f"{name}: the main task did not converge in {tasks.count(False)} of {len(tasks)} steps")
    return tuple(notes)


def _written(erasure: Erasure) -> Eraser:
    if erasure.eraser is None:
        raise UsageError("`sweep` and `repeats` need vectors: leave `probes=same-kernel` out")
    return erasure.eraser


def _measured(
    again: Again, erasure: Erasure, stages: Stages, plan: EvaluationSplit, options: EvaluateOptions
) -> Measurement:
    """Return figures of the later stage of an erasure: attackers by the plan of its fit, measures by the first plan.

    Rows are attacked in the first of the forms alone: a sweep is long.
    """
    probes = tuple(name for name in chosen_probes(again.artifact, options) if name in names_of("vectors"))
    one_form = replace(options, forms=options.forms[:1])
    results, _ = attack(stages, again.labels, plan, probes, one_form, Silent(), "after")
    regressors = chosen_regressors(again.artifact, again.labels, options)
    regressors = tuple(name for name in regressors if REGRESSORS[name].reads == "vectors")
    numeric, _ = attack_numbers(stages, again.labels, plan, regressors, one_form, Silent(), "after")
    labelled = Labelled(again.labels, again.plan, stages)
    rows = BeforeAfter(again.source, erasure, options, labelled, cache=again.rows.cache)
    return Measurement(probes=results, numeric=numeric, measures=run_swept(rows))


def _at(again: Again, whole: Eraser, parameter: str, value: float) -> Erasure:
    erasure = again.erasure
    if parameter == "strength":
        return replace(erasure, strength=value)
    k = int(value)
    if k == 0:
        return replace(erasure, strength=0.0)
    return replace(erasure, eraser=whole.truncated(k) or _refitted(again, again.plan.fitted, Silent(), k=k))


def _of_full_rank(again: Again, whole: Eraser, progress: Progress) -> tuple[Eraser, int]:
    rank = int(again.artifact.header["rank"])
    if whole.k == rank or whole.truncated(1) is None:
        return whole, rank
    return _refitted(again, again.plan.fitted, progress, k=rank), rank


def _refitted(again: Again, index: Index, progress: Progress, *, k: int | None = None) -> Eraser:
    """Fit with the artifact's own method and parameters, on other rows or with another k.

    Raises
    ------
    UsageError : the method has no k
    """
    return fit_again(
        again.artifact, again.source, again.guarded, again.row_of_label, index, progress, k=k
    ).to_features()


def fit_again(
    artifact: Artifact,
    source: Source,
    guarded: GuardedLabels,
    row_of_label: Index,
    index: Index,
    progress: Progress,
    *,
    k: int | None = None,
) -> Eraser:
    """Return the eraser that an artifact's own method and parameters fit to some rows.

    Parameters
    ----------
    artifact : of the eraser
    source : the embeddings
    guarded : the labels that erasers are fitted to
    row_of_label : `[m]` embedding row of each label
    index : `[n]` the labels to fit to
    progress : shows the stages
    k : directions to remove; None: as the artifact chose them

    Raises
    ------
    UsageError : the method has no k
    """
    parameters = _parameters_of(artifact, k=k)
    chosen = guarded.restricted_to(index)
    rows = LabelledSource.of(source, chosen, row_of_label[index])
    seed = artifact.rule.seed
    fit = artifact.method.fit(rows, parameters, task=chosen.task, seed=seed, engine=current_engine(), progress=progress)
    return fit.eraser


def _parameters_of(artifact: Artifact, *, k: int | None) -> Any:
    """Return the parameters of an artifact's method, with another k if one is requested.

    Raises
    ------
    FormatError : this version does not have the method, or its parameters
    UsageError : the method has no k
    """
    parameters = artifact.parameters
    if k is None:
        return parameters
    names = {field.name for field in fields(parameters)}
    if "k" not in names:
        raise UsageError(f"`sweep=k`: method {artifact.method.name} has no k")
    return replace(parameters, k=k, **({"alpha": None} if "alpha" in names else {}))


def _figures(found: Measurement) -> Iterator[tuple[str, float]]:
    """Yield name and value of each figure that is defined."""
    for probe in found.probes:
        yield f"{probe.attribute}, {probe.attacker}: accuracy", probe.accuracy
    for result in found.numeric:
        yield f"{result.attribute}, {result.probe}, {result.adversary}: R²", result.r2
    for measure, record in recorded(found):
        for figure in measure.figures(record):
            yield figure.name, figure.value
