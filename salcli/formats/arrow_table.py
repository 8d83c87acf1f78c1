"""`TableReader`: a column of vectors in a table of record batches, decoded group by group in bounded memory.

A group (of Parquet: one row group, or several small ones) can be decoded from its first row only. A `Cursor` that has
stopped within a group waits until its next row is read.
"""

import io
import itertools
import threading
from abc import abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from salcli.data.embeddings import Embeddings, Floats, empty_aligned
from salcli.data.source import partition_rows, require_shape, row_ranges
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
from salcli.options import ReadOptions

DECODED_BYTES, DECODED_ROWS = 1 << 19, 1 << 16  # of vectors that are decoded at once, into a processor's cache
WAITING_CURSORS = 8  # each holds the buffers of a decoder
CUT_GROUPS = 4  # groups of different sizes that a partition has room for, as those at its ends are decoded twice


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


class Cursor:
    """The rows of a group that are not decoded yet."""

    def __init__(self, path: str, group: range, batches: Iterator[pa.RecordBatch]) -> None:
        """Begin with the first row.

        Parameters
        ----------
        path : for messages
        group : its rows
        batches : all of them, in order
        """
        self._path, self._batches = path, batches
        self.row, self.stop = group.start, group.stop
        self._rest: pa.RecordBatch | None = None

    def take(self, n: int) -> pa.RecordBatch:
        """Return the next rows, at least one and at most `n`.

        Raises
        ------
        FormatError : the group has fewer rows than the file announces, or is damaged
        """
        while self._rest is None or not len(self._rest):
            with damage(f"{self._path}: rows from {self.row}"):
                self._rest = next(self._batches, None)
            if self._rest is None:
                raise FormatError(f"{self._path}: ends at row {self.row}, where {self.stop - 1} are announced")
        part = self._rest.slice(0, min(n, self.stop - self.row))
        self._rest = self._rest.slice(len(part))
        self.row += len(part)
        return part


class TableReader(FileReader):
    """Base of the readers of tables: subclasses list the groups of rows, and decode them."""

    fills_buffers = has_columns = True
    schema: pa.Schema

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
        self.groups: list[range] = []
        self._firsts: list[int] = []
        self._set_groups(self.survey(self.dtype.itemsize))
        self.d = self._width(kind)
        require_shape(f"{self.path}: column {self.vector}", self.n, self.d)
        self.check()
        self.partition = partition_rows(self.d, options.partition_elements)
        if self.is_sequential:
            self.partition = _partition(self.groups, self.partition)
        self._rows = options.rows_per_chunk(self.d * self.dtype.itemsize, self.partition, fills_buffers=True)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_locks", "_waiting")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._lock, self._locks = threading.Lock(), dict[int, threading.Lock]()
        self._waiting: OrderedDict[int, Cursor] = OrderedDict()

    @abstractmethod
    def begin(self) -> None:
        """Open the file, and set the schema."""

    @abstractmethod
    def survey(self, itemsize: int) -> list[int]:
        """Return how many rows each group has; a number of the vectors has `itemsize` bytes."""

    @abstractmethod
    def decode(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group from its first; nothing else may read through the same iterator.

        Parameters
        ----------
        group : its number
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
        lists = Cursor(self.path, self.groups[0], self._decoded(0, [self.vector], 1)).take(1).column(self.vector)
        if lists.null_count:
            raise FormatError(
                f"{self.path}: column {self.vector}: row 0: the vector is null, expected numbers; rows count from 0"
            )
        return len(lists[0])

    def _decoded(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        return self.decode(self._numbers[group], columns, rows)

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self.vector, *([] if self.key is None else [self.key]), *self.scale_columns]

    @property
    def scale_columns(self) -> list[str]:
        """The column of scales, if there is one; it is left out of outputs, whose vectors have been multiplied."""
        return [self.scale] if isinstance(self.scale, str) else []

    @property
    def decoded_rows(self) -> int:
        """How many rows are decoded at once."""
        return max(1, min(DECODED_ROWS, DECODED_BYTES // max(1, self.d * self.dtype.itemsize)))

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order."""
        return row_ranges(self.n, self._rows, self.partition)

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        group = bisect_right(self._firsts, start) - 1
        with self._lock:
            lock = self._locks.setdefault(group, threading.Lock())
        with lock:  # what comes before in the group would be decoded on every thread
            parts = list(self._parts(start, stop))
        return parts[0] if len(parts) == 1 else concatenated(parts)

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches that share memory (see `Reader.batches`)."""
        memory = empty_aligned(min(rows, stop - start), self.d, self.dtype) if out is None else out[:rows]
        row, filled, keys = start, 0, list[str]()
        for part in self._parts(start, stop):
            at = 0
            while at < len(part):
                n = min(len(part) - at, len(memory) - filled)
                memory[filled : filled + n] = part.vectors[at : at + n]
                keys.extend(part.keys[at : at + n] if part.keys is not None else ())
                at, filled, row = at + n, filled + n, row + n
                if filled == len(memory) or row == stop:
                    yield Embeddings.starting_at(row - filled, memory[:filled], tuple(keys) if self.has_keys else None)
                    filled, keys = 0, []

    def _parts(self, start: int, stop: int) -> Iterator[Embeddings]:
        """Yield rows as they are decoded, without a copy."""
        row = start
        while row < stop:
            cursor = self._cursor_at(row)
            while row < min(stop, cursor.stop):
                batch = cursor.take(stop - row)
                x = self._vectors(batch, row)
                yield Embeddings.starting_at(row, x, self._keys(batch, row))
                row += len(batch)
            if cursor.row < cursor.stop:
                self._leave(cursor)

    def _vectors(self, batch: pa.RecordBatch, first: int) -> Floats:
        x = vectors(batch.column(self.vector), self.d, first, f"{self.path}: column {self.vector}")
        if self.scale is None:
            return x
        where = f"{self.path}: column {self.scale}"
        scale = numbers(batch.column(self.scale), first, where) if isinstance(self.scale, str) else self.scale
        return dequantized(x, scale, first, where)

    def _cursor_at(self, row: int) -> Cursor:
        group = bisect_right(self._firsts, row) - 1
        with self._lock:
            before = [at for at in self._waiting if self._firsts[group] <= at <= row]
            cursor = self._waiting.pop(max(before)) if before else None
        if cursor is None:
            cursor = Cursor(self.path, self.groups[group], self._decoded(group, self.columns, self.decoded_rows))
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
        if self.key is None:
            return
        for number, group in enumerate(self.groups):
            cursor = Cursor(self.path, group, self._decoded(number, [self.key], DECODED_ROWS))
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
