"""Writing Parquet: the input's table with another column of vectors, or a new table, in row groups of about 64 MB.

A row group is written column by column, so that its rows wait until it is complete: of wide columns in a file, not in
memory.
"""

import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from salcli.formats.base import Output
from salcli.formats.parquet import ParquetReader, n_leaves
from salcli.formats.row_spool import LeavingSink, Spool
from salcli.formats.table_writer import TableWriter

GROUP_BYTES = 64 << 20
WIDE_BYTES = 64  # in memory, of a row in a column
ENCODED_NUMBERS = 1 << 18  # of vectors that are encoded at once: pyarrow makes 4 bytes of levels for each number
VERSIONS = ("1.0", "2.4", "2.6")


class ParquetWriter(TableWriter):
    """Writes row groups of about `GROUP_BYTES` before compression."""

    def __init__(self, output: Output) -> None:
        """Start the file of `output`.

        Raises
        ------
        UsageError : another column is to be erased too, or numbers that tables do not have
        FormatError : the input is damaged
        """
        like = output.model if isinstance(output.model, ParquetReader) else None
        if like is not None:
            like.try_first_row(like.schema.names)
        super().__init__(output, like, GROUP_BYTES)
        self._spool = Spool(os.path.dirname(output.path))
        output.opened.callback(self._spool.close)
        sink = LeavingSink(output.open(), self._spool)
        self.file = pq.ParquetWriter(sink, self.schema, **_settings(self.schema, self.vector, like))

    def keep(self, rows: pa.Table) -> None:
        """Copy vectors and other wide columns to a temporary file (see `TableWriter.keep`)."""
        if not self._parts:
            self._wide = [name for name in rows.column_names if name == self.vector or _is_wide(rows.column(name))]
        self._spool.add(rows.select(self._wide))
        super().keep(rows.drop_columns(self._wide))

    def kept(self) -> pa.Table:
        """Return views of the copies beside the other columns (see `TableWriter.kept`)."""
        narrow, rows = super().kept(), self._spool.take()
        for i, field in enumerate(self.schema):
            if field.name not in self._wide:
                rows = rows.add_column(i, field, narrow.column(field.name))
        return rows

    def append(self, table: pa.Table) -> None:
        """Write the rows of `table` as a row group."""
        pa.default_memory_pool().release_unused()  # that lies between blocks in use
        pieces = table.to_batches(max_chunksize=max(1, ENCODED_NUMBERS // self.d))
        self.file.write_table(pa.Table.from_batches(pieces), row_group_size=self.group_rows)
        pa.default_memory_pool().release_unused()


def _is_wide(column: pa.ChunkedArray) -> bool:
    """Return whether a column is to wait in a file; dictionaries, which many rows share, never do."""
    return not pa.types.is_dictionary(column.type) and column.nbytes > WIDE_BYTES * len(column)


def _settings(schema: pa.Schema, vector: str, like: ParquetReader | None) -> dict[str, Any]:
    """Return how columns are stored: as in the input, but vectors without a dictionary, split by bytes if packed.

    Parameters
    ----------
    schema : of the output
    vector : the column of vectors
    like : reader of the input, if that is Parquet
    """
    if like is None or not like.metadata.num_row_groups:
        path, others = f"{vector}.list.element", [name for name in schema.names if name != vector]
        return {"use_dictionary": others or False, "column_encoding": {path: "BYTE_STREAM_SPLIT"}}
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
    # The claim is made for each row group alone, and several become one.
    is_still_sorted = schema.names == like.schema.names and like.metadata.num_row_groups == 1
    return {
        "version": like.metadata.format_version if like.metadata.format_version in VERSIONS else VERSIONS[-1],
        "compression": codecs,
        "use_dictionary": packed or False,
        "column_encoding": encodings or None,
        "write_statistics": any(column.is_stats_set for column in all_columns),
        "write_page_index": any(column.has_offset_index for column in all_columns),
        "sorting_columns": list(group.sorting_columns) if is_still_sorted else None,
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
