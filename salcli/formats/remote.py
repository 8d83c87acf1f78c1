"""`RemoteFile`: a URL as a `ByteFile`, whose ranges are read as they are needed."""

import functools
import tempfile
from collections.abc import Callable
from typing import IO, Any

from salcli.errors import FormatError
from salcli.formats.compression import GREATEST_GROWTH, OPENERS, PIECE, Stream
from salcli.formats.files import ByteFile, changed
from salcli.formats.hash_as_read import HashAsRead
from salcli.formats.sniff import HEAD_BYTES
from salcli.formats.urls import Stored, read_range


class RemoteFile(ByteFile):
    """An object in a store. Formats that need a local file (`handle`) get a copy in an unnamed temporary file."""

    is_local = False

    def __init__(self, url: str) -> None:
        """Find the object.

        Parameters
        ----------
        url : of the object

        Raises
        ------
        UsageError : there is no such store
        FormatError : there is no such object, or it cannot be read
        """
        super().__init__(url)
        self._stored = Stored.of(url)
        self._n_bytes = self._stored.size
        self._hash: HashAsRead | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_hash": None}

    @property
    def place(self) -> str:
        """The URL, which is the same in all processes."""
        return self.name

    @property
    def size(self) -> int | None:
        """Bytes of the content, None where it is unknown before the end is read."""
        return self._n_bytes if self.is_plain else None

    @property
    def most_bytes(self) -> int:
        """More bytes than this the content cannot have."""
        return self._n_bytes * GREATEST_GROWTH.get(self.compression or "", 1)

    def stream(self) -> Stream:
        """Read the content from its first byte."""
        raw = _Ranges(self)
        if self.compression is None:
            return Stream(raw, self.name, "file")
        return Stream(OPENERS[self.compression](raw), self.name, self.compression)

    def hash_as_read(self, algorithm: str) -> bool:
        """Hash what is read from now on, so that it need not be read again (see `Reader.hash_as_read`)."""
        if self._hash is None or self._hash.algorithm != algorithm:
            self._hash = HashAsRead(algorithm, self._n_bytes, self._fetched)
        return True

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the object (see `Reader.digest`)."""
        if self._hash is None or self._hash.algorithm != algorithm:
            return super().digest(algorithm, is_wanted)
        return self._hash.finish(is_wanted)

    def require_unchanged(self) -> None:
        """Check that the store has the same object (see `ByteFile.require_unchanged`)."""
        if Stored.of(self.name, is_current=True) != self._stored:
            raise changed(self.name)

    def fill(self, view: memoryview, offset: int) -> int:
        """Read from a place into memory (see `ByteFile.fill`)."""
        data = self._read(len(view), offset)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close what there is on this machine: the copy, and what waits to be hashed."""
        super().close()
        self._handle = None
        if self._hash is not None:
            self._hash.close()

    def _read(self, size: int, offset: int) -> bytes:
        data = self._fetched(size, offset)
        if self._hash is not None:
            self._hash.add(data, offset)
        return data

    def _fetched(self, size: int, offset: int) -> bytes:
        if self._handle is not None:
            return super()._read(size, offset)
        stop = min(offset + size, self._n_bytes)
        if stop <= offset:
            return b""
        if stop <= HEAD_BYTES and self._stored.version is not None:
            return _head_of(self.name, self._stored)[offset:stop]
        return read_range(self.name, offset, stop)

    def _open_handle(self) -> IO[bytes]:
        stream = _Ranges(self)
        try:
            copy = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with this file)
            while piece := stream.read(PIECE):
                left = memoryview(piece)
                while len(left):
                    left = left[copy.write(left) :]
            return copy
        except OSError as error:
            folder = tempfile.gettempdir()
            raise FormatError(
                f"{self.name}: cannot be copied into a temporary file in {folder}: {error.strerror}"
            ) from error


@functools.lru_cache(64)
def _head_of(url: str, stored: Stored) -> bytes:
    """Return the beginning of an object, from which several readers see what it is; kept for the last few."""
    return read_range(url, 0, min(HEAD_BYTES, stored.size))


class _Ranges:
    """Reads an object in order."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._offset = file, 0

    def read(self, size: int) -> bytes:
        data = self._file.read_up_to(self._offset, size)
        self._offset += len(data)
        return data

    def close(self) -> None:
        """Do nothing."""
