"""Arrays beside the matrix in a file: which are copied, erased too, or left out."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from salcli.data.source import Source
from salcli.errors import ParameterError, UsageError, warn
from salcli.formats.keys import listed


@dataclass(frozen=True)
class Beside:
    """Arrays that are erased or left out instead of copied."""

    erased: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    """Matrices that are erased too, written after the main one in this order: name → dtype."""
    dropped: tuple[str, ...] = ()
    """Arrays, or groups of them, that are left out."""
    is_only: bool = False
    """Whether all else is left out."""

    def is_copied(self, name: str) -> bool:
        """Return whether the array called `name` is copied as it is."""
        is_dropped = any(name == one or name.startswith(f"{one}/") for one in self.dropped)
        return not self.is_only and name not in self.erased and not is_dropped


def resolve(source: Source, names: Sequence[str], option: str) -> list[str]:
    """Return the full names of arrays, or of groups of them, beside the matrix and its keys.

    Parameters
    ----------
    source : the input
    names : as the user wrote them
    option : by which they were set, for messages

    Raises
    ------
    UsageError : there is no such array; the message suggests another
    """
    if not names:
        return []
    known = source.shards[0].reader.innermost.companions()
    return [_resolved(source, name, known, option) for name in names]


def _resolved(source: Source, name: str, known: Mapping[str, Any], option: str) -> str:
    for full in (name, "/" + name.strip("/")):
        if full != "/" and any(one == full or one.startswith(f"{full}/") for one in known):
            return full
    if not known:
        raise ParameterError(option, name, f"{source.path} holds nothing beside the matrix and its keys")
    last = name.rpartition("/")[2].lower()
    alike = [one for one in known if one.rpartition("/")[2].lower() == last]
    close = alike or difflib.get_close_matches(name, known, 1)
    meant = f"did you mean {close[0]}?" if close else f"it holds {listed([*known])}"
    raise ParameterError(option, name, f"{source.path} has no dataset of that name beside the matrix: {meant}")


def warn_of_rest(target: str, source: Source, beside: Beside, *, is_same_format: bool) -> None:
    """Warn of arrays beside the matrix that are not copied, that keep rows which are dropped, or that may leak.

    Parameters
    ----------
    target : the output, for messages
    source : the input
    beside : arrays that are erased or left out instead of copied
    is_same_format : whether the output has the input's format
    """
    if len(source.shards) > 1:
        return
    reader = source.shards[0].reader.innermost
    companions = reader.companions()
    left = [name for name in companions if beside.is_copied(name)]
    if left and not is_same_format:
        warn(f"{target}: this format holds the matrix and its keys only; left behind: {listed(left)}")
        return
    if left and source.n_dropped and not reader.has_columns:
        warn(
            f"{target}: {source.n_dropped} rows are dropped from the matrix, but not from what is copied beside it: "
            f"{listed(left)}"
        )
    if of_rows := [name for name in left if companions[name][:1] == (source.n_all,)]:
        ways = "`drop` or `only`" if reader.has_columns else "`erase_also`, `drop` or `only`"
        warn(
            f"{target}: arrays of the same rows are copied unchanged, with the attribute if they encode it: "
            f"{listed(of_rows)} ({ways})"
        )


def require_same_format(beside: Beside, source: Source, format_name: str) -> None:
    """Check that an output which holds more matrices than one has the input's format.

    Parameters
    ----------
    beside : arrays that are erased or left out instead of copied
    source : the input
    format_name : of the output

    Raises
    ------
    UsageError : the output's format is not the input's
    """
    if beside.erased and format_name != source.format:
        raise UsageError(
            f"`erase_also`: only an output of the input's format, {source.format}, holds more than the matrix, "
            f"and this one is {format_name}"
        )
