"""`TableReader`: a column of vectors in a table of record batches, decoded group by group in bounded memory.

A group (of Parquet: a row group) can be decoded from its first row only. A `Cursor` that has stopped within a group
waits until its next row is read.
"""

import itertools
import threading
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from salcli.data.embeddings import Embeddings, Floats, empty_aligned
from salcli.data.source import Reader, partition_rows, require_shape, row_ranges
from salcli.errors import FormatError
from salcli.formats.arrow_columns import (
    damage,
    find_keys,
    find_vectors,
    is_list,
    number_dtype,
    numbers,
    require_scales,
    stored,
    texts,
    vectors,
)
from salcli.formats.base import FileReader, concatenated
from salcli.formats.files import ByteFile
from salcli.formats.quantized import FLOAT16, dequantized, scale_of
from salcli.linalg.decompositions import power_of_two
from salcli.options import ReadOptions

DECODED_BYTES, DECODED_ROWS = 1 << 20, 1 << 16  # of vectors that are decoded at once, into a processor's cache
PARTITION_ELEMENTS = 1 << 22  # fewer than of other formats, as decoding takes long: no thread waits long for the last
WAITING_CURSORS = 4  # each holds the buffers of a decoder
CUT_GROUPS = 4  # groups of different sizes that a partition has room for, as those at its ends are decoded twice


class Cursor:
    """The rows of consecutive groups that are not decoded yet."""

    def __init__(self, path: str, rows: range, columns: Sequence[str], batches: Iterator[pa.RecordBatch]) -> None:
        """Begin with the first row.

        Parameters
        ----------
        path : for messages
        rows : of the groups
        columns : that are decoded
        batches : all of them, in order
        """
        self._path, self._batches, self.columns = path, batches, columns
        self.row, self.stop = rows.start, rows.stop
        self._rest: pa.RecordBatch | None = None

    def take(self, n: int) -> pa.RecordBatch:
        """Return the next rows, at least one and at most `n`.

        Raises
        ------
        FormatError : the group has fewer rows than the file announces, or is damaged
        """
        while not self._rest:
            try:
                self._rest = next(self._batches, None)
            except Exception:
                with damage(f"{self._path}: rows from {self.row}"):
                    raise
            if self._rest is None:
                raise FormatError(f"{self._path}: ends at row {self.row}, where {self.stop - 1} are announced")
        n = min(n, self.stop - self.row)
        if len(self._rest) <= n:
            part, self._rest = self._rest, None
        else:
            part, self._rest = self._rest.slice(0, n), self._rest.slice(n)
        self.row += len(part)
        return part


