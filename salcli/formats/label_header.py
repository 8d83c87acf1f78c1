"""Which columns of a label CSV mean what, found by their names and the options."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from salcli.errors import FormatError, LabelError, ParameterError, UsageError, did_you_mean
from salcli.formats.sniff import looks_like_vectors
from salcli.options import LabelOptions

KEY_NAMES = frozenset({"word", "key", "id", "token"})
SPLIT_NAME = "split"
PANDAS_INDEX = re.compile(
    r"|Unnamed: \d+(\.\d+)?"
)  # what its index is called when written, and when read and written again


@dataclass(frozen=True)
class Columns:
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
    def chosen(self) -> tuple[str, ...]:
        """Names of the columns that are read, each in its role."""
        positions = (self.index, self.key, self.split, *self.classes, *self.numeric)
        return tuple("none" if position is None else self.names[position] for position in positions)

    @property
    def used(self) -> set[int]:
        """Positions of all columns that are read."""
        found = {self.key, self.split, self.index, *self.classes, *self.numeric}
        return {position for position in found if position is not None}


def _require_distinct(path: str, requested: Sequence[str]) -> None:
    again = [name for name in requested if requested.count(name) > 1]
    if again:
        raise UsageError(f"{path}: column {again[0]!r} is requested twice (`attributes`, `numeric`)")


def _require_names(
    path: str, names: Sequence[str], options: LabelOptions, index: int | None, *, is_table: bool
) -> None:
    is_named = set(names) <= {*options.attributes, *options.numeric}
    if len(names) == 1 and looks_like_vectors(names[0]) and not is_named and not is_table:
        raise FormatError(
            f"{path}: line 1: {names[0][:40]!r} begins a file of vectors, expected the column names of a CSV: "
            "are two files in the wrong order? (If it is a name: `attributes`)"
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice or "" in names[0 if index is None else 1 :]:
        fault = f"column {twice[0][:40]!r} occurs twice" if twice and twice[0] else "a column has no name"
        where, what = ("", "table") if is_table else ("line 1: ", "header")
        raise FormatError(f"{path}: {where}{fault} in the {what} ({_listed(names)})")


def find_columns(
    path: str, header: Sequence[str], options: LabelOptions, key_names: Sequence[str] | None = None
) -> Columns:
    """Return which columns are which; of several that are named as the keys of a table, `key_names`, one goes first.

    Parameters
    ----------
    path : of the file, for messages
    header : names of the columns
    options : which columns mean what
    key_names : of a table; None: the file is a CSV
    """
    is_table, key_names = key_names is not None, key_names or ()
    _require_distinct(path, (*options.attributes, *options.numeric))
    names = tuple(name.strip() for name in header)
    requested = (*options.attributes, *options.numeric, options.split_column, options.task, options.groups)
    has_index = len(names) > 1 and PANDAS_INDEX.fullmatch(names[0]) is not None and names[0] not in requested
    index = 0 if has_index else None
    _require_names(path, names, options, index, is_table=is_table)

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
        classes = (_only_column(path, names, taken, is_table=is_table),)
    joins_by_index = has_index and not options.by_row and key in (None, 0)
    index = 0 if joins_by_index else None
    return Columns(names, key, split, (*classes, *task, *groups), numeric, bool(task), bool(groups), index)


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


def _only_column(path: str, names: Sequence[str], taken: set[int | None], *, is_table: bool) -> int:
    """Return the only column that is not taken, and not called as keys are."""
    free = [
        i
        for i, name in enumerate(names)
        if i not in taken and name.lower() not in KEY_NAMES and not PANDAS_INDEX.fullmatch(name)
    ]
    if len(free) != 1:
        which = f"one of {_listed([names[i] for i in free])}?" if free else "none is left."
        header = "Its columns of labels are" if is_table else "Line 1 is taken as the header, it has"
        shown = f"{header} {_listed(names)}" if names else "It has no columns of labels"
        raise LabelError(f"{path}: which column is the guarded attribute? {which} {shown}: choose with `attributes`")
    return free[0]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in names[:20]) + (" …" if len(names) > 20 else "")
