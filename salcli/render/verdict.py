"""The verdict in a sentence, the gates behind it, and the figures at a glance."""

from collections.abc import Sequence

from salcli.evaluation.measures import recorded
from salcli.evaluation.report import Gate, Report, Status
from salcli.evaluation.section import Fact, Section, Table, names, numbers
from salcli.evaluation.text import ABSENT, beside, decimal, general, percent, shortened, visible
from salcli.render.attackers import ProbePair, best_attacker, by_attribute, probe_pairs, worst_leak

STATUSES = {"passed": "passed", "failed": "FAILED", "undecided": "UNDECIDED"}
TONES = {"passed": "pass", "failed": "fail", "undecided": "undecided"}
MOST_TOLD = 3
"""Broken or undecided limits that the verdict's sentence names."""


def _is_upper(gate: Gate) -> bool:
    return gate.name.startswith("max")


def limit_in_words(gate: Gate) -> str:
    """Return on which side of its limit a gate's value must be."""
    return f"{'at most' if _is_upper(gate) else 'at least'} {general(gate.limit)}"


def gate_message(gate: Gate) -> str:
    """Return the result of a gate, as the rest of a sentence that begins with its name."""
    value = "had nothing valid to judge" if gate.value is None else f"is {beside(gate.value, gate.limit)}"
    rule = "is allowed" if _is_upper(gate) else "is required"
    reason = f", {shortened(gate.reason, 200)}" if gate.reason else ""
    return f"{value}, {limit_in_words(gate)} {rule}{reason}"


def verdict_sentence(report: Report) -> str:
    """Return in one sentence whether the limits were kept."""
    gates = report.gates
    if report.verdict == "none":
        return "No limit was set, so nothing was judged."
    if report.verdict == "pass":
        return (
            "Passed: the limit that was set is kept."
            if len(gates) == 1
            else f"Passed: all {len(gates)} limits are kept."
        )
    status: Status = "failed" if report.verdict == "fail" else "undecided"
    told = [gate for gate in gates if gate.status == status]
    named = "; ".join(f"{shortened(gate.name, 60)} {gate_message(gate)}" for gate in told[:MOST_TOLD])
    more = f"; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    state = "broken" if status == "failed" else "neither kept nor broken for certain"
    which = (
        f"the limit that was set is {state}"
        if len(gates) == 1
        else f"{len(told)} of {len(gates)} limits {'is' if len(told) == 1 else 'are'} {state}"
    )
    return f"{status.capitalize()}: {which} ({named}{more})."


def findings(report: Report) -> tuple[str, ...]:
    """Return for each attribute what the best attacker still reads."""
    found = []
    for attribute, pairs in by_attribute(probe_pairs(report.probes)).items():
        before, after = best_attacker(pairs, "before"), best_attacker(pairs, "after")
        best = after or before
        assert best is not None
        pair, result = best
        when = "after erasure" if after else "as the file is"
        earlier = f" (before: {percent(before[1].leakage)})" if after and before else ""
        flipped = ", its answers turned round," if result.is_flipped else ""
        found.append(
            f"{shortened(attribute, 60)}, {when}: the best attacker ({shortened(pair.attacker, 60)}) "
            f"reads it right{flipped} in {percent(result.leakage)} of the test rows{earlier}; "
            f"guessing the most frequent class gives {percent(result.majority)}. {_leak_in_words(pairs)}"
        )
    return tuple(found)


def _leak_in_words(pairs: Sequence[ProbePair]) -> str:
    before, after = worst_leak(pairs, "before"), worst_leak(pairs, "after")
    worst = after or before
    assert worst is not None
    earlier = f" (before: {decimal(before[1].leak)})" if after and before else ""
    return f"The largest leak is {decimal(worst[1].leak)}{earlier}, by {shortened(worst[0].attacker, 60)}."


def facts(report: Report) -> tuple[Fact, ...]:
    """Return the figures that a reader looks for first."""
    found = []
    for attribute, pairs in by_attribute(probe_pairs(report.probes)).items():
        best = {s: each[1] for s in ("before", "after") if (each := best_attacker(pairs, s)) is not None}
        shown = {stage: decimal(result.leakage) for stage, result in best.items()}
        latest = best.get("after") or best["before"]
        found.append(
            Fact(
                f"best attacker on {shortened(attribute, 40)}",
                shown.get("before", ABSENT),
                shown.get("after", ABSENT),
                f"majority {decimal(latest.majority)}",
            )
        )
        leaks = {s: decimal(each[1].leak) for s in ("before", "after") if (each := worst_leak(pairs, s)) is not None}
        found.append(
            Fact(
                f"largest leak of {shortened(attribute, 40)}",
                leaks.get("before", ABSENT),
                leaks.get("after", ABSENT),
                "0: nothing is read, 1: all",
            )
        )
    return (*found, *(fact for measure, record in recorded(report) for fact in measure.facts(record)))


def gates_section(report: Report) -> Section | None:
    """Return the table of the gates."""
    if not report.gates:
        return None
    rows = tuple(
        (
            gate.name,
            STATUSES[gate.status],
            "nothing valid" if gate.value is None else beside(gate.value, gate.limit),
            limit_in_words(gate),
            visible(gate.reason),
        )
        for gate in report.gates
    )
    tones = tuple(TONES[gate.status] for gate in report.gates)
    columns = (*names("gate", "result"), *numbers("value", "limit"), *names("reason"))
    return Section("gates", "Gates", (), (Table("Limits, and whether they were kept", columns, rows, tones),))
