"""A whole report, judged by every limit in the options: the evaluation, repeated fits, and further steps of a sweep."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from salcli.evaluation.attackers import REGRESSORS, base_name, names_of
from salcli.evaluation.baseline import Baseline
from salcli.evaluation.gates import (
    Expected,
    Judge,
    accuracy_gate,
    gain_gate,
    leak_gate,
    leak_increase_gate,
    neighbors_gate,
    r2_gate,
    similarity_gate,
    task_accuracy_gate,
    task_kept_gate,
    tpr_gap_gate,
)
from salcli.evaluation.neighbors import NEIGHBORS
from salcli.evaluation.report import EraserSummary, Gate, Measurement, Report
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.task import TASK
from salcli.evaluation.text import general
from salcli.options import EvaluateOptions

RANKS = ("passed", "undecided", "failed")


def judged(report: Report, expected: Expected, options: EvaluateOptions, baseline: Baseline | None = None) -> Report:
    """Return a report with its gates judged.

    Parameters
    ----------
    report : all that was measured
    expected : what the gates expect to have been measured
    options : with the limits of the gates
    baseline : the release that leaks are compared with
    """
    gates_of = partial(_gates, expected=expected, options=options, baseline=baseline)
    return replace(report, gates=worst_gates(report, gates_of))


def _gates(
    report: Report, n_settings: int, *, expected: Expected, options: EvaluateOptions, baseline: Baseline | None
) -> list[Gate]:
    stage, task = report.judged_stage, report.of(TASK)
    judge = Judge(options.confidence if options.judge == "bounds" else None, options.min_pairs, n_settings)
    attackers = (*report.probes, *report.bands)
    gates = [accuracy_gate(g.limit, g.probe, expected, attackers, stage, judge) for g in options.max_accuracy]
    gates += [gain_gate(g.limit, g.probe, expected, attackers, stage, judge) for g in options.max_gain]
    gates += [leak_gate(g.limit, g.probe, expected, attackers, stage, judge) for g in options.max_leak]
    gates += [r2_gate(g.limit, g.probe, expected, report.numeric, stage, judge) for g in options.max_r2]
    if options.max_leak_increase is not None and baseline is not None:
        gates.append(leak_increase_gate(options.max_leak_increase, baseline, expected, attackers, stage, judge))
    if options.max_tpr_gap is not None:
        gates.append(tpr_gap_gate(options.max_tpr_gap, task, stage, judge, expected))
    if options.min_task_accuracy is not None:
        gates.append(task_accuracy_gate(options.min_task_accuracy, task, stage, judge, expected))
    if options.min_task_kept is not None:
        gates.append(task_kept_gate(options.min_task_kept, task, judge, expected))
    if options.min_similarity_kept is not None:
        changes = report.of(SIMILARITY)
        gates.append(similarity_gate(options.min_similarity_kept, changes or (), judge))
    if options.min_neighbors_kept is not None:
        n_rows = report.inputs["embeddings"].n if "embeddings" in report.inputs else None
        gates.append(neighbors_gate(options.min_neighbors_kept, report.of(NEIGHBORS), judge, n_rows))
    return gates


def worst_gates(report: Report, gates_of: Callable[[Report, int], Sequence[Gate]]) -> tuple[Gate, ...]:
    """Return the gates of a report, each that of its worst setting, which `decided_by` names.

    Repeated fits are all judged, by every gate: any of them could have been the release. A sweep begins where little is
    erased, so of its steps those are judged that erase more directions than the eraser does, by the gates on attackers:
    erasing more must not leak more. Limits on what is kept are about the eraser itself.

    Parameters
    ----------
    report : with all that was measured
    gates_of : returns the gates on a report, in the same order for each setting; its second argument is the number of
        settings, by which the level of failure is corrected
    """
    settings = list(_settings(report))
    plain = gates_of(report, 1)
    if not settings or not plain:
        return tuple(plain)
    n = len(settings) + 1
    first = gates_of(report, n)
    others = [(name, gates_of(_as_report(report, found), n)) for name, found in settings]
    found = []
    for place, gate in enumerate(first):
        again = [(name, gates[place]) for name, gates in others]
        if all(other == gate for _, other in again):  # it does not judge what differs
            found.append(plain[place])
            continue
        name, worst = max([("", gate), *again], key=lambda each: _badness(each[1]))
        found.append(replace(worst, decided_by=", ".join(filter(None, (worst.decided_by, name))) or None))
    return tuple(found)


def _settings(report: Report) -> Iterator[tuple[str, Measurement]]:
    runs = () if report.repeats is None else report.repeats.runs
    yield from ((f"repeat {i} of {len(runs)}", run) for i, run in enumerate(runs, 1))
    for step in report.sweep:
        if step.parameter == "k" and isinstance(report.eraser, EraserSummary) and step.value > report.eraser.k:
            yield f"k = {general(step.value)}", replace(step, measures={})


def _as_report(report: Report, found: Measurement) -> Report:
    """Return the report as if it had measured another setting, whose rows are attacked in the first form alone.

    Other forms, and the inner products of a kernel, stay as they are.
    """
    first = report.probes[0].form if report.probes else ""
    first_of_numbers = report.numeric[0].form if report.numeric else ""
    others = (each for each in report.probes if each.form != first or base_name(each.probe) in names_of("kernel"))
    products = (
        each for each in report.numeric if each.form != first_of_numbers or REGRESSORS[each.probe].reads == "kernel"
    )
    return replace(
        report,
        probes=(*found.probes, *others),
        numeric=(*found.numeric, *products),
        measures={**report.measures, **found.measures},
    )


def _badness(gate: Gate) -> tuple[int, float]:
    value = inf if gate.value is None else gate.value if gate.name.startswith("max") else -gate.value
    return RANKS.index(gate.status), value
