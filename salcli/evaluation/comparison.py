"""`Comparison`: what several erasers leave and keep, of the same rows by the same attackers and measures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from salcli.evaluation.attackers.scores import Z95
from salcli.evaluation.json_fields import OPTIONAL, UNWRITTEN, named
from salcli.evaluation.kept import KEPT as ROWS_KEPT
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.provenance import Run
from salcli.evaluation.report import InputFile, Report
from salcli.evaluation.shares import difference
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.task import TASK
from salcli.options import RAW

SCHEMA = "salcli.comparison/1"
KEPT = ("task", "similarity", "neighbors")
"""What can be kept, in the order of reports."""
Point = tuple[float, float]
"""Leak, and share that is kept."""


def task_kept(report: Report) -> float | None:
    """Return the share of the task's accuracy above the majority that is kept according to a `report`, or None."""
    task = report.of(TASK)
    if task is None or task.accuracy.after is None or "before" in task.undefined:
        return None
    above = difference(task.accuracy.before, task.majority)
    return difference(task.accuracy.after, task.majority) / above if above > 0 else None


def similarity_kept(report: Report) -> float | None:
    """Return Spearman's ρ after over before in a `report`, averaged over sets where it was positive."""
    shares = [
        change.after / change.before
        for change in report.of(SIMILARITY) or ()
        if change.before is not None and change.after is not None and change.before > 0
    ]
    return sum(shares) / len(shares) if shares else None


def neighbors_kept(report: Report) -> float | None:
    """Return the mean share of the ten nearest rows that stay in a `report`; None if not measured."""
    found = report.of(ROWS_KEPT)
    of_all = (each.overlap_at_10 for each in (() if found is None else found.rows) if each.rows == "all")
    return next(of_all, None)


_KEPT: Mapping[str, Callable[[Report], float | None]] = dict(
    zip(KEPT, (task_kept, similarity_kept, neighbors_kept), strict=True)
)


@dataclass(frozen=True)
class Reading:
    """What one attacker reads at one stage, whether of classes or of numbers."""

    attribute: str
    probe: str
    form: str
    """Of the rows."""
    adversary: str
    leak: float
    """Of numbers R², or 0 where it is negative."""
    ci95: tuple[float, float]
    of_numbers: bool = False


def readings(report: Report, stage: str) -> tuple[Reading, ...]:
    """Return what every attacker of `report` reads at a `stage`: before or after erasure."""
    of_classes = (
        Reading(each.attribute, each.probe, each.form, each.adversary, each.leak, _ci95(each))
        for each in (*report.probes, *report.bands)
        if each.stage == stage
    )
    of_numbers = (
        Reading(each.attribute, each.probe, RAW, each.adversary, max(0.0, each.r2), each.ci95, of_numbers=True)
        for each in report.numeric
        if each.stage == stage
    )
    return (*of_classes, *of_numbers)


def _ci95(result: ProbeResult) -> tuple[float, float]:
    margin = Z95 * (result.leak_error or 0.0)
    return max(0.0, result.leak - margin), min(1.0, result.leak + margin)


def worst_of(report: Report, stage: str) -> Reading | None:
    """Return the reading of the largest leak in `report` at a `stage`; None if none was measured."""
    return max(readings(report, stage), key=lambda each: each.leak, default=None)


def worst_by_adversary(report: Report, stage: str) -> dict[str, float]:
    """Return the largest leak in `report` at a `stage` by adversary, in the order of the attackers."""
    found: dict[str, float] = {}
    for each in readings(report, stage):
        found[each.adversary] = max(found.get(each.adversary, 0.0), each.leak)
    return found


