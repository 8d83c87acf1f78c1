"""Writing `.npz`: the matrix with the other arrays of the input's archive, or with the keys."""

import zipfile
from typing import Any

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError
from salcli.formats.base import Output, Writer
from salcli.formats.keys import shortened
from salcli.formats.npy import npy_header
from salcli.formats.npz import NpzReader
from salcli.formats.npz_keys import UTF8, write_keys

EPOCH = (1980, 1, 1, 0, 0, 0)  # so that equal content makes equal bytes
COPY_PIECE = 1 << 20
MATRIX, KEYS = "vectors", "keys"


class NpzWriter(Writer):
    """Writes the matrix with the other arrays of the input's `.npz`, or with the keys."""

    def __init__(self, output: Output) -> None:
        """Start the archive of `output`.

        Raises
        ------
        FormatError : the output has an array of its own in the place of the keys
        """
        like = output.model if isinstance(output.model, NpzReader) else None
        self._target, self._shape, self._dtype = output.target, (output.n, output.d), output.dtype
        self._archive = zipfile.ZipFile(output.open(), "w", allowZip64=True)
        self._like, self._beside = like, output.beside
        is_written = output.has_keys and (like is None or output.n != like.n or like.keys is None)
        self._keys: list[str] | None = [] if is_written else None
        if is_written and like is not None and like.keys is None and {KEYS, KEYS + UTF8} & {*like.archive.arrays}:
            raise FormatError(f"{output.target}: keys have no place: {like.path} has an array keys of its own")
        name = like.matrix if like else MATRIX
        self._compression = like.archive.zip.getinfo(f"{name}.npy").compress_type if like else zipfile.ZIP_STORED
        self._matrix_bytes = output.n * output.d * output.dtype.itemsize
        self._member = self._begun(name)

    def _begun(self, name: str) -> Any:
        member = self._open(name)
        member.write(npy_header(self._shape, self._dtype))
        return member

    def begin(self, name: str) -> None:
        """Write the rows that follow to the array called `name`, one of those that are erased too."""
        self._member.close()
        self._dtype = self._beside.erased[name]
        self._member = self._begun(name)

    def _open(self, name: str) -> Any:
        info = zipfile.ZipInfo(f"{name}.npy", EPOCH)
        info.compress_type = self._compression
        return self._archive.open(info, "w", force_zip64=True)

    def encode(self, batch: Embeddings) -> Embeddings:
        """Return `batch` in the dtype of the output; safe on any thread."""
        return batch.with_vectors(np.ascontiguousarray(batch.vectors, dtype=self._dtype))

    def write(self, piece: Embeddings) -> None:
        """Append `piece`, which `encode` returned."""
        vectors: Floats = piece.vectors
        self._member.write(vectors.tobytes())
        if self._keys is not None:
            self._keys.extend(piece.keys or ())

    def close(self) -> None:
        """Copy the other arrays, or write the keys, and finish the archive."""
        self._member.close()
        skipped = {self._like.matrix} if self._like else set()
        if self._keys is not None:
            old = self._like.keys if self._like else None
            skipped.update(old.arrays if old else ())
            write_keys(self._open, old.name if old else KEYS, self._keys, self._matrix_bytes, self._target)
        for name in self._like.archive.arrays if self._like else ():
            is_key = self._like is not None and self._like.keys is not None and name in self._like.keys.arrays
            if name not in skipped and (is_key or self._beside.is_copied(name)):
                self._copy(name)
        self._archive.close()

    def _copy(self, name: str) -> None:
        assert self._like is not None
        source = self._like.archive.stream(f"{name}.npy", f"{self._like.path}[{shortened(name)}]")
        with self._open(name) as target:
            while piece := source.read(COPY_PIECE):
                target.write(piece)

    def discard(self) -> None:
        """Close, so that nothing is written when the writer is garbage-collected."""
        self._member.close()
        self._archive.close()
