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
from salcli.formats.label_files import label_files
from salcli.formats.label_header import Columns, find_columns
from salcli.formats.repeated_keys import without_repeats
from salcli.formats.shards import plain_name
from salcli.formats.sniff import is_table
from salcli.formats.urls import is_url
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
    first: tuple[str, tuple[str, ...]] = ("", ())
    """The first file, and its columns."""
    may_be_empty: bool = False
    """Whether a file may have no rows, as one of several."""

    def begin(self, path: str, columns: Columns, unit: str) -> None:
        """Start with the first file (see `Lines` for the unit)."""
        self.first, self.lines.unit = (path, columns.chosen), unit
        self.classes = [ClassColumn() for _ in columns.classes]
        self.numbers = [array("d") for _ in columns.numeric]
        self.index = None if columns.index is None else RowNumbers()

    def require_alike(self, path: str, columns: Columns) -> None:
        """Check that the next file's columns are those of the first.

        Raises
        ------
        LabelError : they are not
        """
        if self.first[1] != columns.chosen:
            found, expected = (", ".join(map(repr, names)) for names in (columns.chosen, self.first[1]))
            raise LabelError(
                f"{path}: the columns of row numbers, keys, split and labels are {found}, but {expected} in "
                f"{self.first[0]}"
            )


def read_labels(
    path: str, options: LabelOptions | None = None, advance: Callable[[int], None] | None = None
) -> GuardedLabels:
    """Read a label CSV: UTF-8 or UTF-16, RFC 4180 quoting, delimiter `,` `;` or TAB found in the header line.

    A Parquet or Arrow file is read too: its columns that are no lists, class numbers by their names. Of a folder or a
    glob, the files follow each other in natural order, as the shards of the embeddings do.

    A first column without a name holds row numbers, as pandas and R write them. Where no column joins by key, whether
    it says more than the order of the rows is decided when the embeddings are known (see `salcli.data.join`).

    Parameters
    ----------
    path : the file, or a folder or glob of files (see `label_files`); each may be compressed
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
    files = label_files(path)
    path, rows, columns = (path if files == [path] else plain_name(path)), _Rows(), None
    rows.may_be_empty = options.may_be_empty or len(files) > 1
    for file in files:
        if len(files) > 1:
            rows.lines.begin(file)
        found = _of_table(file, options, rows, advance) or _of_csv(file, options, rows, advance)
        columns = columns or found
    assert columns is not None
    if not len(rows.lines) and not options.may_be_empty:
        raise FormatError(f"{path}: no rows below the headers of its {len(files)} files")
    _settle_index(rows, columns)
    of_columns = list(zip((columns.names[c] for c in columns.classes), rows.classes, strict=True))
    groups = None
    if columns.has_groups:
        groups = _group_attribute(path, *of_columns.pop(), may_be_empty=not len(rows.lines))
    of_classes = [
        _class_attribute(path, name, rows, codes, may_be_empty=options.may_be_empty) for name, codes in of_columns
    ]
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
        rows.lines.parts,
        options.why_by_row,
    )
    return without_repeats(labels, rows.lines)


def _of_csv(path: str, options: LabelOptions, rows: _Rows, advance: Callable[[int], None] | None) -> Columns:
    """Add the rows of a CSV to `rows`, and return its columns."""
    encoded = set[int]()
    with closing(csv_batches(path, advance=advance, encoded=encoded)) as batches:
        first = next(batches, None)
        if first is None:
            raise FormatError(f"{path}: no header line, expected column names")
        columns = find_columns(path, [cells[0] for cells in first.columns], options)
        encoded.update(columns.classes, () if columns.split is None else (columns.split,))
        below = Batch(first.lines[1:], [cells[1:] for cells in first.columns])
        _read_rows(path, itertools.chain([below], batches), columns, "line", rows)
        return columns


def _of_table(path: str, options: LabelOptions, rows: _Rows, advance: Callable[[int], None] | None) -> Columns | None:
    """Add the rows of a table to `rows`, and return its columns; None if the file is none."""
    if not (os.path.isfile(path) or is_url(path)):
        return None
    with closing(ByteFile.open(path, is_refused=False)) as file:
        if not is_table(file.head()):
            return None
        from salcli.formats.table_labels import LabelFile

        table = LabelFile(file)
        table.require_flat(options)
        columns = find_columns(path, table.names, options, table.key_names)
        _read_rows(path, table.batches(columns.used, advance), columns, "row", rows)
        file.require_unchanged()
        return columns


def _read_rows(path: str, batches: Iterable[Batch], columns: Columns, unit: str, rows: _Rows) -> None:
    """Add the rows of a file to `rows`, those of the files before it."""
    first = len(rows.lines)
    if rows.first[0]:
        rows.require_alike(path, columns)
    else:
        rows.begin(path, columns, unit)
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
    if len(rows.lines) == first and not rows.may_be_empty:
        raise FormatError(f"{path}: no rows below the header")
    with suppress(ValueError):
        raise FormatError(f"{path}: {unit} {rows.lines[rows.keys.index('', first)]}: an empty key")


def _settle_index(rows: _Rows, columns: Columns) -> None:
    """Take row numbers in a column without a name as keys, if they join; of several files, leave others out.

    Raises
    ------
    LabelError : several files have numbers that do not join and do not just count their rows
    """
    if rows.index is None or (columns.key is None and not rows.lines.parts):
        return
    numbers, first = rows.index.numbers(), 0
    if columns.key is not None:
        rows.keys = [str(number) for number in numbers.tolist()]
        return
    for file, n in rows.lines.parts:
        part, counted = numbers[first : first + n], np.arange(n)
        if not any(np.array_equal(part, counted + start) for start in (0, 1, first)):
            raise LabelError(
                f"{file}: the first column has no name and holds numbers that do not count its rows: join by position "
                "with `by_row`, or by numbers that count through all files with `key=''`"
            )
        first += n
    rows.index = None


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


def _class_attribute(
    path: str, name: str, rows: _Rows, column: ClassColumn, *, may_be_empty: bool = False
) -> Attribute:
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
        expected = ", expected text" if rows.lines.unit == "row" else ": save the CSV as UTF-8"
        raise FormatError(f"{path}: {place_of(undecoded)}: label {text} is not UTF-8{expected}")
    classes = tuple(sorted({bare for bare in trimmed.values() if bare}))
    if not classes and not may_be_empty:
        raise LabelError(f"{path}: column {name!r} is empty on all {len(column.codes):,} rows")
    _warn_of_twins(path, name, classes)
    class_codes = {bare: code for code, bare in enumerate(classes)}
    values = column.recoded([class_codes.get(bare, -1) for bare in trimmed.values()])
    if len(values) and values.min() < 0:
        _warn_of_empty(path, name, values < 0, rows)
    return Attribute(name, values, classes)


def _group_attribute(path: str, name: str, column: ClassColumn, *, may_be_empty: bool) -> Attribute:
    """Return a column of groups; empty cells are none."""
    trimmed = {cell: cell.strip() for cell in column.cells}
    names = tuple(sorted({bare for bare in trimmed.values() if bare}))
    if not names and not may_be_empty:
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
