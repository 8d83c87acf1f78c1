"""`FiniteSource`: an embedding file without NaN and Inf, by refusing it or (if allowed) by dropping such rows."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError, warn
from salcli.formats.source import EmbeddingSource, Slab, first_nonfinite


class FiniteSource:
    """Checks every row that is read. Dropping costs one pass beforehand, so that n is known from the start."""

    def __init__(self, inner: EmbeddingSource, *, allow_nonfinite: bool) -> None:
        self.inner = inner
        self.path, self.format, self.d, self.dtype = inner.path, inner.format, inner.d, inner.dtype
        self.has_keys, self.unit = inner.has_keys, inner.unit
        self._dropped: NDArray[np.int64] | None = _nonfinite_rows(inner) if allow_nonfinite else None
        self.n = inner.n - (0 if self._dropped is None else len(self._dropped))
        if self._dropped is not None and len(self._dropped):
            if self.n == 0:
                raise FormatError(f"{self.path}: every one of {inner.n} rows holds NaN or Inf")
            first = inner.place(int(self._dropped[0]))
            warn(f"{self.path}: {len(self._dropped)} rows with NaN or Inf are dropped, the first at {first}")

    @property
    def dropped(self) -> NDArray[np.int64]:
        """`[n_dropped]` rows that were dropped, ascending."""
        return np.zeros(0, np.int64) if self._dropped is None else self._dropped

    @property
    def n_dropped(self) -> int:
        """How many rows were dropped."""
        return len(self.dropped)

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order."""
        for slab in self.inner.slabs():
            yield slab.then(self._checked)

    def unchecked_slabs(self) -> Iterator[Slab]:
        """Give the slabs for a pass that notices NaN and Inf by itself, and then asks `check` where they are."""
        return self.inner.slabs() if self._dropped is None else self.slabs()

    def check(self, batch: Embeddings) -> None:
        """Refuse rows with NaN or Inf.

        Raises
        ------
        FormatError : there are some
        """
        self._checked(batch)

    def _checked(self, batch: Embeddings) -> Embeddings:
        bad = first_nonfinite(batch)
        if bad is None:
            return batch
        if self._dropped is None:
            row = int(batch.rows[bad])
            value = batch.vectors[bad][~np.isfinite(batch.vectors[bad])][0]
            where = self.inner.place(row)
            counted = "" if where.startswith("line") else "; rows count from 0"
            key = "" if batch.keys is None else f" ({batch.keys[bad][:40]!r})"
            raise FormatError(
                f"{self.path}: {where}{key}: {value}, expected finite numbers "
                f"(`allow_nonfinite` drops such rows{counted})"
            )
        return batch.take(~np.isin(batch.rows, self._dropped))

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order, those of dropped rows included: rows keep their numbers."""
        return self.inner.key_batches()

    def held_rows(self) -> NDArray[np.int64]:
        """`[n]` numbers of the rows that are not dropped."""
        return np.setdiff1d(np.arange(self.inner.n), self.dropped)

    def held_keys(self) -> Iterator[str]:
        """Give the keys of the rows that are not dropped."""
        dropped = set(self.dropped.tolist())
        every = (key for keys in self.key_batches() for key in keys)
        return (key for row, key in enumerate(every) if row not in dropped)

    def place(self, row: int) -> str:
        """Say where a row stands."""
        return self.inner.place(row)

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk, as long as that is wanted."""
        return self.inner.sha256(is_wanted)

    def close(self) -> None:
        """Close the file."""
        self.inner.close()


def _nonfinite_rows(source: EmbeddingSource) -> NDArray[np.int64]:
    rows: list[Any] = [np.zeros(0, np.int64)]
    for slab in source.slabs():
        batch = slab.read()
        if first_nonfinite(batch) is not None:
            rows.append(batch.rows[~np.isfinite(batch.vectors).all(axis=1)])
    return np.concatenate(rows)
