"""The report in its reading order, as sections that each rendering writes in its own way."""

from typing import Any

from salcli.render.attackers import attackers_section
from salcli.render.kept import geometry_section, neighbors_section, similarity_section
from salcli.render.sweep import sweep_section
from salcli.render.table import Section, Table, filled, names, numbers
from salcli.render.task import task_section
from salcli.render.text import ABSENT, count, decimal, general, items, listed, number, record, records, visible
from salcli.render.verdict import gates_section

HASH_DIGITS = 12


def sections(report: dict[str, Any]) -> tuple[Section, ...]:
    """Give the sections for which the report has anything to say."""
    makers = (
        gates_section,
        attackers_section,
        similarity_section,
        task_section,
        neighbors_section,
        geometry_section,
        sweep_section,
        repeats_section,
        notes_section,
        inputs_section,
    )
    return tuple(section for make in makers if (section := make(report)) is not None)


def repeats_section(report: dict[str, Any]) -> Section | None:
    """Tabulate how much the figures vary when the sample is drawn again."""
    repeats = record(report.get("repeats"))
    if not repeats:
        return None
    n, sample = count(repeats.get("n")), count(repeats.get("sample"))
    lead = f"The evaluation was repeated {n} times on samples of {sample} rows."
    rows = []
    for figure in records(repeats.get("figures")):
        values = [value for value in map(number, items(figure.get("values"))) if value is not None]
        spread = (decimal(min(values)), decimal(max(values))) if values else (ABSENT, ABSENT)
        rows.append((visible(figure.get("name")), decimal(figure.get("mean")), decimal(figure.get("std")), *spread))
    columns = (*names("figure"), *numbers("mean", "standard deviation", "lowest", "highest"))
    return Section("repeats", "Repeats", (lead,), filled([Table("Figures over the repeats", columns, tuple(rows))]))


def notes_section(report: dict[str, Any]) -> Section | None:
    """List what a reader must know to read the figures right."""
    notes = tuple(visible(note) for note in items(report.get("notes")) if note)
    return Section("notes", "Notes", points=notes) if notes else None


def inputs_section(report: dict[str, Any]) -> Section | None:
    """Tell which files were measured, and with which eraser."""
    eraser = record(report.get("eraser"))
    files = {visible(name): record(of) for name, of in record(report.get("inputs")).items()}
    rows = tuple(
        (name, visible(of.get("path")), visible(of.get("sha256"))[:HASH_DIGITS], count(of.get("n")), count(of.get("d")))
        for name, of in (files | ({_role(eraser): eraser} if eraser else {})).items()
        if of
    )
    columns = (*names("input", "path", "SHA-256"), *numbers("n", "d"))
    table = Table(f"Files (the first {HASH_DIGITS} digits of their hash)", columns, rows)
    found = Section("inputs", "Inputs", (_eraser_sentence(eraser),) if eraser else (), filled([table]))
    return found if found.tables or found.paragraphs else None


def _space(eraser: dict[str, Any]) -> str:
    """Name the space that directions are removed from: a kernel's is not the input's."""
    if not record(eraser.get("kernel")):
        return f"{count(eraser.get('d'))} dimensions"
    n_features = record(eraser.get("landmarks")).get("n_features")
    return "the kernel's dimensions" if n_features is None else f"the kernel's {count(n_features)} dimensions"


def _role(eraser: dict[str, Any]) -> str:
    return "erased elsewhere" if eraser.get("method") == "against" else "eraser"


def _eraser_sentence(eraser: dict[str, Any]) -> str:
    if eraser.get("method") == "against":
        return "What comes after is a file that was erased elsewhere: how, is not known."
    centring = {"True": ", centred", "False": ", not centred"}.get(str(eraser.get("is_centred")), "")
    rule = record(eraser.get("k_rule"))
    chosen = "; ".join(
        f"{visible(name)}{'' if value is True else ' ' + (visible(value) if number(value) is None else general(value))}"
        for name, value in rule.items()
        if name != "rank"
    )
    guarded = listed(items(eraser.get("attributes"))) or "–"
    return (
        f"The eraser ({visible(eraser.get('method') or 'method unknown')}{centring}) removes {count(eraser.get('k'))} "
        f"of {_space(eraser)} (rank {count(eraser.get('rank'))}{'; ' + chosen if chosen else ''}). "
        f"Guarded: {guarded}."
    )
