"""CSV records with the line each began on: UTF-8, RFC 4180 quoting, rows that end at LF alone, bounded memory."""

import csv
import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from salcli.errors import FormatError
from salcli.formats.bytefile import ByteFile

DELIMITERS = ",;\t"
MAX_LINE = 1 << 20
READ_BYTES = 1 << 18  # cells of a few letters take many times as much as strings
RECORDS_AT_ONCE = 4096
BOM = b"\xef\xbb\xbf"


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
        blocks = _blocks(path, file)
        first = next(blocks, None)
        if first is None:
            return
        delimiter = max(DELIMITERS, key=first.partition("\n")[0].count)
        number = n_columns = 0
        for text in itertools.chain([first], blocks):
            n_columns = n_columns or text.partition("\n")[0].count(delimiter) + 1
            batch = _plain(text, delimiter, number, n_columns)
            if batch is None:
                rest = _by_module(path, itertools.chain([text], blocks), delimiter, number, n_columns if number else 0)
                yield from _batched(path, rest, n_columns if number else 0)
                return
            yield batch
            number += len(batch.lines)


def _plain(text: str, delimiter: str, n_before: int, n_columns: int) -> Batch | None:
    """Cut lines that need no more than cutting, all of one width; None if there are others."""
    if '"' in text or "\r" in text or text.startswith("\n") or "\n\n" in text:
        return None
    text = text.removesuffix("\n")
    marks = np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)
    marks = marks[(marks == ord("\n")) | (marks == ord(delimiter))]
    n_lines = int(np.count_nonzero(marks == ord("\n"))) + 1
    if len(marks) + 1 != n_lines * n_columns or not (marks[n_columns - 1 :: n_columns] == ord("\n")).all():
        return None
    cells = text.replace("\n", delimiter).split(delimiter)
    return Batch(range(n_before + 1, n_before + 1 + n_lines), [cells[i::n_columns] for i in range(n_columns)])


def _batched(path: str, records: Iterator[tuple[int, list[str]]], n_columns: int) -> Iterator[Batch]:
    while some := list(itertools.islice(records, RECORDS_AT_ONCE)):
        n_columns = n_columns or len(some[0][1])
        for line, record in some:
            if len(record) != n_columns:
                raise FormatError(f"{path}: line {line}: {len(record)} fields, the header has {n_columns}")
        yield Batch([line for line, _ in some], list(zip(*(record for _, record in some), strict=True)))


def _blocks(path: str, file: ByteFile) -> Iterator[str]:
    """Give complete lines, many at a time; only the last may lack its line feed."""
    stream, held, n_lines, is_first = file.stream(), b"", 0, True
    while data := stream.read(READ_BYTES):
        whole, feed, held = (held + data).rpartition(b"\n")
        if feed:
            n_lines += whole.count(b"\n") + 1
            yield _decoded(whole + feed, is_first=is_first)
            is_first = False
        if len(held) > MAX_LINE:
            raise FormatError(
                f"{path}: line {n_lines + 1}: more than {MAX_LINE >> 20} MiB without a line feed: not a label CSV"
            )
    if held:
        yield _decoded(held, is_first=is_first)


def _decoded(block: bytes, *, is_first: bool) -> str:
    return (block.removeprefix(BOM) if is_first else block).decode("utf-8", "surrogateescape")


def _by_module(
    path: str, blocks: Iterator[str], delimiter: str, n_before: int, n_columns: int
) -> Iterator[tuple[int, list[str]]]:
    """Give (line, fields) of each record after the first `n_before` lines."""
    csv.field_size_limit(MAX_LINE * 2)
    lines = (line + "\n" for text in blocks for line in text.removesuffix("\n").split("\n"))
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
