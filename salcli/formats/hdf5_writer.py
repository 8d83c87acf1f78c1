"""HDF5 out: a copy of the input's file with another matrix in the old one's place, or a new file."""

from typing import Any

import h5py
import numpy as np

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError
from salcli.formats.hdf5 import Hdf5Source
from salcli.formats.hdf5_copy import Hdf5Copy
from salcli.formats.hdf5_sink import EARLIEST, Hdf5Sink, utf8_strings
from salcli.formats.hdf5_storage import damage
from salcli.formats.writer import EmbeddingWriter

DEFAULT_MATRIX, DEFAULT_KEYS = "vectors", "keys"


class Hdf5Writer(EmbeddingWriter):
    """Writes a copy of the input's HDF5 file with the new matrix in the old one's place, or a new file."""

    def __init__(
        self,
        path: str,
        *,
        n: int,
        d: int,
        dtype: np.dtype[Any],
        like: Hdf5Source | None,
        has_keys: bool,
        target: str,
    ) -> None:
        self._target, self._sink = target, Hdf5Sink(path, EARLIEST if like is None else like.libver)
        self._file = self._sink.root
        self._dtype, self._row = dtype, 0
        is_copy = like is not None and like.n == n
        name = like.dataset if like else DEFAULT_MATRIX
        copy = None
        if like is not None:
            skipped = {like.dataset} if is_copy else {like.dataset, str(like.keys_name)}
            copy = Hdf5Copy(like.path, like.root, self._file, skipped)
            with damage(f"{like.path}: what stands beside dataset {like.dataset}"):
                copy.groups()
        self._matrix = self._file.create_dataset(name, (n, d), dtype, **_storage(like, d))
        if like is not None and copy is not None:
            with damage(f"{like.path}: attributes of dataset {like.dataset}"):
                copy.attributes(like.root[like.dataset], self._matrix)
        self._keys = None
        if has_keys and not (is_copy and like is not None and like.has_keys):
            keys_name = (like.keys_name if like else None) or DEFAULT_KEYS
            if keys_name in self._file:
                raise FormatError(f"{target}: keys have no place: the input has a dataset {keys_name} of its own")
            self._keys = self._file.create_dataset(keys_name, (n,), h5py.string_dtype())
            if like is not None and copy is not None and like.keys_name is not None:
                with damage(f"{like.path}: attributes of dataset {keys_name}"):
                    copy.attributes(like.root[keys_name], self._keys)
        if like is not None and copy is not None:
            with damage(f"{like.path}: links and references to dataset {like.dataset}"):
                copy.finish()

    def encode(self, batch: Embeddings) -> Embeddings:
        """Lay rows out as they will be written; safe on any thread."""
        return batch.with_vectors(np.ascontiguousarray(batch.vectors, dtype=self._dtype))

    def write(self, piece: Embeddings) -> None:
        """Append rows."""
        stop = self._row + len(piece)
        self._matrix[self._row : stop] = piece.vectors
        if self._keys is not None:
            self._keys[self._row : stop] = utf8_strings(self._target, piece.keys or ())
        self._row = stop
        self._sink.require()

    def close(self) -> None:
        """Flush and close."""
        self._sink.close()

    def discard(self) -> None:
        """Close."""
        self._sink.close()


def _storage(like: Hdf5Source | None, d: int) -> dict[str, Any]:
    """Chunk and compress as the input did."""
    source = None if like is None else like.root[like.dataset]
    if source is None or source.chunks is None:
        return {}
    rows, columns = source.chunks
    return {
        "chunks": (min(rows, source.shape[0]), min(columns, d)),
        "maxshape": (source.maxshape[0], source.maxshape[1] if d == source.shape[1] else d),
        "compression": source.compression,
        "compression_opts": source.compression_opts,
        "shuffle": source.shuffle,
        "fletcher32": source.fletcher32,
    }
