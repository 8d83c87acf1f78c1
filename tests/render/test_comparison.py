"""Several erasers in one report: Markdown, HTML, JUnit and text, whatever the strings are."""

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from salcli.evaluation.comparison import Candidate, Comparison
from salcli.evaluation.kept import Kept, KeptRows
from salcli.evaluation.report import Gate, Report, Status
from salcli.evaluation.text import visible
from salcli.render.comparison import attackers_table, candidates_table, pictures, sections, verdict_sentence
from salcli.render.front import Spot, front_plot
from salcli.render.html import html
from salcli.render.junit import junit
from salcli.render.markdown import markdown
from salcli.render.terminal import terminal
from tests.render.reports import HOSTILE, full_report, reports, result, strings
from tests.render.test_html import check_page
from tests.render.test_junit import suite_of
from tests.render.test_markdown import check


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    names = draw(st.lists(strings(), min_size=1, max_size=3, unique=True))
    candidates = tuple(Candidate(name, draw(reports()), draw(st.none() | st.integers(0, 10**9))) for name in names)
    return Comparison(require=draw(st.sampled_from(["all", "any"])), candidates=candidates)


def candidate(name: str, status: Status | None, kept: float = 0.5) -> Candidate:
    gates = () if status is None else (Gate("max-leak", 0.1, 0.25, status),)
    report = full_report()
    measures = {**report.measures, "kept": Kept((KeptRows("all", 900, 500, kept, 0.01, 0.9),), 900, ())}
    return Candidate(name, replace(report, gates=gates, measures=measures), 1234, 0.125, 900)


def two(*statuses: Status | None, require: str = "all") -> Comparison:
    names = ("sal k=2", "leace k=1")
    return Comparison(
        require=require,
        candidates=tuple(candidate(n, s, 0.5 + i / 10) for i, (n, s) in enumerate(zip(names, statuses, strict=True))),
    )


def printed(comparison: Comparison, width: int = 80) -> str:
    console = Console(width=width, highlight=False, markup=False, emoji=False, file=io.StringIO())
    return terminal(comparison, console)


@pytest.mark.slow
@given(comparisons())
@settings(max_examples=20)
def test_no_string_is_markup(comparison: Comparison) -> None:
    text = markdown(comparison)
    check(text)
    assert all(c.isprintable() or c == "\n" for c in text)
    suites = junit(comparison).count("<testsuite ")
    assert suites == len(comparison.candidates)
    assert all(c.isprintable() or c == "\n" for c in printed(comparison))


@pytest.mark.slow
@given(comparisons())
@settings(max_examples=10)
def test_no_string_is_markup_in_html(comparison: Comparison) -> None:
    check_page(html(comparison))


@pytest.mark.slow
def test_names_from_files_are_text() -> None:
    found = Comparison(candidates=tuple(candidate(name, None) for name in HOSTILE if name))
    page = check_page(html(found))
    shown = " ".join(page.texts)
    assert all(visible(name) in shown for name in HOSTILE[:12] if name)


@pytest.mark.parametrize(
    ("comparison", "says"),
    [
        (two("passed", "passed"), "Passed: all 2 candidates keep their limits."),
        (
            two("passed", "failed"),
            "Failed: 1 of 2 candidates keep their limits, all must (sal k=2 keeps; leace k=1 breaks).",
        ),
        (
            two("failed", "failed", require="any"),
            "Failed: 0 of 2 candidates keep their limits, one is enough (sal k=2, leace k=1 break).",
        ),
        (
            two("undecided", "passed", require="any"),
            "Passed: 1 of 2 candidates keep their limits, one is enough (leace k=1 keeps; sal k=2 is undecided).",
        ),
        (two(None, None), "No limit was set; the smallest leak is that of sal k=2: 0."),
    ],
)
def test_the_verdict_names_the_candidates(comparison: Comparison, says: str) -> None:
    assert verdict_sentence(comparison).startswith(says.removesuffix("."))
    text = printed(comparison, 200)
    assert text.startswith(verdict_sentence(comparison))
    assert f"**{says[:6]}" in markdown(comparison)


