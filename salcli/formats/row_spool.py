"""`Spool`: rows that wait to be written, in a file without a name instead of in memory."""

import io
import mmap
import os
import tempfile
from typing import BinaryIO

import numpy as np

from salcli.data.embeddings import Floats


class Spool:
    """Rows in a file that is mapped: views of them take memory only where they are read, until `leave` is called."""

    def __init__(self, folder: str, n_bytes: int) -> None:
        """Make the file, which has no name, so that nothing is left of it after a crash.

        Parameters
        ----------
        folder : on whose disk it takes its place
        n_bytes : of the rows that are in it at a time, at most

        Raises
        ------
        OSError : it cannot be made
        """
        self._file = tempfile.TemporaryFile(dir=folder or ".", buffering=0)  # noqa: SIM115 (closed by `close`)
        self._file.truncate(n_bytes)
        self._map = mmap.mmap(self._file.fileno(), n_bytes, access=mmap.ACCESS_READ)
        self._end = 0

    def add(self, rows: Floats) -> Floats:
        """Copy rows behind those that are there, and return a view of the copy.

        Parameters
        ----------
        rows : `[b, d]` in C order

        Raises
        ------
        OSError : the disk is full, or fails
        """
        left, start = rows.reshape(-1).view(np.uint8).data, self._end
        while len(left):
            n = os.pwrite(self._file.fileno(), left, self._end)
            left, self._end = left[n:], self._end + n
        return np.frombuffer(self._map, rows.dtype, rows.size, start).reshape(rows.shape)

    def clear(self) -> None:
        """Begin again: the next rows overwrite those that are there."""
        self._end = 0
        self.leave()

    def leave(self) -> None:
        """Take what was read through views out of memory; they read the file again where they are used again."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file; the mapping lasts as long as its views."""
        self._file.close()


class LeavingSink(io.RawIOBase):
    """Writes to a file, and calls `Spool.leave` each time: what is written was read from the spool just before."""

    def __init__(self, handle: BinaryIO, spool: Spool) -> None:
        """Wrap `handle`, which stays open when this is closed."""
        super().__init__()
        self._handle, self._spool = handle, spool

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Append `data`, and return its length."""
        self._spool.leave()
        return self._handle.write(data)

    def tell(self) -> int:
        """Return the position."""
        return self._handle.tell()
