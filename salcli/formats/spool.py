"""What comes through a pipe, stored in a temporary file so that it can be read twice."""

import contextlib
import shutil
import tempfile
from typing import IO, Any

from salcli.errors import FormatError
from salcli.formats.compression import PIECE


class _Piped:
    """A pipe, whose errors are distinguished from those of the temporary file that stores it."""

    def __init__(self, source: IO[bytes], name: str) -> None:
        self._source, self._name = source, name

    def read(self, size: int) -> bytes:
        try:
            return self._source.read(size)
        except OSError as error:
            raise FormatError(f"{self._name}: cannot be read: {error.strerror}") from error


def spooled_pipe(source: IO[bytes], name: str) -> IO[bytes]:
    """Return a temporary file with what comes through a pipe, so that it can be read twice.

    Parameters
    ----------
    source : the pipe
    name : of it, for messages

    Raises
    ------
    FormatError : the pipe cannot be read, or the file not be written
    """
    try:
        return _spooled(_Piped(source, name))
    except OSError as error:
        raise FormatError(
            f"{name}: cannot be kept in a temporary file in {tempfile.gettempdir()}: {error.strerror}"
        ) from error


def _spooled(source: Any) -> IO[bytes]:
    """Return an unnamed temporary file with the content of `source`, a file object.

    Raises
    ------
    OSError : it cannot be read, or the file not be written
    """
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    try:
        shutil.copyfileobj(source, spool, PIECE)
        spool.flush()
    except BaseException:
        with contextlib.suppress(OSError):
            spool.close()
        raise
    spool.seek(0)
    return spool
