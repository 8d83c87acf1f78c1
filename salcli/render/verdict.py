"""The verdict in a sentence, the gates behind it, and the figures at a glance."""

from collections.abc import Sequence

from salcli.evaluation.measures import recorded
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Gate, Report, Status
from salcli.evaluation.section import Column, Fact, Row, Section, Table, names, numbers
from salcli.evaluation.text import ABSENT, beside, decimal, general, listed, percent, shortened, visible
from salcli.render.attackers import WHITE_BOX
from salcli.render.numbers import best_regression, numeric_facts, numeric_findings, numeric_pairs
from salcli.render.probe_pairs import (
    FRESH,
    ProbePair,
    best_attacker,
    by_attribute,
    probe_pairs,
    shown_attributes,
    worst_leak,
)

STATUSES = {"passed": "passed", "failed": "FAILED", "undecided": "UNDECIDED"}
VERDICTS = {"pass": "passed", "fail": "FAILED", "undecided": "UNDECIDED", "none": ""}
TONES = {"passed": "pass", "failed": "fail", "undecided": "undecided"}
OF_ATTACKERS = ("max-accuracy", "max-gain", "max-leak")
MAX_NAMED = 3
"""Number of broken or undecided limits that the verdict's sentence names."""


def _is_upper(gate: Gate) -> bool:
    return gate.name.startswith("max")


def limit_in_words(gate: Gate) -> str:
    """Return the limit of `gate` as text: "at most 0.6" or "at least 0.9"."""
    return f"{'at most' if _is_upper(gate) else 'at least'} {general(gate.limit)}"


def gate_message(gate: Gate) -> str:
    """Return the result of `gate`, as the rest of a sentence that begins with its name."""
    value = "had nothing valid to judge" if gate.value is None else f"is {beside(gate.value, gate.limit)}"
    rule = "is allowed" if _is_upper(gate) else "is required"
    reason = f", {shortened(gate.reason, 200)}" if gate.reason else ""
    return f"{value}, {limit_in_words(gate)} {rule}{reason}"


def verdict_sentence(report: Report) -> str:
    """Return in one sentence whether the limits of `report` were kept."""
    gates = report.gates
    if report.verdict == "none":
        return _readable(report) or "No limit was set, so nothing was judged."
    if report.verdict == "pass":
        if unlimited := unlimited_readers(report):
            what = ", ".join(_judged_attackers(report)) or ", ".join(gate.name for gate in gates)
            return f"Passed for {what}; {'; '.join(unlimited)}."
        return (
            "Passed: the limit that was set is kept."
            if len(gates) == 1
            else f"Passed: all {len(gates)} limits are kept."
        )
    status: Status = "failed" if report.verdict == "fail" else "undecided"
    missed = [gate for gate in gates if gate.status == status]
    named = "; ".join(f"{shortened(gate.name, 60)} {gate_message(gate)}" for gate in missed[:MAX_NAMED])
    more = f"; and {len(missed) - MAX_NAMED} more" if len(missed) > MAX_NAMED else ""
    state = "broken" if status == "failed" else "neither kept nor broken for certain"
    which = (
        f"the limit that was set is {state}"
        if len(gates) == 1
        else f"{len(missed)} of {len(gates)} limits {'is' if len(missed) == 1 else 'are'} {state}"
    )
    return f"{status.capitalize()}: {which} ({named}{more})."


def subject(report: Report) -> str:
    """Return the subject of `report`: the guarded attributes and the file; empty if neither is known."""
    found = [probe.attribute for probe in report.probes if not probe.factors] + [r.attribute for r in report.numeric]
    attributes = listed((shortened(name, 60) for name in dict.fromkeys(found)), 3)
    file = report.inputs.get("embeddings")
    name = "" if file is None else shortened(file.path, 80)
    return f"{attributes} in {name}" if attributes and name else attributes or name


def tone_of(report: Report) -> str:
    """Return the colour of the verdict of `report`: that of a pass only if no attacker without a limit reads more."""
    return "undecided" if report.verdict == "pass" and unlimited_readers(report) else report.verdict


