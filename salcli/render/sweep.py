"""A sweep: the same figures along k or strength, as the columns of one table an attribute."""

from dataclasses import dataclass
from typing import Any

from salcli.render.attackers import ProbePair, probe_pairs
from salcli.render.table import Section, Table, numbers
from salcli.render.task import GAPS, compared
from salcli.render.text import decimal, general, number, record, records, visible


@dataclass(frozen=True)
class Curve:
    """One figure along the parameter: (parameter, figure), only where it is defined."""

    name: str
    points: tuple[tuple[float, float], ...]
    group: str = ""
    """Curves of one group are drawn in one colour."""


@dataclass(frozen=True)
class Sweep:
    """The points of one parameter, in ascending order, and the curves through them."""

    parameter: str
    values: tuple[float, ...]
    accuracy: dict[str, tuple[Curve, ...]]
    """By attribute, a curve for each attacker."""
    majority: dict[str, float]
    """By attribute: what a constant guess reads right."""
    similarity: tuple[Curve, ...]
    task: tuple[Curve, ...]


def sweeps(report: dict[str, Any]) -> tuple[Sweep, ...]:
    """Read the sweep of each parameter."""
    points: dict[str, dict[float, dict[str, Any]]] = {}
    for point in records(report.get("sweep")):
        if (value := number(point.get("value"))) is not None:
            points.setdefault(visible(point.get("parameter") or "k"), {})[value] = point
    return tuple(_sweep(parameter, dict(sorted(of.items()))) for parameter, of in points.items())


def _sweep(parameter: str, points: dict[float, dict[str, Any]]) -> Sweep:
    accuracy: dict[str, dict[str, dict[float, float]]] = {}
    majority: dict[str, float] = {}
    similarity: dict[str, dict[float, float]] = {}
    task: dict[str, dict[float, float]] = {}
    for value, point in points.items():
        for pair in probe_pairs(point.get("probes")):
            _note(accuracy.setdefault(pair.attribute, {}), pair.attacker, value, _reached(pair))
            if pair.majority is not None:
                majority[pair.attribute] = pair.majority
        for row in records(point.get("similarity")):
            _note(similarity, visible(row.get("set")), value, _latest(row))
        measured = record(point.get("task"))
        _note(task, "accuracy", value, _latest(record(measured.get("accuracy"))))
        for of in compared(measured):
            for key, name in GAPS.items():
                _note(task, name + of.aside.rstrip(","), value, _latest(record(of.figures.get(key))))
    return Sweep(
        parameter,
        tuple(points),
        {attribute: _curves(of, by_probe=True) for attribute, of in accuracy.items()},
        majority,
        _curves(similarity),
        _curves(task),
    )


def _reached(pair: ProbePair) -> float | None:
    after = pair.accuracy("after")
    return pair.accuracy("before") if after is None else after


def _latest(pair: dict[str, Any]) -> float | None:
    after = number(pair.get("after"))
    return number(pair.get("before")) if after is None else after


def _note(curves: dict[str, dict[float, float]], name: str, value: float, found: float | None) -> None:
    if found is not None:
        curves.setdefault(name, {})[value] = found


def _curves(points: dict[str, dict[float, float]], *, by_probe: bool = False) -> tuple[Curve, ...]:
    """Make curves; those of attackers are grouped by probe, others stand for themselves."""
    return tuple(
        Curve(name, tuple(of.items()), name.rpartition(", ")[0] if by_probe else name) for name, of in points.items()
    )


def sweep_section(report: dict[str, Any]) -> Section | None:
    """Tabulate each sweep: what attackers read, then what is kept."""
    found = sweeps(report)
    if not found:
        return None
    tables = []
    for sweep in found:
        for attribute, curves in sweep.accuracy.items():
            majority = sweep.majority.get(attribute)
            told = "" if majority is None else f"; majority {decimal(majority)}"
            tables.append(_table(f"Accuracy of attackers on {attribute} along {sweep.parameter}{told}", sweep, curves))
        kept = tuple(Curve(f"similarity {curve.name}", curve.points) for curve in sweep.similarity)
        kept += tuple(Curve(f"task {curve.name}", curve.points) for curve in sweep.task)
        if kept:
            tables.append(_table(f"What is kept along {sweep.parameter}", sweep, kept))
    lead = "The same figures, after erasure, for every value of the parameter."
    return Section("sweep", "Sweep", (lead,), tuple(tables))


def _table(caption: str, sweep: Sweep, curves: tuple[Curve, ...]) -> Table:
    columns = (*numbers(sweep.parameter), *numbers(*(curve.name for curve in curves)))
    by_value = [dict(curve.points) for curve in curves]
    rows = tuple((general(value), *(decimal(of.get(value)) for of in by_value)) for value in sweep.values)
    return Table(caption, columns, rows, is_detail=len(rows) > 8)
