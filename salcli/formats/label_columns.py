"""Columns of a label CSV as they are read, in a few bytes a row, as there may be millions."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import smallest_code
from salcli.formats.csv_records import ArrowColumn

AT_ONCE = 1 << 16  # rows
ROW_NUMBER = re.compile(r"([0-9]{1,18})(?:\.0)?")  # pandas writes numbers with a point if some were missing


def stripped(cells: Sequence[str]) -> list[str]:
    """Return `cells` without the spaces around them; equal ones are one string."""
    if isinstance(cells, ArrowColumn):
        distinct, numbers = cells.encoded()
        found: list[str] = np.array([cell.strip() for cell in distinct], object)[numbers].tolist()
        return found
    distinct_cells: dict[str, str] = {cell: cell.strip() for cell in set(cells)}
    return [distinct_cells[cell] for cell in cells]


class _Codes(dict[str, int]):
    """A number for each distinct cell, in the order of their first rows."""

    def __missing__(self, cell: str) -> int:
        self[cell] = len(self)
        return self[cell]


class ClassColumn:
    """A column of classes: a code for each row, and each distinct cell once, as it is in the file."""

    def __init__(self) -> None:
        self.cells = _Codes()
        self._buffer, self._kind = bytearray(), smallest_code(0)  # grows in place: there is no second copy of it

    def add(self, cells: Sequence[str]) -> None:
        """Add the `cells` of the next rows."""
        if isinstance(cells, ArrowColumn):
            distinct, numbers = cells.encoded()
            codes = np.array([self.cells[cell] for cell in distinct], np.int32)[numbers]
        else:
            codes = np.fromiter(map(self.cells.__getitem__, cells), np.int32, len(cells))
        if (kind := smallest_code(len(self.cells))) != self._kind:
            self._buffer, self._kind = bytearray(self.codes.astype(kind).data.cast("B")), kind
        self._buffer += codes.astype(kind).data.cast("B")

    @property
    def codes(self) -> NDArray[np.signedinteger[Any]]:
        """Return the code `[m]` of each row, in their order; while the array is in use, no rows can be added."""
        return np.frombuffer(self._buffer, self._kind)

    def recoded(self, table: Sequence[int], *, at_once: int = AT_ONCE) -> NDArray[np.signedinteger[Any]]:
        """Return `table[code]` of each row `[m]`, in the codes' own memory.

        Parameters
        ----------
        table : a new code for each code, which fits the codes' dtype
        at_once : rows that are changed at once
        """
        codes, new = self.codes, np.array(table, self._kind)
        if not np.array_equal(new, np.arange(len(new))):
            for start in range(0, len(codes), at_once):
                part = codes[start : start + at_once]
                part[:] = new.take(part)
        return codes


class RowNumbers:
    """A column of row numbers."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(self, cells: Sequence[str]) -> str | None:
        """Add the `cells` of the next rows; return the first that is no row number, or None."""
        text = "".join(cells)
        if text.isascii() and text.isdecimal() and "" not in cells and max(map(len, cells)) < 19:
            self._numbers.extend(map(int, cells))
            return None
        for cell in cells:
            found = ROW_NUMBER.fullmatch(cell.strip())
            if found is None:
                return cell
            self._numbers.append(int(found[1]))
        return None

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers `[m]`, in the order of the rows."""
        return np.array(self._numbers, np.int64)


class Lines:
    """The first line of each row, or its number in a table; consecutive ones are stored as a range."""

    def __init__(self, unit: str = "line") -> None:
        """Start without rows; `unit` is what messages call a place: line (from 1) or row (from 0)."""
        self.unit = unit
        self._parts: list[Sequence[int]] = []
        self._firsts: list[int] = []
        self._files: list[tuple[int, str]] = []
        self._n = 0

    def begin(self, path: str) -> None:
        """Name the file that the next rows are from, one of several."""
        self._files.append((self._n, path))

    def extend(self, lines: Sequence[int]) -> None:
        """Add the `lines` of the next rows, which ascend."""
        if len(lines) and lines[-1] - lines[0] == len(lines) - 1:
            lines = range(lines[0], lines[-1] + 1)
        is_first = bool(self._files) and self._files[-1][0] == self._n
        last = self._parts[-1] if self._parts and not is_first else None
        if isinstance(lines, range) and isinstance(last, range) and last.stop == lines.start:
            self._parts[-1] = range(last.start, lines.stop)
        else:
            self._parts.append(lines if isinstance(lines, range) else array("q", lines))
            self._firsts.append(self._n)
        self._n += len(lines)

    def __len__(self) -> int:
        return self._n

    def place(self, row: int) -> str:
        """Return where `row` is, as messages name it: `line 3`, or `line 3 of FILE`."""
        file = next((f" of {path}" for first, path in reversed(self._files) if first <= row), "")
        return f"{self.unit} {self[row]}{file}"

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Each file and its number of rows, if there are several."""
        ends = [first for first, _ in self._files[1:]] + [self._n]
        return tuple((path, end - first) for (first, path), end in zip(self._files, ends, strict=False))

    def __getitem__(self, row: int) -> int:
        part = bisect_right(self._firsts, row) - 1
        return self._parts[part][row - self._firsts[part]]
