"""All errors that a user can correct, their exit codes, and the one kind of warning.

Messages name parameters as Python writes them, in backquotes: `keys_file=FILE`, `by_row`. The command line shows the
flags instead.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class SalcliError(Exception):
    """An error that the user can correct. Shown as one line, without a traceback."""

    exit_code = 3  # 1 is kept for a failed gate, 2 for usage


class UsageError(SalcliError):
    """Parameters that contradict each other or are missing."""

    exit_code = 2


class ParameterError(UsageError):
    """A value that a parameter cannot take.

    Parameters
    ----------
    name : of the parameter, as Python writes it
    value : that it has
    why : what is wrong with the value, or what was expected
    """

    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(name, value, why)
        self.name, self.value, self.why = name, value, why

    def __str__(self) -> str:
        value = repr(self.value) if isinstance(self.value, str | tuple) else str(self.value)
        return f"{self.name} = {value}: {self.why}"


class ShapeError(SalcliError, ValueError):
    """An array and its keys or labels disagree."""


class FormatError(SalcliError):
    """A file is not what it should be: path, line or row, found and expected."""


class AlignmentError(SalcliError):
    """Labels and rows do not match: counts and the first three misses."""


class LabelError(SalcliError, ValueError):
    """Labels that no eraser can be fitted to: one class, two classes for one key, a missing column."""


class RankError(SalcliError, ValueError):
    """The rank of the cross-covariance is less than the number of directions that were requested."""


class RangeError(SalcliError):
    """A value that the output's number format cannot hold."""


class RowRangeError(RangeError):
    """Out-of-range value in one row of a batch; callers that have the file re-raise it with its name."""

    def __init__(self, row: int, why: str) -> None:
        """Name row `row` of a batch (its first is 0); `why` says what is wrong with it."""
        super().__init__(f"row {row}, {why}")
        self.row, self.why = row, why

    def __reduce__(self) -> tuple[type["RowRangeError"], tuple[int, str]]:
        return type(self), (self.row, self.why)  # pickled by other processes


class NotEnoughMemory(SalcliError):  # noqa: N818 (as in MemoryError, the name says what is wrong)
    """Work that does not fit into the memory of this machine: how much it takes, how much there is."""


class GateError(SalcliError):
    """A limit that nothing keeps: there is nothing to write."""

    exit_code = 1


class OutputError(SalcliError):
    """The output could not be written; an earlier file in its place is unchanged."""

    exit_code = 4


class ClusterError(SalcliError):
    """No cluster to work on: its scheduler or workers do not answer, or have another version."""

    exit_code = 4


class SalcliWarning(UserWarning):
    """A warning to the user; the command continues."""


_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


def warn(message: str) -> None:
    """Issue `message` as a `SalcliWarning`, attributed to the caller's caller."""
    found = _collected.get()
    if found is None:
        warnings.warn(message, SalcliWarning, stacklevel=3)
    else:
        found.append(message)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect what `warn` is called with in the block, on this thread, for another process to issue."""
    found = list[str]()
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def first_line(error: BaseException) -> str:
    """Return the first line of a library's `error`, for use inside one of our messages; its type if it is empty."""
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__


@contextmanager
def located(path: str) -> Iterator[None]:
    """Add the file `path` to errors in the block that name only a row or nothing.

    Raises
    ------
    RangeError, RankError : the message begins with `path`
    """
    try:
        yield
    except RowRangeError as error:
        raise RangeError(f"{path}: {error.why}") from error
    except RankError as error:
        raise RankError(f"{path}: {error}") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` for the one of `known` that is most like `name`, or "" where none is like it."""
    import difflib

    folded = {one.casefold(): one for one in known}
    close = difflib.get_close_matches(name.casefold(), folded, 1, 0.6)
    return f"; did you mean {folded[close[0]]}?" if close else ""
