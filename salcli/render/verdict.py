"""The verdict in a sentence anybody understands, the gates behind it, and the figures at a glance."""

from dataclasses import dataclass
from typing import Any

from salcli.render.attackers import best_attacker, by_attribute, probe_pairs
from salcli.render.table import Section, Table, names, numbers
from salcli.render.task import GAPS, compared
from salcli.render.text import beside, decimal, general, number, percent, record, records, shortened, visible


@dataclass(frozen=True)
class Fact:
    """One figure at a glance."""

    name: str
    before: str
    after: str
    aside: str
    """What to compare it with."""


def is_passed(gate: dict[str, Any]) -> bool:
    """Tell whether a gate was kept; without a value nothing was judged, which is a failure."""
    return gate.get("passed") is True and number(gate.get("value")) is not None


def outcome(report: dict[str, Any]) -> str:
    """Give pass, fail or none; a gate that failed cannot be outvoted by the report's own verdict."""
    gates = records(report.get("gates"))
    if report.get("verdict") == "fail" or not all(is_passed(gate) for gate in gates):
        return "fail"
    return "pass" if gates else "none"


def limit_in_words(gate: dict[str, Any]) -> str:
    """Say on which side of its limit a gate's value must be; the gate's name tells."""
    name = str(gate.get("name"))
    side = "at most " if name.startswith("max") else "at least " if name.startswith("min") else "limit "
    return side + general(gate.get("limit"))


def gate_message(gate: dict[str, Any]) -> str:
    """Say what became of a gate, as the rest of a sentence that begins with its name."""
    undefined = number(gate.get("value")) is None
    value = "had nothing valid to judge" if undefined else f"is {beside(gate.get('value'), gate.get('limit'))}"
    name = str(gate.get("name"))
    asked = " is allowed" if name.startswith("max") else " is asked for" if name.startswith("min") else ""
    reason = f", {shortened(gate['reason'], 200)}" if gate.get("reason") else ""
    return f"{value}, {limit_in_words(gate)}{asked}{reason}"


def verdict_sentence(report: dict[str, Any]) -> str:
    """Say in one sentence whether the limits were kept."""
    gates = records(report.get("gates"))
    failed = [gate for gate in gates if not is_passed(gate)]
    found = outcome(report)
    if found == "none":
        return "No limit was set, so nothing was judged."
    if found == "pass":
        return (
            "Passed: the limit that was set is kept."
            if len(gates) == 1
            else f"Passed: all {len(gates)} limits are kept."
        )
    if not failed:
        return "Failed: the report says so, though none of its limits is broken."
    told = "; ".join(f"{shortened(gate.get('name'), 60)} {gate_message(gate)}" for gate in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    which = (
        "the limit that was set is broken"
        if len(gates) == 1
        else f"{len(failed)} of {len(gates)} limits {'is' if len(failed) == 1 else 'are'} broken"
    )
    return f"Failed: {which} ({told}{more})."


def findings(report: dict[str, Any]) -> tuple[str, ...]:
    """Say for each attribute what the best attacker still reads."""
    told = []
    for attribute, pairs in by_attribute(probe_pairs(report.get("probes"))).items():
        before, after = best_attacker(pairs, "before"), best_attacker(pairs, "after")
        judged, stage = (after, "after") if after else (before, "before")
        if judged is None:
            continue
        when = "after erasure" if after else "as the file is"
        earlier = f" (before: {percent(before.leakage('before'))})" if after and before else ""
        turned = ", its answers turned round," if judged.is_turned(stage) else ""
        guess = (
            "" if judged.majority is None else f"; guessing the most frequent class gives {percent(judged.majority)}"
        )
        told.append(
            f"{shortened(attribute, 60)}, {when}: the best attacker ({shortened(judged.attacker, 60)}) "
            f"reads it right{turned} in {percent(judged.leakage(stage))} of the test rows{earlier}{guess}."
        )
    return tuple(told)


def facts(report: dict[str, Any]) -> tuple[Fact, ...]:
    """Pick the figures that a reader looks for first."""
    found = []
    for attribute, pairs in by_attribute(probe_pairs(report.get("probes"))).items():
        before, after = best_attacker(pairs, "before"), best_attacker(pairs, "after")
        reference = after or before
        found.append(
            Fact(
                f"best attacker on {shortened(attribute, 40)}",
                decimal(before and before.leakage("before")),
                decimal(after and after.leakage("after")),
                f"majority {decimal(reference and reference.majority)}",
            )
        )
    for row in records(report.get("similarity")):
        found.append(
            Fact(
                f"similarity {shortened(row.get('set'), 40)}",
                decimal(row.get("before")),
                decimal(row.get("after")),
                f"random control {decimal(row.get('random_control'))}",
            )
        )
    task = record(report.get("task"))
    named = shortened(task.get("column") or "task", 40)
    if pair := record(task.get("accuracy")):
        aside = f"majority {decimal(task.get('majority'))}"
        found.append(Fact(f"accuracy of {named}", decimal(pair.get("before")), decimal(pair.get("after")), aside))
    for of in compared(task):
        for key, name in GAPS.items():
            if pair := record(of.figures.get(key)):
                told = decimal(pair.get("before")), decimal(pair.get("after"))
                found.append(Fact(f"{name}{of.aside} of {named}", *told, "0 is parity"))
    return tuple(found)


def gates_section(report: dict[str, Any]) -> Section | None:
    """Tabulate the gates."""
    gates = records(report.get("gates"))
    if not gates:
        return None
    rows, tones = [], []
    for gate in gates:
        tones.append("pass" if is_passed(gate) else "fail")
        undefined = number(gate.get("value")) is None
        value = "nothing valid" if undefined else beside(gate.get("value"), gate.get("limit"))
        result = "passed" if is_passed(gate) else "FAILED"
        rows.append((visible(gate.get("name")), result, value, limit_in_words(gate), visible(gate.get("reason"))))
    columns = (*names("gate", "result"), *numbers("value", "limit"), *names("reason"))
    return Section(
        "gates", "Gates", (), (Table("Limits, and whether they were kept", columns, tuple(rows), tuple(tones)),)
    )
