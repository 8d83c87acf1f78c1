"""CSV records with the line each began on: UTF-8 or UTF-16, RFC 4180 quoting, bounded memory.

Rows end at LF alone (or CR LF); in a file whose first line ends in CR, as old spreadsheets write it, at CR alone.

Large files without quotes are cut by pyarrow, block by block; the csv module reads the rest, and owns the messages.
"""

import csv
import itertools
import re
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from salcli.errors import FormatError
from salcli.formats.encodings import as_utf8, wide_encoding
from salcli.formats.files import ByteFile
from salcli.formats.registry import recognised

DELIMITERS = ",;\t"
MAX_LINE = 1 << 20
MAX_FIELD = MAX_LINE * 2
READ_BYTES = 1 << 20  # cells of a few letters take many times as much as strings
LEAST_BYTES = 1 << 20  # of a file, for which it pays to import pyarrow
RECORDS_AT_ONCE = 4096
BOM = b"\xef\xbb\xbf"
QUOTED = re.compile(rb'(?:^|(?<=[,;\t]))"(?:[^"]|"")*(?:"|\Z)')  # a quote opens a cell only where one begins
SEPARATOR = re.compile(rb'"?sep=(.)"?\r?\n?', re.DOTALL)  # Excel's first line
SWAPPED = bytes.maketrans(b"\r\n", b"\n\r")
SWAPPED_TEXT = str.maketrans("\r\n", "\n\r")


class Batch(NamedTuple):
    """Consecutive records."""

    lines: Sequence[int]
    """The line that each began on, counted from 1."""
    columns: list[Sequence[str]]
    """Their fields, column by column."""


class ArrowColumn(Sequence[str]):
    """One column of a block that pyarrow cut."""

    def __init__(self, array: Any) -> None:
        """Wrap `array`, a `pyarrow.BinaryArray`, or a `DictionaryArray` of such cells."""
        self._array = array

    @cached_property
    def _strings(self) -> list[str]:
        import pyarrow as pa

        if isinstance(self._array, pa.DictionaryArray):
            distinct, numbers = self.encoded()
            return [distinct[number] for number in numbers.tolist()]
        try:  # `cast` would import `pyarrow.compute`: 0.1 s and 10 MB
            found: list[str] = self._array.view(pa.string()).to_pylist()
        except UnicodeDecodeError:
            return [_text(cell) for cell in self._array.to_pylist()]
        return found

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return a cell, or a list of some."""
        return self._strings[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._strings)

    def __len__(self) -> int:
        return len(self._array)

    def encoded(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return each distinct cell once, in order of appearance, and the number `[n]` of each row's cell.

        Arrow's own `to_numpy` would import pandas where it is installed: time and 50 MB.
        """
        found = self._array.dictionary_encode()  # itself, without `pyarrow.compute`, if its cells are encoded
        numbers: NDArray[np.int32] = np.from_dlpack(found.indices).astype(np.int32, copy=False)
        return [_text(cell) for cell in found.dictionary.to_pylist()], numbers


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape")


def csv_batches(
    path: str,
    least_bytes: int = LEAST_BYTES,
    advance: Callable[[int], None] | None = None,
    encoded: Collection[int] = (),
) -> Generator[Batch]:
    """Yield the records of a CSV, many at a time; with several columns, blank lines are allowed at the end only.

    A header that is one field short of the rows, as R writes it, gets an empty name for the first column.

    From the first block of lines that has quotes, carriage returns or a row of another length, the csv module reads
    the rest.

    Parameters
    ----------
    path : the file; may be compressed
    least_bytes : smaller files are read by the csv module alone
    advance : called with how many bytes of the file each step has read
    encoded : columns of few distinct cells (see `ArrowColumn.encoded`); may be known after the first batch, the header

    Raises
    ------
    FormatError : broken CSV, a line without end, or one of more or fewer fields than the first
    """
    with closing(ByteFile.open(path, may_be_wide=True)) as file:
        pieces, ends_in_cr = _pieces(path, file, advance)
        blocks = _blocks(path, pieces)
        first = next(blocks, None)
        number = n_columns = 0
        delimiter = None if first is None else _declared_delimiter(path, first)
        if delimiter is not None:
            first, number = next(blocks, None), 1
        if first is None:
            return
        delimiter = delimiter or max(DELIMITERS, key=partial(_count, _first_line(first)))
        second = next(blocks, None)
        if second is not None and _lacks_row_names(first, second, delimiter):
            first = delimiter.encode() + first
        blocks = itertools.chain([] if second is None else [second], blocks)
        is_large = file.size is None or file.size >= least_bytes
        for block in itertools.chain([first], blocks):
            width = n_columns or _count(_first_line(first), delimiter) + 1
            columns = _cut(block, delimiter, width, encoded) if is_large else None
            if columns is None:
                rest = _by_module(
                    path,
                    itertools.chain([block], blocks),
                    delimiter,
                    number,
                    n_columns,
                    stray="LF" if ends_in_cr else "CR",
                )
                rest = ((line, _with_swapped_ends(fields)) for line, fields in rest) if ends_in_cr else rest
                yield from _batched(path, rest, n_columns)
                return
            n_columns = len(columns)
            numbers = range(number + 1, number + 1 + len(columns[0]))
            yield Batch(numbers, columns)
            number = numbers.stop - 1


