"""An evaluation on the terminal: what attackers read, what was kept, gates, one verdict."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from salcli.cli.console import plain, print_table, results
from salcli.render.attackers import turned_round
from salcli.render.sections import sections
from salcli.render.table import Section
from salcli.render.text import beside

SHOWN = ("similarity", "task", "neighbors", "geometry", "sweep", "repeats")
WIDE = 90  # columns of a terminal on which all figures of an attacker have room
MANY = 8  # rows of a table that is left to reports for its length
SHORT = 12  # letters that are not folded
UNSHOWN = ("policy",)  # the same in every row; reports and README tell it


def print_report(report: dict[str, Any]) -> None:
    """Print an evaluation: one line a probe, one a gate, one verdict."""
    if report["probes"]:
        _print_probes(report["probes"])
    for section in sections(report):
        if section.key in SHOWN:
            _print_section(section)
    console = results()
    if moved := report["deviation"]:
        value = "undefined" if moved["value"] is None else f"{moved['value']:.3f}"
        console.print(f"deviation of the kernel, mean|K̂ − K| / std(K): {value} on {moved['n']:,} test rows")
    for note in report["notes"]:
        console.print(f"note: {plain(note)}")
    for gate in report["gates"]:
        value = "nothing valid" if gate["value"] is None else beside(gate["value"], gate["limit"])
        why = f" ({gate['reason']})" if "reason" in gate else ""
        console.print(
            f"gate {gate['name']} {'≥' if gate['name'].startswith('min') else '≤'} {gate['limit']:g}: {value} "
            f"{'passed' if gate['passed'] else 'FAILED'}{plain(why)}"
        )
    if report["gates"]:
        console.print(f"verdict: {report['verdict']}")


def _print_probes(probes: list[dict[str, Any]]) -> None:
    table = Table(title="How well attackers read the guarded attribute", title_justify="left", box=None, pad_edge=False)
    is_narrow = results().width < WIDE
    texts = {name: [plain(probe[name]) for probe in probes] for name in ("attribute", "probe", "adversary", "stage")}
    shares = {
        "accuracy": "accuracy",
        **({} if is_narrow else {"balanced": "balanced_accuracy"}),
        "majority": "majority",
    }
    numbers = {name: [f"{probe[key]:.3f}" for probe in probes] for name, key in shares.items()}
    intervals = {"95% interval": ["{:.3f}–{:.3f}".format(*probe["ci95"]) for probe in probes]}
    counts = {name: [f"{probe[f'n_{name}']:,}" for probe in probes] for name in ("train", "test")}
    told = [
        ", ".join(
            [
                *([] if probe["converged"] else ["not converged"]),
                *(["capped"] if probe["capped"] else []),
                *turned_round(probe),
            ]
        )
        for probe in probes
    ]
    columns = {**texts, "accuracy": numbers.pop("accuracy"), **intervals, **numbers, **counts, "": told}
    for name, cells in columns.items():
        _add_column(table, name, cells, is_number=name not in texts and name != "")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    print_table(table)


def _add_column(table: Table, name: str, cells: Sequence[str], *, is_number: bool) -> None:
    """Add a column that a narrow terminal may fold, but for numbers and short words."""
    widest = max(map(len, (name, *cells)))
    least = widest if is_number or widest <= SHORT else SHORT
    table.add_column(name, justify="right" if is_number else "left", overflow="fold", min_width=least)


def _print_section(section: Section) -> None:
    """Print the tables of a section; of those that only spell out another, say where they are."""
    has_main = any(not held.is_detail for held in section.tables)
    for held in section.tables:
        if held.is_of_picture:
            continue
        if held.is_detail and has_main:
            if len(held.rows) > MANY:
                print(f"\n{plain(held.caption)}: {len(held.rows)} rows, told in a report (--report FILE)")
            continue
        print()
        table = Table(title=plain(held.caption), title_justify="left", box=None, pad_edge=False)
        shown = [i for i, column in enumerate(held.columns) if column.name not in UNSHOWN]
        for i in shown:
            cells = [plain(row[i]) for row in held.rows]
            _add_column(table, plain(held.columns[i].name), cells, is_number=held.columns[i].is_number)
        for row in held.rows:
            table.add_row(*(plain(row[i]) for i in shown))
        print_table(table)