class TableReader(FileReader):
    """Base of the readers of tables: subclasses list the groups of rows, and decode them."""

    has_columns = True
    decoded_rows: int

    @property
    def is_sequential(self) -> bool:
        """Whether a row is found only after those before it in its group."""
        return True

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Find vectors and keys.

        Parameters
        ----------
        file : of the table
        options : which columns are read, and how

        Raises
        ------
        FormatError : the file is damaged, or the choice of a column is ambiguous
        """
        self.path, self.file = file.name, file.plain()
        self._forget()
        self.begin()
        self.scale = scale_of(options.dequantize, self.path)
        """Of int8: a number, or the column of one for each row; None: the vectors are floats."""
        is_int8 = self.scale is not None
        self.vector = find_vectors(self.path, self.schema, options.dataset, is_int8=is_int8)
        """The column of vectors."""
        self.key = None if options.keyed is False else find_keys(self.path, self.schema, options.keys_dataset)
        """The column of keys, if there is one."""
        self.has_keys = self.key is not None
        kind = self.schema.field(self.vector).type
        dtype = number_dtype(kind, is_int8=is_int8)
        assert dtype is not None
        self.dtype = FLOAT16 if is_int8 else dtype
        if isinstance(self.scale, str):
            require_scales(self.path, self.schema, self.scale)
        self._where = f"{self.path}: column {self.vector}"
        self.groups: list[range] = []
        self._firsts: list[int] = []
        self._set_groups(self.survey())
        self._options = options
        self._set_width(self._width(kind))
        self.check()

    def _set_width(self, d: int) -> None:
        """Set the width of rows, and how many are read at once."""
        require_shape(self._where, self.n, d)
        self.d, options = d, self._options
        self.partition = partition_rows(d, options.partition_elements or PARTITION_ELEMENTS)
        if self.is_sequential and self.groups:
            self.partition = _partition(self.groups, self.partition)
        row_bytes = d * self.dtype.itemsize
        self.decoded_rows = power_of_two(min(DECODED_ROWS, DECODED_BYTES // max(1, row_bytes)))
        rows = options.rows_per_chunk(row_bytes, self.partition, fills_buffers=True)
        is_free = options.batch_rows is None and self.decoded_rows < rows < self.partition
        self._rows = rows // self.decoded_rows * self.decoded_rows if is_free else rows

    def adopt(self, other: Reader) -> None:
        """Take over the width of lists of any length (see `Reader.adopt`)."""
        if not self.d:
            self._set_width(other.d)

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_lock", "_locks", "_waiting", "_schema")
        return {key: value for key, value in self.__dict__.items() if key not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._lock, self._locks = threading.Lock(), dict[int, threading.Lock]()
        self._waiting: OrderedDict[int, Cursor] = OrderedDict()
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """All columns, as the file has them. It is not pickled: a schema of maps would be written as other bytes."""
        if self._schema is None:
            self._schema = self.read_schema()
        return self._schema

    @abstractmethod
    def begin(self) -> None:
        """Open the file."""

    @abstractmethod
    def read_schema(self) -> pa.Schema:
        """Return the columns of the file."""

    @abstractmethod
    def survey(self) -> list[int]:
        """Return how many rows each group has."""

    @abstractmethod
    def decode(self, groups: Sequence[int], columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of consecutive groups from the first; nothing else may read through the same iterator.

        Parameters
        ----------
        groups : their numbers
        columns : that are decoded, by name
        rows : of a batch, about
        """

    @abstractmethod
    def rest(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some `columns` (numbers) of all rows, about so many `rows` at a time."""

    @property
    @abstractmethod
    def row_bytes(self) -> float:
        """Bytes of the columns of a row beside its vector, before compression, about."""

    def check(self) -> None:
        """Check what is known of the numbers before they are read."""

    def _set_groups(self, counts: Sequence[int]) -> None:
        starts = np.cumsum([0, *counts]).tolist()
        self.groups = [range(a, b) for a, b in itertools.pairwise(starts) if b > a]
        self._firsts, self.n = [group.start for group in self.groups], starts[-1]
        self._numbers = [i for i, count in enumerate(counts) if count]

    def _width(self, kind: pa.DataType) -> int:
        if pa.types.is_fixed_size_list(stored(kind)):
            return int(stored(kind).list_size)
        if not self.groups:
            return 0
        lists = self._cursor(0, 1, [self.vector], 1).take(1).column(self.vector)
        if not (d := 0 if lists.null_count else len(lists[0])):
            found = "null" if lists.null_count else "empty"
            raise FormatError(f"{self._where}: row 0: the vector is {found}, expected numbers; rows count from 0")
        return d

    def _cursor(self, first: int, stop: int, columns: Sequence[str], rows: int) -> Cursor:
        """Return a cursor at the groups from `first` to `stop` (exclusive), decoded so many `rows` at a time."""
        batches = self.decode(self._numbers[first:stop], columns, rows)
        return Cursor(self.path, range(self.groups[first].start, self.groups[stop - 1].stop), columns, batches)

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self.vector, *([] if self.key is None else [self.key]), *self.scale_columns]

    @property
    def scale_columns(self) -> list[str]:
        """The column of scales, if there is one; it is left out of outputs, whose vectors have been multiplied."""
        return [self.scale] if isinstance(self.scale, str) else []

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order, at the ends of groups where possible.

        So chunks are decoded side by side, and none leaves a cursor in a group that another has begun.
        """
        for start, last in row_ranges(self.n, self.partition):
            while start < last:
                stop = min(start + self._rows, last)
                group = self._firsts[bisect_right(self._firsts, stop) - 1]
                stop = group if start < group and stop < last else stop
                yield start, stop
                start = stop

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        group = bisect_right(self._firsts, start) - 1
        with self._lock:
            lock = self._locks.setdefault(group, threading.Lock())
        with lock:  # what comes before in the group would be decoded on every thread
            parts = list(self._parts(start, stop, self.columns, self.decoded_rows))
        return parts[0] if len(parts) == 1 else concatenated(parts)

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches, without their keys (see `Reader.batches`).

        Batches of at most `decoded_rows` rows that divide the groups are not copied.
        """
        memory, row, filled, size = out, start, 0, min(rows, stop - start)
        for part in self._parts(start, stop, [self.vector, *self.scale_columns], min(rows, self.decoded_rows)):
            if out is None and not filled and len(part) == min(size, stop - row):
                row += len(part)
                yield part
                continue
            memory, at = empty_aligned(size, self.d, self.dtype) if memory is None else memory, 0
            while at < len(part):
                n = min(len(part) - at, size - filled)
                memory[filled : filled + n] = part.vectors[at : at + n]
                at, filled, row = at + n, filled + n, row + n
                if filled == size or row == stop:
                    yield Embeddings.starting_at(row - filled, memory[:filled])
                    filled = 0

    def _parts(self, start: int, stop: int, columns: Sequence[str], rows: int) -> Iterator[Embeddings]:
        """Yield rows, at most `rows` at a time, as they are decoded, without a copy."""
        row = start
        while row < stop:
            cursor = self._cursor_at(row, stop, columns, rows)
            while row < min(stop, cursor.stop):
                batch = cursor.take(min(rows, stop - row))
                x = self._vectors(batch, row)
                yield Embeddings.starting_at(row, x, self._keys(batch, row) if self.key in columns else None)
                row += len(batch)
            if cursor.row < cursor.stop:
                self._leave(cursor)

    def _vectors(self, batch: pa.RecordBatch, first: int) -> Floats:
        x = vectors(batch.column(self.vector), self.d, first, self._where)
        if self.scale is None:
            return x
        where = f"{self.path}: column {self.scale}"
        scale = numbers(batch.column(self.scale), first, where) if isinstance(self.scale, str) else self.scale
        return dequantized(x, scale, first, where)

    def _cursor_at(self, row: int, stop: int, columns: Sequence[str], rows: int) -> Cursor:
        """Return a cursor at `row` that goes on at least to the end of its group, or a new one to that of `stop`."""
        group = bisect_right(self._firsts, row) - 1
        with self._lock:
            waiting = (at for at, cursor in self._waiting.items() if cursor.columns == columns)
            before = [at for at in waiting if self._firsts[group] <= at <= row]
            cursor = self._waiting.pop(max(before)) if before else None
        if cursor is None:
            cursor = self._cursor(group, bisect_left(self._firsts, stop), columns, rows)
        while cursor.row < row:
            cursor.take(row - cursor.row)
        return cursor

    def _leave(self, cursor: Cursor) -> None:
        with self._lock:
            self._waiting[cursor.row] = cursor
            if len(self._waiting) > WAITING_CURSORS:
                self._waiting.popitem(last=False)

    def _keys(self, batch: pa.RecordBatch, first: int) -> tuple[str, ...] | None:
        if self.key is None:
            return None

        def missing(row: int) -> str:
            raise FormatError(
                f"{self.path}: column {self.key}: row {first + row}: the key is null; rows count from 0 "
                "(`keyed=False` reads no keys)"
            )

        with damage(f"{self.path}: column {self.key}"):
            return tuple(texts(batch.column(self.key), missing))

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order, without decoding vectors."""
        if self.key is None or not self.groups:
            return
        cursor = self._cursor(0, len(self.groups), [self.key], DECODED_ROWS)
        while cursor.row < cursor.stop:
            first = cursor.row
            yield self._keys(cursor.take(DECODED_ROWS), first) or ()

    def companions(self) -> dict[str, tuple[int, ...]]:
        """Return the columns beside vectors and keys; of those that are no lists, which are copied as a rule, as ()."""
        rest = [each for each in self.schema if each.name not in self.columns]
        return {each.name: (self.n,) if is_list(each.type) else () for each in rest}

    def close(self) -> None:
        """Close the file."""
        self._waiting.clear()
        super().close()


def _partition(groups: Sequence[range], rows: int) -> int:
    """Return the rows of a partition: whole groups where all but the last are of one size, else much larger than one.

    Parameters
    ----------
    groups : rows of each
    rows : that a partition has at least
    """
    size = max(map(len, groups))
    if all(len(group) == size for group in groups[:-1]):
        return -(-rows // size) * size
    return max(rows, CUT_GROUPS * size)
