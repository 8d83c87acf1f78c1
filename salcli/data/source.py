"""How rows are addressed and read: a `Source` is an ordered list of `Shard`s, and a `Chunk` is some rows of one.

A format implements a `Reader`: one file, or one array in it. `salcli.streaming` has a glossary.
"""

import copy
import threading
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings, Floats, Rows
from salcli.data.hashes import digest_of, hasher
from salcli.errors import FormatError, warn
from salcli.linalg.decompositions import all_finite

MAX_DIMENSIONS = 1 << 20  # a row is read whole, so this bounds memory
PARTITION_ELEMENTS, PARTITION_ROWS = 1 << 23, 1 << 18  # labels and their positions take memory for each row
CHECKED_AT_ONCE = 16  # files
RESTORED_SHARDS = 8  # unpickled shards whose files one process keeps open
_EMPTY = "{}: no rows to read: the matrix is empty, {:,} rows of {} dimensions"


def partition_rows(d: int, elements: int | None = None) -> int:
    """Return the number of rows of a partition, a power of two.

    No chunk crosses a multiple of it, so sums can be added up partition by partition and do not depend on the chunks.

    Parameters
    ----------
    d : dimensions
    elements : at most so many numbers, if a row has no more; default: `PARTITION_ELEMENTS`
    """
    elements = elements or PARTITION_ELEMENTS
    return int(1 << (min(max(1, elements // max(1, d)), PARTITION_ROWS).bit_length() - 1))


def row_ranges(n: int, rows: int, partition: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of consecutive ranges that cover 0…n.

    Parameters
    ----------
    n : rows
    rows : of a range, at most
    partition : no range crosses a multiple of it; default: one partition
    """
    partition = partition or max(1, n)
    for first in range(0, n, partition):
        last = min(first + partition, n)
        yield from ((start, min(start + rows, last)) for start in range(first, last, rows))


class Reader(ABC):
    """One file of vectors, or one array in it, as its format reads it; rows count from 0.

    `read` and `batches` may be called on any thread. A reader pickles as a description: an open file is left out, and
    opened again when another process reads from it.
    """

    path: str
    """Name of the file in messages."""
    format: str
    """The name of its `Format`."""
    n: int
    """Rows; 0 of shards without any."""
    d: int
    """Dimensions; 0 if a file without rows does not say them."""
    dtype: np.dtype[Any]
    """Type of the numbers in the file (text: the type it is parsed to)."""
    has_keys: bool = False
    """Whether each row has a key."""
    partition: int
    """Rows of a partition; no chunk crosses a multiple of it."""
    fills_buffers: bool = False
    """Whether `batches` reads the file straight into its buffer, without a copy of the chunk in between."""
    decoded_rows: int | None = None
    """Rows that are decoded at once, into a processor's cache, as batches should have; None: any number will do."""

    has_columns: bool = False
    """Whether its companions are columns of a table, whose rows are left out where those of the matrix are."""

    @property
    def innermost(self) -> "Reader":
        """The reader of the file itself, where this one wraps another."""
        return self

    def adopt(self, other: "Reader") -> None:  # noqa: B027 (most files say all without rows)
        """Take over from another shard what a file without rows does not say, such as its width.

        Parameters
        ----------
        other : a shard with rows
        """

    @abstractmethod
    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows `start`… to `stop` (exclusive) of the file, in memory of their own.

        Raises
        ------
        FormatError : the file is damaged
        """

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches, which may share one buffer: each is then overwritten when the next one is read.

        Keys that take time to decode are left out.

        Parameters
        ----------
        start, stop : the first row, and the row after the last
        rows : of a batch, at most
        out : the buffer, `[rows, d]` of the file's dtype; default: the reader's own

        Raises
        ------
        FormatError : the file is damaged
        """
        whole = self.read(start, stop)
        for first in range(0, len(whole), rows):
            batch = whole if len(whole) <= rows else whole.take(slice(first, first + rows))
            if out is not None:
                np.copyto(out[: len(batch)], batch.vectors)
                batch = batch.with_vectors(out[: len(batch)])
            yield batch

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order, without parsing vectors where the format allows it."""
        if self.has_keys:
            yield from (self.read(start, stop).keys or () for start, stop in self.ranges())

    def place(self, row: int) -> str:
        """Return where `row` is, as messages name it: `line 3` or `row 2`."""
        return f"row {row}"

    def companions(self) -> dict[str, tuple[int, ...]]:
        """Return the arrays beside the matrix and its keys: name → shape (`(n,)` where it is not known)."""
        return {}

    @abstractmethod
    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the file as it is on disk, in hexadecimal digits.

        Parameters
        ----------
        algorithm : of `hasher`
        is_wanted : called between reads; hashing stops early when it returns False
        """

    def hash_as_read(self, algorithm: str) -> bool:  # noqa: ARG002 (readers of files use it)
        """Return whether what is read from now on is hashed too, so that `digest` reads no more than the rest.

        Parameters
        ----------
        algorithm : of the `digest` that follows
        """
        return False

    def require_unchanged(self) -> None:  # noqa: B027 (readers of files use it)
        """Check, after the last row was read, that the file is the one that was opened.

        Raises
        ------
        FormatError : it has changed, so that rows of two files may have been read
        """

    @abstractmethod
    def close(self) -> None:
        """Issue the warnings that reading has collected, and close the file."""


class ArrayReader(Reader):
    """Rows in memory."""

    format = "array"
    fills_buffers = True  # as files of arrays do, so that sums are added up in the same groups

    def __init__(self, x: NDArray[Any], path: str = "x", keys: tuple[str, ...] | None = None) -> None:
        """Wrap rows `x` `[n, d]` of a float dtype, perhaps with n `keys`; `path` names them in messages."""
        require_shape(path, *x.shape)
        require_rows(path, *x.shape)
        self.path, self._x, self._keys, self.has_keys = path, x, keys, keys is not None
        self.n, self.d = x.shape
        self.dtype, self.partition = x.dtype, partition_rows(self.d)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk: one for each partition."""
        return row_ranges(self.n, self.partition, self.partition)

    def read(self, start: int, stop: int) -> Embeddings:
        """Return the rows, without a copy (see `Reader.read`)."""
        return Embeddings.starting_at(start, self._x[start:stop], self._keys and self._keys[start:stop])

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:  # noqa: ARG002 (readers of files use it)
        """Return the hash of the rows' bytes in C order (see `Reader.digest`)."""
        found = hasher(algorithm)
        found.update(self._x.tobytes())
        return found.hexdigest()

    def close(self) -> None:
        """Do nothing: there is no file."""


@dataclass(frozen=True, eq=False)
class Shard:
    """One file of a source (or one array in it): its reader, and where its rows begin among those of the source.

    Every row that is read is checked to be finite. A shard pickles without open files; all unpickled copies of one
    shard are one object in a process, so that its file is opened, and unpacked, once.
    """

    reader: Reader
    first: int = 0
    """Its first row, counted through all shards of the source."""
    dropped: Rows | None = None
    """Rows of the source with NaN or Inf that are left out, ascending; None: such a row is an error."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    digests: dict[str, str] = field(default_factory=dict)
    """Of its file, by algorithm, as far as they are known."""
    hashing: threading.Lock = field(default_factory=threading.Lock)
    """While its file is hashed, which several threads need."""

    def __reduce__(self) -> Any:
        return _restored, (self.token, self.reader, self.first, self.dropped)

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of its file (see `Reader.digest`), which is computed once."""
        with self.hashing:
            if algorithm not in self.digests:
                found = self.reader.digest(algorithm, is_wanted)
                if is_wanted is not None and not is_wanted():
                    return found  # of a part of the file
                self.digests[algorithm] = found
            return self.digests[algorithm]

    def chunks(self) -> Iterator["Chunk"]:
        """Yield the chunks in file order."""
        for start, stop in self.reader.ranges():
            yield Chunk(self, self.first + start, self.first + stop)

    def finish(self, batch: Embeddings, *, is_checked: bool = True) -> Embeddings:
        """Return a batch with rows counted through all shards, without those that are dropped.

        Parameters
        ----------
        batch : rows of the shard's file, counted from its first
        is_checked : False: do not look for NaN and Inf where such rows are an error

        Raises
        ------
        FormatError : a row is not finite, and such rows are not dropped
        """
        batch = Embeddings(batch.vectors, batch.rows + self.first, batch.keys) if self.first else batch
        if (self.dropped is None and not is_checked) or all_finite(batch.vectors):
            return batch
        is_finite = np.isfinite(batch.vectors).all(axis=1)
        if is_finite.all():
            return batch
        if self.dropped is not None:
            return batch.take(~np.isin(batch.rows, self.dropped))
        bad = int(np.argmin(is_finite))
        value = batch.vectors[bad][~np.isfinite(batch.vectors[bad])][0]
        where = self.reader.place(int(batch.rows[bad]) - self.first)
        counted = "" if where.startswith("line") else "; rows count from 0"
        key = "" if batch.keys is None else f" ({batch.keys[bad][:40]!r})"
        raise FormatError(
            f"{self.reader.path}: {where}{key}: {value}, expected finite numbers "
            f"(`allow_nonfinite` drops such rows{counted})"
        )


_shards: "OrderedDict[str, Shard]" = OrderedDict()
"""The shards that were unpickled last in this process, by their token."""
_restoring = threading.Lock()


def _restored(token: str, reader: Reader, first: int, dropped: Rows | None) -> Shard:
    with _restoring:
        shard = _shards.setdefault(token, Shard(reader, first, dropped, token))
        _shards.move_to_end(token)
        while len(_shards) > RESTORED_SHARDS:
            _shards.popitem(last=False)
        return shard


def restored_shard(token: str) -> Shard | None:
    """Return the shard of this `token` that was unpickled in this process; None: it is not among the last."""
    return _shards.get(token)


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a shard that are read at once: a description that can be pickled and read in any process."""

    shard: Shard
    start: int
    """Its first row, counted through all shards of the source."""
    stop: int
    """The row after its last."""

    @property
    def n_rows(self) -> int:
        """Number of rows, dropped ones included."""
        return self.stop - self.start

    def partition(self, n: int = 1) -> tuple[int, int]:
        """Return its group of `n` partitions: (first row of the shard, number of the group)."""
        return self.shard.first, (self.start - self.shard.first) // (self.shard.reader.partition * n)

    def read(self) -> Embeddings:
        """Return the rows, read into new memory.

        Returns
        -------
        the rows that are not dropped

        Raises
        ------
        FormatError : the file is damaged, or a row is not finite
        """
        first = self.shard.first
        return self.shard.finish(self.shard.reader.read(self.start - first, self.stop - first))

    def batches(self, rows: int, *, out: Floats | None = None, is_checked: bool = True) -> Iterator[Embeddings]:
        """Read the rows, at most `rows` at a time; a batch's vectors are overwritten when the next one is read.

        Parameters
        ----------
        rows : rows of a batch
        out : memory `[rows, d]` of the file's dtype that every batch is read into, which the caller may then change
        is_checked : False for a pass that detects NaN and Inf itself; `read` then names the row

        Raises
        ------
        FormatError : as `read`
        """
        first = self.shard.first
        for batch in self.shard.reader.batches(self.start - first, self.stop - first, rows, out):
            yield self.shard.finish(batch, is_checked=is_checked)


class Source:
    """Embeddings in one file or several, of known shape, whose rows are read chunk by chunk.

    Rows are numbered through all shards. Rows that are dropped keep their numbers.
    """

    def __init__(self, readers: Sequence[Reader], *, allow_nonfinite: bool = False, path: str | None = None) -> None:
        """Concatenate readers; with `allow_nonfinite`, pass over all rows once to find those that are dropped.

        Parameters
        ----------
        readers : at least one, in order; the rows of each follow those of the one before
        allow_nonfinite : drop rows with NaN or Inf
        path : the source, as messages name it; default: the first reader's

        Raises
        ------
        FormatError : the readers differ in width, dtype or in whether they have keys, or no row is finite
        """
        first, starts = model_of(readers), np.cumsum([0, *(reader.n for reader in readers)]).tolist()
        for reader in readers:
            require_alike(first, reader)
        self.path, self.format, self.d, self.dtype = path or readers[0].path, first.format, first.d, first.dtype
        self.has_keys, self.partition = first.has_keys, first.partition
        self.n_all: int = starts[-1]
        """Rows, those that are dropped included."""
        shards = (Shard(reader, start) for reader, start in zip(readers, starts, strict=False))
        self.shards = tuple(Shard(s.reader, s.first, _nonfinite_rows(s)) if allow_nonfinite else s for s in shards)
        self.dropped: Rows = np.concatenate(
            [np.zeros(0, np.int64), *(s.dropped for s in self.shards if allow_nonfinite)]
        )
        """`[n_dropped]` rows that are left out, ascending."""
        self.n: int = self.n_all - self.n_dropped
        """Rows that are read."""
        if self.n_dropped:
            if self.n == 0:
                raise FormatError(f"{self.path}: every one of {self.n_all} rows holds NaN or Inf")
            at = self.place(int(self.dropped[0]))
            warn(f"{self.path}: {self.n_dropped} rows with NaN or Inf are dropped, the first at {at}")

    @property
    def n_dropped(self) -> int:
        """How many rows are dropped."""
        return len(self.dropped)

    @property
    def fills_buffers(self) -> bool:
        """Whether batches are read straight into one buffer, whatever the size of a chunk."""
        return all(shard.reader.fills_buffers for shard in self.shards if shard.reader.n)

    def of_shard(self, shard: Shard) -> "Source":
        """Return the source with the rows of one of its shards alone, which keep their numbers."""
        if len(self.shards) == 1:
            return self
        only, reader = copy.copy(self), shard.reader
        only.path, only.partition, only.shards = reader.path, reader.partition, (shard,)
        only.dropped = shard.dropped if shard.dropped is not None else np.zeros(0, np.int64)
        only.n_all, only.n = reader.n, reader.n - len(only.dropped)
        return only

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks in order; iterate on one thread, read on any."""
        for shard in self.shards:
            yield from shard.chunks()

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in order, those of dropped rows included."""
        for shard in self.shards:
            yield from shard.reader.key_batches()

    def kept_rows(self) -> NDArray[np.int64]:
        """Return the numbers `[n]` of the rows that are not dropped."""
        return np.setdiff1d(np.arange(self.n_all), self.dropped)

    def kept_keys(self) -> Iterator[str]:
        """Yield the keys of the rows that are not dropped."""
        dropped = set(self.dropped.tolist())
        keys_of_all = (key for keys in self.key_batches() for key in keys)
        return (key for row, key in enumerate(keys_of_all) if row not in dropped)

    def place(self, row: int) -> str:
        """Return where `row` is, as messages name it: `line 3` or `row 2`; of several files, in which."""
        shard = next(shard for shard in reversed(self.shards) if shard.first <= row)
        place = shard.reader.place(row - shard.first)
        return place if len(self.shards) == 1 else f"{place} of {shard.reader.path}"

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the file as it is on disk (see `Reader.digest`).

        Of several files it is the hash of the list of their digests, one a line.
        """
        return digest_of([shard.digest(algorithm, is_wanted) for shard in self.shards], algorithm)

    def hash_as_read(self, algorithm: str) -> bool:
        """Return whether all files are hashed as they are read (see `Reader.hash_as_read`)."""
        return all(shard.reader.hash_as_read(algorithm) for shard in self.shards)

    def require_unchanged(self) -> None:
        """Check that no file has changed since it was opened (see `Reader.require_unchanged`)."""
        with ThreadPoolExecutor(CHECKED_AT_ONCE) as pool:  # stores answer late
            for _ in pool.map(lambda shard: shard.reader.innermost.require_unchanged(), self.shards):
                pass

    def close(self) -> None:
        """Close all files."""
        for shard in self.shards:
            shard.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def model_of(readers: Sequence[Reader]) -> Reader:
    """Return the first reader that has rows, which the others must be like; the first one where none has."""
    return next((reader for reader in readers if reader.n), readers[0])


def require_alike(first: Reader, other: Reader) -> None:
    """Check that a shard has the width, the dtype and keys, or none, as the first has them.

    Raises
    ------
    FormatError : it has not; names it
    """
    for what in ("d", "dtype", "has_keys"):
        found, expected = getattr(other, what), getattr(first, what)
        if found != expected:
            name = {"d": "dimensions", "dtype": "dtype", "has_keys": "keys"}[what]
            raise FormatError(f"{other.path}: {name} {found}, but {first.path} has {expected}: shards must be alike")


def _nonfinite_rows(shard: Shard) -> Rows:
    rows: list[Rows] = [np.zeros(0, np.int64)]
    for start, stop in shard.reader.ranges():
        batch = shard.reader.read(start, stop)
        if not all_finite(batch.vectors):
            rows.append(batch.rows[~np.isfinite(batch.vectors).all(axis=1)] + shard.first)
    return np.concatenate(rows)


def require_rows(path: str, n: int, d: int) -> None:
    """Check that a matrix has rows; shards of others need none.

    Parameters
    ----------
    path : of the file, for messages
    n, d : rows and dimensions

    Raises
    ------
    FormatError : it has none
    """
    if n == 0:
        raise FormatError(_EMPTY.format(path, n, d))


def require_shape(path: str, n: int, d: int) -> None:
    """Check that the rows of a matrix, if it has any, have columns, and are short enough to be read whole.

    Parameters
    ----------
    path : of the file, for messages
    n, d : rows and dimensions

    Raises
    ------
    FormatError : they have no columns, or d is above `MAX_DIMENSIONS`
    """
    if n and d == 0:
        raise FormatError(_EMPTY.format(path, n, d))
    if d > MAX_DIMENSIONS:
        raise FormatError(
            f"{path}: {n:,} rows of {d} dimensions: at most {MAX_DIMENSIONS} dimensions are read; is it transposed?"
        )
