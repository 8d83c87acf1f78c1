"""A report as GitHub-flavoured Markdown, for the summary of a CI job."""

import re

from salcli.evaluation.comparison import Comparison
from salcli.evaluation.report import Report
from salcli.evaluation.section import Section, Table
from salcli.evaluation.text import shortened, visible
from salcli.render.page import page_of

LONGEST_CELL = 400
MARKS = {"pass": "✅", "fail": "❌", "undecided": "⚠️", "none": "ℹ️"}

_ESCAPES = {ord(c): f"\\{c}" for c in "\\`*_{}[]|~!"}
_IN_HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("$"): "<span>$</span>"}
_IN_HTML |= {ord("@"): "@<!-- -->", ord("#"): "#<!-- -->"}  # else a mention, an issue
_BLOCK_START = re.compile(r"^(?:([-+=])|(\d+)([.)](?:\s|$)))")


def escaped(text: str) -> str:
    """Return `text` as Markdown that shows it letter by letter, whatever is in it.

    GitHub also makes links of bare addresses, mentions, issue numbers and `:emoji:` names, and formulas between
    dollars; no backslash stops it there, an empty comment in their middle or a tag around them does.
    """
    shown = escaped_in_html(visible(text).translate(_ESCAPES)).strip()
    return _BLOCK_START.sub(lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", shown)


def escaped_in_html(text: str) -> str:
    """Return `text` for the inside of an HTML element, where backslashes are letters; GitHub links nothing there."""
    shown = visible(text).translate(_IN_HTML)
    shown = re.sub(r":(?=\S)", ":<!-- -->", shown)
    return re.sub(r"\b(www)\.", r"\1<!-- -->.", shown, flags=re.IGNORECASE)


def markdown(report: Report | Comparison) -> str:
    """Return `report` as Markdown: the verdict, the gates, every figure in a table; all its strings are escaped."""
    page = page_of(report)
    heading = f"## salcli {page.kind}: {escaped(page.subject)}" if page.subject else f"## salcli {page.kind}"
    blocks = [heading, f"{MARKS[page.tone]} **{escaped(page.sentence)}**"]
    blocks += [f"- {escaped(finding)}" for finding in page.findings]
    if page.facts:
        lines = ["| at a glance | before | after | compare |", "|---|---:|---:|---|"]
        lines += [
            f"| {' | '.join(map(escaped, (fact.name, fact.before, fact.after, fact.aside)))} |" for fact in page.facts
        ]
        blocks.append("\n".join(lines))
    for section in page.sections:
        blocks += _section(section)
    return "\n\n".join(blocks) + "\n"


def _section(section: Section) -> list[str]:
    blocks = [f"### {section.title}", *(escaped(paragraph) for paragraph in section.paragraphs)]
    for table in section.tables:
        blocks += _table(table)
    if section.points:
        blocks.append("\n".join(f"- {escaped(point)}" for point in section.points))
    return blocks


def _table(table: Table) -> list[str]:
    """Return a table under its caption, folded if it is a detail."""
    lines = [
        _row([column.name for column in table.columns]),
        "|" + "|".join("---:" if column.is_number else "---" for column in table.columns) + "|",
        *(_row(list(row)) for row in table.rows),
    ]
    caption = shortened(table.caption, LONGEST_CELL)
    if table.is_detail:
        return [f"<details><summary>{escaped_in_html(caption)}</summary>", "\n".join(lines), "</details>"]
    return [f"_{escaped(caption)}_", "\n".join(lines)]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(escaped(shortened(cell, LONGEST_CELL)) or ' ' for cell in cells)} |"