def test_one_table_has_the_figures_of_all() -> None:
    table = candidates_table(two("passed", "failed"), with_seconds=True)
    headings = [column.name for column in table.columns]
    assert headings[:1] == ["candidate"]
    assert {"leak fresh", "leak in-sample", "read most by", "task accuracy", "neighbours", "bytes"} <= set(headings)
    assert "seconds" in headings
    assert table.caption.endswith("(seconds: erasing 900 rows)")
    rows = [dict(zip(headings, row, strict=True)) for row in table.rows]
    assert [row["candidate"] for row in rows] == ["nothing erased", "sal k=2", "leace k=1"]
    assert [row["result"] for row in rows] == ["–", "passed", "FAILED"]
    assert [row["neighbours"] for row in rows] == ["–", "0.500", "0.600"]
    assert [row["seconds"] for row in rows] == ["–", "0.12", "0.12"]
    assert ["neighbours" in row["front"] for row in rows] == [False, False, True]
    assert table.tones == ("", "pass", "fail")
    report = full_report()
    task = report.measures["task"]
    assert rows[0]["task accuracy"] == f"{task.accuracy.before:.3f}"  # type: ignore[attr-defined]
    assert rows[1]["task accuracy"] == f"{task.accuracy.after:.3f}"  # type: ignore[attr-defined]


def test_the_order_of_columns_does_not_depend_on_the_candidates() -> None:
    both = two("passed", "failed")
    foreign = replace(both, candidates=(both.candidates[0], replace(both.candidates[1], seconds=None)))
    columns = [candidates_table(found, with_seconds=True).columns for found in (both, foreign)]
    assert columns[0] == columns[1]
    assert [column.name for column in columns[0]][-4:] == ["bytes", "seconds", "front", "result"]


def test_rows_in_other_forms_are_shown_where_they_leak_more() -> None:
    def report(unit: float, binary: float) -> Report:
        leaks = (("raw", 0.6), ("unit", unit), ("binary", binary))
        return Report(probes=tuple(result("g", "after", a, form=form, majority=0.5) for form, a in leaks))

    found = Comparison(candidates=(Candidate("a", report(0.6, 0.55)), Candidate("b", report(0.7, 0.5))))
    table = attackers_table(found)
    assert [row[1] for row in table.rows] == ["linear", "linear as unit"]
    cells = dict(zip([column.name for column in table.columns], table.rows[1], strict=True))
    assert (cells["a"], cells["b"], cells["nothing erased"]) == ("0.200", "0.400", "–")
    assert "linear as unit, fresh" in candidates_table(found).rows[2]


def test_reports_have_no_times() -> None:
    found = two("passed", "failed")
    slower = replace(found, candidates=tuple(replace(each, seconds=9.75) for each in found.candidates))
    for rendered in (markdown, html, junit):
        assert rendered(found) == rendered(slower)
    assert "(seconds: erasing 900 rows)" in printed(found, 200)
    assert printed(found, 200) != printed(slower, 200)


def test_junit_has_a_suite_for_each_candidate_and_skips_what_is_not_needed() -> None:
    for require, n_failures, n_skipped in (("all", "1", "0"), ("any", "0", "1")):
        text = junit(two("passed", "failed", require=require))
        assert re.findall(r'<testsuite name="([^"]*)"', text) == [
            "salcli compare: sal k=2",
            "salcli compare: leace k=1",
        ]
        whole = re.search(r"<testsuites ([^>]*)>", text)
        assert whole is not None
        assert f'tests="2" failures="{n_failures}" errors="0" skipped="{n_skipped}"' in whole[1]
    assert suite_of(junit(Report())).getAttribute("name") == "salcli evaluate"


def test_pictures_show_the_front_in_words_and_are_drawn() -> None:
    (picture,) = [each for each in pictures(two(None, None))["candidates"] if "neighbours" in each.title]
    assert picture.description.endswith("kept 0.600, on the front.")
    assert "sal k=2: leak" in picture.description
    assert picture.draw("a").startswith("<svg")
    titles = [section.title for section in sections(two("passed", "failed"))]
    assert titles[:3] == ["Candidates", "Gates", "Attackers"]


@pytest.mark.parametrize("n", [1, 3, 40])
def test_a_front_of_any_number_of_candidates_is_drawn(n: int) -> None:
    spots = [Spot(f"_{i}", i / n, (0, 1), i / n, is_on_front=i % 2 == 0) for i in range(n)]
    for start in (None, 1.0):
        assert front_plot(spots, start).count("<svg") == 1
    assert front_plot(spots) == front_plot(spots)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_figure_is_cut_on_a_narrow_terminal(width: int) -> None:
    text = printed(two("passed", "failed"), width)
    assert "0.600" in text
    assert len(re.findall(r"(?<!\d)0\.12(?!\d)", text)) == 2  # seconds, which reports do not have
    assert "gate" in text
