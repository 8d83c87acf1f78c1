"""The rows of a file through a change, chunk by chunk, into a writer."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings, empty_aligned
from salcli.data.source import Chunk, Source
from salcli.errors import RangeError, RowRangeError
from salcli.formats.base import Writer
from salcli.formats.keys import KeyCensus
from salcli.options import BLOCK_ELEMENTS, block_rows
from salcli.streaming.engine import current_engine, ordered_map
from salcli.streaming.progress import Progress

UNIT = 1e-3  # of a length of 1: rows that were rounded to float16, or to few decimals, count as well
SENT_BYTES = 16 << 20  # of rows that come from another process at once

Change = Callable[[NDArray[Any], NDArray[Any] | None], NDArray[Any]]


@dataclass(frozen=True)
class Streamed:
    """The number of rows that were changed, and whether they had and have length 1."""

    n: int
    were_unit: bool = True
    """Whether all had length 1 before."""
    are_unit: bool = True
    """Whether all have length 1 after, where all had before."""
    digest: str | None = None
    """Hash of the file that was written, if it was hashed in step."""

    def __add__(self, other: "Streamed") -> "Streamed":
        return Streamed(self.n + other.n, self.were_unit and other.were_unit, self.are_unit and other.are_unit)


def _changed(change: Change, x: NDArray[Any], out: NDArray[Any] | None) -> tuple[NDArray[Any], Streamed]:
    were_unit = _are_unit(x[:1]) and _are_unit(x)  # before `out` overwrites them
    y = change(x, out)
    return y, Streamed(len(x), were_unit, were_unit and _are_unit(y))


def _changed_chunk(change: Change, chunk: Chunk) -> tuple[Embeddings, Streamed]:
    batch = chunk.read()
    try:
        vectors, part = _changed(change, batch.vectors, None)
    except RowRangeError as error:
        raise RowRangeError(int(batch.rows[error.row]), error.why) from None  # counted through all shards
    return batch.with_vectors(vectors), part


@dataclass(frozen=True)
class _Changed:
    """The changed rows of consecutive chunks; it can be pickled."""

    change: Change

    def __call__(self, chunks: list[Chunk]) -> list[tuple[Embeddings, Streamed]]:
        return [_changed_chunk(self.change, chunk) for chunk in chunks]


def _grouped(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Yield consecutive chunks of about `SENT_BYTES`."""
    some, n_bytes = list[Chunk](), 0
    for chunk in chunks:
        some.append(chunk)
        n_bytes += chunk.n_rows * chunk.shard.reader.d * chunk.shard.reader.dtype.itemsize
        if n_bytes >= SENT_BYTES:
            yield some
            some, n_bytes = [], 0
    if some:
        yield some


def _are_unit(x: NDArray[Any]) -> bool:
    exact = x.astype(np.promote_types(x.dtype, np.float32), copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", exact, exact)
    return bool(np.all(np.abs(squares - 1) <= 2 * UNIT))


def stream_through(
    source: Source,
    writer: Writer,
    change: Change,
    progress: Progress,
    *,
    at_once: int | None = None,
    block_elements: int = BLOCK_ELEMENTS,
    census: KeyCensus | None = None,
) -> Streamed:
    """Write all rows, changed, in file order.

    Parameters
    ----------
    source : the rows
    writer : takes the changed rows
    change : takes rows, and memory that it may use for the result (or None), which may be that of the rows
    progress : shows the pass
    at_once : rows that `change` takes at once, if the writer takes them in any order; it must raise on NaN and Inf
    block_elements : numbers that `change` takes at once otherwise
    census : counts the keys

    Returns
    -------
    how many rows were written, and whether they had and have length 1

    Raises
    ------
    RangeError : a changed number that the dtype cannot hold; the message names the row
    FormatError : the file is damaged, or a row is not finite
    """
    census, done, rows = census or KeyCensus(), Streamed(0), at_once or block_rows(source.d, block_elements)

    def encoded(chunk: Chunk) -> tuple[Any, tuple[str, ...] | None, Streamed]:
        batch, part = _changed_chunk(change, chunk)
        return writer.encode(batch), batch.keys, part

    def placed(chunk: Chunk) -> tuple[None, None, Streamed]:
        row, memory = chunk.start, empty_aligned(min(rows, chunk.n_rows), source.d, source.dtype)
        total = Streamed(0)
        try:
            for batch in chunk.batches(len(memory), out=memory, is_checked=at_once is None):
                vectors, part = _changed(change, batch.vectors, memory[: len(batch)])
                writer.place(row, vectors)
                row, total = row + len(batch), total + part
        except RowRangeError as error:
            chunk.read()  # NaN and Inf in the file are another fault
            raise RowRangeError(row + error.row, error.why) from None
        return None, None, total

    is_placed = writer.takes_places and not source.has_keys and not source.n_dropped
    if current_engine().shares_memory:
        pieces = (piece for piece in ordered_map(placed if is_placed else encoded, source.chunks()))
    else:
        found = ordered_map(_Changed(change), _grouped(source.chunks()))
        pieces = ((writer.encode(batch), batch.keys, part) for some in found for batch, part in some)
    try:
        with closing(pieces), progress.stage("apply", source.n) as advance:  # an engine may keep a turn until its end
            for piece, keys, part in pieces:
                if piece is not None:
                    writer.write(piece)
                census.add(keys or ())
                done += part
                advance(part.n)
    except RowRangeError as error:
        raise RangeError(f"{source.path}: {source.place(error.row)}, {error.why}") from None
    return done
