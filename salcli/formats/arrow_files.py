"""Files as pyarrow reads them: by its own calls where the system can open a file once more, else through Python."""

import io
from contextlib import suppress

import pyarrow as pa

from salcli.formats.files import ByteFile


def opened(file: ByteFile) -> "pa.NativeFile | PositionedFile":
    """Return a plain `file` with a position of its own, for pyarrow."""
    if file.is_local:
        with suppress(OSError):  # of another user, as stdin may be, or without /dev/fd
            return pa.OSFile(f"/dev/fd/{file.handle.fileno()}")
    return PositionedFile(file)


class PositionedFile(io.RawIOBase):
    """A plain `ByteFile` as pyarrow reads it, with a position of its own."""

    def __init__(self, file: ByteFile) -> None:
        super().__init__()
        self._file, self._at = file, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes, fewer only at the end."""
        left = max(0, (self._file.size or 0) - self._at)
        data = self._file.read_up_to(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move by `offset` bytes from `whence` (as `io.IOBase.seek`), and return the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size or 0}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at
