"""`Spool`: rows of a table that wait to be written, in a file without a name instead of in memory."""

import io
import mmap
import tempfile
from contextlib import suppress
from typing import BinaryIO

import pyarrow as pa


class Spool:
    """Rows in a file that is mapped: views of them take memory only where they are read, until `leave` is called."""

    def __init__(self, folder: str) -> None:
        """Make the file, which has no name, so that nothing is left of it after a crash.

        Parameters
        ----------
        folder : on whose disk it takes its place

        Raises
        ------
        OSError : it cannot be made
        """
        self._file = tempfile.TemporaryFile(dir=folder or ".")  # noqa: SIM115 (closed by `close`)
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._map: mmap.mmap | None = None

    def add(self, rows: pa.Table) -> None:
        """Copy rows behind those that are there.

        Parameters
        ----------
        rows : of the same schema as those before

        Raises
        ------
        OSError : the disk is full, or fails
        """
        if self._writer is None:
            self._file.seek(0)
            self._writer = pa.ipc.new_stream(self._file, rows.schema)
        self._writer.write_table(rows)

    def take(self) -> pa.Table:
        """Return a view of the rows that were added, at least one; those that are added next overwrite them.

        Raises
        ------
        OSError : the disk is full, or fails
        """
        assert self._writer is not None
        self._writer.close()
        self._file.flush()
        self._writer, self._map = None, mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        batches = list[pa.RecordBatch]()
        for batch in pa.ipc.open_stream(pa.py_buffer(self._map)):
            batches.append(batch)
            self.leave()  # a page of the file may be as large as 2 MiB
        return pa.Table.from_batches(batches)

    def leave(self) -> None:
        """Take what was read through views out of memory; they read the file again where they are used again."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file; the mapping lasts as long as its views."""
        self._writer = self._map = None
        with suppress(OSError):  # of bytes that are still in memory when the disk is full
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
