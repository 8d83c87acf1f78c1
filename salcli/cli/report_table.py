"""An evaluation on the terminal: what attackers read, what was kept, gates, one verdict."""

from typing import Any, Literal

from rich.table import Table

from salcli.cli.console import plain, print_table, results
from salcli.render.sections import sections
from salcli.render.table import Section

SHOWN = ("similarity", "task", "neighbors", "geometry", "sweep", "repeats")
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
        value = "nothing valid" if gate["value"] is None else f"{gate['value']:.3f}"
        why = f" ({gate['reason']})" if "reason" in gate else ""
        console.print(
            f"gate {gate['name']} {'≥' if gate['name'].startswith('min') else '≤'} {gate['limit']:g}: {value} "
            f"{'passed' if gate['passed'] else 'FAILED'}{plain(why)}"
        )
    if report["gates"]:
        console.print(f"verdict: {report['verdict']}")


def _print_probes(probes: list[dict[str, Any]]) -> None:
    table = Table(title="How well attackers read the guarded attribute", title_justify="left", box=None, pad_edge=False)
    for name in ("attribute", "probe", "adversary", "stage"):
        table.add_column(name, no_wrap=True)
    for name in ("accuracy", "95% interval", "balanced", "majority", "train", "test"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for probe in probes:
        low, high = probe["ci95"]
        told = [*([] if probe["converged"] else ["not converged"]), *(["capped"] if probe["capped"] else [])]
        table.add_row(
            *(plain(probe[name]) for name in ("attribute", "probe", "adversary", "stage")),
            f"{probe['accuracy']:.3f}",
            f"{low:.3f}–{high:.3f}",
            f"{probe['balanced_accuracy']:.3f}",
            f"{probe['majority']:.3f}",
            f"{probe['n_train']:,}",
            f"{probe['n_test']:,}",
            ", ".join(told),
        )
    print_table(table)


def _print_section(section: Section) -> None:
    """Print the tables of a section, but for those that only spell out another."""
    for held in section.tables:
        if not held.is_detail:
            table = Table(title=plain(held.caption), title_justify="left", box=None, pad_edge=False)
            shown = [i for i, column in enumerate(held.columns) if column.name not in UNSHOWN]
            for i in shown:
                justify: Literal["left", "right"] = "right" if held.columns[i].is_number else "left"
                table.add_column(plain(held.columns[i].name), justify=justify, overflow="fold")
            for row in held.rows:
                table.add_row(*(plain(row[i]) for i in shown))
            print()
            print_table(table)
