"""Gates on what must be kept: the main task, word similarity, nearest neighbours."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf, sqrt

from salcli.evaluation.evidence import Estimate, Share
from salcli.evaluation.gates.judge import LEAST_USABLE, NOTHING_DUE, Expected, Judge, Measured, failed, untrained_reason
from salcli.evaluation.main_task import Task
from salcli.evaluation.neighbors import Neighbors
from salcli.evaluation.report import Gate
from salcli.evaluation.shares import difference
from salcli.evaluation.similarity import SimilarityChange
from salcli.evaluation.text import listed

LEAST_PAIRS = 0.5
"""Share of the pairs of a similarity set that must be in the vocabulary."""


def tpr_gap_gate(limit: float, task: Task | None, stage: str, judge: Judge, expected: Expected = NOTHING_DUE) -> Gate:
    """Return the gate on the TPR gap of the main task: for two groups the gap, for more its root mean square.

    Of several guarded attributes every gap counts.

    Parameters
    ----------
    limit : largest gap, 0…1
    task : figures of the main task; None fails
    stage : the one that is judged, before or after
    judge : by bounds or by the figures
    expected : reasons why no gate on labelled rows can pass
    """
    name = "max-tpr-gap"
    if task is None:
        return failed(name, limit, "the main task was not measured")
    if stage in task.undefined:
        return failed(name, limit, f"the TPR gap is undefined: {task.undefined[stage]}")
    measured = []
    for by_group in task.every:
        gap = by_group.tpr_gap or by_group.tpr_gap_rms
        value = None if gap is None else gap.at(stage)
        if gap is None or value is None:
            return failed(
                name,
                limit,
                f"the TPR gap between the groups of {by_group.guarded} is undefined: no class has positives in all",
            )
        test = gap.tests.get(stage)
        n_all = sum(rate.n for rate in by_group.tpr if rate.stage == stage)
        if test is not None and (n_used := int(test.n.sum())) < LEAST_USABLE * n_all:
            left_out = listed(dict.fromkeys(cell.class_name for cell in by_group.excluded), 3)
            why = f"only {n_used} of {n_all} test rows are of classes that every group of {by_group.guarded} has"
            return failed(name, limit, f"{why} ({left_out} left out): at least {LEAST_USABLE:.0%} must be", value=value)
        aside = f"between the groups of {by_group.guarded}" if task.others else ""
        n = task.n_test if test is None else int(test.n.sum())
        measured.append(Measured(test or Estimate(value, inf), value, n, aside))
    return _task_gate(name, limit, task, measured, judge, expected)


def task_accuracy_gate(
    limit: float, task: Task | None, stage: str, judge: Judge, expected: Expected = NOTHING_DUE
) -> Gate:
    """Return the gate on the accuracy of the main task.

    Parameters
    ----------
    limit : least accuracy, 0…1
    task, stage, judge, expected : see `tpr_gap_gate`
    """
    name = "min-task-accuracy"
    accuracy = None if task is None else task.accuracy.at(stage)
    if task is None or accuracy is None:
        return failed(name, limit, "the main task was not measured")
    n = (task.n_effective or {}).get(stage, task.n_test)
    share = Share(round(accuracy * task.n_test) * (n / task.n_test), n, inflation=task.n_test / n)
    return _task_gate(name, limit, task, [Measured(share, accuracy, task.n_test)], judge, expected)


def task_kept_gate(limit: float, task: Task | None, judge: Judge, expected: Expected = NOTHING_DUE) -> Gate:
    """Return the gate on the share of the main task's accuracy above the majority rate that is kept after erasure.

    Parameters
    ----------
    limit : least share, 0…1
    task, judge, expected : see `tpr_gap_gate`
    """
    name = "min-task-kept"
    if task is None or task.accuracy.after is None or task.both_right is None:
        return failed(name, limit, "the main task was not measured before and after")
    if "before" in task.undefined:
        return failed(name, limit, f"there is nothing to keep: {task.undefined['before']}")
    before, after = task.accuracy.before, task.accuracy.after
    kept = difference(after, task.majority) / difference(before, task.majority)
    n, both = min((task.n_effective or {}).values(), default=task.n_test), task.both_right
    only_before, only_after = (
        before - both + 1 / n,
        after - both + 1 / n,
    )  # one more of each: few rows that agree prove little
    spread = only_after + kept**2 * only_before + (1 - kept) ** 2 * both - (after - kept * before) ** 2
    error = sqrt(max(0.0, spread) / n) / (before - task.majority)  # of a ratio of two shares of the same rows
    return _task_gate(name, limit, task, [Measured(Estimate(kept, error), kept, task.n_test)], judge, expected)


def similarity_gate(limit: float, changes: Iterable[SimilarityChange], judge: Judge) -> Gate:
    """Return the gate on the share of word similarity that is kept: Spearman's ρ after over before, of every set.

    Parameters
    ----------
    limit : least share, 0…1
    changes : a record for each set
    judge : by bounds or by the figures, and how many pairs a set needs
    """
    name = "min-similarity-kept"
    measured = []
    for change in changes:
        if change.before is None or change.after is None or change.before <= 0:
            return failed(name, limit, f"{change.name}: undefined, or not positive before erasure")
        if change.pairs_used < max(judge.min_pairs, LEAST_PAIRS * change.pairs_total):
            return failed(
                name, limit,
                f"{change.name}: only {change.pairs_used} of {change.pairs_total} pairs can be compared, "
                f"at least {judge.min_pairs} (`min_pairs`) and half of them are needed",
            )  # fmt: skip
        if change.pairs_used < LEAST_USABLE * (n := change.pairs_used + change.zero_pairs):
            why = f"{change.zero_pairs} of {n} pairs have a zero vector before or after"
            return failed(name, limit, f"{change.name}: {why}: at most {1 - LEAST_USABLE:.0%} may")
        kept = change.after / change.before
        error = inf if change.kept_error is None else change.kept_error
        measured.append(Measured(Estimate(kept, error), kept, change.pairs_used, unit=f"pairs of {change.name}"))
    return judge.gate(name, limit, measured) if measured else failed(name, limit, "no similarity set was measured")


def neighbors_gate(limit: float, found: Neighbors | None, judge: Judge, n_rows: int | None = None) -> Gate:
    """Return the gate on the mean share of the ten nearest rows that stay the same.

    Parameters
    ----------
    limit : least share, 0…1
    found : overlap of the neighbours before and after; None fails
    judge : by bounds or by the figures
    n_rows : of the file, if that is known
    """
    name = "min-neighbors-kept"
    if found is None or found.mean_overlap_at_10 is None:
        return failed(name, limit, "no row has neighbours before and after")
    kept = found.mean_overlap_at_10
    error = inf if found.overlap_error is None else found.overlap_error
    return judge.gate(
        name, limit, [Measured(Estimate(kept, error), kept, found.n_sampled, unit="sampled rows", n_all=n_rows)]
    )


def _task_gate(
    name: str, limit: float, task: Task, measured: Sequence[Measured], judge: Judge, expected: Expected
) -> Gate:
    values = [each.value for each in measured]
    value = max(values) if name.startswith("max") else min(values)
    if expected.doubts:
        return failed(name, limit, *expected.doubts, value=value)
    if not task.converged:
        return failed(name, limit, "the main task did not converge", value=value)
    if task.usable < LEAST_USABLE:
        n_left_out = sum(task.untrained.values())
        return failed(name, limit, untrained_reason(n_left_out, task.n_test, task.column, "main task", task.untrained))
    return judge.gate(name, limit, [replace(each, unit=expected.unit) for each in measured])
