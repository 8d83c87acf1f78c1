"""Rows of text vectors: an exact, slow reading of one line, and a fast reading of many that agrees with it.

A row is a word, then d numbers; fields are separated by runs of space or TAB. The last d fields are the vector and
whatever stands before them is the word, so words may hold spaces. Only bytes 20 and 09 separate: a no-break space
belongs to its word. Rows of a file without keys are d numbers and nothing else.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import FormatError

SPACE, TAB, LF = 0x20, 0x09, 0x0A
SEPARATORS = b" \t"
BOM = b"\xef\xbb\xbf"
FIELD = re.compile(rb"[^ \t]+")
SPACES = re.compile(rb" +")
NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE)
DECIMAL = re.compile(rb"[+-]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)")

MOST_AT_ONCE = 1 << 16  # dimensions; a table of more columns costs more than reading number by number

Place = Callable[[int], str]  # names line i, for messages


def shown(word: bytes, limit: int = 40) -> str:
    """Return `word` quoted for a message, shortened to `limit` characters."""
    text = word[: limit * 4].decode("utf-8", "backslashreplace")
    return repr(text[:limit] + "…" if len(text) > limit else text)


def count_fields(line: bytes) -> int:
    """Return the number of fields of the row `line`, its word included."""
    return len(FIELD.findall(line))


def split_row(line: bytes, d: int, where: str) -> tuple[bytes, list[bytes]]:
    """Return the word of a row and the d fields of its vector.

    Parameters
    ----------
    line : the row, without its line end
    d : dimensions
    where : names the line, for messages

    Raises
    ------
    FormatError : too few fields, or no word
    """
    spans = [match.span() for match in FIELD.finditer(line)]
    if not spans:
        raise FormatError(f"{where}: an empty row, expected a word and {d} numbers")
    if len(spans) >= d:
        prefix = line[: spans[-d][0]]
        word = prefix.rstrip(SEPARATORS) or prefix[:-1]  # only separators left: the word is one separator less
        if word:
            return word, [line[start:stop] for start, stop in spans[-d:]]
    first = line[slice(*spans[0])]
    if len(spans) == d and NUMBER.fullmatch(first) and line[:1] in (b" ", b"\t"):
        raise FormatError(f"{where}: an empty word before {d} numbers")
    raise FormatError(f"{where}: word {shown(first)}: {len(spans) - 1} numbers found, {d} expected{_hint(first)}")


def parse_row(line: bytes, d: int, where: str) -> tuple[bytes, list[float]]:
    """Return the word of a row and its d numbers, each of a strict spelling (no `1_0`, no `0,5`).

    Parameters
    ----------
    line : the row, without its line end
    d : dimensions
    where : names the line, for messages

    Raises
    ------
    FormatError : as `split_row`, or a field that is not a number
    """
    word, fields = split_row(line, d, where)
    return word, _floats(fields, f"{where}: word {shown(word)}", _hint(word))


def _floats(fields: list[bytes], where: str, hint: str = "") -> list[float]:
    for position, field in enumerate(fields, 1):
        if not NUMBER.fullmatch(field):
            raise FormatError(f"{where}: field {position} of {len(fields)} is {shown(field)}, expected a number{hint}")
    return [float(field) for field in fields]


def _hint(word: bytes) -> str:
    """Return what to do about a line that `numpy.savetxt(header=…)` may have written, else ""."""
    return " (a comment, as numpy.savetxt writes its header? Delete that line)" if word.startswith(b"#") else ""


def ends_in_number(word: bytes) -> bool:
    """Return whether `word` holds a space and its last part is a number: the row may be one number too long."""
    parts = FIELD.findall(word)
    return len(parts) > 1 and NUMBER.fullmatch(parts[-1]) is not None


def parse_numbers(line: bytes, d: int, where: str) -> list[float]:
    """Return the d numbers of a row without a word, each of a strict spelling.

    Parameters
    ----------
    line : the row, without its line end
    d : dimensions
    where : names the line, for messages

    Raises
    ------
    FormatError : another count of fields, or one that is not a number
    """
    fields = FIELD.findall(line)
    if len(fields) != d:
        raise FormatError(f"{where}: {len(fields)} fields found, {d} numbers expected (rows of numbers without words)")
    return _floats(fields, where)


WORD, WHOLE, POINTED = "word", "whole number, NaN or Inf", "number with point or exponent"


def kind_of_first(line: bytes) -> str:
    """Return what `line`, a row or a word, begins with: WORD, WHOLE or POINTED."""
    first = FIELD.search(line)
    if first is None or not NUMBER.fullmatch(first[0]):
        return WORD
    return POINTED if DECIMAL.fullmatch(first[0]) else WHOLE


def begins_with_words(kinds: Collection[str]) -> bool | None:
    """Return whether rows that begin with fields of these `kinds` have words; None where they do not decide it.

    Numbers with point or exponent at the head of every row are the vectors' first coordinates; whole numbers are
    words (the ids of a graph's nodes). Where both stand there and nothing else, either may be meant.
    """
    return True if WORD in kinds or POINTED not in kinds else None if WHOLE in kinds else False


class Lines:
    """Complete lines, LF between them, none behind the last."""

    def __init__(self, data: bytes, *, strips_cr: bool, has_words: bool = True) -> None:
        data = data.removesuffix(b"\n")
        if strips_cr:
            data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
        self._take(data if has_words else data.replace(b"\t", b" "))
        if not has_words and not self.is_regular:  # right-aligned columns
            self._take(SPACES.sub(b" ", self.data).replace(b"\n ", b"\n").removeprefix(b" "))
        if not self.is_regular and b" \n" in data:  # fastText ends every row with a space
            self._take(data.replace(b" \n", b"\n").removesuffix(b" "))

    def _take(self, data: bytes) -> None:
        codes = np.frombuffer(data, np.uint8)
        self.data, self._is_space, self._feeds = data, codes == SPACE, np.flatnonzero(codes == LF)
        self.is_regular = self._has_single_spaces()

    def _has_single_spaces(self) -> bool:
        """Return whether fields are separated by exactly one space, with no space at either end and no empty line."""
        if b"\t" in self.data or not self.data or {self.data[0], self.data[-1]} & {SPACE, LF}:
            return False
        is_space, feeds = self._is_space, self._feeds
        at_ends = is_space[feeds - 1] | is_space[feeds + 1]
        return not bool(np.any(is_space[1:] & is_space[:-1]) or at_ends.any() or np.any(np.diff(feeds) == 1))

    def lines(self) -> list[bytes]:
        """Return the lines."""
        return self.data.split(b"\n")

    def field_counts(self) -> list[int]:
        """Return the number of fields of every line."""
        if not self.is_regular:
            return [count_fields(line) for line in self.lines()]
        return [int(np.count_nonzero(self._is_space[start:end])) + 1 for start, end in self._extents()]

    def _extents(self) -> list[tuple[int, int]]:
        """Return where each line begins and ends."""
        feeds = self._feeds.tolist()
        return list(zip([0, *(feed + 1 for feed in feeds)], [*feeds, len(self.data)], strict=True))

    def words(self, d: int, place: Place) -> list[bytes]:
        """Return the words alone.

        Parameters
        ----------
        d : dimensions
        place : names a line, for messages

        Raises
        ------
        FormatError : a row has no word or too few fields
        """
        if not self.is_regular:
            return [split_row(line, d, place(i))[0] for i, line in enumerate(self.lines())]
        data, words = self.data, []
        for i, ((start, end), count) in enumerate(zip(self._extents(), self.field_counts(), strict=True)):
            is_plain = count == d + 1
            words.append(
                data[start : data.find(b" ", start)] if is_plain else split_row(data[start:end], d, place(i))[0]
            )
        return words

    def rows(self, d: int, place: Place) -> tuple[list[bytes], NDArray[np.float64]]:
        """Return words and vectors.

        Parameters
        ----------
        d : dimensions
        place : names a line, for messages

        Returns
        -------
        n words, `[n, d]`

        Raises
        ------
        FormatError : a row is not a word and d numbers
        """
        if self.is_regular and b"\r" not in self.data and d <= MOST_AT_ONCE:
            whole = _parsed(self.data, d)
            if whole is not None:
                return whole
            if (parted := self._rows_apart(d)) is not None:
                return parted
        return _stacked([parse_row(line, d, place(i)) for i, line in enumerate(self.lines())], d)

    def numbers(self, d: int, place: Place) -> NDArray[np.float64]:
        """Return the vectors `[n, d]` of rows without words.

        Parameters
        ----------
        d : dimensions
        place : names a line, for messages

        Raises
        ------
        FormatError : a row is not d numbers
        """
        if self.is_regular and b"\r" not in self.data and d <= MOST_AT_ONCE:
            whole = _parsed(self.data, d, has_words=False)
            if whole is not None:
                return whole[1]
        rows = [parse_numbers(line, d, place(i)) for i, line in enumerate(self.lines())]
        return np.array(rows, dtype=np.float64).reshape(len(rows), d)

    def _rows_apart(self, d: int) -> tuple[list[bytes], NDArray[np.float64]] | None:
        """Return words that hold spaces, and the numbers parsed in one call; None if a row is too short."""
        data, words, numbers = self.data, [], []
        for (start, end), count in zip(self._extents(), self.field_counts(), strict=True):
            if count <= d:
                return None
            cut = start - 1
            for _ in range(count - d):  # the word goes on to the last space that leaves d fields
                cut = data.find(b" ", cut + 1)
            words.append(data[start:cut])
            numbers.append(data[cut + 1 : end])
        parsed = _parsed(b"\n".join(numbers), d, has_words=False)
        return None if parsed is None else (words, parsed[1])


def _stacked(rows: Sequence[tuple[bytes, list[float]]], d: int) -> tuple[list[bytes], NDArray[np.float64]]:
    return [word for word, _ in rows], np.array([row for _, row in rows], dtype=np.float64).reshape(len(rows), d)


@cache
def _csv_options(d: int, *, has_words: bool) -> tuple[list[str], Any, Any]:
    import pyarrow as pa
    from pyarrow import csv

    names = [*(["word"] if has_words else []), *map(str, range(d))]
    types = {name: pa.binary() if name == "word" else pa.float64() for name in names}
    convert = csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    parse = csv.ParseOptions(delimiter=" ", quote_char=False, escape_char=False, newlines_in_values=False)
    return names, parse, convert


def _parsed(data: bytes, d: int, *, has_words: bool = True) -> tuple[list[bytes], NDArray[np.float64]] | None:
    """Read regular lines of a word and numbers, or of numbers alone, at once.

    None when a line is ragged or a field is not a plain finite number: the exact reading decides.

    Numbers are parsed as float64 and rounded once by whoever needs float32, which is what gensim does; parsing
    straight to float32 can differ in the last bit.
    """
    import pyarrow as pa
    from pyarrow import csv

    if data.startswith(BOM):  # pyarrow would drop it, but here it belongs to a word
        return None
    names, parse, convert = _csv_options(d, has_words=has_words)
    read = csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)
    try:
        table = csv.read_csv(pa.BufferReader(data), read, parse, convert)
    except pa.ArrowInvalid:
        return None
    if len(table) != data.count(b"\n") + 1:
        return None
    words = table.column(0).to_pylist() if has_words else []
    (batch,) = table.select(names[has_words:]).combine_chunks().to_batches()
    matrix = batch.to_tensor(row_major=True).to_numpy()
    if not np.isfinite(matrix).all():  # pyarrow also takes `nan(1)`; the exact reading decides
        return None
    return words, matrix


def to_text(vectors: NDArray[Any], separator: bytes = b" ") -> list[memoryview]:
    """Return each row as text: the shortest decimals that read back the same.

    Parameters
    ----------
    vectors : `[n, d]` float32 or float64, contiguous
    separator : one byte between two numbers
    """
    import orjson

    characters = np.frombuffer(
        orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY), np.uint8
    )  # [[1.5,2.0],[0.5,3.0]]
    ends = np.flatnonzero(characters == ord("]"))[:-1].tolist()
    spaced = (characters - (characters == ord(",")) * np.uint8(ord(",") - ord(separator))).data
    return [spaced[start:end] for start, end in zip([2, *(end + 3 for end in ends)], ends, strict=False)]
