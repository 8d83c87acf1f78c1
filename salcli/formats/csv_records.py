"""CSV records with the line each began on: UTF-8, RFC 4180 quoting, rows that end at LF alone, bounded memory."""

import csv
import itertools
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import numpy as np

from salcli.errors import FormatError
from salcli.formats.csv_cells import FEED, Cells, PlainLines
from salcli.formats.files import ByteFile
from salcli.formats.registry import recognised

DELIMITERS = ",;\t"
MAX_LINE = 1 << 20
READ_BYTES = 1 << 18  # cells of a few letters take many times as much as strings
RECORDS_AT_ONCE = 4096
BOM = b"\xef\xbb\xbf"
QUOTED = re.compile(rb'(?:^|(?<=[,;\t]))"(?:[^"]|"")*(?:"|\Z)')  # a quote opens a cell only where one begins


class Batch(NamedTuple):
    """Consecutive records."""

    lines: Sequence[int]
    """The line that each began on, counted from 1."""
    columns: list[Sequence[str]]
    """Their fields, column by column."""


def csv_batches(path: str) -> Generator[Batch]:
    """Read a CSV; a blank line in one of several columns may only stand at the end.

    Without quotes and carriage returns a record is a line, cut at delimiters. From the first block of lines that has
    some, the csv module reads the rest.

    Raises
    ------
    FormatError : broken CSV, a line without end, or one of more or fewer fields than the first
    """
    with closing(ByteFile.open(path)) as file:
        if (kind := recognised(file.head())).has_magic:
            raise FormatError(f"{path}: is {kind}, expected a CSV: are two files in the wrong order?")
        blocks = _blocks(path, file)
        first = next(blocks, None)
        if first is None:
            return
        delimiter = max(DELIMITERS, key=partial(_count, _first_line(first)))
        number = n_columns = 0
        for block in itertools.chain([first], blocks):
            n_columns = n_columns or _count(_first_line(first), delimiter) + 1
            lines = PlainLines.of(block, delimiter, n_columns)
            if lines is None:
                rest = _by_module(path, itertools.chain([block], blocks), delimiter, number, n_columns if number else 0)
                yield from _batched(path, rest, n_columns if number else 0)
                return
            numbers = range(number + 1, number + 1 + lines.n)
            yield Batch(numbers, [Cells(lines, i) for i in range(n_columns)])
            number += lines.n


def _first_line(block: bytes) -> bytes:
    return block.partition(b"\n")[0]


def _count(line: bytes, delimiter: str) -> int:
    return QUOTED.sub(b"", line).count(delimiter.encode())


def _batched(path: str, records: Iterator[tuple[int, list[str]]], n_columns: int) -> Iterator[Batch]:
    while some := list(itertools.islice(records, RECORDS_AT_ONCE)):
        n_columns = n_columns or len(some[0][1])
        for line, record in some:
            if len(record) != n_columns:
                raise FormatError(f"{path}: line {line}: {len(record)} fields, the header has {n_columns}")
        yield Batch([line for line, _ in some], list(zip(*(record for _, record in some), strict=True)))


def _blocks(path: str, file: ByteFile) -> Iterator[bytes]:
    """Give complete lines, the first alone and then many at a time; only the last may lack its line feed."""
    stream, held, n_lines, is_first = file.stream(), b"", 0, True
    while data := stream.read(READ_BYTES):
        whole, feed, held = (held + data).rpartition(b"\n")
        if feed:
            n_lines += int(np.count_nonzero(np.frombuffer(whole, np.uint8) == FEED)) + 1
            whole += feed
            if is_first:
                end = whole.index(b"\n") + 1
                yield whole[:end].removeprefix(BOM)
                whole, is_first = whole[end:], False
            if whole:
                yield whole
        if len(held) > MAX_LINE:
            raise FormatError(
                f"{path}: line {n_lines + 1}: more than {MAX_LINE >> 20} MiB without a line feed: not a label CSV"
            )
    if held:
        yield held.removeprefix(BOM) if is_first else held


def _by_module(
    path: str, blocks: Iterator[bytes], delimiter: str, n_before: int, n_columns: int
) -> Iterator[tuple[int, list[str]]]:
    """Give (line, fields) of each record after the first `n_before` lines."""
    csv.field_size_limit(MAX_LINE * 2)
    texts = (block.decode("utf-8", "surrogateescape") for block in blocks)
    lines = (line + "\n" for text in texts for line in text.removesuffix("\n").split("\n"))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    blank = 0
    while True:
        start = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            line = n_before + max(start, reader.line_num)
            raise FormatError(f"{path}: line {line}: broken CSV: {error}") from error
        n_columns = n_columns or len(record)
        if not record and n_columns > 1:
            blank = blank or start
            continue
        if blank:
            raise FormatError(f"{path}: line {n_before + blank}: an empty line, expected {n_columns} fields")
        yield n_before + start, record or [""]