def _pieces(path: str, file: ByteFile, advance: Callable[[int], None] | None) -> tuple[Iterator[bytes], bool]:
    """Return the file's text in UTF-8, piece by piece, and whether its lines end in CR, which are LF then.

    Raises
    ------
    FormatError : it is another kind of file
    """
    encoding = wide_encoding(file.head())
    if encoding is None and (kind := recognised(file.head())).has_magic:
        raise FormatError(f"{path}: is {kind}, expected a CSV: are two files in the wrong order?")
    stream = file.stream()

    def read() -> bytes:
        piece = stream.read(READ_BYTES)
        if not piece:
            file.require_unchanged()
        if advance is not None and file.is_plain:
            advance(len(piece))
        return piece

    pieces = iter(read, b"")
    if encoding is not None:
        pieces = as_utf8(path, pieces, encoding)
    first = next(pieces, b"")
    unquoted = QUOTED.sub(b"", first.removeprefix(BOM)) if b"\r" in first else b""
    end = re.search(rb"\r\n|\r|\n", unquoted)
    pieces = itertools.chain([first], pieces)
    if end is None or end[0] != b"\r":
        return pieces, False
    return (piece.translate(SWAPPED) for piece in pieces), True


def _with_swapped_ends(fields: list[str]) -> list[str]:
    """Return fields with the line ends inside quotes as they are in the file."""
    return [text.translate(SWAPPED_TEXT) if "\r" in text or "\n" in text else text for text in fields]


def _declared_delimiter(path: str, line: bytes) -> str | None:
    """Return the delimiter that Excel's line `sep=;` declares, or None where the line is none."""
    found = SEPARATOR.fullmatch(line)
    if found is None:
        return None
    delimiter = _text(found[1])
    if delimiter not in DELIMITERS:
        raise FormatError(f"{path}: line 1: the separator is {delimiter!r}, expected `,` `;` or TAB")
    return delimiter


def _cut(block: bytes, delimiter: str, n_columns: int, encoded: Collection[int]) -> list[Sequence[str]] | None:
    """Return complete lines as columns; None if they need more than that, or have other numbers of fields."""
    if b'"' in block or b"\r" in block or block.startswith(BOM):  # pyarrow would drop a BOM in front of any block
        return None
    if n_columns > 1 and (block.startswith(b"\n") or b"\n\n" in block):  # to pyarrow, a row of empty cells
        return None
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = [str(i) for i in range(n_columns)]
    read = arrow_csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names)
    parse = arrow_csv.ParseOptions(
        delimiter=delimiter, quote_char=False, escape_char=False, newlines_in_values=False, ignore_empty_lines=False
    )
    of_few = pa.dictionary(pa.int32(), pa.binary())
    types = {name: of_few if i in encoded else pa.binary() for i, name in enumerate(names)}
    convert = arrow_csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    try:
        table = arrow_csv.read_csv(pa.BufferReader(block), read, parse, convert)
    except pa.ArrowInvalid:  # a row of another length
        return None
    n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
    if len(table) != n_lines:
        return None
    return [ArrowColumn(column.combine_chunks()) for column in table.columns]


