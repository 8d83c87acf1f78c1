import re
from typing import Any

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from salcli.evaluation.report import Report
from salcli.evaluation.text import visible
from salcli.render.markdown import escaped, escaped_in_html, markdown
from tests.render.reports import HOSTILE, full_report, poisoned, reports, strings

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OURS = {"<!-- -->", "<span>", "</span>"}
BLOCKS = """heading_open heading_close paragraph_open paragraph_close bullet_list_open bullet_list_close inline
    list_item_open list_item_close table_open table_close thead_open thead_close tbody_open tbody_close tr_open tr_close
    th_open th_close td_open td_close html_block"""
SECTIONS = (
    "Gates Attackers Similarity Bias tests Task Neighbours Labelled rows and others Geometry Sweep Repeats Notes Inputs"
)
HTML_BLOCK = re.compile(r"<details><summary>[^\n]*</summary>\n|</details>\n")


def shown(token: Token) -> str:
    """What a reader sees of a piece of text."""
    children = token.children or []
    assert all(child.content in OURS for child in children if child.type == "html_inline")
    assert {child.type for child in children} <= {
        "text",
        "text_special",
        "html_inline",
        "em_open",
        "em_close",
        "strong_open",
        "strong_close",
    }
    return "".join(child.content for child in children if child.type in ("text", "text_special"))


def check(text: str) -> list[Token]:
    tokens = PARSER.parse(text)
    assert {token.type for token in tokens} <= set(BLOCKS.split())
    for token in tokens:
        if token.type == "html_block":
            assert HTML_BLOCK.fullmatch(token.content)
            inner = token.content.split("<summary>")[-1].split("</summary>")[0]
            assert set(re.findall(r"<[^>]*>", inner)) <= OURS | {"</details>"}
        elif token.type == "inline":
            shown(token)
    return tokens


@given(strings())
def test_escaped_text_is_shown_letter_by_letter(text: str) -> None:
    paragraph = [token for token in check(escaped(text)) if token.type == "inline"]
    assert [shown(token) for token in paragraph] == ([visible(text).strip()] if visible(text).strip() else [])
    item = [token for token in check(f"- {escaped(text)}x") if token.type == "inline"]
    assert [shown(token) for token in item] == [visible(text).strip() + "x"]


@given(strings(), strings())
def test_a_cell_stays_one_cell(first: str, second: str) -> None:
    table = f"| {escaped(first)} | {escaped(second)} |\n|---|---|\n| {escaped(second)} | {escaped(first)} |"
    cells = [shown(token) for token in check(table) if token.type == "inline"]
    wanted = [visible(text).strip() for text in (first, second)]
    assert cells == [*wanted, *wanted[::-1]]


@pytest.mark.parametrize("write", [escaped, escaped_in_html])
def test_nothing_becomes_a_link_a_mention_or_a_formula(write: Any) -> None:
    text = write("@someone #12 :tada: www.example.org https://example.org $x$")
    assert not re.search(r"@\w|#\d|:\w|www\.|://|\$\w", text)


@pytest.mark.slow
@given(reports())
@settings(max_examples=60)
def test_any_report_keeps_its_tables_whole(report: Report) -> None:
    text = markdown(report)
    text.encode("utf-8")
    check(text)
    assert all(c.isprintable() or c == "\n" for c in text)
    for block in text.split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows}) <= 1


def test_captions_of_folded_tables_are_no_markup_either() -> None:
    text = markdown(poisoned(full_report(), "<b>@x|`"))
    check(text)
    summaries = re.findall(r"<summary>(.*)</summary>", text)
    assert "Accuracy of attackers on &lt;b&gt;@<!-- -->x|`gender along k; majority 0.540" in summaries


def test_verdict_and_gates_come_first() -> None:
    text = markdown(full_report())
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert text.startswith(
        "## salcli evaluation: gender, dialect, age in data/bios-minilm.npy\n\n❌ **Failed: 2 of 5 limits are broken"
    )
    assert " ".join(headings) == SECTIONS


def test_a_full_report_tells_both_stages_in_one_row_and_names_what_was_left_out() -> None:
    text = markdown(full_report())
    assert "| gender | linear | fresh | 0.984 | 0.611 | 0.597–0.624 | 0.540 | 0.965 | 0.154 |" in text
    assert "rapper × female, dj × female" in text
    assert "| blake3 9f86d081884c |" in text
    assert "| sha256 2c26b46b68ff |" in text
    check(text)


def test_hostile_notes_stay_items_of_one_list() -> None:
    text = markdown(Report(notes=HOSTILE))
    notes = text.split("### Notes\n\n")[1]
    items = [shown(token) for token in check(notes) if token.type == "inline"]
    assert items == [visible(note).strip() for note in HOSTILE if note]
