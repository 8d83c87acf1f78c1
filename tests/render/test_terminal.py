"""Figures on terminals of any width: the console has the width."""

import io
import re
from typing import ClassVar

import pytest
from rich.console import Console

from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.deviation import Deviation
from salcli.evaluation.measures import MEASURES
from salcli.evaluation.report import Gate, LearningCurve, LearningPoint, Report, SweepStep
from salcli.evaluation.section import Section, Table, names
from salcli.render.attackers import learning_table
from salcli.render.pictures import pictures
from salcli.render.terminal import WIDTHS, terminal
from tests.render.reports import HOSTILE, full_report, poisoned, result, scatter_of


def report(name: str, n_values: int) -> Report:
    probe = result(
        name, "after", 0.123, adversary="in-sample", ci95=(0.111, 0.135), balanced_accuracy=0.456, majority=0.789,
        n_train=12_345, n_test=6_789, converged=False, capped=True,
    )  # fmt: skip
    steps = (SweepStep(probes=(probe,), parameter="strength", value=i / 100) for i in range(n_values))
    return Report(probes=(probe,), sweep=tuple(steps))


def printed(report: Report, width: int) -> str:
    return terminal(report, Console(width=width, highlight=False, markup=False, emoji=False, file=io.StringIO()))


@pytest.mark.parametrize("width", [10, 40, 80, 200])
@pytest.mark.parametrize("name", ["gender", "a" * 150])
def test_no_figure_is_cut_on_a_narrow_terminal(width: int, name: str) -> None:
    told = printed(report(name, 3), width)
    assert "…" not in told
    for figure in ("0.123", "0.111–0.135", "0.789", "linear", "in-sample", "after"):
        assert re.search(rf"(^|\s){figure}(\s|$)", told, re.MULTILINE), figure
    for figure, column in (("0.456", "balanced"), ("12,345", "train"), ("6,789", "test")):
        assert (figure in told) == (width >= WIDTHS[column])


@pytest.mark.parametrize("n_values", [3, 11])
def test_every_value_of_a_sweep_is_printed(n_values: int) -> None:
    told = printed(report("gender", n_values), 100)
    for i in range(n_values):
        assert re.search(rf"^ *{i / 100:g} +0\.123", told, re.MULTILINE)


def test_the_centres_of_a_picture_are_not_for_the_terminal() -> None:
    scatter = scatter_of("a", [0, 0], [[0, 1], [1, 0]], [[0, 0], [0, 0]])
    assert "Centres" not in printed(Report(measures={"scatter": scatter}), 100)


def test_deviation_notes_gates_and_verdict_are_lines() -> None:
    gates = (
        Gate("max-gain", 0.1, 0.1004, "failed"),
        Gate("min-similarity-kept", 0.5, None, "failed", ("why",)),
        Gate("max-gain", 0.2, 0.1, "undecided"),
    )
    found = Report(measures={"deviation": Deviation(0.25, 1234)}, notes=("a note",), gates=gates)
    assert printed(found, 200).splitlines() == [
        "deviation of the kernel, mean|K̂ − K| / std(K): 0.250 on 1,234 test rows",
        "note: a note",
        "gate max-gain ≤ 0.1: 0.1004 FAILED",
        "gate min-similarity-kept ≥ 0.5: nothing valid FAILED (why)",
        "gate max-gain ≤ 0.2: 0.100 UNDECIDED",
        "verdict: fail",
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_strings_from_files_do_not_act_on_the_terminal(text: str) -> None:
    told = printed(poisoned(full_report(1), text), 300)
    assert all(c.isprintable() or c == "\n" for c in told)


def test_what_a_measure_forgot_to_make_visible_is_so_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(Measure[str]):
        name: ClassVar[str] = "careless"

        def run(self, rows: BeforeAfter) -> str:
            return ""

        def section(self, record: str) -> Section:
            return Section("c", "C", tables=(Table(record, names(record), ((record,),)),), line=record)

    monkeypatch.setitem(MEASURES, "careless", Careless())
    told = printed(Report(measures={"careless": "\x1b[31m"}), 100)
    assert told.count(r"\x1b[31m") == 4
    assert "\x1b" not in told


def test_a_learning_curve_is_a_line_and_a_table_of_reports_marked_as_extrapolated() -> None:
    points = (LearningPoint(100, (0.6, 0.7)), LearningPoint(800, (0.75,)))
    curve = LearningCurve("gender", "rbf", "fresh", "after", points, 8_000, 0.8, (0.77, 0.83))
    report_ = Report(probes=(result("gender", "after", 0.75),), learning=(curve,))
    line = "gender: rbf, fresh, reads 0.750 (balanced) with 800 rows; extrapolated to 8,000: 0.800 [0.770–0.830]"
    assert f"learning curve: {line}" in printed(report_, 200)
    rows = learning_table(curve).rows
    assert rows[0] == ("100", "2", "0.650", "0.600–0.700", "")
    assert rows[-1] == ("8,000", "–", "0.800", "0.770–0.830", "extrapolated, not measured")
    (picture,) = [each for each in pictures(report_)["attackers"] if each.title.startswith("Learning curve of rbf")]
    assert picture.draw("p").startswith("<svg")
    assert picture.description == f"{line}."
