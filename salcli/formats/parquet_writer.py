"""Writing Parquet: the input's table with another column of vectors, row group by row group, or a new table."""

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError, UsageError
from salcli.formats.arrow_columns import damage, stored
from salcli.formats.base import Output, Writer
from salcli.formats.keys import encoded, is_utf8
from salcli.formats.parquet import ParquetReader, n_leaves
from salcli.formats.table_metadata import changed_schema, without_columns

KEYS, VECTORS = "id", "embedding"
GROUP_BYTES = 64 << 20
COPIED_ROWS = 4096  # of the columns beside the vectors that are decoded at once
VERSIONS = ("1.0", "2.4", "2.6")


class ParquetWriter(Writer):
    """Writes row groups of about 64 MB; columns beside the vectors are read from the input as they are needed."""

    def __init__(self, output: Output, *, group_bytes: int | None = None) -> None:
        """Start the file of `output`.

        Parameters
        ----------
        output : its shape and its input
        group_bytes : of a row group before compression, about; default: `GROUP_BYTES`

        Raises
        ------
        UsageError : another column is to be erased too
        FormatError : the input is damaged
        """
        if output.beside.erased:
            raise UsageError(
                "`erase_also`: a Parquet file is erased one column at a time: apply the eraser to the output again, "
                "with `dataset` naming the other column"
            )
        like = output.model if isinstance(output.model, ParquetReader) else None
        if output.dtype.itemsize > 8:
            raise UsageError(f"{output.target}: Parquet holds no {output.dtype}: give `dtype=float64`")
        self._target, self._has_keys = output.target, output.has_keys
        self._dtype = output.dtype.newbyteorder("=")
        self._vector, row_bytes = VECTORS, float(output.d * output.dtype.itemsize)
        if like is None:
            # The columns of a new table.
            fields = [pa.field(KEYS, pa.string(), nullable=False)] if output.has_keys else []
            kind = pa.list_(pa.field("element", pa.from_numpy_dtype(output.dtype), nullable=False), output.d)
            self._schema = pa.schema([*fields, pa.field(VECTORS, kind, nullable=False)])
            self._rest: _Rest | None = None
            settings = _settings(self._schema, VECTORS, None)
        else:
            self._vector = like.vector
            left = {each for each in like.companions() if not output.beside.is_copied(each)}
            self._schema = without_columns(like.schema, left)
            if (output.d, output.dtype) != (like.d, like.dtype):
                self._schema = changed_schema(self._schema, like.vector, output.d, output.dtype)
            self._rest = _Rest(like, [name for name in self._schema.names if name != like.vector])
            settings = _settings(self._schema, like.vector, like)
            row_bytes += like.row_bytes
        self._group_rows = max(1, int((group_bytes or GROUP_BYTES) // max(1.0, row_bytes)))
        self._parts: list[Embeddings] = []
        self._n_waiting = 0
        self._file = pq.ParquetWriter(output.open(), self._schema, **settings)

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
            part = piece.take(slice(0, self._group_rows - self._n_waiting))
            piece = piece.take(slice(len(part), None))
            self._parts.append(part)
            self._n_waiting += len(part)
            if self._n_waiting == self._group_rows:
                self._flush()

    def _flush(self) -> None:
        tables = [self._table(part) for part in self._parts]
        self._parts, self._n_waiting = [], 0
        self._file.write_table(pa.concat_tables(tables), row_group_size=self._group_rows)

    def _table(self, part: Embeddings) -> pa.Table:
        column = _lists(part.vectors, self._schema.field(self._vector).type)
        if self._rest is not None:
            rest = self._rest.rows(part.rows)
            columns = [column if name == self._vector else rest[name] for name in self._schema.names]
        else:
            keys = [pa.array(_texts(self._target, part), pa.string())] if self._has_keys else []
            columns = [*keys, column]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def close(self) -> None:
        """Write what is still in memory, and the footer."""
        if self._n_waiting:
            self._flush()
        self._file.close()

    def discard(self) -> None:
        """Close, so that nothing is written when the writer is garbage-collected."""
        self._parts = []
        with suppress(*(pa.ArrowException, ValueError, OSError)):
            self._file.close()


class _Rest:
    """The columns of a table beside its vectors, in file order."""

    def __init__(self, reader: ParquetReader, columns: list[str]) -> None:
        self._path, self._columns, self._row = reader.path, columns, 0
        rows = reader.metadata.num_rows
        self._batches = iter(
            reader.opened().iter_batches(batch_size=COPIED_ROWS, columns=columns, use_threads=False) if columns else ()
        )
        self._waiting: pa.Table | None = None
        self._n = rows

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
    lists = stored(kind)
    flat = pa.array(x.reshape(-1), lists.value_type)
    n, d = x.shape
    if pa.types.is_fixed_size_list(lists):
        column = pa.FixedSizeListArray.from_arrays(flat, type=lists)
    elif pa.types.is_large_list(lists):
        column = pa.LargeListArray.from_arrays(pa.array(np.arange(n + 1) * d, pa.int64()), flat, type=lists)
    else:
        column = pa.ListArray.from_arrays(pa.array(np.arange(n + 1) * d, pa.int32()), flat, type=lists)
    return column if lists == kind else pa.ExtensionArray.from_storage(kind, column)


def _texts(target: str, part: Embeddings) -> list[str]:
    for row, key in zip(part.rows.tolist(), part.keys or (), strict=True):
        if not is_utf8(key):
            shown = encoded([key])[0][:40]
            raise FormatError(f"{target}: the key {shown!r} of row {row} is not UTF-8, which text in Parquet must be")
    return list(part.keys or ())


def _settings(schema: pa.Schema, vector: str, like: ParquetReader | None) -> dict[str, Any]:
    """Return how columns are stored: as in the input, but vectors without a dictionary, split by bytes if packed.

    Parameters
    ----------
    schema : of the output
    vector : the column of vectors
    like : reader of the input, if that is Parquet
    """
    if like is None or not like.metadata.num_row_groups:
        path = f"{vector}.list.element"
        return {"use_dictionary": schema.names[:-1] or False, "column_encoding": {path: "BYTE_STREAM_SPLIT"}}
    group = like.metadata.row_group(0)
    columns = {name: _columns(like, group, name) for name in schema.names}
    is_compliant = all("element" in c.path_in_schema.split(".")[-1] for c in columns[vector])
    codecs, packed, encodings = dict[str, str](), list[str](), dict[str, str]()
    paths = iter(_paths(schema, is_compliant=is_compliant))
    for name in schema.names:
        for column in columns[name]:
            path, codec = next(paths), column.compression
            codecs[path] = "NONE" if codec == "UNCOMPRESSED" else codec
            if name == vector and codec != "UNCOMPRESSED":
                encodings[path] = "BYTE_STREAM_SPLIT"
            elif name != vector and {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & {*column.encodings}:
                packed.append(path)
    all_columns = [column for found in columns.values() for column in found]
    return {
        "version": like.metadata.format_version if like.metadata.format_version in VERSIONS else VERSIONS[-1],
        "compression": codecs,
        "use_dictionary": packed or False,
        "column_encoding": encodings or None,
        "write_statistics": any(column.is_stats_set for column in all_columns),
        "write_page_index": any(column.has_offset_index for column in all_columns),
        "sorting_columns": list(group.sorting_columns) if schema.names == like.schema.names else None,
        "use_compliant_nested_type": is_compliant,
        "use_deprecated_int96_timestamps": any(column.physical_type == "INT96" for column in all_columns),
        "store_schema": b"ARROW:schema" in (like.metadata.metadata or {}),
    }


def _columns(like: ParquetReader, group: Any, name: str) -> list[Any]:
    leaf = like.leaf_of(name)
    return [group.column(i) for i in range(leaf, leaf + n_leaves(like.schema.field(name).type))]


def _paths(schema: pa.Schema, *, is_compliant: bool) -> list[str]:
    """Return the names of the Parquet columns that a table of this schema is written to."""
    written = pa.BufferOutputStream()
    pq.ParquetWriter(written, schema, use_compliant_nested_type=is_compliant).close()
    found = pq.ParquetFile(written.getvalue()).metadata.schema
    return [found.column(i).path for i in range(len(found))]
