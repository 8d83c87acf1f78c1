"""Tables as plain text of a fixed width, in which no cell is broken.

Columns of a table that is too wide are removed whole, in this order: spare columns are left out, the rightmost first;
then columns of text are folded below their row, the rightmost first; then columns of numbers. The first column stays.
"""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len

from salcli.evaluation.section import Column, Row, Table
from salcli.evaluation.text import listed, visible

GAP = 2  # blanks between columns
UNSHOWN = ("policy",)  # the same in every row


def table_lines(table: Table, width: int) -> list[str]:
    """Return a table as lines: its heading, then one line a row with its folded cells below, then what was left out.

    Parameters
    ----------
    table : its cells may have any characters
    width : of a line, in terminal columns
    """
    columns = [Column(visible(each.name), each.is_number, each.is_spare) for each in table.columns]
    rows = [tuple(map(visible, row)) for row in table.rows]
    at = [i for i, each in enumerate(columns) if each.name not in UNSHOWN and any(row[i] for row in rows)] or [0]
    widths = [max(map(cell_len, (columns[i].name, *(row[i] for row in rows)))) for i in range(len(columns))]

    def is_wide(shown: list[int]) -> bool:
        return sum(widths[i] + GAP for i in shown) - GAP > width

    left_out, folded = list[int](), list[int]()
    giving = (
        (left_out, [i for i in at if columns[i].is_spare]),
        (folded, [i for i in at if not (columns[i].is_spare or columns[i].is_number)]),
        (folded, [i for i in at if not columns[i].is_spare and columns[i].is_number]),
    )
    for taken, candidates in giving:
        for i in reversed(candidates):
            if i != at[0] and is_wide(at):
                at.remove(i)
                taken.append(i)
    lines = [_line([columns[i].name for i in at], at, columns, widths)]
    for row in rows:
        lines += _fitting(_line([row[i] for i in at], at, columns, widths), width)
        lines += _folded(row, sorted(folded), columns, width)
    if left_out:
        lines += wrapped(f"(no room for {listed(columns[i].name for i in sorted(left_out))}: reports have them)", width)
    return lines


def wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Return text as lines that end between words; a word that is longer than a line is left whole.

    Parameters
    ----------
    text : what to wrap
    width : of a line, in characters
    indent : prefix of every line but the first

    Returns
    -------
    at least one line, empty for an empty text
    """
    return wrap(
        text, max(width, 1), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]  # fmt: skip


def _line(cells: Sequence[str], at: Sequence[int], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, i in zip(cells, at, strict=True):
        blanks = " " * (widths[i] - cell_len(cell))
        padded.append(blanks + cell if columns[i].is_number else cell + blanks)
    return (" " * GAP).join(padded).rstrip()


def _fitting(line: str, width: int) -> list[str]:
    """Return the line, or lines if its first cell alone is too long."""
    return [line] if cell_len(line) <= width else wrapped(line, width, indent="  ")


def _folded(row: Row, folded: Sequence[int], columns: Sequence[Column], width: int) -> Iterator[str]:
    for i in folded:
        if row[i]:
            yield from wrapped(f"  {columns[i].name} {row[i]}", width, indent="    ")
