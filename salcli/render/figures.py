"""Which pictures a report has, under which section they stand, and what they show in words."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from salcli.render import plots
from salcli.render.attackers import ProbePair, by_attribute, probe_pairs
from salcli.render.scatter import by_classes, class_centres, coordinate, scatter_points
from salcli.render.sweep import Curve, Sweep, sweeps
from salcli.render.table import Figure
from salcli.render.task import ClassRates, Compared, class_rates, compared, gap_name
from salcli.render.text import decimal, general, number, record, records, shortened, visible

MOST_DESCRIBED = 12


def figures(report: dict[str, Any]) -> dict[str, tuple[Figure, ...]]:
    """Give the figures of each section, by the section's key; what is missing from the report has no figure."""
    found = {
        "attackers": _accuracy_figures(report),
        "similarity": _similarity_figures(report),
        "task": _gap_figures(report),
        "geometry": _scatter_figures(report),
        "sweep": _sweep_figures(report),
    }
    return {key: tuple(of) for key, of in found.items() if of}


def _joined(parts: Sequence[str]) -> str:
    more = len(parts) - MOST_DESCRIBED
    return "; ".join(parts[:MOST_DESCRIBED]) + (f"; and {more} more, which the table lists" if more > 0 else "") + "."


def _first(most: int, shown: Sequence[object]) -> str:
    """Say in a title that the picture has no room for all."""
    return f", the first {most}" if len(shown) > most else ""


def _accuracy_figures(report: dict[str, Any]) -> list[Figure]:
    found = []
    for attribute, pairs in by_attribute(probe_pairs(report.get("probes"))).items():
        shown = [pair for pair in pairs if pair.accuracy("before") is not None or pair.accuracy("after") is not None]
        if shown:
            title = f"Accuracy of attackers on {shortened(attribute, 60)}{_first(plots.MOST_ROWS, shown)}"
            told = _joined([_pair_in_words(pair) for pair in shown])
            found.append(Figure(title, told, partial(_draw_accuracy, shown)))
    return found


def _draw_accuracy(pairs: Sequence[ProbePair], salt: str) -> str:
    return plots.accuracy_plot(pairs, salt=salt)


def _pair_in_words(pair: ProbePair) -> str:
    stages = " and ".join(
        f"{decimal(pair.accuracy(stage))} {stage}" for stage in ("before", "after") if pair.accuracy(stage) is not None
    )
    return f"{shortened(pair.attacker, 60)}: {stages}, majority {decimal(pair.majority)}"


def _similarity_figures(report: dict[str, Any]) -> list[Figure]:
    keys = ("before", "after", "random_control")
    rows = [row for row in records(report.get("similarity")) if any(number(row.get(key)) is not None for key in keys)]
    told = [
        f"{shortened(row.get('set'), 60)}: "
        + ", ".join(f"{decimal(row[key])} {key.replace('_', ' ')}" for key in keys if number(row.get(key)) is not None)
        for row in rows
    ]
    return (
        [Figure("Similarity kept", _joined(told), lambda salt: plots.similarity_plot(rows, salt=salt))] if rows else []
    )


def _gap_figures(report: dict[str, Any]) -> list[Figure]:
    task = record(report.get("task"))
    found = (_gap_figure(of, *class_rates({"classes": task.get("classes"), **of.figures})) for of in compared(task))
    return [figure for figure in found if figure is not None]


def _gap_figure(of_attribute: Compared, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Figure | None:
    shown = plots.widest_gaps(rates, groups)
    if not shown:
        return None
    told = [
        f"{shortened(of.name, 60)}: "
        + ", ".join(
            f"{decimal(gap)} {stage}" for stage in ("before", "after") if (gap := of.gap(stage, groups)) is not None
        )
        for of in shown
    ]
    order = f"the {len(shown)} widest" if len(shown) == plots.MOST_ROWS else "widest first"
    title = f"TPR gap{of_attribute.aside} by task class, {order}"
    words = f"{gap_name(groups)}. {_joined(told)}"
    return Figure(title, words, lambda salt: plots.gap_plot(rates, groups, salt=salt))


def _scatter_figures(report: dict[str, Any]) -> list[Figure]:
    found = (_scatter_figure(scatter) for scatter in by_classes(record(report.get("scatter"))))
    return [figure for figure in found if figure is not None]


def _scatter_figure(scatter: dict[str, Any]) -> Figure | None:
    points = scatter_points(scatter)
    if not any(points.values()):
        return None
    told = []
    for stage, rows in points.items():
        centres = list(class_centres(rows).items())
        spots = ", ".join(f"{name} ({coordinate(x)}; {coordinate(y)})" for name, (x, y) in centres[:MOST_DESCRIBED])
        more = f" and {len(centres) - MOST_DESCRIBED} more" if len(centres) > MOST_DESCRIBED else ""
        told.append(f"{len(rows):,} rows drawn {stage}" + (f", centres of the classes: {spots}{more}" if rows else ""))
    title = f"Rows in two dimensions, by {visible(scatter.get('attribute') or 'class')}"
    return Figure(title, "; ".join(told) + ".", lambda salt: plots.scatter_plot(scatter, salt=salt))


def _sweep_figures(report: dict[str, Any]) -> list[Figure]:
    found = []
    for sweep in sweeps(report):
        for attribute, curves in sweep.accuracy.items():
            title = f"Accuracy of attackers on {shortened(attribute, 60)}"
            found.append(_curve_figure(title, sweep, curves, "accuracy", sweep.majority.get(attribute)))
        if sweep.similarity:
            found.append(_curve_figure("Similarity kept", sweep, sweep.similarity, "Spearman correlation"))
        if sweep.task:
            found.append(_curve_figure("Task", sweep, sweep.task, "accuracy, gap"))
    return found


def _curve_figure(
    title: str, sweep: Sweep, curves: tuple[Curve, ...], quantity: str, level: float | None = None
) -> Figure:
    parameter = shortened(sweep.parameter, 30)
    told = [
        f"{shortened(curve.name, 60)}: from {decimal(curve.points[0][1])} at {general(curve.points[0][0])} "
        f"to {decimal(curve.points[-1][1])} at {general(curve.points[-1][0])}"
        for curve in curves
    ]
    words = _joined(told) + ("" if level is None else f" Majority {decimal(level)}.")
    return Figure(
        f"{title} along {parameter}{_first(plots.MOST_CURVES, curves)}",
        words,
        lambda salt: plots.curve_plot(curves, parameter, quantity, level=level, salt=salt),
    )
