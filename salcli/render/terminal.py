"""A report for the terminal: the verdict, what attackers read, what was kept, gates, the verdict again."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from salcli.evaluation.comparison import Comparison
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Gate, Report
from salcli.evaluation.section import Section, Table, filled, names, numbers
from salcli.evaluation.text import beside, count, decimal, interval, visible
from salcli.render import comparison as compared
from salcli.render.attackers import IN_FORMS, bands_tables, flipped, learning_in_words
from salcli.render.layout import table_lines, wrapped
from salcli.render.numbers import detectable_lines, numeric_table
from salcli.render.probe_pairs import ProbePair, by_form
from salcli.render.sections import sections
from salcli.render.verdict import STATUSES, TONES, tone_of, verdict_sentence

LISTED = ("gates", "attackers", "notes", "inputs", "run")
"""Sections that are printed in another form, or not at all."""
MANY = 8  # rows above which a detailed table is left to reports
STYLES = {"pass": "bold green", "fail": "bold red", "undecided": "bold yellow", "none": "bold", "caption": "italic"}
Line = tuple[str, str]
"""Text, and the key of its style or nothing."""


def terminal(report: Report | Comparison, console: Console, *, with_notes: bool = True) -> str:
    """Return an evaluation or comparison as text: the verdict, tables, a line a gate, the verdict again.

    Parameters
    ----------
    report : what is shown
    console : where it will be printed: it has the width, and decides on styles
    with_notes : False where the notes were printed as warnings before
    """
    with console.capture() as drawn:
        if isinstance(report, Comparison):
            lines = _lines_of_comparison(report, console.width, with_notes=with_notes)
        else:
            lines = _lines(report, console.width, with_notes=with_notes)
        for text, style in lines:
            console.print(Text(text, style=STYLES.get(style, "")), soft_wrap=True)
    return drawn.get()


def _lines(report: Report, width: int, *, with_notes: bool) -> Iterator[Line]:
    tone = tone_of(report)
    found = [section for section in sections(report) if section.key not in LISTED]
    yield from _wrapped(verdict_sentence(report), width, tone)
    first, most, _ = by_form(report.probes)
    tables = [_probe_table([each for pair in first for each in pair.stages.values()]), _forms_table(most)]
    for table in (*filled([*tables, numeric_table(report.numeric)]), *bands_tables(report)):
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


def _lines_of_comparison(comparison: Comparison, width: int, *, with_notes: bool) -> Iterator[Line]:
    tone, sentence = compared.tone_of(comparison), compared.verdict_sentence(comparison)
    yield from _wrapped(sentence, width, tone)
    for table in (compared.candidates_table(comparison, with_seconds=True), compared.attackers_table(comparison)):
        if table.rows:
            yield "", ""
            yield from _table(table, width)
    yield "", ""
    for finding in compared.findings(comparison):
        yield from _wrapped(finding, width)
    for note in comparison.notes if with_notes else ():
        yield from _wrapped(f"note: {note}", width)
    for each in comparison.candidates:
        for gate in each.report.gates:
            yield from _wrapped(f"{visible(each.name)}: {_gate(gate)}", width, TONES[gate.status])
    has_gates = comparison.verdict != "none"
    yield from _wrapped(f"verdict: {comparison.verdict if has_gates else sentence}", width, tone)


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
            *(probe.attribute, probe.reader, probe.adversary, probe.stage),
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


def _forms_table(pairs: Sequence[ProbePair]) -> Table:
    rows = []
    for pair in pairs:
        latest, both = pair.latest, pair.both
        rows.append(
            (
                *(latest.attribute, latest.form, latest.probe, latest.adversary),
                *both(lambda result: decimal(result.accuracy)),
                *both(lambda result: decimal(result.leak)),
                interval(latest.ci95),
            )
        )
    columns = (
        *names("attribute", "as", "probe", "adversary"),
        *numbers("before", "after", "leak before", "leak after"),
        *numbers("95% interval", are_spare=True),
    )
    return Table(IN_FORMS, columns, tuple(rows))


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