def _readable(report: Report) -> str:
    """Return the accuracy (or R²) of the best fresh attacker of each attribute; empty without attackers."""
    found = shown_attributes(report.probes, report.judged_stage)
    several, parts, is_read = len(found) > 1, [], bool(report.numeric)
    for attribute, pairs in found.items():
        if (best := best_attacker(pairs, report.judged_stage)) is None:
            continue
        is_read |= best[1].leakage > best[1].majority or best[1].leak > 0
        name = f"{shortened(attribute, 60)}: " if several else ""
        parts.append(f"{name}{_read_by(best[1])}, majority {percent(best[1].majority)}")
        holder = best_attacker(pairs, report.judged_stage, WHITE_BOX)
        if holder is not None and holder[1].leakage > best[1].leakage:
            parts.append(f"{name}{_read_by(holder[1])}")
    near = [each for each in report.bands if each.stage == report.judged_stage]
    if near:
        band = max(near, key=lambda each: each.leak)
        is_read |= band.leak > 0
        parts.append(f"{band.band}: {band.reader} {percent(band.leakage)}, majority {percent(band.majority)}")
    for pair in best_regression(numeric_pairs(report.numeric)).values():
        name = f"{shortened(pair.attribute, 60)}: "
        by = "" if pair.latest.adversary == FRESH else f", {pair.latest.adversary}"
        parts.append(f"{name}{pair.reader}{by} R² {decimal(pair.latest.r2)}")
    still = "Still readable" if report.judged_stage == "after" else "Readable"
    still = still if is_read else "No better than a guess"
    return f"{still}: {'; '.join(parts)}." if parts else ""


def _read_by(result: ProbeResult) -> str:
    """Return the attacker of a result and what it reads; who is not fresh is named."""
    by = "" if result.adversary == FRESH else f", {result.adversary}"
    return f"{result.reader}{by} {percent(result.leakage)}"


def _judged_attackers(report: Report) -> tuple[str, ...]:
    """Return the attackers that gates are limited to."""
    names = (gate.name.split(" ", 1) for gate in report.gates if gate.name.startswith(OF_ATTACKERS))
    return tuple(dict.fromkeys(name[1] for name in names if len(name) == 2))


def unlimited_readers(report: Report) -> tuple[str, ...]:
    """Return the attackers of `report` without a gate that read more of an attribute than those with one."""
    if any(gate.name in OF_ATTACKERS for gate in report.gates):
        return ()
    judged, found = _judged_attackers(report), []
    for attribute, pairs in by_attribute(probe_pairs(report.probes)).items():
        results = [pair.stages[report.judged_stage] for pair in pairs if report.judged_stage in pair.stages]
        limited = [result.leakage for result in results if result.probe in judged]
        others = [result for result in results if result.probe not in judged]
        others = [result for result in others if result.leakage > max(limited, default=result.majority)]
        most = max(others, key=lambda result: (result.adversary == FRESH, result.leakage), default=None)
        if most is not None:
            aside = f" of {shortened(attribute, 60)}" if len({probe.attribute for probe in report.probes}) > 1 else ""
            found.append(f"{most.reader} reads {percent(most.leakage)}{aside}")
    return tuple(found)


def accuracy_limit(pair: ProbePair, report: Report) -> float | None:
    """Return the largest accuracy that the gates of `report` allow the attacker `pair`; None without a gate on it."""
    found = []
    for gate in report.gates:
        kind, _, probe = gate.name.partition(" ")
        if kind in ("max-accuracy", "max-gain") and probe in ("", pair.latest.probe):
            found.append(gate.limit + (pair.latest.majority if kind == "max-gain" else 0.0))
    return min(found, default=None)


