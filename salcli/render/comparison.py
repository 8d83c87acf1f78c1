"""Several erasers beside each other: one table, what each attacker reads, and leak against what is kept."""

from collections.abc import Iterator
from functools import partial

from salcli.evaluation.comparison import (
    KEPT,
    Candidate,
    Comparison,
    Reading,
    neighbors_kept,
    readings,
    worst_by_adversary,
    worst_of,
)
from salcli.evaluation.probe_result import reader
from salcli.evaluation.report import Report
from salcli.evaluation.section import Column, Row, Section, Table, names, numbers
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.task import TASK
from salcli.evaluation.text import ABSENT, count, decimal, general, interval, listed, shortened, visible
from salcli.options import RAW
from salcli.render import verdict
from salcli.render.attackers import ATTACKER, OF_AN_ERASER, SAFE
from salcli.render.front import MOST_SPOTS, Spot, front_plot
from salcli.render.pictures import Picture
from salcli.render.sections import eraser_sentence, files_table, notes_section, run_section

NOTHING = "nothing erased"
TITLES = {"task": "task accuracy above the majority", "similarity": "word similarity", "neighbors": "neighbours"}
SHORT = {"task": "task", "similarity": "similarity", "neighbors": "neighbours"}
MOST_NAMED = 3


def subject(comparison: Comparison) -> str:
    """Return what `comparison` is about: the guarded attributes and the file."""
    return verdict.subject(comparison.reports[0])


def tone_of(comparison: Comparison) -> str:
    """Return the colour of a `comparison`'s verdict: that of a pass only if no attacker without a limit reads more."""
    of_each = {verdict.tone_of(each) for each in comparison.reports if each.verdict == "pass"}
    return "undecided" if comparison.verdict == "pass" and "undecided" in of_each else comparison.verdict


def verdict_sentence(comparison: Comparison) -> str:
    """Return in one sentence which candidates of a `comparison` keep their limits."""
    by_verdict: dict[str, list[str]] = {}
    for each in comparison.candidates:
        by_verdict.setdefault(each.report.verdict, []).append(shortened(each.name, 60))
    n = len(comparison.candidates)
    kept, failed, open_ = (by_verdict.get(name, []) for name in ("pass", "fail", "undecided"))
    if comparison.verdict == "none":
        return _least(comparison) or "No limit was set, so nothing was judged."
    if comparison.verdict == "pass" and len(kept) == n:
        return f"Passed: all {n} candidates keep their limits."
    states = ((kept, "keeps", "keep"), (failed, "breaks", "break"), (open_, "is undecided", "are undecided"))
    reasons = "; ".join(
        f"{listed(who, MOST_NAMED)} {one if len(who) == 1 else several}" for who, one, several in states if who
    )
    needed = "one is enough" if comparison.require == "any" else "all must"
    start = {"pass": "Passed", "fail": "Failed", "undecided": "Undecided"}[comparison.verdict]
    return f"{start}: {len(kept)} of {n} candidates keep their limits, {needed} ({reasons})."


def _least(comparison: Comparison) -> str:
    """Return which candidate leaks least; empty without attackers."""
    measured = [(worst, each) for each in comparison.candidates if (worst := worst_of(each.report, "after"))]
    if not measured:
        return ""
    worst, least = min(measured, key=lambda pair: pair[0].leak)
    who = _attacker(worst, least.report)
    return f"No limit was set; the smallest leak is that of {shortened(least.name, 60)}: {decimal(worst.leak)} ({who})."


def findings(comparison: Comparison) -> tuple[str, ...]:
    """Return which candidates of a `comparison` are on the Pareto front of the leak and each quantity that is kept."""
    return tuple(
        f"Front of leak against {TITLES[kept]} kept: {listed(front)}." for kept, front in comparison.fronts.items()
    )


