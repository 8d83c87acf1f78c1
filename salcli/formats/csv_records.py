"""CSV records with the line each began on: UTF-8, RFC 4180 quoting, rows that end at LF alone, bounded memory."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager

from salcli.errors import FormatError
from salcli.formats.bytefile import ByteFile

DELIMITERS = ",;\t"
MAX_LINE = 1 << 20


@contextmanager
def opened_lines(path: str) -> Iterator[Iterator[str]]:
    """Give the file's lines, each ended by LF alone, none longer than `MAX_LINE`."""
    file = ByteFile.open(path)
    try:
        yield _bounded_lines(path, file)
    finally:
        file.close()


def _bounded_lines(path: str, file: ByteFile) -> Iterator[str]:
    stream, held, number = file.stream(), b"", 0
    while data := stream.read(MAX_LINE):
        *whole, held = (held + data).split(b"\n")
        for line in whole:
            number += 1
            yield _line(line, number) + "\n"
        if len(held) > MAX_LINE:
            raise FormatError(
                f"{path}: line {number + 1}: more than {MAX_LINE >> 20} MiB without a line feed: not a label CSV"
            )
    if held:
        yield _line(held, number + 1)


def _line(line: bytes, number: int) -> str:
    return (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode("utf-8", "surrogateescape")


def csv_records(path: str, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Give (line, fields) for each record; a blank line in a CSV of several columns may only stand at the end."""
    try:
        first = next(lines)
    except StopIteration:
        return
    delimiter = max(DELIMITERS, key=first.count)
    csv.field_size_limit(MAX_LINE * 2)
    reader = csv.reader(_chained(first, lines), delimiter=delimiter, strict=True)
    blank, n_columns = 0, 0
    while True:
        start = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise FormatError(f"{path}: line {max(start, reader.line_num)}: broken CSV: {error}") from error
        n_columns = n_columns or len(record)
        if not record and n_columns > 1:
            blank = blank or start
            continue
        if blank:
            raise FormatError(f"{path}: line {blank}: an empty line, expected {n_columns} fields")
        yield start, record or [""]


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
