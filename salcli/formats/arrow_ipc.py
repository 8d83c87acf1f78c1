"""Arrow IPC: files (Feather 2) and streams of record batches, as `datasets`, polars and pandas write them.

The file is mapped: record batches that are not compressed are views of it, and only the rows that are read are copied.
"""

import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from salcli.errors import FormatError, warn
from salcli.formats.arrow_columns import damage
from salcli.formats.arrow_table import TableReader
from salcli.formats.base import Output
from salcli.formats.files import ByteFile
from salcli.formats.sniff import ARROW_MAGIC
from salcli.formats.table_writer import TableWriter

MOST_UNPACKED = 1 << 30  # bytes of record batches that are compressed, which are unpacked whole
GROUP_BYTES = 16 << 20
STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"


class ArrowFile:
    """The record batches of a file or stream."""

    def __init__(self, file: ByteFile) -> None:
        """Read the schema, and where the batches are.

        Raises
        ------
        FormatError : the file is damaged, or a compressed stream of more than `MOST_UNPACKED`
        """
        self._path, n_bytes = file.name, file.size or 0
        self.is_file = file.read_up_to(0, len(ARROW_MAGIC)) == ARROW_MAGIC
        with damage(self._path):
            self._data = pa.py_buffer(mmap.mmap(file.handle.fileno(), n_bytes, access=mmap.ACCESS_READ))
            self._reader = (pa.ipc.open_file if self.is_file else pa.ipc.open_stream)(self._data)
            self.schema: pa.Schema = self._reader.schema
            self.is_packed = False
            self._batches: list[pa.RecordBatch | None] = []
            self.counts: list[int] = []
            """Rows of each batch."""
            self.n_bytes = 0
            """Bytes of all batches, unpacked."""
            for batch in self._all():
                self._add(batch)
        if not self.is_file and self._data.slice(max(0, n_bytes - len(STREAM_END))).to_pybytes() != STREAM_END:
            warn(f"{self._path}: an Arrow stream without its end marker: if it was cut off, rows are missing")

    def _all(self) -> Iterator[pa.RecordBatch]:
        if self.is_file:
            yield from (self._reader.get_batch(i) for i in range(self._reader.num_record_batches))
        else:
            yield from self._reader

    def _add(self, batch: pa.RecordBatch) -> None:
        first, stop = self._data.address, self._data.address + self._data.size
        buffers = [
            buffer for column in batch.columns for buffer in column.buffers() if buffer is not None and buffer.size
        ]
        is_view = all(first <= buffer.address < stop for buffer in buffers)
        self.is_packed = self.is_packed or not is_view
        self.counts.append(len(batch))
        self.n_bytes += batch.get_total_buffer_size()  # `nbytes` would follow offsets, which may be damaged
        if self.is_packed and not self.is_file and self.n_bytes > MOST_UNPACKED:
            raise FormatError(
                f"{self._path}: a compressed Arrow stream of more than {MOST_UNPACKED >> 30} GiB: write it as an Arrow "
                "file, or without compression"
            )
        self._batches.append(batch if is_view or not self.is_file else None)

    def batch(self, number: int) -> pa.RecordBatch:
        """Return record batch `number`; one that is compressed is unpacked again."""
        found = self._batches[number]
        if found is None:
            with pa.ipc.open_file(self._data) as reader:  # one for each thread
                found = reader.get_batch(number)
        return found

    def rows(self, number: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield `columns` (numbers) of record batch `number`, so many `rows` at a time.

        Raises
        ------
        FormatError : the batch is damaged
        """
        with damage(f"{self._path}: record batch {number}"):
            batch = self.batch(number).select(list(columns))
            batch.validate(full=True)  # else a damaged offset is followed out of the file
        yield from (batch.slice(first, rows) for first in range(0, len(batch), rows))


class ArrowReader(TableReader):
    """The vectors of an Arrow file or stream (see `TableReader`)."""

    format = "arrow"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_opened": None}

    @property
    def is_sequential(self) -> bool:
        """Whether record batches must be unpacked; rows of others are found at once."""
        return self.opened.is_packed

    def begin(self) -> None:
        """Open the file."""
        self._opened: ArrowFile | None = None

    def read_schema(self) -> pa.Schema:
        """Return the columns of the file."""
        return self.opened.schema

    @property
    def opened(self) -> ArrowFile:
        """The record batches, found when needed."""
        if self._opened is None:
            self._opened = ArrowFile(self.file)
        return self._opened

    def survey(self) -> list[int]:
        """Return the rows of each record batch (see `TableReader`)."""
        return self.opened.counts

    def decode(self, groups: Sequence[int], columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of consecutive record batches (see `TableReader.decode`)."""
        for number in groups:
            yield from self.opened.rows(number, columns, rows)

    def rest(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows (see `TableReader.rest`)."""
        for number in range(len(self.opened.counts)):
            yield from self.opened.rows(number, columns, rows)

    @property
    def row_bytes(self) -> float:
        """Bytes of the columns of a row beside its vector, about."""
        return max(0.0, self.opened.n_bytes / max(1, self.n) - self.d * self.dtype.itemsize)


class ArrowWriter(TableWriter):
    """Writes record batches of about 16 MB: a stream if the input is one, else a file."""

    def __init__(self, output: Output) -> None:
        """Start the file of `output`.

        Raises
        ------
        UsageError : another column is to be erased too, or numbers that tables do not have
        FormatError : the input is damaged
        """
        like = output.model if isinstance(output.model, ArrowReader) else None
        super().__init__(output, like, GROUP_BYTES)
        start = pa.ipc.new_file if like is None or like.opened.is_file else pa.ipc.new_stream
        codec = "lz4" if like is not None and like.opened.is_packed else None
        self._handle = output.open()
        self.file = start(self._handle, self.schema, options=pa.ipc.IpcWriteOptions(compression=codec))

    def append(self, table: pa.Table) -> None:
        """Write the rows of `table` as record batches."""
        self.file.write_table(table.combine_chunks())
