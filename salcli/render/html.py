"""A report as one self-contained page of HTML."""

from collections.abc import Iterator
from html import escape
from importlib.util import find_spec
from itertools import count

from salcli.evaluation.comparison import Comparison
from salcli.evaluation.report import Report
from salcli.evaluation.section import Column, Row, Section, Table
from salcli.evaluation.text import visible
from salcli.render.page import Page, page_of
from salcli.render.pictures import Picture
from salcli.render.style import STYLE

MIDDLING, LONG = 20, 60
"""Columns with cells of more letters get a least width, so that they do not wrap letter by letter."""
NO_PICTURES = (
    "The pictures are missing, as the package matplotlib is not installed: pip install matplotlib. "
    "Their figures are in the tables."
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html(report: Report | Comparison) -> str:
    """Return `report` as a page with the verdict, pictures, and tables of all figures in the pictures.

    Without matplotlib the page has no pictures, and says so.

    Returns
    -------
    HTML without scripts or external resources, in which every string of the report is escaped; equal reports become
    equal text
    """
    page = page_of(report)
    drawn = page.draw()
    missing = f"<p>{NO_PICTURES}</p>" if drawn and find_spec("matplotlib") is None else ""
    if missing:
        drawn = {}
    ids = (f"figure{n}" for n in count(1))
    blocks = [
        _head(page),
        *(_section(section, drawn.get(section.key, ()), ids) for section in page.sections),
    ]
    links = "".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in page.sections)
    blocks[1:1] = [missing, f'<nav aria-label="Sections">{links}</nav>' if links else ""]
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{_escaped(_title(page))}</title>",
            f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>",
            *(block for block in blocks if block),
            "</main>\n</body>\n</html>\n",
        )
    )


def _escaped(text: str) -> str:
    """Return text escaped for the inside of an element or of a quoted attribute."""
    return escape(visible(text), quote=True)


def _title(page: Page) -> str:
    return ", ".join(filter(None, (page.subject, page.result))) + f" · salcli {page.kind}"


def _head(page: Page) -> str:
    paragraphs = "\n".join(f"<p>{_escaped(finding)}</p>" for finding in page.findings)
    cards = "\n".join(
        f'<li><span class="name">{_escaped(fact.name)}</span>'
        f'<span class="change"><small>{fact.before} <span aria-label="to">→</span></small> <b>{fact.after}</b></span>'
        f'<span class="aside">{_escaped(fact.aside)}</span></li>'
        for fact in page.facts
    )
    return (
        f"<header>\n<h1>{_escaped(page.heading)}</h1>\n"
        f'<div class="verdict {page.tone}">\n<p>{_escaped(page.sentence)}</p>\n{paragraphs}\n</div>\n'
        + (f'<ul class="facts" aria-label="At a glance: before and after">\n{cards}\n</ul>\n' if cards else "")
        + "</header>"
    )


def _section(section: Section, drawn: tuple[Picture, ...], ids: Iterator[str]) -> str:
    blocks = [f'<section id="{section.key}">', f"<h2>{escape(section.title)}</h2>"]
    blocks += [f"<p>{_escaped(paragraph)}</p>" for paragraph in section.paragraphs]
    if drawn:
        shown = "\n".join(_figure(picture, next(ids)) for picture in drawn)
        blocks.append(f'<div class="figures">\n{shown}\n</div>')
    blocks += [_table(table) for table in section.tables]
    if section.points:
        points = "\n".join(f"<li>{_escaped(point)}</li>" for point in section.points)
        blocks.append(f"<ul>\n{points}\n</ul>")
    return "\n".join((*blocks, "</section>"))


def _figure(picture: Picture, name: str) -> str:
    title = _escaped(picture.title)
    spoken = f'<svg role="img" aria-label="{title}. {_escaped(picture.description)}"'
    svg = picture.draw(name).replace(' xmlns="http://www.w3.org/2000/svg"', "", 1).replace("<svg", spoken, 1)
    svg = svg.replace(">", f"><title>{title}</title>", 1)
    return f"<figure>\n<figcaption>{title}</figcaption>\n{svg}\n</figure>"


def _table(table: Table) -> str:
    """Return a table in a box that scrolls by itself, so that a wide one does not widen the page."""
    classes = [_class(column, [row[place] for row in table.rows]) for place, column in enumerate(table.columns)]
    head = "".join(
        f'<th scope="col"{_classed(class_name)}>{_escaped(column.name)}</th>'
        for column, class_name in zip(table.columns, classes, strict=True)
    )
    tones = table.tones or ("",) * len(table.rows)
    body = "\n".join(
        f"<tr{_classed(tone)}>{_cells(row, classes)}</tr>" for row, tone in zip(table.rows, tones, strict=True)
    )
    caption = _escaped(table.caption)
    shown = f"<caption><span>{caption}</span></caption>" if not table.is_detail else ""
    box = (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}"><table>{shown}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )
    return f"<details>\n<summary>{caption}</summary>\n{box}\n</details>" if table.is_detail else box


def _cells(row: Row, classes: list[str]) -> str:
    first = f'<th scope="row"{_classed(classes[0])}>{_escaped(row[0])}</th>'
    return first + "".join(
        f"<td{_classed(class_name)}>{_escaped(cell)}</td>"
        for cell, class_name in zip(row[1:], classes[1:], strict=True)
    )


def _class(column: Column, cells: list[str]) -> str:
    if column.is_number:
        return "number"
    if column.name == "result":
        return "result"
    longest = max(map(len, cells), default=0)
    return "long" if longest > LONG else "middling" if longest > MIDDLING else ""


def _classed(name: str) -> str:
    return f' class="{name}"' if name else ""
