"""A report as one page of HTML that needs nothing but itself."""

from collections.abc import Iterator
from html import escape
from itertools import count
from typing import Any

from salcli.render.figures import figures
from salcli.render.sections import sections
from salcli.render.style import STYLE
from salcli.render.table import Column, Figure, Row, Section, Table
from salcli.render.text import visible
from salcli.render.verdict import facts, findings, outcome, verdict_sentence

MIDDLING, LONG = 20, 60
"""Columns with cells of more letters get room, so that they do not wrap letter by letter."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html(report: dict[str, Any]) -> str:
    """Write a page with verdict, figures, and tables of all that the figures show.

    Parameters
    ----------
    report : the JSON object of a report

    Returns
    -------
    HTML without scripts or anything to load, in which no string of the report is markup; the same report gives the
    same text
    """
    found = sections(report)
    pictures = figures(report)
    ids = (f"figure{n}" for n in count(1))
    blocks = [
        _head(report),
        *(_section(section, pictures.get(section.key, ()), ids) for section in found),
    ]
    links = "".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in found)
    blocks.insert(1, f'<nav aria-label="Sections">{links}</nav>' if links else "")
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>salcli evaluation: {_told(_title(report))}</title>",
            f"<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>",
            *(block for block in blocks if block),
            "</main>\n</body>\n</html>\n",
        )
    )


def _told(text: str) -> str:
    """Escape text for the inside of an element or of a quoted attribute."""
    return escape(visible(text), quote=True)


def _title(report: dict[str, Any]) -> str:
    return {"pass": "passed", "fail": "failed", "none": "no limit set"}[outcome(report)]


def _head(report: dict[str, Any]) -> str:
    told = "\n".join(f"<p>{_told(finding)}</p>" for finding in findings(report))
    cards = "\n".join(
        f'<li><span class="name">{_told(of.name)}</span>'
        f'<span class="change"><small>{of.before} <span aria-label="to">→</span></small> <b>{of.after}</b></span>'
        f'<span class="aside">{_told(of.aside)}</span></li>'
        for of in facts(report)
    )
    return (
        "<header>\n<h1>salcli evaluation</h1>\n"
        f'<div class="verdict {outcome(report)}">\n<p>{_told(verdict_sentence(report))}</p>\n{told}\n</div>\n'
        + (f'<ul class="facts" aria-label="At a glance: before and after">\n{cards}\n</ul>\n' if cards else "")
        + "</header>"
    )


def _section(section: Section, pictures: tuple[Figure, ...], ids: Iterator[str]) -> str:
    blocks = [f'<section id="{section.key}">', f"<h2>{escape(section.title)}</h2>"]
    blocks += [f"<p>{_told(paragraph)}</p>" for paragraph in section.paragraphs]
    if pictures:
        drawn = "\n".join(_figure(picture, next(ids)) for picture in pictures)
        blocks.append(f'<div class="figures">\n{drawn}\n</div>')
    blocks += [_table(table) for table in section.tables]
    if section.points:
        points = "\n".join(f"<li>{_told(point)}</li>" for point in section.points)
        blocks.append(f"<ul>\n{points}\n</ul>")
    return "\n".join((*blocks, "</section>"))


def _figure(picture: Figure, name: str) -> str:
    title = _told(picture.title)
    spoken = f'<svg role="img" aria-label="{title}. {_told(picture.description)}"'
    svg = picture.draw(name).replace(' xmlns="http://www.w3.org/2000/svg"', "", 1).replace("<svg", spoken, 1)
    svg = svg.replace(">", f"><title>{title}</title>", 1)
    return f"<figure>\n<figcaption>{title}</figcaption>\n{svg}\n</figure>"


def _table(table: Table) -> str:
    """Write a table in a box that scrolls by itself, so that a wide one does not widen the page."""
    classes = [_class(column, [row[place] for row in table.rows]) for place, column in enumerate(table.columns)]
    head = "".join(
        f'<th scope="col"{_classed(of)}>{_told(column.name)}</th>'
        for column, of in zip(table.columns, classes, strict=True)
    )
    tones = table.tones or ("",) * len(table.rows)
    body = "\n".join(
        f"<tr{_classed(tone)}>{_cells(row, classes)}</tr>" for row, tone in zip(table.rows, tones, strict=True)
    )
    caption = _told(table.caption)
    shown = f"<caption><span>{caption}</span></caption>" if not table.is_detail else ""
    box = (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}"><table>{shown}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )
    return f"<details>\n<summary>{caption}</summary>\n{box}\n</details>" if table.is_detail else box


def _cells(row: Row, classes: list[str]) -> str:
    first = f'<th scope="row"{_classed(classes[0])}>{_told(row[0])}</th>'
    return first + "".join(
        f"<td{_classed(of)}>{_told(cell)}</td>" for cell, of in zip(row[1:], classes[1:], strict=True)
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
