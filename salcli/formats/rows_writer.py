"""`RowsWriter`: a matrix in C order behind a header."""

import io
import os
import threading
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.formats.base import Writer
from salcli.formats.hash_in_step import HashInStep


class RowsWriter(Writer):
    """Writes a matrix in C order behind a header, in file order or (`place`) in any."""

    takes_places = True

    def __init__(self, handle: BinaryIO, header: bytes, dtype: np.dtype[Any]) -> None:
        """Write a header of any bytes to an open file; numbers of `dtype` follow."""
        self._handle, self._header, self._dtype, self._offset = handle, header, dtype, len(header)
        self._turn = threading.Lock()  # the system lets one write at a time into a file, and others spin until then
        self._written: io.FileIO | None = None
        self._hash: HashInStep | None = None
        handle.write(header)
        handle.flush()

    def encode(self, batch: Embeddings) -> Floats:
        """Return `batch` as it is laid out in the file; safe on any thread."""
        return np.ascontiguousarray(batch.vectors, dtype=self._dtype)

    def place(self, row: int, vectors: Floats) -> None:
        """Write consecutive rows where they belong (see `Writer.place`)."""
        piece = np.ascontiguousarray(vectors, dtype=self._dtype).reshape(-1).view(np.uint8).data
        left, offset = piece, self._offset + row * vectors.shape[1] * self._dtype.itemsize
        with self._turn:
            while len(left):
                n = os.pwrite(self._handle.fileno(), left, offset)
                left, offset = left[n:], offset + n
        if self._hash is not None:
            self._hash.add(piece, offset - len(piece))

    def write(self, piece: Floats) -> None:
        """Append `piece`, which `encode` returned."""
        self._handle.write(piece.data)

    def hash_in_step(self, algorithm: str) -> None:
        """Hash rows as they are placed (see `Writer.hash_in_step`)."""
        self._written = io.FileIO(self._handle.name)
        self._hash = HashInStep(algorithm, self._fill)
        self._hash.add(memoryview(self._header), 0)

    def close(self) -> None:
        """Write what is still in memory, and hash what was not hashed in step."""
        self._handle.flush()
        if self._hash is not None:
            self.digest = self._hash.finish()
        self.discard()

    def discard(self) -> None:
        """Close what is open, when the file will not be used."""
        if self._written is not None:
            self._written.close()

    def _fill(self, view: memoryview, offset: int) -> int:
        assert self._written is not None
        self._written.seek(offset)
        return int(self._written.readinto(view))
