"""`Section`, `Table`, `Fact`, `Figure`: what a measure reports, independent of the output format."""

from collections.abc import Iterable
from dataclasses import dataclass

Row = tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A heading, and whether its cells are numbers."""

    name: str
    is_number: bool = False
    is_spare: bool = False
    """Whether it is left out where a terminal is too narrow for all columns."""


@dataclass(frozen=True)
class Table:
    """Rows of plain text, visible but not escaped: each rendering escapes by its own rules."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    tones: tuple[str, ...] = ()
    """`pass`, `fail` or `undecided` for each row, or empty."""
    is_detail: bool = False
    """Whether the table may be folded: a picture or another table summarises it."""
    is_of_picture: bool = False
    """Whether the table lists the numbers of a picture, and is left out where there are no pictures."""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), "a row has other columns than its table"
        assert len(self.tones) in (0, len(self.rows)), "each row has a tone, or none has"


@dataclass(frozen=True)
class Section:
    """A part of the report. Sections with the same key are merged, in their order."""

    key: str
    """Its anchor."""
    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    points: tuple[str, ...] = ()
    """Items of a list."""
    line: str = ""
    """A line for the terminal, which shows tables but no paragraphs."""


@dataclass(frozen=True)
class Fact:
    """One figure at a glance."""

    name: str
    before: str
    after: str
    aside: str
    """What to compare it with."""


@dataclass(frozen=True)
class Figure:
    """One number after erasure, as it is followed along a sweep and averaged over repeated fits."""

    name: str
    """Its name among all figures of the report, unescaped."""
    label: str
    """Its name among the figures of its measure, unescaped."""
    value: float
    ci95: tuple[float, float] | None = None


def names(*headings: str) -> tuple[Column, ...]:
    """Return columns of text, with these `headings`."""
    return tuple(Column(heading) for heading in headings)


def numbers(*headings: str, are_spare: bool = False) -> tuple[Column, ...]:
    """Return columns of numbers, with these `headings`; `are_spare`: see `Column.is_spare`."""
    return tuple(Column(heading, is_number=True, is_spare=are_spare) for heading in headings)


def filled(tables: Iterable[Table]) -> tuple[Table, ...]:
    """Return those of `tables` that have rows."""
    return tuple(table for table in tables if table.rows)


def merged(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return `sections` in their order, those with the same key as one."""
    found: dict[str, Section] = {}
    for section in sections:
        first = found.get(section.key)
        if first is not None:
            section = Section(
                first.key,
                first.title,
                first.paragraphs + section.paragraphs,
                first.tables + section.tables,
                first.points + section.points,
                "\n".join(filter(None, (first.line, section.line))),
            )
        found[section.key] = section
    return tuple(found.values())
