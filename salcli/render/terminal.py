"""A report for the terminal: what attackers read, what was kept, gates, one verdict."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from salcli.evaluation.report import Gate, ProbeResult, Report
from salcli.evaluation.section import Section
from salcli.evaluation.text import beside, decimal, visible
from salcli.render.attackers import flipped, learning_in_words
from salcli.render.sections import sections
from salcli.render.verdict import STATUSES

LISTED = ("gates", "attackers", "notes", "inputs")
"""Sections that are printed in another form, or not at all."""
WIDTHS = {"AUC": 112, "balanced": 104, "train": 92, "test": 92}  # of a terminal that has room for these figures
MANY = 8  # rows above which a detailed table is left to reports
SHORT = 12  # letters that are not folded
UNSHOWN = ("policy",)  # the same in every row


def terminal(report: Report, console: Console) -> str:
    """Return an evaluation as text: one line a probe, one a gate, one verdict.

    Parameters
    ----------
    console : where it will be printed: it has the width, and decides on styles
    """
    blocks = [_probes(report.probes, console)] if report.probes else []
    found = [section for section in sections(report) if section.key not in LISTED]
    for section in found:
        blocks += _section(section, console)
    lines = [f"learning curve: {learning_in_words(curve)}" for curve in report.learning]
    lines += [visible(line) for section in found for line in section.line.splitlines()]
    lines += [f"note: {visible(note)}" for note in report.notes]
    lines += [_gate(gate) for gate in report.gates]
    lines += [f"verdict: {report.verdict}"] if report.gates else []
    with console.capture() as drawn:
        for line in lines:
            console.print(line)
    return "".join(f"{block}\n" for block in blocks) + drawn.get()


def table_text(table: Table, console: Console) -> str:
    """Return a table without the blanks that rich pads lines with."""
    with console.capture() as drawn:
        console.print(table, crop=False)  # a line that is too long goes on in the next: no digit is left out
    return "\n".join(line.rstrip() for line in drawn.get().splitlines())


def _gate(gate: Gate) -> str:
    value = "nothing valid" if gate.value is None else beside(gate.value, gate.limit)
    why = f" ({visible(gate.reason)})" if gate.reason else ""
    side = "≥" if gate.name.startswith("min") else "≤"
    return f"gate {gate.name} {side} {gate.limit:g}: {value} {STATUSES[gate.status]}{why}"


def _probes(probes: Sequence[ProbeResult], console: Console) -> str:
    table = _table("How well attackers read the guarded attribute")
    texts = {
        "attribute": [visible(probe.attribute) for probe in probes],
        "probe": [probe.probe for probe in probes],
        "adversary": [probe.adversary for probe in probes],
        "stage": [probe.stage for probe in probes],
    }
    figures = {
        "accuracy": [f"{probe.accuracy:.3f}" for probe in probes],
        "95% interval": ["{:.3f}–{:.3f}".format(*probe.ci95) for probe in probes],
        "balanced": [f"{probe.balanced_accuracy:.3f}" for probe in probes],
        "AUC": [decimal(probe.auc) for probe in probes],
        "leak": [f"{probe.leak:.3f}" for probe in probes],
        "majority": [f"{probe.majority:.3f}" for probe in probes],
        "train": [f"{probe.n_train:,}" for probe in probes],
        "test": [f"{probe.n_test:,}" for probe in probes],
    }
    for name, width in WIDTHS.items():
        if console.width < width:
            del figures[name]
    columns = {**texts, **figures, "": [_remarks(probe) for probe in probes]}
    for name, cells in columns.items():
        _add_column(table, name, cells, is_number=name in figures)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table_text(table, console)


def _remarks(probe: ProbeResult) -> str:
    remarks = [] if probe.converged else ["not converged"]
    return ", ".join([*remarks, *(["capped"] if probe.capped else []), *flipped(probe)])


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=None, pad_edge=False)


def _add_column(table: Table, name: str, cells: Sequence[str], *, is_number: bool) -> None:
    """Add a column that may be folded on a narrow terminal, except for numbers and short words."""
    widest = max(map(len, (name, *cells)))
    least = widest if is_number or widest <= SHORT else SHORT
    table.add_column(name, justify="right" if is_number else "left", overflow="fold", min_width=least)


def _section(section: Section, console: Console) -> list[str]:
    """Return the tables of a section; long ones that only detail another are named instead."""
    has_main = any(not each.is_detail for each in section.tables)
    found = []
    for each in section.tables:
        if each.is_of_picture:
            continue
        if each.is_detail and has_main:
            if len(each.rows) > MANY:
                found.append(f"\n{visible(each.caption)}: {len(each.rows)} rows, in a report file only")
            continue
        table = _table(visible(each.caption))
        shown = [i for i, column in enumerate(each.columns) if column.name not in UNSHOWN]
        for i in shown:
            cells = [visible(row[i]) for row in each.rows]
            _add_column(table, visible(each.columns[i].name), cells, is_number=each.columns[i].is_number)
        for row in each.rows:
            table.add_row(*(visible(row[i]) for i in shown))
        found.append(f"\n{table_text(table, console)}")
    return found
