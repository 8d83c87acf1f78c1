import subprocess
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings

from salcli.evaluation.report import Gate, Report
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.task import TASK
from salcli.evaluation.text import visible
from salcli.render import pictures, plots
from salcli.render.html import NO_PICTURES, html
from tests.render.reports import HOSTILE, full_report, poisoned, reports

VOID = {"meta", "br", "hr", "img", "link", "input"}
TAGS = """html head meta title style body main header h1 h2 div p ul li span small b nav a section figure figcaption
    svg g defs path use text clippath rect pattern table caption thead tbody tr th td details summary"""


class Page(HTMLParser):
    """A page as a parser of its own sees it: elements, text, and whether each element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.comments: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def check_page(text: str) -> Page:
    page = Page(text)
    assert not page.open
    assert not page.comments
    assert {tag for tag, _ in page.elements} <= set(TAGS.split())
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "xlink:href")]
        if "href" in attributes:
            assert (attributes["href"] or "").removeprefix("#") in ids
    assert "http://" not in "".join(str(a) for tag, a in page.elements if tag not in ("svg", "div"))
    svgs = page.all("svg")
    assert len(svgs) == len(page.all("figure"))
    assert all(svg["role"] == "img" and len(svg["aria-label"] or "") > 20 for svg in svgs)
    return page


@pytest.fixture(scope="module")
def full_page() -> str:
    return html(full_report())


@pytest.mark.slow
def test_a_full_report_has_a_figure_for_every_picture_and_loads_nothing(full_page: str) -> None:
    page = check_page(full_page)
    assert len(page.all("figure")) == 12
    assert len(page.all("title")) == 1 + 12
    policy = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert "http" not in full_page.replace("http-equiv", "")


def test_the_verdict_comes_first_and_in_words(full_page: str) -> None:
    first = full_page.split('<div class="verdict fail">\n<p>')[1]
    assert first.startswith("Failed: 2 of 5 limits are broken (max-accuracy is 0.634, at most 0.6 is allowed; ")


def test_alt_text_holds_the_numbers_of_the_picture(full_page: str) -> None:
    labels = [svg["aria-label"] or "" for svg in Page(full_page).all("svg")]
    assert any("simlex999: 0.371 before, 0.369 after, 0.368 random control" in label for label in labels)
    assert any("linear, fresh: 0.984 before and 0.611 after, majority 0.540" in label for label in labels)


def test_the_tables_hold_all_that_the_pictures_show(full_page: str) -> None:
    texts = set(Page(full_page).texts)
    report = full_report()
    for probe in report.probes:
        assert f"{probe.accuracy:.3f}" in texts
    for step in report.sweep:
        task = step.of(TASK)
        assert task is not None
        assert task.first.tpr_gap_rms is not None
        assert f"{task.first.tpr_gap_rms.after:.3f}" in texts
        assert all(f"{change.after:.3f}" in texts for change in step.of(SIMILARITY) or ())
    task = report.of(TASK)
    assert task is not None
    assert all(f"{cell.tpr:.3f}" in texts for cell in task.first.tpr)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "\u202e$x_1$\x1b[0m\udcff😀漢"], ids=["markup", "odd"])
def test_strings_of_a_report_are_shown_letter_by_letter(text: str) -> None:
    page_text = html(poisoned(full_report(2), text))
    page_text.encode("utf-8")
    page = check_page(page_text)
    assert "<script" not in page_text
    shown = visible(text)
    assert f"{shown}gender" in page.texts
    assert any(f"{shown}nurse" in cell for cell in page.texts)
    assert any(cell.startswith(f"{shown}gender, after erasure: the best attacker") for cell in page.texts)


@pytest.mark.slow
@given(reports())
@settings(max_examples=80)
def test_any_report_gives_a_page_that_parses(report: Report) -> None:
    with pytest.MonkeyPatch.context() as patched:
        names = ("accuracy_plot", "similarity_plot", "gap_plot", "scatter_plot")
        for module, name in (*((plots, name) for name in names), (pictures, "curve_plot")):
            patched.setattr(
                module, name, lambda *_, salt, **__: f'<svg xmlns="http://www.w3.org/2000/svg" id="{salt}"/>'
            )
        text = html(report)
        text.encode("utf-8")
        check_page(text)


def test_hostile_names_do_not_break_the_page() -> None:
    gates = tuple(Gate("max-gain", 0.1, 0.2, "failed", reasons=(f"x{text}",)) for text in HOSTILE)
    page = check_page(html(Report(notes=HOSTILE, gates=gates)))
    assert {visible(text) for each in HOSTILE if each for text in (each, f"x{each}")} <= set(page.texts)


def test_without_matplotlib_the_page_has_all_but_pictures_and_says_how_to_get_them(
    full_page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    page, whole = check_page(html(full_report())), check_page(full_page)
    assert [len(page.all(tag)) for tag in ("figure", "svg")] == [0, 0]
    assert len(page.all("table")) == len(whole.all("table"))
    said = [text for text in page.texts if "matplotlib" in text]
    assert said == [NO_PICTURES]
    assert "pip install matplotlib" in NO_PICTURES
    assert NO_PICTURES not in whole.texts
    assert NO_PICTURES not in check_page(html(Report())).texts  # nothing to draw


def test_an_empty_report_is_a_page_that_says_so() -> None:
    page = check_page(html(Report()))
    assert "No limit was set, so nothing was judged." in page.texts
    assert not page.all("figure")


PROGRAM = """
import hashlib, sys
from salcli.render.html import html
from salcli.render.junit import junit
from salcli.render.markdown import markdown
from tests.render.reports import full_report
report = full_report(2)
print([hashlib.sha256(render(report).encode()).hexdigest() for render in (html, junit, markdown)])
assert "matplotlib.pyplot" not in sys.modules
"""


@pytest.mark.slow
def test_the_same_report_gives_the_same_bytes_in_any_process() -> None:
    done = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(done) == 1
    report = full_report()
    assert html(report) == html(report)
