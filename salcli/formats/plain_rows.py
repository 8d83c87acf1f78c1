"""`RowsReader`: rows of a matrix in C order that begins at some byte of a file."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings, Floats, empty_aligned
from salcli.data.source import partition_rows, require_shape, row_ranges
from salcli.formats.base import FileReader
from salcli.formats.npy import read_batches
from salcli.formats.quantized import dequantized, widened
from salcli.options import ReadOptions


class RowsReader(FileReader):
    """Base of readers of such matrices. `bfloat16` is widened to float32, exactly; int8 times its scale is float16."""

    fills_buffers = True
    is_bfloat16 = False
    scale: float | str | None = None
    """Of int8: a number, or the name of what holds one for each row; None: the numbers are floats."""

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
        read = self._widened if self.is_bfloat16 else self._plain if self.scale is None else self._scaled
        for batch in read(start, stop, memory):
            yield self.keyed(batch)

    def keyed(self, batch: Embeddings) -> Embeddings:
        """Return `batch` with its keys, where the file has some."""
        return batch

    def _plain(self, start: int, stop: int, memory: Floats) -> Iterator[Embeddings]:
        return read_batches(self.file, self._offset, start, stop, memory)

    def scales(self, start: int, stop: int) -> NDArray[Any] | float:  # noqa: ARG002 (of scales of rows)
        """Return the scale of some rows of int8: a number, or one for each row from `start` to `stop` (exclusive)."""
        assert isinstance(self.scale, float)
        return self.scale

    def _scaled(self, start: int, stop: int, memory: Floats) -> Iterator[Embeddings]:
        raw: NDArray[np.int8] = np.empty((len(memory), self.d), np.int8)
        for first in range(start, stop, len(memory)):
            n = min(len(memory), stop - first)
            self.file.read_into(raw[:n].reshape(-1).view(np.uint8).data, self._offset + first * self.d)
            where = f"{self.path}: {self.scale}"
            dequantized(raw[:n], self.scales(first, first + n), first, where, out=memory[:n])
            yield Embeddings.starting_at(first, memory[:n])

    def _widened(self, start: int, stop: int, memory: Floats) -> Iterator[Embeddings]:
        raw: NDArray[np.uint16] = np.empty((len(memory), self.d), "<u2")
        for first in range(start, stop, len(memory)):
            n = min(len(memory), stop - first)
            self.file.read_into(raw[:n].reshape(-1).view(np.uint8).data, self._offset + first * self.d * 2)
            yield Embeddings.starting_at(first, widened(raw[:n], memory[:n]))