def sections(comparison: Comparison) -> tuple[Section, ...]:
    """Return the sections of a `comparison` that are not empty, in reading order."""
    gates = [((visible(each.name),), gate) for each in comparison.candidates for gate in each.report.gates]
    caption = "Limits, and which candidate keeps them"
    tables = (verdict.gates_table(caption, gates, names("candidate")),) if gates else ()

    def found() -> Iterator[Section | None]:
        yield _candidates_section(comparison)
        yield Section("gates", "Gates", (), tables) if tables else None
        if (table := attackers_table(comparison)).rows:
            yield Section("attackers", "Attackers", (ATTACKER + OF_AN_ERASER + SAFE,), (table,))
        yield notes_section(comparison.notes)
        yield _inputs_section(comparison)
        yield run_section(comparison.run)

    return tuple(section for section in found() if section is not None)


def candidates_table(comparison: Comparison, *, with_seconds: bool = False) -> Table:
    """Return the table of what each candidate leaves and keeps, beside the file as it is.

    Parameters
    ----------
    comparison : of at least one candidate
    with_seconds : whether it has the time that erasing takes, which is another in each run
    """
    n_erased = max((each.n_erased for each in comparison.candidates), default=0)
    first = comparison.candidates[0]
    found = [_cells(NOTHING, first.report, "before")]
    for each in comparison.candidates:
        cells = _cells(visible(each.name), each.report, "after")
        cells["bytes"] = count(each.n_bytes)
        if with_seconds and each.seconds is not None:
            cells["seconds"] = general(each.seconds, 2)
        fronts = ", ".join(SHORT[kept] for kept, front in comparison.fronts.items() if each.name in front)
        cells["front"] = fronts or ABSENT
        cells["result"] = verdict.VERDICTS[each.report.verdict]
        found.append(cells)
    headings = list(dict.fromkeys(heading for cells in reversed(found) for heading in cells))
    used = [heading for heading in headings if any(cells.get(heading, ABSENT) not in ("", ABSENT) for cells in found)]
    rows = tuple(tuple(cells.get(heading, ABSENT) for heading in used) for cells in found)
    tones = ("", *(each.report.verdict if each.report.gates else "" for each in comparison.candidates))
    caption = "What each candidate leaves and keeps"
    caption += f" (seconds: erasing {count(n_erased)} rows)" if "seconds" in used else ""
    return Table(caption, tuple(map(_column, used)), rows, tones)


def _column(heading: str) -> Column:
    is_text = heading in ("candidate", "read most by", "front", "result")
    return Column(heading, is_number=not is_text, is_spare=heading in ("bytes", "not retrained"))


def _cells(name: str, report: Report, stage: str) -> dict[str, str]:
    """Return the cells of a row by their headings: what is read at a stage, and what is there of the rest."""
    cells = {"candidate": name}
    cells |= {f"leak {who}": decimal(leak) for who, leak in worst_by_adversary(report, stage).items()}
    worst = worst_of(report, stage)
    cells["read most by"] = ABSENT if worst is None else _attacker(worst, report)
    if (task := report.of(TASK)) is not None:
        cells["task accuracy"] = decimal(task.accuracy.at(stage))
        cells["not retrained"] = decimal(task.accuracy.not_retrained if stage == "after" else None)
        for rates in task.every:
            gap = rates.tpr_gap or rates.tpr_gap_rms
            cells[f"TPR gap{visible(task.aside(rates))}"] = ABSENT if gap is None else decimal(gap.at(stage))
    for change in report.of(SIMILARITY) or ():
        cells[visible(change.name)] = decimal(change.before if stage == "before" else change.after)
    if stage == "after":
        cells["neighbours"] = decimal(neighbors_kept(report))
    return cells


def _attacker(reading: Reading, report: Report) -> str:
    several = len({each.attribute for each in report.probes} | {each.attribute for each in report.numeric}) > 1
    return f"{_reader(reading)}, {reading.adversary}" + (f", of {shortened(reading.attribute, 40)}" if several else "")


def _reader(reading: Reading) -> str:
    return reader(reading.probe, reading.form) + (" (R²)" if reading.of_numbers else "")


