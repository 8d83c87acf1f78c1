"""`KeyedSource`: an embedding file whose keys stand in a text file beside it, one a line."""

from collections.abc import Callable, Iterator

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError
from salcli.formats.keys import read_key_lines
from salcli.formats.source import EmbeddingSource, Slab, row_ranges

KEYS_AT_ONCE = 65_536


class KeyedSource:
    """Adds keys to the rows of another source."""

    has_keys = True

    def __init__(self, inner: EmbeddingSource, keys_path: str) -> None:
        self.inner, self._keys = inner, read_key_lines(keys_path)
        self.path, self.format, self.n, self.d, self.dtype = inner.path, inner.format, inner.n, inner.d, inner.dtype
        self.unit = inner.unit
        if inner.has_keys:
            raise FormatError(f"{self.path}: has keys of its own; `keys_file` is for files without")
        if len(self._keys) != self.n:
            raise FormatError(f"{keys_path}: {len(self._keys)} keys, but {self.path} has {self.n} rows")

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order."""
        for slab in self.inner.slabs():
            yield slab.then(self._keyed)

    def _keyed(self, batch: Embeddings) -> Embeddings:
        return Embeddings(batch.vectors, batch.rows, tuple(self._keys[row] for row in batch.rows.tolist()))

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order."""
        return (self._keys[start:stop] for start, stop in row_ranges(self.n, KEYS_AT_ONCE))

    def place(self, row: int) -> str:
        """Say where a row stands."""
        return self.inner.place(row)

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk, as long as that is wanted."""
        return self.inner.sha256(is_wanted)

    def close(self) -> None:
        """Close the file."""
        self.inner.close()
