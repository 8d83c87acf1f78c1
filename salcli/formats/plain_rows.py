"""`RowsReader`: rows of a matrix in C order that begins at some byte of a file."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings, Floats, empty_aligned
from salcli.data.source import partition_rows, require_shape, row_ranges
from salcli.formats.base import FileReader
from salcli.formats.npy import read_batches
from salcli.options import ReadOptions


class RowsReader(FileReader):
    """Base of readers of such matrices. `bfloat16` is widened to float32, exactly."""

    fills_buffers = True
    is_bfloat16 = False

    def _set_layout(
        self, options: ReadOptions, *, offset: int, n: int, d: int, dtype: np.dtype[Any], name: str = ""
    ) -> None:
        """Check the fields of a header, and set the layout.

        Parameters
        ----------
        options : how rows are read
        offset : of the first number
        n, d, dtype : of the matrix
        name : of the matrix, if the file holds several

        Raises
        ------
        FormatError : the matrix is empty, or too wide
        """
        self._offset, self.n, self.d, self.dtype = offset, n, d, dtype
        require_shape(f"{self.path}{name}", n, d)
        self.partition = partition_rows(d, options.partition_elements)
        self._rows = options.rows_per_chunk(d * dtype.itemsize, self.partition, fills_buffers=True)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order."""
        return row_ranges(self.n, self._rows, self.partition)

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        return next(self.batches(start, stop, stop - start))

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches that share memory (see `Reader.batches`)."""
        memory = empty_aligned(min(rows, stop - start), self.d, self.dtype) if out is None else out[:rows]
        for batch in self._widened(start, stop, memory) if self.is_bfloat16 else self._plain(start, stop, memory):
            yield self.keyed(batch)

    def keyed(self, batch: Embeddings) -> Embeddings:
        """Return `batch` with its keys, where the file has some."""
        return batch

    def _plain(self, start: int, stop: int, memory: Floats) -> Iterator[Embeddings]:
        return read_batches(self.file, self._offset, start, stop, memory)

    def _widened(self, start: int, stop: int, memory: Floats) -> Iterator[Embeddings]:
        raw: NDArray[np.uint16] = np.empty((len(memory), self.d), "<u2")
        for first in range(start, stop, len(memory)):
            n = min(len(memory), stop - first)
            self.file.read_into(raw[:n].reshape(-1).view(np.uint8).data, self._offset + first * self.d * 2)
            # A bfloat16 is the upper half of a float32.
            np.left_shift(raw[:n], 16, out=memory[:n].view(np.uint32), dtype=np.uint32)
            yield Embeddings.starting_at(first, memory[:n])
