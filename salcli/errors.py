"""The one family of errors a user can put right, their exit codes, and the one kind of warning."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class SalcliError(Exception):
    """Anything the user can put right. Shown as one line, never as a traceback."""

    exit_code = 3  # 1 is kept for a failed gate, 2 for usage


class UsageError(SalcliError):
    """Options that contradict each other, or a value out of its range."""

    exit_code = 2


class ParameterError(UsageError):
    """A parameter whose value is out of its range, in the caller's words: a name and a value."""

    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(f"{name} = {value}: {why}")
        self.name, self.value, self.why = name, value, why


class ShapeError(SalcliError):
    """An array and its keys or labels disagree."""


class FormatError(SalcliError):
    """A file is not what it should be: path, line or row, found and expected."""


class AlignmentError(SalcliError):
    """Keys and labels do not meet: counts and the first three misses."""


class LabelError(SalcliError):
    """Labels that cannot guide an eraser: one class, two classes for one key, a missing column."""


class RankError(SalcliError):
    """The cross-covariance does not carry the directions that were asked for."""


class RangeError(SalcliError):
    """A value that the output's number format cannot hold."""


class RowRangeError(RangeError):
    """Such a value in one row of a batch. Who knows which file the batch is of, and from where, says so instead."""

    def __init__(self, row: int, told: str) -> None:
        """Take the row, counted from the batch's first, and what is wrong with it."""
        super().__init__(f"row {row}, {told}")
        self.row, self.told = row, told


class RoomError(SalcliError):
    """Work that this machine's memory cannot hold: how much it takes, how much there is."""


class OutputError(SalcliError):
    """The output could not be written; what was there before still is."""

    exit_code = 4


class SalcliWarning(UserWarning):
    """Something the user should know, though the work goes on."""


def warn(message: str) -> None:
    """Issue `message` as a `SalcliWarning`, attributed to the caller's caller."""
    warnings.warn(message, SalcliWarning, stacklevel=3)


def first_line(error: BaseException) -> str:
    """Give the first line of a library's message, for use inside one of ours; its type if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__


@contextmanager
def located(path: str) -> Iterator[None]:
    """Name the file in errors that know a row of some of its rows, or no place at all.

    Raises
    ------
    RangeError, RankError : the message begins with `path`
    """
    try:
        yield
    except RowRangeError as error:
        raise RangeError(f"{path}: {error.told}") from error
    except RankError as error:
        raise RankError(f"{path}: {error}") from error
