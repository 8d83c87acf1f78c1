"""Files of vectors of nearest-neighbour benchmarks: `.fbin`, `.f16bin` (big-ann-benchmarks) and `.fvecs` (TEXMEX)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError, UsageError
from salcli.formats.base import Output, Writer
from salcli.formats.files import ByteFile
from salcli.formats.plain_rows import RowsReader
from salcli.formats.rows_writer import RowsWriter
from salcli.options import ReadOptions

HEADER_BYTES = 8
FLOAT32, FLOAT16 = np.dtype("<f4"), np.dtype("<f2")
INT32 = np.dtype("<i4")


class FbinReader(RowsReader):
    """Rows and dimensions as uint32, then the rows; the size of the file must be exactly that."""

    def __init__(self, file: ByteFile, options: ReadOptions, *, name: str, dtype: np.dtype[Any]) -> None:
        """Read the header.

        Parameters
        ----------
        file : of the rows
        options : how they are read
        name : of the format
        dtype : of the numbers

        Raises
        ------
        FormatError : it announces other bytes than there are
        """
        self.path, self.format, self.file = file.name, name, file.plain()
        size = self.file.size or 0
        if size < HEADER_BYTES:
            raise FormatError(f"{self.path}: {size} bytes, expected a header of {HEADER_BYTES}: rows and dimensions")
        n, d = np.frombuffer(self.file.read_at(0, HEADER_BYTES), "<u4").tolist()
        expected = HEADER_BYTES + n * d * dtype.itemsize
        if size != expected:
            fault = "truncated" if size < expected else "too long"
            raise FormatError(
                f"{self.path}: {fault}, or not {name}: {n:,} x {d} {dtype} take {expected - HEADER_BYTES:,} bytes, "
                f"{size - HEADER_BYTES:,} bytes follow the header"
            )
        self._set_layout(options, offset=HEADER_BYTES, n=n, d=d, dtype=dtype)


def read_fbin(file: ByteFile, options: ReadOptions) -> FbinReader:
    """Open a file of float32 rows (see `FbinReader`)."""
    return FbinReader(file, options, name="fbin", dtype=FLOAT32)


def read_f16bin(file: ByteFile, options: ReadOptions) -> FbinReader:
    """Open a file of float16 rows (see `FbinReader`)."""
    return FbinReader(file, options, name="f16bin", dtype=FLOAT16)


class FvecsReader(RowsReader):
    """Each row is its dimensions as int32, then as many float32."""

    format = "fvecs"

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Read the width of the first row.

        Parameters
        ----------
        file : of the rows
        options : how they are read

        Raises
        ------
        FormatError : the file is no number of rows of that width
        """
        self.path, self.file = file.name, file.plain()
        size = self.file.size or 0
        d = int(np.frombuffer(self.file.read_up_to(0, 4).ljust(4, b"\0"), INT32)[0])
        if d < 1 or size % (4 * (d + 1)):
            raise FormatError(
                f"{self.path}: truncated, or not fvecs: {size:,} bytes are no number of rows of {d} dimensions, as "
                "the first one announces"
            )
        self._set_layout(options, offset=0, n=size // (4 * (d + 1)), d=d, dtype=FLOAT32)

    def _plain(self, start: int, stop: int, memory: Floats) -> Iterator[Embeddings]:
        raw = np.empty((len(memory), self.d + 1), FLOAT32)
        for first in range(start, stop, len(memory)):
            n = min(len(memory), stop - first)
            self.file.read_into(raw[:n].reshape(-1).view(np.uint8).data, first * 4 * (self.d + 1))
            widths = raw[:n, 0].view(INT32)
            if (widths != self.d).any():
                row = int(np.argmax(widths != self.d))
                raise FormatError(
                    f"{self.path}: row {first + row}: {widths[row]} dimensions, expected {self.d}; rows count from 0"
                )
            memory[:n] = raw[:n, 1:]
            yield Embeddings.starting_at(first, memory[:n])


def _require_dtype(output: Output, name: str, dtype: np.dtype[Any]) -> None:
    if output.dtype.itemsize != dtype.itemsize:
        other = {2: " (or name the output .f16bin)", 4: " (or name the output .fbin)"}.get(output.dtype.itemsize, "")
        raise UsageError(f"{output.target}: {name} holds {dtype}, not {output.dtype}: give `dtype={dtype}`{other}")


def _fbin(output: Output, name: str, dtype: np.dtype[Any]) -> Writer:
    _require_dtype(output, name, dtype)
    if output.n >= 1 << 32:
        raise UsageError(f"{output.target}: {output.n:,} rows, and {name} holds fewer than {1 << 32:,}")
    return RowsWriter(output.open(), np.array([output.n, output.d], "<u4").tobytes(), dtype)


def write_fbin(output: Output) -> Writer:
    """Start the file of `output`, of float32 rows.

    Raises
    ------
    UsageError : the output has other numbers, or too many rows
    """
    return _fbin(output, "fbin", FLOAT32)


def write_f16bin(output: Output) -> Writer:
    """Start the file of `output`, of float16 rows.

    Raises
    ------
    UsageError : the output has other numbers, or too many rows
    """
    return _fbin(output, "f16bin", FLOAT16)


class FvecsWriter(Writer):
    """Writes rows, each behind its width."""

    def __init__(self, output: Output) -> None:
        """Start the file of `output`.

        Raises
        ------
        UsageError : the output has other numbers than float32
        """
        _require_dtype(output, "fvecs", FLOAT32)
        self._handle = output.open()

    def encode(self, batch: Embeddings) -> bytes:
        """Return `batch` as it is laid out in the file; safe on any thread."""
        n, d = batch.vectors.shape
        rows = np.empty((n, d + 1), FLOAT32)
        rows[:, 0] = np.array([d], INT32).view(FLOAT32)
        rows[:, 1:] = batch.vectors
        return rows.tobytes()

    def write(self, piece: bytes) -> None:
        """Append `piece`, which `encode` returned."""
        self._handle.write(piece)
