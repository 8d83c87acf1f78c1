"""The label CSV (or table): which columns it has, and its rows as `GuardedLabels`."""

import csv
import itertools
import math
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels
from salcli.errors import FormatError, LabelError, ParameterError, UsageError, did_you_mean, warn
from salcli.formats.csv_records import Batch, csv_batches
from salcli.formats.files import ByteFile
from salcli.formats.label_columns import ClassColumn, Lines, RowNumbers, stripped
from salcli.formats.sniff import is_table, looks_like_vectors
from salcli.formats.urls import is_url
from salcli.options import LabelOptions

KEY_NAMES = frozenset({"word", "key", "id", "token"})
SPLIT_NAME = "split"
PANDAS_INDEX = re.compile(
    r"|Unnamed: \d+(\.\d+)?"
)  # what its index is called when written, and when read and written again
MISSING_NAMES = frozenset({"nan", "na", "n/a", "#n/a", "<na>", "null"})


@dataclass(frozen=True)
class _Columns:
    """Positions of the columns in a line."""

    names: tuple[str, ...]
    key: int | None
    split: int | None
    classes: tuple[int, ...]
    """Guarded ones; after them, if there are any, that of the main task and that of groups."""
    numeric: tuple[int, ...]
    has_task: bool
    has_groups: bool
    index: int | None = None
    """A first column without a name, as pandas and R write their row names."""

    @property
    def used(self) -> set[int]:
        """Positions of all columns that are read."""
        found = {self.key, self.split, self.index, *self.classes, *self.numeric}
        return {position for position in found if position is not None}


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
    return _without_repeats(labels, rows.lines)


def _of_csv(path: str, options: LabelOptions, advance: Callable[[int], None] | None) -> tuple[_Columns, _Rows]:
    with closing(csv_batches(path, advance=advance)) as batches:
        first = next(batches, None)
        if first is None:
            raise FormatError(f"{path}: no header line, expected column names")
        columns = _find_columns(path, [cells[0] for cells in first.columns], options)
        below = Batch(first.lines[1:], [cells[1:] for cells in first.columns])
        return columns, _read_rows(path, itertools.chain([below], batches), columns, "line")


def _of_table(path: str, options: LabelOptions, advance: Callable[[int], None] | None) -> tuple[_Columns, _Rows] | None:
    """Read the columns that are needed of a table; None if the file is none."""
    if not (os.path.isfile(path) or is_url(path)):
        return None
    with closing(ByteFile.open(path, is_refused=False)) as file:
        if not is_table(file.head()):
            return None
        from salcli.formats.table_labels import LabelFile

        table = LabelFile(file)
        columns = _find_columns(path, table.names, options, table.key_names)
        return columns, _read_rows(path, table.batches(columns.used, advance), columns, "row")


def _require_distinct(path: str, requested: Sequence[str]) -> None:
    again = [name for name in requested if requested.count(name) > 1]
    if again:
        raise UsageError(f"{path}: column {again[0]!r} is requested twice (`attributes`, `numeric`)")