def findings(report: Report) -> tuple[str, ...]:
    """Return a sentence for each attribute of `report`: the accuracy of its best attacker."""
    found = []
    for attribute, pairs in shown_attributes(report.probes, report.judged_stage).items():
        before, after = best_attacker(pairs, "before"), best_attacker(pairs, "after")
        best = after or before
        assert best is not None
        pair, result = best
        when = "after erasure" if after else "as the file is"
        earlier = f" (before: {percent(before[1].leakage)})" if after and before else ""
        flipped = ", with flipped predictions," if result.is_flipped else ""
        sentence = (
            f"{shortened(attribute, 60)}, {when}: the best attacker ({shortened(pair.attacker, 60)}) "
            f"reads it right{flipped} in {percent(result.leakage)} of the test rows{earlier}; "
            f"guessing the most frequent class gives {percent(result.majority)}. {_leak_in_words(pairs)}"
        )
        stage = "after" if after else "before"
        most = max((p.stages[stage] for p in pairs if stage in p.stages), key=lambda r: r.leakage)
        if most.leakage > result.leakage:
            sentence += f" Trained on the fitted rows, {most.reader} reads {percent(most.leakage)}."
        sentence += _near_in_words(report, attribute)
        found.append(sentence)
    found += numeric_findings(report)
    worst = report.worst
    if worst is not None and any(probe.factors for probe in report.probes):
        by = f"leak {decimal(worst.leak)}, {worst.probe}, {worst.adversary}"
        found.append(f"Of attributes and products of them, {shortened(worst.attribute, 60)} is read most ({by}).")
    return tuple(found)


def _near_in_words(report: Report, attribute: str) -> str:
    """Return what is read of an attribute in the band that shows most; nothing without bands."""
    bands = [
        result
        for result in report.bands
        if result.stage == report.judged_stage and visible(result.attribute) == attribute
    ]
    most = max(bands, key=lambda result: result.leak, default=None)
    return (
        ""
        if most is None
        else f" Near the labelled rows, in {visible(most.band)}, {most.reader} reads {percent(most.leakage)}."
    )


def _leak_in_words(pairs: Sequence[ProbePair]) -> str:
    before, after = worst_leak(pairs, "before"), worst_leak(pairs, "after")
    worst = after or before
    assert worst is not None
    earlier = f" (before: {decimal(before[1].leak)})" if after and before else ""
    return f"The largest leak is {decimal(worst[1].leak)}{earlier}, by {shortened(worst[0].attacker, 60)}."


def facts(report: Report) -> tuple[Fact, ...]:
    """Return the main figures of `report`: best attacker and largest leak of each attribute, then the measures'."""
    found = []
    for attribute, pairs in shown_attributes(report.probes, report.judged_stage).items():
        best = {s: each[1] for s in ("before", "after") if (each := best_attacker(pairs, s)) is not None}
        shown = {stage: decimal(result.leakage) for stage, result in best.items()}
        latest = best.get("after") or best["before"]
        found.append(
            Fact(
                f"best attacker on {shortened(attribute, 40)} ({latest.reader}, {latest.adversary})",
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
    found += numeric_facts(report)
    return (*found, *(fact for measure, record in recorded(report) for fact in measure.facts(record)))


def gates_section(report: Report) -> Section | None:
    """Return the section with the table of the gates of `report`; None without any."""
    if not report.gates:
        return None
    table = gates_table("Limits, and whether they were kept", [((), gate) for gate in report.gates])
    return Section("gates", "Gates", (), (table,))


def gates_table(caption: str, gates: Sequence[tuple[Row, Gate]], before: tuple[Column, ...] = ()) -> Table:
    """Return a table of gates, one a row.

    Parameters
    ----------
    caption : of the table
    gates : each with the cells that stand before it
    before : columns of those cells
    """
    rows = [
        (
            *cells,
            gate.name,
            STATUSES[gate.status],
            "nothing valid" if gate.value is None else beside(gate.value, gate.limit),
            limit_in_words(gate),
            visible(gate.decided_by or ""),
            visible(gate.reason),
        )
        for cells, gate in gates
    ]
    tones = tuple(TONES[gate.status] for _, gate in gates)
    columns = (*before, *names("gate", "result"), *numbers("value", "limit"), *names("decided by", "reason"))
    used = [i for i, column in enumerate(columns) if column.name != "reason" or any(row[i] for row in rows)]
    shown = tuple(tuple(row[i] for i in used) for row in rows)
    return Table(caption, tuple(columns[i] for i in used), shown, tones)
