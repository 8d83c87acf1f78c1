"""`TableWriter`: the input's table with another column of vectors, or a new table of keys and vectors."""

from abc import abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError, UsageError
from salcli.formats.arrow_columns import damage, is_view, stored
from salcli.formats.arrow_table import TableReader
from salcli.formats.base import Output, Writer
from salcli.formats.keys import encoded, is_utf8
from salcli.formats.table_metadata import changed_schema, without_columns

KEYS, VECTORS = "id", "embedding"
COPIED_ROWS, COPIED_BYTES = 1024, 1 << 18  # of the columns beside the vectors that are decoded at once, at most


class TableWriter(Writer):
    """Base of the writers of tables; columns beside the vectors are read from the input as they are needed."""

    file: Any
    """pyarrow's writer, which is closed with this one."""

    def __init__(self, output: Output, like: TableReader | None, group_bytes: int) -> None:
        """Find the schema of `output`.

        Parameters
        ----------
        output : its shape and its input
        like : reader of the input, if that has the output's format
        group_bytes : that are written at once, before compression

        Raises
        ------
        UsageError : another column is to be erased too, or numbers that tables do not have
        FormatError : the input is damaged, or several of its columns have one name
        """
        if output.beside.erased:
            raise UsageError(
                "`erase_also`: a table is erased one column at a time: apply the eraser to the output again, with "
                "`dataset` naming the other column"
            )
        if output.dtype.itemsize > 8:
            raise UsageError(f"{output.target}: tables hold no {output.dtype}: give `dtype=float64`")
        self._target, self._has_keys, self.d = output.target, output.has_keys, output.d
        self._dtype, row_bytes = output.dtype.newbyteorder("="), float(output.d * output.dtype.itemsize)
        self._rest: _Rest | None = None
        if like is None:
            self.vector = VECTORS
            fields = [pa.field(KEYS, pa.string(), nullable=False)] if output.has_keys else []
            kind = pa.list_(pa.field("element", pa.from_numpy_dtype(output.dtype), nullable=False), output.d)
            self.schema = pa.schema([*fields, pa.field(VECTORS, kind, nullable=False)])
        else:
            self.vector = like.vector
            left = {each for each in like.companions() if not output.beside.is_copied(each)} | set(like.scale_columns)
            self.schema = without_columns(like.schema, left)
            _require_distinct(like.path, self.schema.names)
            if (output.d, output.dtype) != (like.d, like.dtype) or like.scale is not None:
                self.schema = changed_schema(self.schema, like.vector, output.d, output.dtype)
            self._rest = _Rest(like, [name for name in self.schema.names if name != like.vector])
            row_bytes += like.row_bytes
        self.group_rows = max(1, int(group_bytes // max(1.0, row_bytes)))
        """Rows that are written at once."""
        self._parts: list[pa.Table] = []
        self._n_waiting = 0

    @abstractmethod
    def append(self, table: pa.Table) -> None:
        """Write `table`, the next rows of the output, at most `group_rows`."""

    def encode(self, batch: Embeddings) -> Embeddings:
        """Return `batch` in the dtype of the output; safe on any thread."""
        return batch.with_vectors(np.ascontiguousarray(batch.vectors, dtype=self._dtype))

    def write(self, piece: Embeddings) -> None:
        """Append `piece`, which `encode` returned.

        Raises
        ------
        FormatError : a key that is not text, or a damaged column of the input
        OSError : the disk is full, or fails
        """
        while len(piece):
            part = piece.take(slice(0, self.group_rows - self._n_waiting))
            piece = piece.take(slice(len(part), None))
            keys = part.keys if self._rest is None else None  # else they are a column of the input
            self.keep(self._table(Embeddings(part.vectors, part.rows, keys)))
            self._n_waiting += len(part)
            if self._n_waiting == self.group_rows:
                self.flush()

    def keep(self, rows: pa.Table) -> None:
        """Let `rows` wait for the others that are written at once."""
        self._parts.append(rows)

    def kept(self) -> pa.Table:
        """Return the rows that wait, which then wait no longer."""
        parts, self._parts = self._parts, []
        return pa.concat_tables(parts)

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._n_waiting:
            self._n_waiting = 0
            self.append(self.kept())

    def _table(self, part: Embeddings) -> pa.Table:
        column = _lists(part.vectors, self.schema.field(self.vector).type)
        if self._rest is not None:
            rest = self._rest.rows(part.rows)
            columns = [column if name == self.vector else rest[name] for name in self.schema.names]
        else:
            keys = [pa.array(_texts(self._target, part), pa.string())] if self._has_keys else []
            columns = [*keys, column]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def close(self) -> None:
        """Write what is still in memory, and the footer."""
        self.flush()
        self.file.close()

    def discard(self) -> None:
        """Close without the rows that wait, so that nothing is written when the writer is garbage-collected."""
        self._parts, self._n_waiting = [], 0
        with suppress(pa.ArrowException, ValueError, OSError):
            self.file.close()


def _require_distinct(path: str, names: list[str]) -> None:
    """Raise a `FormatError` if columns have one name: pyarrow selects by it, and the metadata describes by it."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise FormatError(
            f"{path}: {names.count(twice)} columns are called {twice[:40]!r}, expected one of each name in what is "
            "copied (`drop` or `only` leaves them out)"
        )


class _Rest:
    """The columns of a table beside its vectors, in file order."""

    def __init__(self, reader: TableReader, columns: list[str]) -> None:
        self._path, self._columns, self._row, self._n = reader.path, columns, 0, reader.n
        rows = int(max(1, min(COPIED_ROWS, COPIED_BYTES // max(1.0, reader.row_bytes))))
        self._batches = reader.rest(columns, rows)
        self._waiting: pa.Table | None = None

    def rows(self, rows: np.ndarray) -> dict[str, pa.ChunkedArray]:
        """Return the columns of some rows, which ascend and follow those of the call before."""
        if not self._columns:
            return {}
        first, stop = int(rows[0]), int(rows[-1]) + 1
        self._read(first)
        if self._waiting is not None:
            self._waiting = self._waiting.slice(first - self._row)
        self._row = first
        self._read(stop)
        assert self._waiting is not None
        found, self._waiting, self._row = self._waiting.slice(0, stop - first), self._waiting.slice(stop - first), stop
        if len(rows) < stop - first:
            found = found.take(pa.array(rows - first))
        return {name: found.column(name) for name in self._columns}

    def _read(self, stop: int) -> None:
        """Read batches until those that wait reach the row before `stop`."""
        parts = [] if self._waiting is None else [self._waiting]
        row = self._row + sum(map(len, parts))
        while row < stop:
            with damage(f"{self._path}: rows from {row}"):
                batch = next(self._batches, None)
            if batch is None:
                raise FormatError(f"{self._path}: ends at row {row}, where {self._n - 1} are announced")
            parts.append(pa.Table.from_batches([batch]))
            row += len(batch)
        self._waiting = pa.concat_tables(parts) if parts else None


def _lists(x: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return rows `[n, d]` as a column of the type `kind`, without a copy."""
    lists, (n, d) = stored(kind), x.shape
    flat = _array(lists.value_type, x.reshape(-1))
    if pa.types.is_fixed_size_list(lists):
        column = pa.FixedSizeListArray.from_arrays(flat, type=lists)
    elif is_view(lists):
        is_large = pa.types.is_large_list_view(lists)
        build, kind_of_places = (pa.LargeListViewArray, pa.int64()) if is_large else (pa.ListViewArray, pa.int32())
        places = (np.arange(n) * d, np.full(n, d))
        column = build.from_arrays(
            *(_array(kind_of_places, each.astype(kind_of_places.to_pandas_dtype())) for each in places),
            flat,
            type=lists,
        )
    elif pa.types.is_large_list(lists):
        column = pa.LargeListArray.from_arrays(_array(pa.int64(), np.arange(n + 1) * d), flat, type=lists)
    else:
        column = pa.ListArray.from_arrays(_array(pa.int32(), (np.arange(n + 1) * d).astype(np.int32)), flat, type=lists)
    return column if lists == kind else pa.ExtensionArray.from_storage(kind, column)


def _array(kind: pa.DataType, values: np.ndarray) -> pa.Array:
    """Return numbers as an Arrow array, without a copy; `pa.array` would import pandas where it is installed."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _texts(target: str, part: Embeddings) -> list[str]:
    for row, key in zip(part.rows.tolist(), part.keys or (), strict=True):
        if not is_utf8(key):
            shown = encoded([key])[0][:40]
            raise FormatError(f"{target}: the key {shown!r} of row {row} is not UTF-8, which text in tables must be")
    return list(part.keys or ())
