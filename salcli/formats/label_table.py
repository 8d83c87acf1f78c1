"""The label CSV (or table): which columns it has, and its rows as `GuardedLabels`."""

import csv
import itertools
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels
from salcli.errors import FormatError, LabelError, UsageError, warn
from salcli.formats.csv_records import Batch, csv_batches
from salcli.formats.files import ByteFile
from salcli.formats.label_columns import ClassColumn, Lines, RowNumbers, stripped
from salcli.formats.label_header import Columns, find_columns
from salcli.formats.repeated_keys import without_repeats
from salcli.formats.sniff import is_table
from salcli.options import LabelOptions

MISSING_NAMES = frozenset({"nan", "na", "n/a", "#n/a", "<na>", "null"})


@dataclass
class _Rows:
    """The columns as they are read, in a few bytes a row."""

    keys: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    index: RowNumbers | None = None
    lines: Lines = field(default_factory=Lines)
    classes: list[ClassColumn] = field(default_factory=list)
    numbers: "list[array[float]]" = field(default_factory=list)


def read_labels(
    path: str, options: LabelOptions | None = None, advance: Callable[[int], None] | None = None
) -> GuardedLabels:
    """Read a label CSV: UTF-8 or UTF-16, RFC 4180 quoting, delimiter `,` `;` or TAB found in the header line.

    A Parquet or Arrow file is read too: its columns that are no lists, class numbers by their names.

    A first column without a name holds row numbers, as pandas and R write them. Where no column joins by key, whether
    it says more than the order of the rows is decided when the embeddings are known (see `salcli.data.join`).

    Parameters
    ----------
    path : the file; may be compressed
    options : which columns mean what
    advance : called with how many bytes of the file each step has read

    Raises
    ------
    FormatError : not such a CSV; the message names the line
    LabelError : a column is missing, or a key occurs with two different labels
    """
    if path == "-":
        raise UsageError("labels are read more than once and cannot come from stdin: give a file")
    options = options or LabelOptions()
    columns, rows = _of_table(path, options, advance) or _of_csv(path, options, advance)
    of_columns = list(zip((columns.names[c] for c in columns.classes), rows.classes, strict=True))
    groups = _group_attribute(path, *of_columns.pop()) if columns.has_groups else None
    of_classes = [_class_attribute(path, name, rows, codes) for name, codes in of_columns]
    of_numbers = [
        _numeric_attribute(path, columns.names[c], rows, numbers)
        for c, numbers in zip(columns.numeric, rows.numbers, strict=True)
    ]
    task = of_classes.pop() if columns.has_task else None
    labels = GuardedLabels(
        path,
        (*of_classes, *of_numbers),
        None if columns.key is None else tuple(rows.keys),
        None if columns.split is None else tuple(rows.splits),
        None if columns.split is None else columns.names[columns.split],
        None if columns.key is None else "" if columns.key == columns.index else columns.names[columns.key],
        task,
        None if rows.index is None else rows.index.numbers(),
        groups,
    )
    return without_repeats(labels, rows.lines)


def _of_csv(path: str, options: LabelOptions, advance: Callable[[int], None] | None) -> tuple[Columns, _Rows]:
    with closing(csv_batches(path, advance=advance)) as batches:
        first = next(batches, None)
        if first is None:
            raise FormatError(f"{path}: no header line, expected column names")
        columns = find_columns(path, [cells[0] for cells in first.columns], options)
        below = Batch(first.lines[1:], [cells[1:] for cells in first.columns])
        return columns, _read_rows(path, itertools.chain([below], batches), columns, "line")


def _of_table(path: str, options: LabelOptions, advance: Callable[[int], None] | None) -> tuple[Columns, _Rows] | None:
    """Read the columns that are needed of a table; None if the file is none."""
    if not os.path.isfile(path):
        return None
    with closing(ByteFile.open(path, is_refused=False)) as file:
        if not is_table(file.head()):
            return None
        from salcli.formats.table_labels import LabelFile

        table = LabelFile(file)
        columns = find_columns(path, table.names, options, table.key_names)
        return columns, _read_rows(path, table.batches(columns.used, advance), columns, "row")


def _read_rows(path: str, batches: Iterable[Batch], columns: Columns, unit: str) -> _Rows:
    rows = _Rows(
        lines=Lines(unit),
        classes=[ClassColumn() for _ in columns.classes],
        numbers=[array("d") for _ in columns.numeric],
    )
    rows.index = None if columns.index is None else RowNumbers()
    for lines, cells in batches:
        rows.lines.extend(lines)
        if columns.key is not None:
            rows.keys.extend(cells[columns.key])
        if rows.index is not None and columns.index is not None:
            rows.index = _extended(path, rows.index, lines, cells[columns.index], is_key=columns.key is not None)
        if columns.split is not None:
            rows.splits.extend(stripped(cells[columns.split]))
        for classes, column in zip(rows.classes, columns.classes, strict=True):
            classes.add(cells[column])
        for numbers, column in zip(rows.numbers, columns.numeric, strict=True):
            name = columns.names[column]
            numbers.extend(
                _number(path, unit, line, name, cell) for line, cell in zip(lines, cells[column], strict=True)
            )
    if not len(rows.lines):
        raise FormatError(f"{path}: no rows below the header")
    if rows.index is not None and columns.key is not None:
        rows.keys = [str(number) for number in rows.index.numbers().tolist()]
    if "" in rows.keys:
        raise FormatError(f"{path}: {rows.lines.place(rows.keys.index(''))}: an empty key")
    return rows