def _lacks_row_names(header: bytes, rows: bytes, delimiter: str) -> bool:
    """Return whether the header is one field short of the first row: R's `write.table` does not name its row names.

    A row that ends in a delimiter is as long, but its last field is empty: there the header is right.
    """
    row = _first_line(rows).rstrip(b"\r")
    return not row.endswith(delimiter.encode()) and _count(row, delimiter) == _count(_first_line(header), delimiter) + 1


def _first_line(block: bytes) -> bytes:
    return block.partition(b"\n")[0]


def _count(line: bytes, delimiter: str) -> int:
    return QUOTED.sub(b"", line).count(delimiter.encode())


def _batched(path: str, records: Iterator[tuple[int, list[str]]], n_columns: int) -> Iterator[Batch]:
    while part := list(itertools.islice(records, RECORDS_AT_ONCE)):
        n_columns = n_columns or len(part[0][1])
        for line, record in part:
            if len(record) != n_columns:
                raise FormatError(f"{path}: line {line}: {len(record)} fields, the header has {n_columns}")
        yield Batch([line for line, _ in part], list(zip(*(record for _, record in part), strict=True)))


def _blocks(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield complete lines, the first alone and then many at a time; only the last may lack its line feed."""
    rest, n_lines, is_first = b"", 0, True
    for data in pieces:
        whole, feed, rest = (rest + data).rpartition(b"\n")
        if feed:
            n_lines += whole.count(b"\n") + 1
            whole += feed
            if is_first:
                end = whole.index(b"\n") + 1
                yield whole[:end].removeprefix(BOM)
                whole, is_first = whole[end:], False
            if whole:
                yield whole
        if len(rest) > MAX_LINE:
            raise FormatError(
                f"{path}: line {n_lines + 1}: more than {MAX_LINE >> 20} MiB without a line feed: not a label CSV"
            )
    if rest:
        yield rest.removeprefix(BOM) if is_first else rest


def _by_module(
    path: str, blocks: Iterator[bytes], delimiter: str, n_before: int, n_columns: int, *, stray: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields) of each record after the first `n_before` lines; `stray` is the line end that none has."""
    csv.field_size_limit(MAX_FIELD)
    texts = (block.decode("utf-8", "surrogateescape") for block in blocks)
    read_lines: list[str] = []  # of the record that is being read

    def lines() -> Iterator[str]:
        for text in texts:
            for line in text.removesuffix("\n").split("\n"):
                read_lines.append(line + "\n")
                yield read_lines[-1]

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    blank = 0
    while True:
        start = reader.line_num + 1
        read_lines.clear()
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            line = max(start, reader.line_num)
            what = _faulty_quote("".join(read_lines), delimiter, n_before + start, n_before + line)
            fault = str(error)
            if "new-line character" in fault:
                fault = f"a lone {stray} within a cell, expected quotes around the cell, or one kind of line end"
            raise FormatError(f"{path}: {what or f'line {n_before + line}: broken CSV: {fault}'}") from error
        n_columns = n_columns or len(record)
        if not record and n_columns > 1:
            blank = blank or start
            continue
        if blank:
            raise FormatError(f"{path}: line {n_before + blank}: an empty line, expected {n_columns} fields")
        yield n_before + start, record or [""]


def _faulty_quote(text: str, delimiter: str, start: int, line: int) -> str | None:
    """Return where a quote opened that is not closed where it should be; None if no cell goes over several lines.

    Parameters
    ----------
    text : of the record, as far as it was read
    delimiter : between two fields
    start, line : where the record began, and where it was found to be broken
    """
    cells = list(re.finditer(rf'(?:^|(?<={delimiter}))"(?:[^"]|"")*+("?+)(?!{delimiter}|\r?\n\Z)', text))
    cell = next((cell for cell in cells if not cell[1] or "\n" in cell[0]), None)
    if cell is None:
        return None
    opened = start + text.count("\n", 0, cell.start())
    if cell[1]:
        return f"line {opened}: broken CSV: a quote opens here and closes on line {line} where no cell ends"
    where = f"within {MAX_FIELD >> 20} MiB" if len(text) > MAX_FIELD else "to the end of the file"
    return f"line {opened}: broken CSV: a quote opens here and is not closed {where}"
