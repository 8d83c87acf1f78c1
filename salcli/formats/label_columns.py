"""Columns of a label CSV as they are read: a few bytes a row, for there may be millions."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import smallest_code
from salcli.formats.csv_cells import Cells, cell_of

AT_ONCE = 1 << 16  # rows
FEWEST = 8  # distinct cells, up to which it is fastest to look for one after the other
FEW = 1 << 10  # distinct cells, up to which looking for their numbers is faster than for their strings


class Trimmed(dict[str, str]):
    """One copy of each distinct cell, without the spaces around it."""

    def __missing__(self, cell: str) -> str:
        self[cell] = cell.strip()
        return self[cell]


class _Codes(dict[str, int]):
    """A number for each distinct cell, in the order in which they came."""

    def __missing__(self, cell: str) -> int:
        self[cell] = len(self)
        return self[cell]


class ClassColumn:
    """A column of classes: a code for each row, and each distinct cell once, as it stands in the file."""

    def __init__(self) -> None:
        self.cells = _Codes()
        self._held, self._kind = bytearray(), smallest_code(0)  # grows in place: there is no second copy of it
        self._words, self._codes_of_words = np.zeros(0, np.uint64), np.zeros(0, np.int32)  # by size

    def add(self, cells: Sequence[str]) -> None:
        """Take the next rows' cells."""
        words = cells.words if isinstance(cells, Cells) and len(self.cells) <= FEW else None
        if words is None:
            codes = np.fromiter(map(self.cells.__getitem__, cells), np.int32, len(cells))
        else:
            codes = self._looked_up(words)
        if (kind := smallest_code(len(self.cells))) != self._kind:
            self._held, self._kind = bytearray(self.codes.astype(kind).data.cast("B")), kind
        self._held += codes.astype(kind).data.cast("B")

    def _looked_up(self, words: NDArray[np.uint64]) -> NDArray[np.signedinteger[Any]]:
        """Find the codes of cells that are numbers: no string is made for a row."""
        if 0 < len(self._words) <= FEWEST and (codes := self._compared(words)) is not None:
            return codes
        at, last = np.searchsorted(self._words, words), len(self._words) - 1
        is_known = self._words[np.minimum(at, last)] == words if last >= 0 else np.zeros(len(words), np.bool_)
        if not is_known.all():
            new, first = np.unique(words[~is_known], return_index=True)
            codes = np.zeros(len(new), np.int32)
            for i in np.argsort(first):  # as they came
                codes[i] = self.cells[cell_of(new[i])]
            every = np.concatenate([self._words, new])
            order = np.argsort(every)
            self._words, self._codes_of_words = every[order], np.concatenate([self._codes_of_words, codes])[order]
            at = np.searchsorted(self._words, words)
        return self._codes_of_words[at]

    def _compared(self, words: NDArray[np.uint64]) -> NDArray[np.signedinteger[Any]] | None:
        """Find codes by comparing; None if a cell is new."""
        kind = smallest_code(len(self.cells))
        codes, n_found = np.zeros(len(words), kind), 0
        for word, code in zip(self._words, self._codes_of_words.tolist(), strict=True):
            is_same = words == word
            n_found += int(np.count_nonzero(is_same))
            codes += is_same.view(np.int8) * kind.type(code)
        return codes if n_found == len(words) else None

    @property
    def codes(self) -> NDArray[np.signedinteger[Any]]:
        """`[m]`, in the order of the rows; while somebody has them, no more rows can come."""
        return np.frombuffer(self._held, self._kind)

    def recoded(self, table: Sequence[int]) -> NDArray[np.signedinteger[Any]]:
        """Give `table[code]` of each row `[m]`, in the codes' own memory; the table's numbers are as small as they."""
        codes, new = self.codes, np.array(table, self._kind)
        if not np.array_equal(new, np.arange(len(new))):
            for start in range(0, len(codes), AT_ONCE):
                part = codes[start : start + AT_ONCE]
                part[:] = new.take(part)
        return codes


class Lines:
    """The line on which each row began: most often they follow each other, and then it is a range."""

    def __init__(self) -> None:
        self._parts: list[Sequence[int]] = []
        self._firsts: list[int] = []
        self._n = 0

    def extend(self, lines: Sequence[int]) -> None:
        """Take the next rows' lines, which ascend."""
        if len(lines) and lines[-1] - lines[0] == len(lines) - 1:
            lines = range(lines[0], lines[-1] + 1)
        last = self._parts[-1] if self._parts else None
        if isinstance(lines, range) and isinstance(last, range) and last.stop == lines.start:
            self._parts[-1] = range(last.start, lines.stop)
        else:
            self._parts.append(lines if isinstance(lines, range) else array("q", lines))
            self._firsts.append(self._n)
        self._n += len(lines)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, row: int) -> int:
        part = bisect_right(self._firsts, row) - 1
        return self._parts[part][row - self._firsts[part]]