def _extended(
    path: str, index: RowNumbers, lines: Sequence[int], cells: Sequence[str], *, is_key: bool
) -> RowNumbers | None:
    """Return row numbers with those of the next rows; None if some are none and are keys instead."""
    text = index.add(cells)
    if text is None or is_key:
        return index if text is None else None
    raise LabelError(
        f"{path}: line {lines[cells.index(text)]}: {text[:40]!r} in the first column, which has no name, is no row "
        "number: join by it with `key=''`, or by position with `by_row`"
    )


def _number(path: str, unit: str, line: int, name: str, cell: str) -> float:
    if not cell.strip():
        return math.nan
    value = math.nan
    with suppress(ValueError):
        value = float(cell) if "_" not in cell else math.nan
    if not math.isfinite(value):
        raise LabelError(f"{path}: {unit} {line}: {cell[:40]!r} in numeric column {name!r}, expected a finite number")
    return value


def _class_attribute(path: str, name: str, rows: _Rows, column: ClassColumn) -> Attribute:
    def place_of(cell: str) -> str:
        return rows.lines.place(int(np.argmax(column.codes == column.cells[cell])))

    trimmed = {cell: cell.strip() for cell in column.cells}
    spaced = [cell for cell, bare in trimmed.items() if cell != bare and bare]
    if spaced:
        shown = ", ".join(f"{cell!r} is {trimmed[cell]!r}" for cell in spaced[:3])
        warn(f"{path}: {place_of(spaced[0])}: spaces around labels in column {name!r} are trimmed ({shown})")
    undecoded = next((cell for cell in column.cells if any("\udc80" <= c <= "\udcff" for c in cell)), None)
    if undecoded is not None:
        text = ascii(undecoded[:40])
        raise FormatError(f"{path}: {place_of(undecoded)}: label {text} is not UTF-8: save the CSV as UTF-8")
    classes = tuple(sorted({bare for bare in trimmed.values() if bare}))
    if not classes:
        raise LabelError(f"{path}: column {name!r} is empty on all {len(column.codes):,} rows")
    _warn_of_twins(path, name, classes)
    class_codes = {bare: code for code, bare in enumerate(classes)}
    values = column.recoded([class_codes.get(bare, -1) for bare in trimmed.values()])
    if values.min() < 0:
        _warn_of_empty(path, name, values < 0, rows)
    return Attribute(name, values, classes)


def _group_attribute(path: str, name: str, column: ClassColumn) -> Attribute:
    """Return a column of groups; empty cells are none."""
    trimmed = {cell: cell.strip() for cell in column.cells}
    names = tuple(sorted({bare for bare in trimmed.values() if bare}))
    if not names:
        raise LabelError(f"{path}: column {name!r} (`groups`) is empty on all {len(column.codes):,} rows")
    codes = {bare: code for code, bare in enumerate(names)}
    return Attribute(name, column.recoded([codes.get(bare, -1) for bare in trimmed.values()]), names)


def _warn_of_twins(path: str, name: str, classes: Sequence[str]) -> None:
    """Warn of classes that look like missing labels, and of classes that differ only in case."""
    missing = [cell for cell in classes if cell.lower() in MISSING_NAMES]
    if missing:
        shown = ", ".join(map(repr, missing))
        are = "is a class like any other" if len(missing) == 1 else "are classes like any others"
        warn(f"{path}: column {name!r}: {shown} {are}, not missing labels, whose cells are empty")
    folded: dict[str, list[str]] = {}
    for cell in classes:
        folded.setdefault(cell.casefold(), []).append(cell)
    twins = [cells for text, cells in folded.items() if len(cells) > 1 and text not in MISSING_NAMES]
    if twins:
        more = f", and {len(twins) - 1} more such" if len(twins) > 1 else ""
        shown = " and ".join(map(repr, twins[0]))
        warn(f"{path}: column {name!r}: the classes {shown} differ only in case{more}; they are kept apart")


def _numeric_attribute(path: str, name: str, rows: _Rows, numbers: "array[float]") -> Attribute:
    values = np.array(numbers, dtype=np.float64)
    _warn_of_empty(path, name, np.isnan(values), rows)
    return Attribute(name, values, None)


def _warn_of_empty(path: str, name: str, is_empty: np.ndarray, rows: _Rows) -> None:
    if is_empty.any():
        first = int(np.argmax(is_empty))
        key = f", {rows.keys[first]!r}" if rows.keys else ""
        warn(
            f"{path}: {int(is_empty.sum())} rows unlabelled in column {name!r} "
            f"(empty cells, the first on {rows.lines.place(first)}{key})"
        )


def write_labels(handle: IO[str], columns: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    """Write a label CSV (RFC 4180 quoting, LF line ends).

    Parameters
    ----------
    handle : an open text file, with `newline=""`
    columns : their names
    rows : cells of each row
    """
    plain, quoted = (csv.writer(handle, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for row in itertools.chain([columns], rows):  # Python 3.11 quotes no CR by itself
        (quoted if any("\r" in cell for cell in row) else plain).writerow(row)


def file_name(path: str) -> str:
    """Return the last part of `path`: artifacts record that, so that they do not depend on folders."""
    return os.path.basename(path)
