"""`RemoteFile`: a URL as a `ByteFile`, whose ranges are read as they are needed."""

import tempfile
from typing import IO

from salcli.errors import FormatError
from salcli.formats.compression import GREATEST_GROWTH, OPENERS, PIECE, Stream
from salcli.formats.files import ByteFile
from salcli.formats.urls import located, reading


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
        system, path = located(url)
        with reading(url):
            about = system.info(path)
        if about.get("type") != "file" or about.get("size") is None:
            raise FormatError(f"{url}: is no object of known size, expected an embedding file")
        self._n_bytes = int(about["size"])

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

    def fill(self, view: memoryview, offset: int) -> int:
        """Read from a place into memory (see `ByteFile.fill`)."""
        data = self._read(len(view), offset)
        view[: len(data)] = data
        return len(data)

    def _read(self, size: int, offset: int) -> bytes:
        stop = min(offset + size, self._n_bytes)
        if stop <= offset:
            return b""
        system, path = located(self.name)
        with reading(self.name):
            data: bytes = system.cat_file(path, start=offset, end=stop)
        return data

    def _open_handle(self) -> IO[bytes]:
        copy = tempfile.TemporaryFile()  # noqa: SIM115 (closed with this file)
        stream = _Ranges(self)
        while piece := stream.read(PIECE):
            copy.write(piece)
        copy.seek(0)
        return copy


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
