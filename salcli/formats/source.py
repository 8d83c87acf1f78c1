"""`EmbeddingSource`: an embedding file as a list of slabs that any thread may read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError
from salcli.linalg.decompositions import all_finite

MAX_DIMENSIONS = 1 << 20  # a row is read whole, so this bounds memory


@dataclass(frozen=True, eq=False)
class Slab:
    """Consecutive rows that are read in one go."""

    start: int
    """Its first row."""
    n_rows: int
    """How many rows it spans."""
    read: Callable[[], Embeddings]
    """Read them; safe on any thread."""
    stream: Callable[[int], Iterator[Embeddings]] | None = None
    """Read at most so many rows at a time into one buffer; None where the format cannot."""
    bare: Callable[[int], Iterator[Floats]] | None = None
    """The same, of the vectors alone; None where the format cannot."""
    seen: Callable[[int], Iterator[Floats]] | None = None
    """The same, perhaps the file's own pages, which nobody may write to."""
    forget: Callable[[], None] | None = None
    """Tell the system that nobody will read these rows again; None where the format cannot."""

    def blocks(self, rows: int) -> Iterator[Embeddings]:
        """Read at most `rows` at a time. A block's vectors are gone when the next one is asked for."""
        if self.stream is not None:
            yield from self.stream(rows)
            return
        whole = self.read()
        if len(whole) <= rows:
            yield whole
            return
        for start in range(0, len(whole), rows):
            yield whole.take(slice(start, start + rows))

    def vectors(self, rows: int, *, only_looks: bool = False) -> Iterator[Floats]:
        """Read at most `rows` at a time, as `blocks` does, without row numbers and keys; only to look at, or to own."""
        read = self.seen if only_looks and self.seen is not None else self.bare
        return (block.vectors for block in self.blocks(rows)) if read is None else read(rows)

    def then(self, change: Callable[[Embeddings], Embeddings]) -> "Slab":
        """Read these rows and pass them through `change`."""
        stream = self.stream
        return Slab(
            self.start,
            self.n_rows,
            lambda: change(self.read()),
            None if stream is None else lambda rows: map(change, stream(rows)),
        )


class EmbeddingSource(Protocol):
    """An embedding file whose shape is known and whose rows come slab by slab."""

    path: str
    """Where it is, for messages."""
    format: str
    """npy, npz, h5, word2vec-text, glove or word2vec-bin."""
    n: int
    """Rows."""
    d: int
    """Dimensions."""
    dtype: np.dtype[Any]
    """The numbers' type as it stands in the file (text: the type it is parsed to)."""
    has_keys: bool
    """Whether rows have keys."""
    unit: int
    """No slab reaches over a multiple of so many rows, however many rows slabs have."""

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order; iterate on one thread, read on any."""

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order, without parsing vectors where the format allows it."""

    def place(self, row: int) -> str:
        """Say where a row stands, as the user would look for it: `line 3` or `row 2`."""

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk, as long as that is wanted."""

    def close(self) -> None:
        """Close the file."""


def row_ranges(n: int, rows: int, unit: int | None = None) -> Iterator[tuple[int, int]]:
    """Cut 0…n into (start, stop) of at most `rows` that do not reach over a multiple of `unit`."""
    unit = unit or max(1, n)
    for first in range(0, n, unit):
        last = min(first + unit, n)
        yield from ((start, min(start + rows, last)) for start in range(first, last, rows))


def require_shape(path: str, n: int, d: int) -> None:
    """Refuse a matrix without rows or columns, or whose single rows are too long to be read at once."""
    if n == 0 or d == 0:
        raise FormatError(f"{path}: no rows to read: the matrix is empty, {n} rows of {d} dimensions")
    if d > MAX_DIMENSIONS:
        raise FormatError(
            f"{path}: {n} rows of {d} dimensions: at most {MAX_DIMENSIONS} dimensions are read; is it transposed?"
        )


def first_nonfinite(batch: Embeddings) -> int | None:
    """Find the first row with NaN or Inf; None if all is finite."""
    if all_finite(batch.vectors):
        return None
    bad = np.flatnonzero(~np.isfinite(batch.vectors).all(axis=1))
    return int(bad[0]) if len(bad) else None
