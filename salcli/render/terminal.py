"""A report for the terminal: the verdict, what attackers read, what was kept, gates, the verdict again."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from salcli.evaluation.report import Gate, ProbeResult, Report
from salcli.evaluation.section import Section, Table, filled, names, numbers
from salcli.evaluation.text import beside, count, decimal, interval, visible
from salcli.render.attackers import flipped, learning_in_words
from salcli.render.layout import table_lines, wrapped
from salcli.render.numbers import detectable_lines, numeric_table
from salcli.render.sections import sections
from salcli.render.verdict import STATUSES, TONES, tone_of, verdict_sentence

LISTED = ("gates", "attackers", "notes", "inputs", "run")
"""Sections that are printed in another form, or not at all."""
MANY = 8  # rows above which a detailed table is left to reports
STYLES = {"pass": "bold green", "fail": "bold red", "undecided": "bold yellow", "none": "bold", "caption": "italic"}
Line = tuple[str, str]
"""Text, and the key of its style or nothing."""


def terminal(report: Report, console: Console, *, with_notes: bool = True) -> str:
    """Return an evaluation as text: the verdict, a table of attackers, what was kept, a line a gate, the verdict.

    Parameters
    ----------
    console : where it will be printed: it has the width, and decides on styles
    with_notes : False where the notes were printed as warnings before
    """
    with console.capture() as drawn:
        for text, style in _lines(report, console.width, with_notes=with_notes):
            console.print(Text(text, style=STYLES.get(style, "")), soft_wrap=True)
    return drawn.get()


def _lines(report: Report, width: int, *, with_notes: bool) -> Iterator[Line]:
    tone = tone_of(report)
    found = [section for section in sections(report) if section.key not in LISTED]
    yield from _wrapped(verdict_sentence(report), width, tone)
    for table in filled([_probe_table(report.probes), numeric_table(report.numeric)]):
        yield "", ""
        yield from _table(table, width)
    for section in found:
        yield from _section(section, width)
    yield "", ""
    for line in detectable_lines(report.detectable):
        yield from _wrapped(line, width)
    for curve in report.learning:
        yield from _wrapped(f"learning curve: {learning_in_words(curve)}", width)
    for section in found:
        for line in section.line.splitlines():
            yield from _wrapped(line, width)
    for note in report.notes if with_notes else ():
        yield from _wrapped(f"note: {note}", width)
    for gate in report.gates:
        yield from _wrapped(_gate(gate), width, TONES[gate.status])
    sentence, verdict = verdict_sentence(report), report.verdict
    if tone != verdict:
        verdict += f" ({sentence.removeprefix('Passed ').removesuffix('.')})"
    yield from _wrapped(f"verdict: {verdict if report.gates else sentence}", width, tone)


def _wrapped(text: str, width: int, style: str = "") -> Iterator[Line]:
    for line in wrapped(visible(text), width, indent="  "):
        yield line, style


def _gate(gate: Gate) -> str:
    value = "nothing valid" if gate.value is None else beside(gate.value, gate.limit)
    why = "; ".join(filter(None, (visible(gate.decided_by or ""), gate.reason)))
    side = "≥" if gate.name.startswith("min") else "≤"
    return f"gate {gate.name} {side} {gate.limit:g}: {value} {STATUSES[gate.status]}{f' ({why})' if why else ''}"


def _probe_table(probes: Sequence[ProbeResult]) -> Table:
    rows = tuple(
        (
            *(probe.attribute, probe.probe, probe.adversary, probe.stage),
            *(decimal(probe.accuracy), interval(probe.ci95), decimal(probe.balanced_accuracy), decimal(probe.auc)),
            *(decimal(probe.leak), decimal(probe.majority)),
            *(count(probe.n_train), count(probe.n_test), _remarks(probe)),
        )
        for probe in probes
    )
    columns = (
        *names("attribute", "probe", "adversary", "stage"),
        *numbers("accuracy", "95% interval"),
        *numbers("balanced", "AUC", are_spare=True),
        *numbers("leak", "majority"),
        *numbers("train", "test", are_spare=True),
        *names(""),
    )
    return Table("How well attackers read the guarded attribute", columns, rows)


def _remarks(probe: ProbeResult) -> str:
    remarks = [] if probe.converged else ["not converged"]
    return ", ".join([*remarks, *(["capped"] if probe.capped else []), *flipped(probe)])


def _table(table: Table, width: int) -> Iterator[Line]:
    yield from _wrapped(table.caption, width, "caption")
    for line in table_lines(table, width):
        yield line, ""


def _section(section: Section, width: int) -> Iterator[Line]:
    """Yield the tables of a section; long ones that only detail another are named instead."""
    has_main = any(not each.is_detail for each in section.tables)
    for each in section.tables:
        is_long = len(each.rows) > MANY
        if each.is_of_picture or (each.is_detail and has_main and not is_long):
            continue
        yield "", ""
        if each.is_detail and has_main:
            yield from _wrapped(f"{each.caption}: {len(each.rows):,} rows, in a report file only", width)
        else:
            yield from _table(each, width)