def attackers_table(comparison: Comparison) -> Table:
    """Return each attacker's leak in a `comparison`, one a row: before erasure and after that of each candidate.

    Of rows in other forms than the raw ones, attackers are shown to which a candidate leaks more than of raw rows.
    """
    found: dict[tuple[str, ...], dict[str, float]] = {}
    shown: dict[tuple[str, ...], Reading] = {}
    for each in comparison.candidates:
        for name, stage in ((NOTHING, "before"), (each.name, "after")):
            for reading in readings(each.report, stage):
                attacker = (reading.attribute, reading.adversary, _reader(reading))
                shown[attacker] = reading
                found.setdefault(attacker, {})[name] = reading.leak
    headings = [NOTHING, *(each.name for each in comparison.candidates)]
    rows = []
    for key, reading in shown.items():
        leaks, raw = found[key], found.get((reading.attribute, reading.adversary, reading.probe), {})
        if reading.form == RAW or any(leak > raw.get(name, -1.0) for name, leak in leaks.items() if name != NOTHING):
            cells = (decimal(leaks.get(name)) for name in headings)
            rows.append((visible(reading.attribute), _reader(reading), reading.adversary, *cells))
    columns = (*names("attribute", "probe", "adversary"), *numbers(*map(visible, headings)))
    return Table("Leak to each attacker, from 0 (nothing is read) to 1 (all)", columns, tuple(rows))


def spots(comparison: Comparison, kept: str) -> tuple[Spot, ...]:
    """Return the candidates that have both figures.

    Parameters
    ----------
    comparison : of the candidates
    kept : a name in `KEPT`
    """
    front, found = comparison.fronts.get(kept, ()), []
    for each in comparison.candidates:
        point, worst = each.point(kept), worst_of(each.report, "after")
        if point is not None and worst is not None:
            found.append(Spot(visible(each.name), point[0], worst.ci95, point[1], each.name in front))
    return tuple(found)


def _spots_table(comparison: Comparison) -> Table:
    """Return the numbers of the pictures."""
    measured = [kept for kept in KEPT if any(each.kept[kept] is not None for each in comparison.candidates)]

    def cells(each: Candidate) -> Row:
        worst = worst_of(each.report, "after")
        bounds = ABSENT if worst is None else interval(worst.ci95)
        return visible(each.name), decimal(each.leak), bounds, *(decimal(each.kept[kept]) for kept in measured)

    columns = *names("candidate"), *numbers("leak", "95% interval", *(f"{TITLES[kept]} kept" for kept in measured))
    rows = tuple(map(cells, comparison.candidates))
    return Table("The largest leak, and the shares that are kept", columns, rows, is_of_picture=True)


def _candidates_section(comparison: Comparison) -> Section:
    lead = (
        "All candidates are measured on the same rows, by the same attackers and measures. "
        "A candidate is on the front if no other leaks less and keeps as much, or keeps more and leaks as little. "
        "The front compares figures: differences within their intervals decide nothing."
    )
    return Section("candidates", "Candidates", (lead,), (candidates_table(comparison), _spots_table(comparison)))


def pictures(comparison: Comparison) -> dict[str, tuple[Picture, ...]]:
    """Return a picture of a `comparison` for each quantity: leak against what is kept."""
    worst = worst_of(comparison.reports[0], "before")
    start = None if worst is None else worst.leak
    found = []
    for kept in comparison.fronts:
        shown = spots(comparison, kept)
        words = [
            f"{shortened(each.name, 60)}: leak {decimal(each.leak)}, kept {decimal(each.kept)}"
            + (", on the front" if each.is_on_front else "")
            for each in shown
        ]
        title = f"Leak against {TITLES[kept]} kept"
        title += f", the first {MOST_SPOTS}" if len(shown) > MOST_SPOTS else ""
        found.append(Picture(title, f"{'; '.join(words)}.", partial(_draw, shown, start)))
    return {"candidates": tuple(found)} if found else {}


def _draw(shown: tuple[Spot, ...], start: float | None, salt: str) -> str:
    return front_plot(shown, start, salt=salt)


def _inputs_section(comparison: Comparison) -> Section:
    erasers = {each.name: each.report.eraser for each in comparison.candidates if each.report.eraser is not None}
    points = tuple(f"{visible(name)}: {eraser_sentence(eraser)}" for name, eraser in erasers.items())
    return Section("inputs", "Inputs", (), (files_table(comparison.inputs, erasers),), points)