@dataclass(frozen=True)
class Candidate:
    """One eraser, or one file that was erased elsewhere."""

    name: str
    """Method and k, with the file where these are equal; the file where another tool erased it. Unique."""
    report: Report
    """As `evaluate` reports it."""
    n_bytes: int | None = field(default=None, metadata=named("bytes"))
    """Of the artifact's file; None of a file that was erased elsewhere."""
    seconds: float | None = field(default=None, compare=False, metadata=UNWRITTEN)
    """That erasing the labelled rows took; no part of report files, which are the same for the same run."""
    n_erased: int = field(default=0, metadata=UNWRITTEN)
    """Rows that were erased in that time."""
    leak: float | None = field(init=False)
    """The largest after erasure, over attributes and attackers."""
    leaks: Mapping[str, float] = field(init=False, hash=False)
    """The same by adversary."""
    kept: Mapping[str, float | None] = field(init=False, hash=False)
    """Shares that are kept; None where that was not measured or is undefined."""

    def __post_init__(self) -> None:
        worst = worst_of(self.report, "after")
        object.__setattr__(self, "leak", None if worst is None else worst.leak)
        object.__setattr__(self, "leaks", worst_by_adversary(self.report, "after"))
        shares = {name: share(self.report) for name, share in _KEPT.items()}
        kept = {name: share if share is None or isfinite(share) else None for name, share in shares.items()}
        object.__setattr__(self, "kept", kept)

    def point(self, kept: str) -> Point | None:
        """Return leak and the share `kept` (a name in `KEPT`); None where one is undefined."""
        share = self.kept[kept]
        return None if self.leak is None or share is None else (self.leak, share)


def pareto_front(points: Mapping[str, Point]) -> tuple[str, ...]:
    """Return the names of the points than which no other leaks less or keeps more without being worse in the other.

    Parameters
    ----------
    points : leak and share that is kept, by name

    Returns
    -------
    names by rising leak; equal points are all on the front, or none
    """

    def is_dominated(leak: float, kept: float) -> bool:
        return any(a <= leak and b >= kept and (a, b) != (leak, kept) for a, b in points.values())

    on_front = {name: point for name, point in points.items() if not is_dominated(*point)}
    return tuple(sorted(on_front, key=lambda name: on_front[name]))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was measured of each candidate, and the verdict."""

    schema: str = field(default=SCHEMA, init=False)
    run: Run | None = field(default=None, metadata=OPTIONAL)
    """How it came to be."""
    inputs: Mapping[str, InputFile] = field(default_factory=dict)
    """embeddings and labels."""
    require: str = "all"
    """all, or any: how many candidates must keep their limits."""
    candidates: tuple[Candidate, ...]
    fronts: Mapping[str, tuple[str, ...]] = field(init=False)
    """By what is kept: candidates on the Pareto front of it and the leak; without what was not measured."""
    notes: tuple[str, ...] = field(init=False)
    """Those of all candidates, then those of one, which begin with its name."""
    verdict: str = field(init=False)
    """pass, fail, undecided, or none without a gate."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fronts", {kept: front for kept in KEPT if (front := pareto_front(self.points(kept)))})
        object.__setattr__(self, "notes", _notes(self.candidates))
        object.__setattr__(self, "verdict", _verdict([each.report.verdict for each in self.candidates], self.require))

    def points(self, kept: str) -> dict[str, Point]:
        """Return leak and the share `kept` (a name in `KEPT`) by candidate, where both are defined."""
        return {each.name: point for each in self.candidates if (point := each.point(kept)) is not None}

    @property
    def is_refused(self) -> bool:
        """Whether gates keep the release back: of any candidate, or of all of them."""
        refused = [each.report.is_refused for each in self.candidates]
        return all(refused) if self.require == "any" else any(refused)

    @property
    def reports(self) -> tuple[Report, ...]:
        """The report of each candidate."""
        return tuple(each.report for each in self.candidates)

    def worded(self, wording: Callable[[str], str]) -> "Comparison":
        """Return the comparison with `wording` applied to every note and to the reasons of every gate."""
        return replace(
            self, candidates=tuple(replace(each, report=each.report.worded(wording)) for each in self.candidates)
        )


def _notes(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    of_each = [dict.fromkeys(each.report.notes) for each in candidates]
    shared = [note for note in (of_each[0] if of_each else ()) if all(note in notes for notes in of_each)]
    own = [
        f"{each.name}: {note}"
        for each, notes in zip(candidates, of_each, strict=True)
        for note in notes
        if note not in shared
    ]
    return (*shared, *own)


def _verdict(verdicts: Sequence[str], require: str) -> str:
    order = ("pass", "undecided", "fail") if require == "any" else ("fail", "undecided", "pass")
    return next((verdict for verdict in order if verdict in verdicts), "none")
