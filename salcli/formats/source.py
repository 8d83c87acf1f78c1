"""`EmbeddingSource`: an embedding file as a list of slabs that any thread may read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError

SLAB_BYTES = 4 << 20  # big enough to hide the overhead of a call, small enough that a few stay in the cache


@dataclass(frozen=True, eq=False)
class Slab:
    """Consecutive rows that are read in one go."""

    start: int
    """Its first row."""
    n_rows: int
    """How many rows it spans."""
    read: Callable[[], Embeddings]
    """Read them; safe on any thread."""

    def then(self, change: Callable[[Embeddings], Embeddings]) -> "Slab":
        """Read these rows and pass them through `change`."""
        return Slab(self.start, self.n_rows, lambda: change(self.read()))


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

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order; iterate on one thread, read on any."""

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order, without parsing vectors where the format allows it."""

    def place(self, row: int) -> str:
        """Say where a row stands, as the user would look for it: `line 3` or `row 2`."""

    def sha256(self) -> str:
        """Hash the file as it lies on disk."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read an embedding file. The defaults find out everything."""

    format: str | None = None
    """Force a format."""
    dataset: str | None = None
    """The matrix inside an HDF5 or npz file."""
    keys_dataset: str | None = None
    """The keys inside an HDF5 or npz file."""
    keys_file: str | None = None
    """A text file with one key a line, for files without keys."""
    batch_rows: int | None = None
    """Rows of a slab; default: about 4 MiB."""
    allow_nonfinite: bool = False
    """Drop rows with NaN or Inf instead of refusing the file."""
    text_dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    """What text is parsed to (the parser reads float64 and rounds once, as gensim does)."""

    def rows_per_slab(self, row_bytes: int, multiple_of: int = 1) -> int:
        """Choose how many rows make a slab."""
        rows = self.batch_rows or max(1, SLAB_BYTES // max(1, row_bytes))
        return rows if self.batch_rows else max(1, rows // multiple_of) * multiple_of


def row_ranges(n: int, rows: int) -> Iterator[tuple[int, int]]:
    """Cut 0…n into (start, stop) of at most `rows`."""
    return ((start, min(start + rows, n)) for start in range(0, n, rows))


def require_shape(path: str, n: int, d: int) -> None:
    """Refuse a matrix without rows or columns."""
    if n == 0 or d == 0:
        raise FormatError(f"{path}: no rows to read: the matrix is empty, {n} rows of {d} dimensions")


def first_nonfinite(batch: Embeddings) -> int | None:
    """Find the first row with NaN or Inf; None if all is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = batch.vectors.sum(dtype=np.float32 if batch.vectors.itemsize < 4 else None)
    if np.isfinite(total):  # NaN and Inf never leave a sum, so this one pass is enough
        return None
    bad = np.flatnonzero(~np.isfinite(batch.vectors).all(axis=1))
    return int(bad[0]) if len(bad) else None
