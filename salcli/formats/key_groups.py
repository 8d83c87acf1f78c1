"""Groups of rows by key: in a CSV of their own, or in a dataset beside the rows."""

import itertools
import os
from dataclasses import dataclass, replace

from salcli.data.source import Source
from salcli.errors import FormatError, LabelError, ParameterError
from salcli.formats.gold_sets import column_of
from salcli.formats.label_table import read_labels
from salcli.formats.registry import named, opened_source
from salcli.formats.urls import is_url
from salcli.options import LabelOptions, ReadOptions


@dataclass(frozen=True)
class KeyGroups:
    """The group of each key; keys that are missing, or whose group is empty, have none."""

    path: str
    """Where they are from, for messages."""
    name: str
    """Of their column."""
    of: dict[str, str]


def read_key_groups(name: str, source: Source, read: ReadOptions) -> KeyGroups:
    """Read the group of each key.

    Parameters
    ----------
    name : a CSV with a key column, and `:COLUMN` behind it if it has several others; or the name of a list of strings
        in the file of the rows, one for each of them (the first row of a key has its group)
    source : the rows, which have keys
    read : how the source was opened

    Raises
    ------
    FormatError, LabelError : the file is no such CSV, or lacks the column
    ParameterError : there is no such file, and the file of the rows holds no other lists
    """
    path, column = column_of(name)
    if column is None and not (os.path.exists(path) or is_url(path)):
        return _beside(name, source, read)
    attributes = () if column is None else (column,)
    try:
        labels = read_labels(path, LabelOptions(attributes=attributes, no_split=column == "split"))
    except LabelError as error:  # there are no attributes here
        text = str(error).replace("`attributes`", "`groups=FILE:COLUMN`")
        raise LabelError(text.replace("the guarded attribute", "that of the groups")) from error
    (groups,) = labels.attributes
    if labels.keys is None:
        raise FormatError(f"{path}: no key column, expected one named word, key, id or token beside the groups")
    names = groups.classes or ()
    found = {key: names[code] for key, code in zip(labels.keys, groups.values.tolist(), strict=True) if code >= 0}
    return KeyGroups(path, groups.name, found)


def _beside(name: str, source: Source, read: ReadOptions) -> KeyGroups:
    if not named(source.format).holds_several_arrays:
        why = (
            f"no such file, and {source.path} holds no list of groups: expected a CSV of keys and groups, FILE[:COLUMN]"
        )
        raise ParameterError("groups", name, why)
    with opened_source(source.path, replace(read, keys_dataset=name, keys_file=None, keyed=None)) as other:
        pairs = zip(*(itertools.chain.from_iterable(s.key_batches()) for s in (source, other)), strict=True)
        found: dict[str, str] = {}
        for key, group in pairs:
            found.setdefault(key, group.strip())
    return KeyGroups(source.path, name.rpartition("/")[2], {key: group for key, group in found.items() if group})
