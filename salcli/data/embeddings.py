"""`Embeddings`: rows of vectors with their row numbers and, where the file has them, their keys."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import ShapeError

Floats = NDArray[np.floating[Any]]
Rows = NDArray[np.int64]
ALIGNMENT = 4096  # bytes of a page: reading a file into aligned memory is twice as fast


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays with == has no single answer
class Embeddings:
    """Vectors in file order, of a whole file or of a batch, with their row numbers."""

    vectors: Floats
    """`[n, d]` of any float dtype, in the file's own precision."""
    rows: Rows
    """`[n]` row numbers in the file, counted from 0, ascending."""
    keys: tuple[str, ...] | None = None
    """`n` keys as they are in the file (undecodable bytes as surrogates); None where it has no keys."""

    def __post_init__(self) -> None:
        vectors, rows = np.asarray(self.vectors).view(), np.asarray(self.rows, dtype=np.int64).view()
        if vectors.ndim != 2 or vectors.dtype.kind != "f":
            raise ShapeError(f"embeddings are float vectors [n, d], not {vectors.dtype} of shape {vectors.shape}")
        n_keys = len(vectors) if self.keys is None else len(self.keys)
        if len(rows) != len(vectors) or n_keys != len(vectors):
            raise ShapeError(f"{len(vectors):,} vectors, {len(rows):,} row numbers and {n_keys:,} keys do not match")
        vectors.flags.writeable = rows.flags.writeable = False  # our views only, not the caller's arrays
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "rows", rows)

    @classmethod
    def starting_at(cls, start: int, vectors: Floats, keys: tuple[str, ...] | None = None) -> Self:
        """Return consecutive rows, the first of which is row `start` of its file.

        Parameters
        ----------
        start : its number, from 0
        vectors : `[n, d]`
        keys : of the n rows
        """
        return cls(vectors, np.arange(start, start + len(vectors)), keys)

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, index: Any) -> Self:
        """Return the rows that `index` (a boolean mask, positions or a slice) selects."""
        if isinstance(index, slice):
            return type(self)(self.vectors[index], self.rows[index], None if self.keys is None else self.keys[index])
        positions = np.arange(len(self))[index]
        keys = None if self.keys is None else tuple(self.keys[i] for i in positions)
        return type(self)(self.vectors[positions], self.rows[positions], keys)

    def with_vectors(self, vectors: Floats) -> Self:
        """Return these rows and keys with other `vectors` `[n, d']`, perhaps of another width."""
        return type(self)(vectors, self.rows, self.keys)


def empty_aligned(n: int, d: int, dtype: np.dtype[Any]) -> Floats:
    """Return uninitialized memory `[n, d]` of `dtype` that begins with a page, for a file to be read into.

    Parameters
    ----------
    n, d : rows and dimensions
    dtype : of the numbers
    """
    n_bytes = n * d * dtype.itemsize
    memory = np.empty(n_bytes + ALIGNMENT, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[first : first + n_bytes].view(dtype).reshape(n, d)
