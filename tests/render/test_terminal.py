"""Figures on terminals of any width: the console has the width."""

import io
import re
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.deviation import Deviation
from salcli.evaluation.gates import Expected, Judge, accuracy_gate, gain_gate
from salcli.evaluation.measures import MEASURES
from salcli.evaluation.report import Gate, LearningCurve, LearningPoint, Report, SweepStep
from salcli.evaluation.section import Column, Section, Table, names, numbers
from salcli.render.attackers import learning_table
from salcli.render.layout import table_lines
from salcli.render.pictures import pictures
from salcli.render.terminal import terminal
from tests.render.reports import ERASER, HOSTILE, full_report, poisoned, result, scatter_of


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
    text = printed(report(name, 3), width)
    assert "…" not in text
    for figure in ("0.123", "0.111–0.135", "0.789", "linear", "in-sample", "after"):
        assert re.search(rf"(^|\s){figure}(\s|$)", text, re.MULTILINE), figure
    left_out = re.search(r"\(no\s+room\s+for[^)]*\)", text)
    for heading, figure in (("balanced", "0.456"), ("train", "12,345"), ("test", "6,789")):
        assert (figure in text) != (left_out is not None and heading in left_out[0])
    assert (left_out is None) == (width == 200 and name == "gender")


@given(st.data())
def test_no_cell_of_a_table_is_broken(data: st.DataObject) -> None:
    words = st.text("abcdefghij", min_size=1, max_size=8)
    cells = st.lists(words, min_size=1, max_size=5).map(" ".join)
    columns = [Column(f"c{i}", *data.draw(st.tuples(st.booleans(), st.booleans()))) for i in range(4)]
    one = st.tuples(*(words if column.is_number else cells for column in columns))
    rows = tuple(data.draw(st.lists(one, min_size=1, max_size=3)))
    width = data.draw(st.integers(1, 120))
    lines = table_lines(Table("t", tuple(columns), rows), width)
    *_, last = " ".join(lines).split("(no room for ")
    left_out = last.split(":")[0].split(", ") if "(no room" in " ".join(lines) else []
    shown = " ".join(" ".join(lines).split())
    for i, column in enumerate(columns):
        assert column.is_spare or column.name not in left_out
        if column.name not in left_out:
            assert all(row[i] in shown for row in rows)
    longest = max(len(word) for line in lines for word in line.split())
    assert all(len(line) <= max(width, longest + 4) for line in lines)


def test_columns_give_way_in_the_stated_order() -> None:
    columns = (*names("name", "text"), *numbers("figure"), *numbers("one", "two", are_spare=True))
    table = Table("t", columns, (("a" * 6, "b c d e f g h", "0.123", "1", "2"),))
    shown = {width: table_lines(table, width)[0].split() for width in (60, 34, 30, 20, 10)}
    assert shown[60] == ["name", "text", "figure", "one", "two"]
    assert shown[34] == ["name", "text", "figure", "one"]
    assert shown[30] == ["name", "text", "figure"]
    assert shown[20] == ["name", "figure"]
    assert shown[10] == ["name"]
    assert table_lines(table, 20)[1:3] == ["aaaaaa   0.123", "  text b c d e f g h"]


def test_the_verdict_is_first_and_last_and_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> list[str]:
        console = Console(width=100, force_terminal=True, color_system="standard", file=io.StringIO())
        return terminal(Report(gates=(Gate("max-gain", 0.1, 0.2, "failed"),)), console).splitlines()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31mFailed: " in told()[0]
    assert "\x1b[1;31mverdict: fail" in told()[-1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("31m" in line for line in told())


def test_a_gate_names_attribute_attacker_and_adversary_that_decided_it() -> None:
    probes = (
        result("a", "after", 0.7, probe="rbf"),
        result("a", "after", 0.9, probe="linear", adversary="in-sample"),
        result("b", "after", 0.95, majority=0.9, probe="linear"),
        result("b", "before", 1.0, probe="poly"),
    )
    judge = Judge(None)
    expected = Expected(tuple((each.attribute, each.adversary, each.probe) for each in probes if each.stage == "after"))
    gates = (
        accuracy_gate(0.6, "rbf", expected, probes, "after", judge),
        gain_gate(0.6, None, expected, probes, "after", judge),
    )
    lines = printed(Report(probes=probes, gates=gates, eraser=ERASER), 100).splitlines()
    assert "gate max-accuracy rbf ≤ 0.6: 0.700 FAILED (a, rbf, fresh)" in lines
    assert "gate max-gain ≤ 0.6: 0.400 passed (a, linear, in-sample)" in lines


def test_notes_that_were_warnings_are_not_printed_again() -> None:
    console = Console(width=100, file=io.StringIO())
    assert "a note" not in terminal(Report(notes=("a note",)), console, with_notes=False)


@pytest.mark.parametrize("n_values", [3, 11])
def test_every_value_of_a_sweep_is_printed(n_values: int) -> None:
    text = printed(report("gender", n_values), 100)
    for i in range(n_values):
        assert re.search(rf"^ *{i / 100:g} +0\.123", text, re.MULTILINE)


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
    first, blank, *lines = printed(found, 200).splitlines()
    assert (first[:29], blank) == ("Failed: 2 of 3 limits are bro", "")
    assert lines == [
        "deviation of the kernel, mean|K̂ − K| / std(K): 0.250 on 1,234 test rows",
        "note: a note",
        "gate max-gain ≤ 0.1: 0.1004 FAILED",
        "gate min-similarity-kept ≥ 0.5: nothing valid FAILED (why)",
        "gate max-gain ≤ 0.2: 0.100 UNDECIDED",
        "verdict: fail",
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_strings_from_files_do_not_act_on_the_terminal(text: str) -> None:
    shown = printed(poisoned(full_report(1), text), 300)
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_what_a_measure_forgot_to_make_visible_is_so_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(Measure[str]):
        name: ClassVar[str] = "careless"

        def run(self, rows: BeforeAfter) -> str:
            return ""

        def section(self, record: str) -> Section:
            return Section("c", "C", tables=(Table(record, names(record), ((record,),)),), line=record)

    monkeypatch.setitem(MEASURES, "careless", Careless())
    text = printed(Report(measures={"careless": "\x1b[31m"}), 100)
    assert text.count(r"\x1b[31m") == 4
    assert "\x1b" not in text


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
