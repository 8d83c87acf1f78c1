"""Reading Parquet: a column of vectors, by row groups, through pyarrow."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from salcli.errors import FormatError
from salcli.formats.arrow_columns import damage, stored
from salcli.formats.arrow_table import PositionedFile, TableReader

BUFFER_BYTES = 1 << 20  # of a column chunk that is read at once
JOINED_BYTES = 8 << 20  # of vectors in row groups that are decoded as one
LEAST_LIMIT, GREATEST_GROWTH = 64 << 20, 10_000  # bytes of vectors, also as a multiple of the file's size
MOST_SCANNED = 1 << 24  # numbers of a row group that are read to find the row that is at fault


class ParquetReader(TableReader):
    """The vectors of a Parquet file: the column that `dataset` names, one called as vectors are, or the only one."""

    format = "parquet"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "metadata": None}

    def begin(self) -> None:
        """Read the footer."""
        self.metadata: Any = None
        with damage(self.path):
            self.schema = self.opened().schema_arrow

    def opened(self) -> pq.ParquetFile:
        """Return the file in pyarrow, for one thread."""
        found = pq.ParquetFile(
            PositionedFile(self.file), metadata=self.metadata, pre_buffer=False, buffer_size=BUFFER_BYTES
        )
        self.metadata = found.metadata  # read once
        return found

    def survey(self, itemsize: int) -> list[int]:
        """Return the rows of each group, small ones joined, for numbers of `itemsize` bytes (see `TableReader`)."""
        self.try_first_row([self.vector])
        found = [self.metadata.row_group(i) for i in range(self.metadata.num_row_groups)]
        if any(group.num_rows < 0 for group in found) or sum(g.num_rows for g in found) != self.metadata.num_rows:
            raise FormatError(f"{self.path}: damaged Parquet footer: its row groups do not add up to its rows")
        leaf = self.leaf_of(self.vector)
        self._row_groups: list[list[int]] = []
        """Of each group, the numbers of its row groups."""
        self._values: list[int] = []
        """Of each row group, how many numbers its vectors have."""
        counts, n_bytes = list[int](), 0
        for i, group in enumerate(found):
            self._values.append(group.column(leaf).num_values)
            size = self._values[-1] * itemsize
            if counts and n_bytes + size <= JOINED_BYTES:
                self._row_groups[-1].append(i)
                counts[-1], n_bytes = counts[-1] + group.num_rows, n_bytes + size
            else:
                self._row_groups.append([i])
                counts.append(group.num_rows)
                n_bytes = size
        return counts

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
                    for _ in self._parts(first, first + rows):
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
            next(iter(self.opened().iter_batches(batch_size=1, columns=list(columns), use_threads=False)), None)

    def decode(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group (see `TableReader.decode`)."""
        found: Iterator[pa.RecordBatch] = self.opened().iter_batches(
            batch_size=rows, row_groups=self._row_groups[group], columns=list(columns), use_threads=False
        )
        return found

    def leaf_of(self, column: str) -> int:
        """Return the number of the first Parquet column that holds values of the table's `column`, a number."""
        return sum(n_leaves(self.schema.field(i).type) for i in range(self.schema.get_field_index(column)))

    def rest(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows (see `TableReader.rest`)."""
        if columns:
            yield from self.opened().iter_batches(batch_size=rows, columns=list(columns), use_threads=False)

    @property
    def row_bytes(self) -> float:
        """Bytes of the columns of a row beside its vector, before compression, about."""
        skipped = self.leaf_of(self.vector)
        groups = [self.metadata.row_group(i) for i in range(self.metadata.num_row_groups)]
        sizes = [g.column(j).total_uncompressed_size for g in groups for j in range(g.num_columns) if j != skipped]
        return float(np.sum(sizes, dtype=np.float64)) / max(1, self.n)


def n_leaves(kind: pa.DataType) -> int:
    """Return how many Parquet columns hold the values of the Arrow type `kind`."""
    kind = stored(kind)
    if pa.types.is_dictionary(kind) or not kind.num_fields:
        return 1
    return sum(n_leaves(kind.field(i).type) for i in range(kind.num_fields))
