"""`Cells`: a column of lines that need no more than cutting; as strings, or as one number a cell."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

WORD = 8  # bytes of a cell that fit into one number
FEED = ord("\n")
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(WORD + 1)], np.uint64)


class PlainLines:
    """Whole lines of n cells each, without quotes and carriage returns."""

    def __init__(self, data: bytes, delimiter: str, n_columns: int) -> None:
        self._data, self._delimiter, self.n_columns = data.removesuffix(b"\n"), delimiter, n_columns
        self._width = data.find(b"\n") + 1
        """Bytes of a line; all cells stand at the same places of theirs. 0: they do not."""
        held = np.frombuffer(data, np.uint8)
        is_feed = held == FEED
        is_mark = is_feed | (held == ord(delimiter))
        if self._width and self._are_alike(is_feed, is_mark):
            self.n, self.is_even = len(data) // self._width, True
            self._stops = np.flatnonzero(is_mark[: self._width])
            return
        self._width = 0
        marks = np.flatnonzero(is_mark[: len(self._data)])
        self.n = int(np.count_nonzero(is_feed[: len(self._data)])) + 1
        self._stops = np.append(marks, len(self._data))
        self.is_even = len(self._stops) == self.n * n_columns and (
            n_columns == 1 or bool(is_feed[marks[n_columns - 1 :: n_columns]].all())
        )
        """Whether every line has so many cells, as no blank line of several has; nothing else holds if not."""

    @classmethod
    def of(cls, data: bytes, delimiter: str, n_columns: int) -> "PlainLines | None":
        """Cut complete lines; None if they need more than that."""
        if b'"' in data or b"\r" in data:
            return None
        lines = cls(data, delimiter, n_columns)
        return lines if lines.is_even else None

    def _are_alike(self, is_feed: NDArray[np.bool_], is_mark: NDArray[np.bool_]) -> bool:
        n, rest = divmod(len(is_mark), self._width)
        if rest or np.count_nonzero(is_mark[: self._width]) != self.n_columns or np.count_nonzero(is_feed) != n:
            return False
        ends = is_feed[self._width - 1 :: self._width]
        return bool(ends.all()) and np.array_equal(is_mark[self._width :], is_mark[: -self._width])

    @cached_property
    def strings(self) -> list[str]:
        """All cells, line by line."""
        text = self._data.decode("utf-8", "surrogateescape")
        return text.replace("\n", self._delimiter).split(self._delimiter)

    def words(self, column: int) -> NDArray[np.uint64] | None:
        """`[n]` a column's cells as numbers of their bytes; None if one is too long, or holds a NUL."""
        if b"\0" in self._data:
            return None
        padded = self._data + bytes(WORD)
        if self._width:
            start = int(self._stops[column - 1]) + 1 if column else 0
            if (length := int(self._stops[column]) - start) > WORD:
                return None
            alike: NDArray[np.uint64] = np.ndarray((self.n,), "<u8", padded, start, (self._width,)).copy()
            alike &= _MASKS[length]
            return alike
        stops = self._stops[column :: self.n_columns]
        starts = np.empty_like(stops)
        if column:
            starts[:] = self._stops[column - 1 :: self.n_columns]
            starts += 1
        else:
            starts[0] = 0
            starts[1:] = self._stops[self.n_columns - 1 : -1 : self.n_columns] + 1
        lengths = stops - starts
        if lengths.max() > WORD:
            return None
        every: NDArray[np.uint64] = np.ndarray((len(self._data) + 1,), "<u8", padded, strides=(1,))
        words: NDArray[np.uint64] = every.take(starts, mode="clip")  # all are inside: it is faster unchecked
        words &= _MASKS[lengths]
        return words


def cell_of(word: Any) -> str:
    """Give the string whose bytes a number holds."""
    return int(word).to_bytes(WORD, "little").rstrip(b"\0").decode("utf-8", "surrogateescape")


class Cells(Sequence[str]):
    """One column of plain lines."""

    def __init__(self, lines: PlainLines, column: int) -> None:
        self._lines, self._column = lines, column

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Give a cell, or a list of some."""
        return self._lines.strings[self._column :: self._lines.n_columns][index]

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])

    def __len__(self) -> int:
        return self._lines.n

    @property
    def words(self) -> NDArray[np.uint64] | None:
        """`[n]` the cells as numbers of their bytes; None where they are too long."""
        return self._lines.words(self._column)
