"""`Table`, `Figure` and `Section`: what Markdown and HTML both show, before either has written a character."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Row = tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A heading, and whether numbers stand under it."""

    name: str
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of plain text, visible but not yet escaped: each rendering escapes by its own rules."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    tones: tuple[str, ...] = ()
    """`pass` or `fail` for each row, or nothing at all."""
    is_detail: bool = False
    """Whether it may be folded away: a figure or another table says the gist."""
    is_of_picture: bool = False
    """Whether it puts a picture into numbers, which says nothing where there are no pictures."""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), "a row has other columns than its table"
        assert len(self.tones) in (0, len(self.rows)), "each row has a tone, or none has"


@dataclass(frozen=True)
class Figure:
    """A picture that is drawn when asked for, and its content in words."""

    title: str
    description: str
    """What the picture shows, with its numbers, for those who do not see it."""
    draw: Callable[[str], str]
    """Give the SVG, whose ids begin with the given word."""


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    key: str
    """Its anchor."""
    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    points: tuple[str, ...] = ()
    """Items of a list."""


def names(*headings: str) -> tuple[Column, ...]:
    """Head columns of text."""
    return tuple(Column(heading) for heading in headings)


def numbers(*headings: str) -> tuple[Column, ...]:
    """Head columns of numbers."""
    return tuple(Column(heading, is_number=True) for heading in headings)


def filled(tables: Iterable[Table]) -> tuple[Table, ...]:
    """Keep the tables that have rows."""
    return tuple(table for table in tables if table.rows)
