"""A sweep: the same figures for several k or strengths, as the columns of one table for each attribute."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from salcli.evaluation.measures import recorded
from salcli.evaluation.report import Report
from salcli.evaluation.section import Section, Table, numbers
from salcli.evaluation.text import decimal, general, visible
from salcli.render.numbers import numeric_pairs
from salcli.render.probe_pairs import by_attribute, probe_pairs

Bounds = tuple[float, float]
Points = dict[float, tuple[float, Bounds | None]]
"""Figure and interval by the value of the parameter."""
MANY_VALUES = 8
"""Rows of a table above which it is folded."""


@dataclass(frozen=True)
class Curve:
    """One figure along the parameter: (parameter, figure), only where it is defined."""

    name: str
    """Visible."""
    points: tuple[tuple[float, float], ...]
    group: str = ""
    """Curves of one group are drawn in one colour."""
    bounds: tuple[tuple[float, float], ...] = ()
    """Interval of each point, if all have one."""

    def at_least(self, least: float) -> "Curve":
        """Return the curve with figures and bounds below `least` raised to it: a picture of R² has nothing below 0."""
        points = tuple((value, max(least, found)) for value, found in self.points)
        bounds = tuple((max(least, low), max(least, high)) for low, high in self.bounds)
        return replace(self, points=points, bounds=bounds)


@dataclass(frozen=True)
class MeasureCurves:
    """The curves of one measure."""

    measure: str
    title: str
    quantity: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Sweep:
    """The values of the parameter, and the curves through them."""

    parameter: str
    values: tuple[float, ...]
    accuracy: dict[str, tuple[Curve, ...]]
    """By attribute, a curve for each attacker."""
    majority: dict[str, float]
    """By attribute, the accuracy of a constant prediction."""
    kept: tuple[MeasureCurves, ...]
    not_retrained: dict[str, tuple[Curve, ...]]
    """By attribute, a curve for each attacker that was trained before erasure."""
    explained: dict[str, tuple[Curve, ...]]
    """By numeric attribute, a curve of R² for each attacker."""


def swept(report: Report) -> Sweep | None:
    """Return the curves of the sweep of `report`; None without one."""
    if not report.sweep:
        return None
    accuracy: dict[str, dict[str, Points]] = {}
    majority: dict[str, float] = {}
    stale: dict[str, dict[str, Points]] = {}
    explained: dict[str, dict[str, Points]] = {}
    kept: dict[tuple[str, str, str], dict[str, Points]] = {}
    for step in report.sweep:
        for attribute, pairs in by_attribute(probe_pairs(step.probes)).items():
            for pair in pairs:
                _add(
                    accuracy.setdefault(attribute, {}),
                    pair.attacker,
                    step.value,
                    pair.latest.accuracy,
                    pair.latest.ci95,
                )
                majority[attribute] = pair.latest.majority
        for regression in numeric_pairs(step.numeric):
            curves, latest = explained.setdefault(regression.attribute, {}), regression.latest
            _add(curves, f"{regression.reader}, {latest.adversary}", step.value, latest.r2, latest.ci95)
        for of in step.not_retrained:
            curves = stale.setdefault(visible(of.attribute), {})
            _add(curves, f"{of.probe}, {of.adversary}", step.value, of.accuracy, of.ci95)
        for measure, record in recorded(step):
            curves = kept.setdefault((measure.name, *(measure.swept or ("", ""))), {})
            for figure in measure.figures(record):
                _add(curves, visible(figure.label), step.value, figure.value, figure.ci95)
    return Sweep(
        report.sweep[0].parameter,
        tuple(step.value for step in report.sweep),
        {attribute: _curves(of, by_probe=True) for attribute, of in accuracy.items()},
        majority,
        tuple(MeasureCurves(*named, _curves(of)) for named, of in kept.items() if of),
        {attribute: _curves(of, by_probe=True) for attribute, of in stale.items()},
        {attribute: _curves(of, by_probe=True) for attribute, of in explained.items()},
    )


def _add(curves: dict[str, Points], name: str, value: float, found: float, ci95: Bounds | None) -> None:
    curves.setdefault(name, {})[value] = found, ci95


def _curves(points: dict[str, Points], *, by_probe: bool = False) -> tuple[Curve, ...]:
    """Return curves; those of attackers are grouped by probe, each of the others is a group of its own."""
    found = []
    for name, of in points.items():
        bounds = tuple(ci95 for _, ci95 in of.values() if ci95 is not None)
        group = name.rpartition(", ")[0] if by_probe else name
        at = tuple((value, figure) for value, (figure, _) in of.items())
        found.append(Curve(name, at, group, bounds if len(bounds) == len(of) else ()))
    return tuple(found)


def sweep_section(report: Report) -> Section | None:
    """Return the section on the sweep of `report`: tables of attackers, then of measures; None without one."""
    sweep = swept(report)
    if sweep is None:
        return None
    tables = [
        _table(
            f"Accuracy of attackers on {attribute} along {sweep.parameter}; "
            f"majority {decimal(sweep.majority[attribute])}",
            sweep,
            curves,
        )
        for attribute, curves in sweep.accuracy.items()
    ]
    tables += [
        _table(f"Accuracy on {attribute} of attackers that are not retrained, along {sweep.parameter}", sweep, curves)
        for attribute, curves in sweep.not_retrained.items()
    ]
    tables += [
        _table(f"R² of attackers on {attribute} along {sweep.parameter}", sweep, curves)
        for attribute, curves in sweep.explained.items()
    ]
    kept = [Curve(f"{of.measure} {curve.name}", curve.points) for of in sweep.kept for curve in of.curves]
    if kept:
        tables.append(_table(f"What is kept along {sweep.parameter}", sweep, kept))
    lead = "The same figures, after erasure, for every value of the parameter."
    if sweep.not_retrained:
        lead += (
            " Not retrained means: the attacker, or the classifier of the task, that was trained on the original "
            "embeddings, applied to the erased ones: a model that is in use already."
        )
    return Section("sweep", "Sweep", (lead,), tuple(tables))


def _table(caption: str, sweep: Sweep, curves: Iterable[Curve]) -> Table:
    curves = tuple(curves)
    columns = (*numbers(sweep.parameter), *numbers(*(curve.name for curve in curves)))
    by_value = [dict(curve.points) for curve in curves]
    rows = tuple((general(value), *(decimal(figures.get(value)) for figures in by_value)) for value in sweep.values)
    return Table(caption, columns, rows, is_detail=len(rows) > MANY_VALUES)
