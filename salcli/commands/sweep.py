"""Measuring again and again: along one parameter of the erasure, and over fits on few labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.join import LabelledRows
from salcli.data.labels import GuardedLabels, Index
from salcli.data.source import Source
from salcli.data.splits import stratified_sample
from salcli.erasers.artifact import Artifact
from salcli.erasers.kernel import FeatureEraser
from salcli.erasers.linear import LinearEraser
from salcli.erasers.sal import fit_sal
from salcli.errors import LabelError, RankError, UsageError
from salcli.evaluation import utility as keeping
from salcli.evaluation.attack import UNCONVERGED, attack, chosen_probes
from salcli.evaluation.plan import RowPlan
from salcli.evaluation.report import Fields
from salcli.evaluation.stages import Erasure, Stages, stage_rows
from salcli.options import SAME_KERNEL, EvaluateOptions
from salcli.streaming.passes import fold_moments
from salcli.streaming.progress import Progress, Silent

Figures = dict[str, float]


@dataclass(frozen=True, eq=False)
class Again:
    """What is measured again and again."""

    source: Source
    labels: GuardedLabels
    """What is attacked."""
    guarded: GuardedLabels
    """What erasers are fitted to, label by label the same."""
    artifact: Artifact
    erasure: Erasure
    stages: Stages
    plan: RowPlan
    row_of_label: NDArray[np.int64]
    words: keeping.Words


def require_repeatable(
    artifact: Artifact, erasure: Erasure, guarded: GuardedLabels, plan: RowPlan, options: EvaluateOptions
) -> None:
    """Refuse, before anything is trained, what cannot be measured again.

    Raises
    ------
    LabelError : fewer rows were fitted than the sample asks for, or a sample has nothing to fit
    RankError : all values of a sweep are above the rank
    UsageError : nothing is written that could be looked at
    """
    rank, asked = int(artifact.header["rank"]), options.sweep
    if asked is not None and asked.parameter == "k" and asked.values[0] > rank:
        raise RankError(f"--sweep k={asked.values[0]:g}…: the rank is {rank}, so there is nothing to measure")
    if options.sweep is not None or options.repeats is not None:
        _written(erasure)
    if options.repeats is not None and (options.sample or 0) > len(plan.fitted):
        raise LabelError(f"--sample {options.sample}: only {len(plan.fitted)} rows were fitted")
    for index in _samples(guarded, plan.fitted, options):
        try:
            guarded.restricted_to(index).require_variety()
        except LabelError as error:
            raise LabelError(f"--sample {options.sample} is too small for --repeats: on one sample, {error}") from error


def _samples(guarded: GuardedLabels, fitted: Index, options: EvaluateOptions) -> Iterator[Index]:
    """Draw the rows of each repeated fit."""
    for i in range(options.repeats or 0):
        yield stratified_sample(guarded, fitted, options.sample or 0, options.seed + 1 + i)


def sweep(
    again: Again,
    options: EvaluateOptions,
    progress: Progress,
) -> tuple[tuple[Fields, ...], tuple[str, ...]]:
    """Measure everything that was asked for at each value of `--sweep`; moments are folded once.

    Returns
    -------
    a record for each value, and notes
    """
    if options.sweep is None:
        return (), ()
    parameter, values = options.sweep.parameter, options.sweep.values
    whole, notes = _written(again.erasure), []
    if parameter == "k":
        whole, rank = _of_full_rank(again, whole, progress)
        if values[-1] > rank:
            notes.append(f"--sweep k: the rank is {rank}, so the sweep ends there")
        values = tuple(value for value in values if value <= rank)
    steps: list[Fields] = []
    with progress.stage("sweep", len(values), "values") as advance:
        for value in values:
            erasure = _at(again.erasure, whole, parameter, value)
            stages = replace(again.stages, after=erasure.erased(again.stages.rows), kernel=None)
            steps.append(_measured(again, erasure, stages, again.plan, options))
            steps[-1] |= {"parameter": parameter, "value": value}
            advance(1)
    return tuple(steps), (*notes, *_doubts("sweep", steps))


def repeat_fits(
    again: Again,
    options: EvaluateOptions,
    progress: Progress,
) -> tuple[Fields | None, tuple[str, ...]]:
    """Fit on `--repeats` stratified subsets of `--sample` fitted rows; give mean and standard deviation of everything.

    In-sample attackers are trained on the rows of each fit, the main task on all fitted rows.

    Returns
    -------
    what was found (None: nothing was asked for), and notes
    """
    if options.repeats is None:
        return None, ()
    n, steps = options.repeats, list[Fields]()
    whole = _written(again.erasure)
    rule = again.artifact.header["k_rule"]  # "rank" may give another k where a class is missing from a sample
    runs: list[Figures] = []
    with progress.stage("repeat", n, "fits") as advance:
        for index in _samples(again.guarded, again.plan.fitted, options):
            eraser = _refitted(again, whole, index, Silent(), k=rule.get("given"), alpha=rule.get("alpha"))
            changed = replace(again.erasure, eraser=eraser, kernel=None)
            plan = again.plan.fitted_on(index, again.labels, options)
            needed = np.union1d(again.plan.needed, plan.needed)
            stages = stage_rows(again.source, changed, again.row_of_label, needed, Silent())
            steps.append(_measured(again, changed, stages, plan, options))
            runs.append(dict(_figures(steps[-1])))
            advance(1)
    figures = [
        {
            "name": name,
            "mean": float(np.mean([run[name] for run in runs])),
            "std": float(np.std([run[name] for run in runs], ddof=1)),
            "values": [run[name] for run in runs],
        }
        for name in runs[0]
        if all(name in run for run in runs)
    ]
    return {"n": n, "sample": options.sample or 0, "figures": figures}, _doubts("repeats", steps)


def _doubts(name: str, steps: list[Fields]) -> tuple[str, ...]:
    """Say how many attackers and main tasks of all steps are not to be trusted."""
    attackers = [probe["converged"] for step in steps for probe in step["probes"]]
    tasks = [step["task"]["converged"] for step in steps if step["task"]]
    told = []
    if not all(attackers):
        told.append(f"{name}: {UNCONVERGED.format(attackers.count(False), len(attackers))}")
    if not all(tasks):
        told.append(f"{name}: the main task did not converge in {tasks.count(False)} of {len(tasks)} steps")
    return tuple(told)


def _written(erasure: Erasure) -> LinearEraser | FeatureEraser:
    if erasure.eraser is None:
        raise UsageError("--sweep and --repeats look at written vectors: leave --probes same-kernel out")
    return erasure.eraser


def _measured(again: Again, erasure: Erasure, stages: Stages, plan: RowPlan, options: EvaluateOptions) -> Fields:
    """Measure the later stage of an erasure: attackers by the plan of its fit, the task by the first plan."""
    probes = tuple(name for name in chosen_probes(again.artifact, options) if name != SAME_KERNEL)
    results, _ = attack(stages, again.labels, plan, probes, options, Silent(), "after")
    return {
        "probes": [result.to_dict() for result in results],
        "similarity": list(keeping.similarity(again.words, erasure, options)),
        "task": keeping.task(stages, again.labels, again.plan, options)[0],
    }


def _at(erasure: Erasure, whole: LinearEraser | FeatureEraser, parameter: str, value: float) -> Erasure:
    if parameter == "strength":
        return replace(erasure, strength=value)
    k = int(value)
    return replace(erasure, strength=0.0) if k == 0 else replace(erasure, eraser=_first(whole, k))


def _first(whole: LinearEraser | FeatureEraser, k: int) -> LinearEraser | FeatureEraser:
    """Keep the first k directions."""
    if isinstance(whole, FeatureEraser):
        return FeatureEraser(whole.features, _first_of(whole.linear, k))
    return _first_of(whole, k)


def _first_of(whole: LinearEraser, k: int) -> LinearEraser:
    return LinearEraser(whole.mean, whole.left[:, :k], whole.right[:, :k])


def _of_full_rank(
    again: Again, whole: LinearEraser | FeatureEraser, progress: Progress
) -> tuple[LinearEraser | FeatureEraser, int]:
    rank = int(again.artifact.header["rank"])
    if whole.k == rank:
        return whole, rank
    return _refitted(again, whole, again.plan.fitted, progress, k=rank), rank


def _refitted(
    again: Again,
    whole: LinearEraser | FeatureEraser,
    index: Index,
    progress: Progress,
    *,
    k: int | None = None,
    alpha: float | None = None,
) -> LinearEraser | FeatureEraser:
    """Fit as the artifact was fitted, on other rows or with another k."""
    is_centred = bool(again.artifact.header["is_centred"])
    features = whole.features if isinstance(whole, FeatureEraser) else None
    chosen = again.guarded.restricted_to(index).standardised(is_centred=is_centred)
    moments = fold_moments(
        again.source, chosen, LabelledRows.of(again.row_of_label[index]), progress, features, is_centred=is_centred
    )
    linear = fit_sal(moments, k, alpha=alpha, is_centred=is_centred).eraser
    return linear if features is None else FeatureEraser(features, linear)


def _figures(measured: Fields) -> Iterator[tuple[str, float]]:
    """Name each number of a measurement that is defined."""
    for probe in measured["probes"]:
        yield f"{probe['attribute']}, {probe['probe']}, {probe['adversary']}: accuracy", probe["accuracy"]
    for score in measured["similarity"]:
        yield from _defined(f"similarity {score['set']}", score["after"])
    if task := measured["task"]:
        yield from _defined(f"task {task['column']}: accuracy", task["accuracy"]["after"])
        for of, aside in ((task, ""), *((other, f", {other['guarded']}") for other in task["others"])):
            for name in ("tpr_gap", "tpr_gap_rms"):
                yield from _defined(f"task {task['column']}: {name}{aside}", of[name] and of[name]["after"])


def _defined(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if value is not None:
        yield name, float(value)
