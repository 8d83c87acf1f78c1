"""Pages of Python: their blocks run one after another, as in a notebook, and what each prints is compared.

A block of `python` that is written to no file is run; a block of `text` right after it is what it prints.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tests.docs.pages import BLOCK, Session, Step

MARK = "=" * 30 + " end of block"


@dataclass(frozen=True)
class Cell:
    """A block of a page and what it is shown to print."""

    code: str
    shown: str | None
    place: tuple[int, int]
    """Where the text of `shown` is in the page."""


def cells(text: str) -> Iterator[Cell]:
    """Yield the blocks of a page that are run."""
    found = list(BLOCK.finditer(text))
    for block, after in zip_longest(found, found[1:]):
        if block["info"] != "python":
            continue
        is_shown = after is not None and after["info"] == "text" and not text[block.end() : after.start()].strip()
        shown = after["body"] if after is not None and is_shown else None
        yield Cell(block["body"], shown, after.span("body") if after is not None and is_shown else (0, 0))


def printed(text: str, folder: Path) -> list[str]:
    """Return what each block of a page prints, run in `folder`.

    Raises
    ------
    AssertionError : a block fails; the message has its traceback
    """
    session, parts = Session(folder), []
    for cell in cells(text):
        parts.append(f"{cell.code}\nprint({MARK!r}, flush=True)\n")
    session.run(Step(file="page.py", content="".join(parts)))
    output = session.run(Step(command=f"{sys.executable} page.py"))
    assert not session.failures, session.failures[0]
    return output.split(MARK + "\n")[:-1]


def renewed(text: str, folder: Path) -> str:
    """Return a page with what its blocks print now."""
    found = zip(cells(text), printed(text, folder), strict=True)
    for cell, output in reversed(list(found)):
        if cell.shown is not None:
            start, stop = cell.place
            text = text[:start] + output + text[stop:]
    return text
