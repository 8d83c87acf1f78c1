"""Streams in unnamed temporary files, where they can be read at any place."""

import contextlib
import shutil
import tempfile
from typing import IO, Any

from salcli.errors import FormatError

PIECE = 1 << 20


class _Piped:
    """A pipe, whose own faults are not taken for those of the file it is kept in."""

    def __init__(self, source: IO[bytes], name: str) -> None:
        self._source, self._name = source, name

    def read(self, size: int) -> bytes:
        try:
            return self._source.read(size)
        except OSError as error:
            raise FormatError(f"{self._name}: cannot be read: {error.strerror}") from error


def kept(source: IO[bytes], name: str) -> IO[bytes]:
    """Keep what comes through a pipe in a temporary file, so that it can be read twice.

    Raises
    ------
    FormatError : the pipe cannot be read, or the file not be written
    """
    try:
        return spooled(_Piped(source, name))
    except OSError as error:
        raise FormatError(
            f"{name}: cannot be kept in a temporary file in {tempfile.gettempdir()}: {error.strerror}"
        ) from error


def spooled(source: Any) -> IO[bytes]:
    """Copy a stream into an unnamed temporary file."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (closed by whoever asked for it)
    try:
        shutil.copyfileobj(source, spool, PIECE)
        spool.flush()
    except BaseException:
        with contextlib.suppress(OSError):
            spool.close()
        raise
    spool.seek(0)
    return spool