def _require_names(path: str, names: Sequence[str], options: LabelOptions, index: int | None) -> None:
    is_named = set(names) <= {*options.attributes, *options.numeric}
    if len(names) == 1 and looks_like_vectors(names[0]) and not is_named:
        raise FormatError(
            f"{path}: line 1: {names[0][:40]!r} begins a file of vectors, expected the column names of a CSV: "
            "are two files in the wrong order? (If it is a name: `attributes`)"
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice or "" in names[0 if index is None else 1 :]:
        fault = f"column {twice[0][:40]!r} occurs twice" if twice and twice[0] else "a column has no name"
        raise FormatError(f"{path}: line 1: {fault} in the header ({_listed(names)})")


def _find_columns(path: str, header: Sequence[str], options: LabelOptions, key_names: Sequence[str] = ()) -> _Columns:
    """Return which columns are which; of several that are named as the keys of a table, `key_names`, one goes first."""
    _require_distinct(path, (*options.attributes, *options.numeric))
    names = tuple(name.strip() for name in header)
    requested = (*options.attributes, *options.numeric, options.split_column, options.task, options.groups)
    has_index = len(names) > 1 and PANDAS_INDEX.fullmatch(names[0]) is not None and names[0] not in requested
    index = 0 if has_index else None
    _require_names(path, names, options, index)

    def at(name: str, option: str) -> int:
        if name not in names:
            raise LabelError(_no_column(path, names, name, option, options))
        return names.index(name)

    first_key = next((names.index(name) for name in key_names if name in names and name not in requested), None)
    key = (
        _key_column(path, names, index, options, at)
        if first_key is None or options.key or options.by_row
        else first_key
    )
    is_asked = options.split_column in names or not options.may_lack_split
    split = at(options.split_column, "split_column") if options.split_column is not None and is_asked else None
    if split is None and not options.no_split and SPLIT_NAME in names and SPLIT_NAME not in options.attributes:
        split = names.index(SPLIT_NAME)
    numeric = tuple(at(name, "numeric") for name in options.numeric)
    classes = tuple(at(name, "attributes") for name in options.attributes)
    task = () if options.task is None else (at(options.task, "task"),)
    if set(task) & {key, split}:
        raise ParameterError("task", options.task, "that column is the key or the split")
    groups = () if options.groups is None else (at(options.groups, "groups"),)
    if set(groups) & {key, split}:
        raise ParameterError("groups", options.groups, "that column is the key or the split")
    if not classes and not numeric:
        taken = {key, *task, *groups, split, index, *(names.index(name) for name in key_names if name in names)}
        classes = (_only_column(path, names, taken),)
    joins_by_index = has_index and not options.by_row and key in (None, 0)
    index = 0 if joins_by_index else None
    return _Columns(names, key, split, (*classes, *task, *groups), numeric, bool(task), bool(groups), index)


def _key_column(
    path: str, names: Sequence[str], index: int | None, options: LabelOptions, at: Callable[[str, str], int]
) -> int | None:
    """Return the column that joins by key, or None: rows join by position, or by the column without a name."""
    if options.key is not None:
        if index is not None and options.key in ("", names[index]):
            return index
        if options.key == "":
            raise LabelError(f"{path}: `key=''` joins by a first column without a name; it has {_listed(names)}")
        return at(options.key, "key")
    if options.by_row:
        return None
    keys = [i for i, name in enumerate(names) if name.lower() in KEY_NAMES and name not in options.attributes]
    if len(keys) > 1:
        raise LabelError(f"{path}: several key columns, {_listed([names[i] for i in keys])}: choose one with `key`")
    return keys[0] if keys else None


def _no_column(path: str, names: Sequence[str], name: str, option: str, options: LabelOptions) -> str:
    """Return the message on a column that is not there."""
    message = f"{path}: no column {name!r} ({options.named_by(option)}); it has {_listed(names)}"
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= set(names) and option in ("attributes", "numeric"):
        return f"{message}; of several columns, each is named by itself: repeat the option"
    return message + did_you_mean(name, names)


def _only_column(path: str, names: Sequence[str], taken: set[int | None]) -> int:
    """Return the only column that is not taken, and not called as keys are."""
    free = [
        i
        for i, name in enumerate(names)
        if i not in taken and name.lower() not in KEY_NAMES and not PANDAS_INDEX.fullmatch(name)
    ]
    if len(free) != 1:
        which = f"one of {_listed([names[i] for i in free])}?" if free else "none is left."
        raise LabelError(
            f"{path}: which column is the guarded attribute? {which} Line 1 is taken as the header, it has "
            f"{_listed(names)}: choose with `attributes`"
        )
    return free[0]


def _read_rows(path: str, batches: Iterable[Batch], columns: _Columns, unit: str) -> _Rows:
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


def _without_repeats(labels: GuardedLabels, lines: Lines) -> GuardedLabels:
    """Return the labels, of equal ones for one key the first; different labels for one key raise."""
    if labels.keys is None or _are_distinct(labels.keys):
        return labels
    first: dict[str, int] = {}
    kept = []
    again = None
    for i, key in enumerate(labels.keys):
        j = first.setdefault(key, i)
        if j == i:
            kept.append(i)
            continue
        again = again or f"{key[:40]!r} on {lines.unit}s {lines[j]} and {lines[i]}"
        for attribute in (*labels.attributes, *(a for a in (labels.task, labels.groups) if a is not None)):
            one, other = attribute.values[j], attribute.values[i]
            if one != other and not (attribute.classes is None and np.isnan(one) and np.isnan(other)):
                raise LabelError(
                    f"{labels.path}: key {key!r} is {_shown(attribute, j)} on {lines.place(j)} "
                    f"and {_shown(attribute, i)} on {lines.place(i)}"
                )
        if labels.splits is not None and labels.splits[i] != labels.splits[j]:
            raise LabelError(
                f"{labels.path}: key {key!r} is in {labels.splits[j]!r} on {lines.place(j)} "
                f"and in {labels.splits[i]!r} on {lines.place(i)}"
            )
    n_again = len(labels.keys) - len(kept)
    which = again if n_again == 1 else f"{again} among them"
    warn(f"{labels.path}: {n_again:,} keys occur twice with the same label ({which}); the first is used")
    index = np.array(kept)
    task, groups = labels.task, labels.groups
    return GuardedLabels(
        labels.path,
        tuple(Attribute(a.name, a.values[index], a.classes) for a in labels.attributes),
        tuple(labels.keys[i] for i in kept),
        None if labels.splits is None else tuple(labels.splits[i] for i in kept),
        labels.split_column,
        labels.key_column,
        None if task is None else Attribute(task.name, task.values[index], task.classes),
        None if labels.index is None else labels.index[index],
        None if groups is None else Attribute(groups.name, groups.values[index], groups.classes),
    )


def _are_distinct(keys: Sequence[str]) -> bool:
    """Return whether no key occurs twice; sorting their hashes is faster than filling a set with millions of them."""
    hashes = np.sort(np.fromiter(map(hash, keys), np.int64, len(keys)))
    return bool(np.all(hashes[1:] != hashes[:-1])) or len(set(keys)) == len(keys)


def _shown(attribute: Attribute, index: int) -> str:
    value = attribute.values[index]
    if attribute.classes is None:
        return repr(float(value))
    return repr(attribute.classes[int(value)]) if value >= 0 else "unlabelled"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in names[:20]) + (" …" if len(names) > 20 else "")


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
