"""A comparison: the Pareto front, what is kept, whose notes are whose, and the verdict over all candidates."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.comparison import (
    Candidate,
    Comparison,
    neighbors_kept,
    pareto_front,
    similarity_kept,
    task_kept,
    worst_by_adversary,
    worst_of,
)
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.kept import Kept, KeptRows
from salcli.evaluation.report import Gate, Report, Status
from tests.render.reports import full_report

SHARES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1)
POINTS = st.dictionaries(st.text(max_size=3), st.tuples(SHARES, SHARES), max_size=8)


def candidate(name: str, status: Status | None = None, notes: tuple[str, ...] = (), **changes: object) -> Candidate:
    gates = () if status is None else (Gate("max-leak", 0.1, 0.2, status),)
    return Candidate(name, replace(full_report(), gates=gates, notes=notes, **changes))  # type: ignore[arg-type]


@given(POINTS)
def test_the_front_is_what_no_other_point_beats(points: dict[str, tuple[float, float]]) -> None:
    front = pareto_front(points)
    for name, (leak, kept) in points.items():
        better = [other for other, (a, b) in points.items() if (a < leak and b >= kept) or (a <= leak and b > kept)]
        assert (name in front) == (not better)
    assert bool(front) == bool(points)
    leaks = [points[name][0] for name in front]
    assert leaks == sorted(leaks)


def test_a_point_that_is_worse_in_one_figure_and_equal_in_the_other_is_off_the_front() -> None:
    points = {"a": (0.1, 0.8), "b": (0.1, 0.9), "c": (0.3, 0.9), "d": (0.0, 0.1), "e": (0.1, 0.9)}
    assert pareto_front(points) == ("d", "b", "e")


def test_shares_that_are_kept_are_those_of_the_report() -> None:
    report = full_report()
    task, change = report.measures["task"], report.measures["similarity"][0]  # type: ignore[index]
    above = (task.accuracy.after - task.majority) / (task.accuracy.before - task.majority)  # type: ignore[attr-defined]
    assert task_kept(report) == pytest.approx(above)
    assert similarity_kept(replace(report, measures={"similarity": (change,)})) == change.after / change.before
    flat = replace(change, before=-0.1)
    assert similarity_kept(replace(report, measures={"similarity": (flat,)})) is None
    undefined = replace(task, undefined={"before": "why"})  # type: ignore[type-var]
    assert task_kept(replace(report, measures={"task": undefined})) is None
    assert neighbors_kept(Report()) is None
    assert (
        neighbors_kept(
            Report(
                measures={
                    "kept": Kept(
                        (KeptRows("others", 2, 2, 0.5, None, None), KeptRows("all", 9, 9, 0.75, None, None)), 9, ()
                    )
                }
            )
        )
        == 0.75
    )


def test_the_worst_attacker_is_that_of_the_largest_leak_at_its_stage() -> None:
    report = full_report()
    of_classes = [probe for probe in (*report.probes, *report.bands) if probe.stage == "after"]
    report = replace(report, numeric=())
    worst = worst_of(report, "after")
    assert worst is not None
    assert worst.leak == max(probe.leak for probe in of_classes)
    by_adversary = worst_by_adversary(report, "after")
    assert max(by_adversary.values()) == worst.leak
    assert set(by_adversary) == {probe.adversary for probe in of_classes}
    assert worst_of(Report(), "after") is None


def test_numbers_leak_what_is_explained_of_them() -> None:
    def number(r2: float, stage: str = "after") -> NumericResult:
        return NumericResult("age", "ridge", "fresh", stage, r2, 0.1, 50, 100, 100, converged=True, capped=False)

    report = Report(numeric=(number(0.9, "before"), number(0.25), number(-0.5)))
    worst = worst_of(report, "after")
    assert worst is not None
    assert (worst.leak, worst.of_numbers, worst.ci95) == (0.25, True, report.numeric[1].ci95)
    assert Candidate("a", report).leaks == {"fresh": 0.25}
    assert worst_by_adversary(Report(numeric=(number(-0.5),)), "after") == {"fresh": 0.0}


@pytest.mark.parametrize(
    ("require", "statuses", "verdict", "is_refused"),
    [
        ("all", ("passed", "passed"), "pass", False),
        ("all", ("passed", "failed"), "fail", True),
        ("all", ("passed", "undecided"), "undecided", True),
        ("all", ("failed", "undecided"), "fail", True),
        ("any", ("passed", "failed"), "pass", False),
        ("any", ("undecided", "failed"), "undecided", True),
        ("any", ("failed", "failed"), "fail", True),
        ("any", (None, None), "none", False),
        ("all", (None, None), "none", False),
    ],
)
def test_the_verdict_is_over_all_candidates(
    require: str, statuses: tuple[Status | None, ...], verdict: str, is_refused: bool
) -> None:
    found = Comparison(require=require, candidates=tuple(candidate(str(i), each) for i, each in enumerate(statuses)))
    assert (found.verdict, found.is_refused) == (verdict, is_refused)


def test_an_undecided_candidate_is_let_through_where_that_is_allowed() -> None:
    allowed = candidate("a", "undecided", allows_undecided=True)
    for require in ("all", "any"):
        found = Comparison(require=require, candidates=(allowed, allowed))
        assert (found.verdict, found.is_refused) == ("undecided", False)


def test_notes_that_all_share_are_said_once_and_others_name_their_candidate() -> None:
    found = Comparison(candidates=(candidate("a", notes=("x: y", "one")), candidate("b: c", notes=("two", "x: y"))))
    assert found.notes == ("x: y", "a: one", "b: c: two")
    assert found.worded(str.upper).notes == ("X: Y", "a: ONE", "b: c: TWO")


def test_times_are_no_part_of_the_json() -> None:
    one = Candidate("a", full_report(), 10, seconds=0.5, n_erased=7)
    other = replace(one, seconds=0.7)
    assert one == other
    assert to_json(one) == to_json(other)
    assert to_json(one).keys() == {"name", "report", "bytes", "leak", "leaks", "kept"}
