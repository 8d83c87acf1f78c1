"""Reading Parquet: a column of vectors, by row groups, through pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from salcli.errors import FormatError
from salcli.formats.arrow_columns import damage, stored
from salcli.formats.arrow_files import opened
from salcli.formats.arrow_table import TableReader
from salcli.formats.files import ByteFile

BUFFER_BYTES = 1 << 16  # of a column chunk that are read at once, and stay in a processor's cache
REMOTE_BUFFER_BYTES = 1 << 20
Batches = Iterator[pa.RecordBatch]
LEAST_LIMIT, GREATEST_GROWTH = 64 << 20, 10_000  # bytes of vectors, also as a multiple of the file's size
MOST_SCANNED = 1 << 24  # numbers of a row group that are read to find the row that is at fault


class ParquetReader(TableReader):
    """The vectors of a Parquet file: the column that `dataset` names, one called as vectors are, or the only one."""

    format = "parquet"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "metadata": None, "_idle": []}

    def begin(self) -> None:
        """Read the footer."""
        self.metadata: Any = None
        self._idle: list[pq.ParquetFile] = []
        """Files that no thread reads from."""
        with damage(self.path):
            self._schema = self.read_schema()

    def read_schema(self) -> pa.Schema:
        """Return the columns of the file."""
        file = self.opened()
        self._idle.append(file)
        return file.schema_arrow

    def opened(self) -> pq.ParquetFile:
        """Return the file in pyarrow, for one thread."""
        with suppress(IndexError):
            return self._idle.pop()
        found = parquet_file(self.file, self.metadata)
        self.metadata = found.metadata  # read once
        return found

    def _batches(self, columns: Sequence[str], rows: int, groups: Sequence[int] | None = None) -> Batches:
        """Yield some columns of row groups (None: of all), so many rows at a time."""
        file = self.opened()
        try:
            yield from file.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False)
        finally:
            self._idle.append(file)

    def survey(self) -> list[int]:
        """Return the rows of each row group (see `TableReader`)."""
        self.try_first_row([self.vector])
        found = [self.metadata.row_group(i) for i in range(self.metadata.num_row_groups)]
        if any(group.num_rows < 0 for group in found) or sum(g.num_rows for g in found) != self.metadata.num_rows:
            raise FormatError(f"{self.path}: damaged Parquet footer: its row groups do not add up to its rows")
        leaf = self.leaf_of(self.vector)
        self._values = [group.column(leaf).num_values for group in found]
        """Of each row group, how many numbers its vectors have."""
        return [group.num_rows for group in found]

    def check(self) -> None:
        """Check the numbers that the footer announces: d for each row, and no more than such a file can hold.

        Raises
        ------
        FormatError : a vector is null, or of another length; the message names the row where it can be found
        """
        size, announced = self.file.size or 0, self.n * self.d * self.dtype.itemsize
        if announced > max(LEAST_LIMIT, size * GREATEST_GROWTH):
            raise FormatError(
                f"{self.path}: {self.n:,} rows of {self.d} dimensions, {announced >> 20:,} MiB, are announced in a "
                f"file of {size:,} bytes"
            )
        first = 0
        for i, values in enumerate(self._values):
            rows = self.metadata.row_group(i).num_rows
            if values != rows * self.d:
                if values <= MOST_SCANNED:
                    for _ in self._parts(first, first + rows, [self.vector], rows):
                        pass  # names the row
                raise FormatError(
                    f"{self.path}: column {self.vector}: rows {first} to {first + rows - 1} have {values:,} numbers, "
                    f"expected {self.d} each: a vector is null, empty or of another length"
                )
            first += rows

    def try_first_row(self, columns: Sequence[str]) -> None:
        """Read the first row of some columns, before their metadata is read.

        pyarrow ends the process where the metadata of a column is damaged or encrypted, while reading raises.

        Raises
        ------
        FormatError : they cannot be read
        """
        with damage(f"{self.path}: row 0"):
            next(self._batches(columns, 1), None)

    def decode(self, groups: Sequence[int], columns: Sequence[str], rows: int) -> Batches:
        """Yield the rows of consecutive groups (see `TableReader.decode`)."""
        return self._batches(columns, rows, groups)

    def leaf_of(self, column: str) -> int:
        """Return the number of the first Parquet column that holds values of the table's `column`, a number."""
        return sum(n_leaves(self.schema.field(i).type) for i in range(self.schema.get_field_index(column)))

    def rest(self, columns: Sequence[str], rows: int) -> Batches:
        """Yield some columns of all rows (see `TableReader.rest`)."""
        return self._batches(columns, rows) if columns else iter(())

    @property
    def row_bytes(self) -> float:
        """Bytes of the columns of a row beside its vector, before compression, about."""
        skipped = self.leaf_of(self.vector)
        groups = [self.metadata.row_group(i) for i in range(self.metadata.num_row_groups)]
        sizes = [g.column(j).total_uncompressed_size for g in groups for j in range(g.num_columns) if j != skipped]
        return float(np.sum(sizes, dtype=np.float64)) / max(1, self.n)


def parquet_file(file: ByteFile, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Return a `file` in pyarrow, which reads a little of each column at a time; `metadata`: its footer, if known."""
    size = BUFFER_BYTES if file.is_local else REMOTE_BUFFER_BYTES
    return pq.ParquetFile(
        opened(file), metadata=metadata, pre_buffer=False, buffer_size=size, page_checksum_verification=True
    )


def n_leaves(kind: pa.DataType) -> int:
    """Return how many Parquet columns hold the values of the Arrow type `kind`."""
    kind = stored(kind)
    if pa.types.is_dictionary(kind) or not kind.num_fields:
        return 1
    return sum(n_leaves(kind.field(i).type) for i in range(kind.num_fields))
