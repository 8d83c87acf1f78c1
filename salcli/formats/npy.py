"""`.npy`: a header, then the numbers, in C or Fortran order and any byte order."""

import io
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError
from salcli.formats.bytefile import ByteFile
from salcli.formats.npy_header import read_header
from salcli.formats.pages import mapped
from salcli.formats.source import Slab, require_shape, row_ranges
from salcli.formats.writer import EmbeddingWriter
from salcli.options import ReadOptions, unit_rows


@dataclass(frozen=True)
class NpyLayout:
    """What the header says."""

    n: int
    d: int
    dtype: np.dtype[Any]
    is_fortran: bool
    offset: int
    """Where the numbers begin."""

    @property
    def n_bytes(self) -> int:
        """Bytes of all numbers."""
        return self.n * self.d * self.dtype.itemsize


def read_layout(head: bytes, name: str) -> NpyLayout:
    """Read and check a header.

    Raises
    ------
    FormatError : not a 2-D array of floats
    """
    header = read_header(head, name)
    require_float_matrix(name, header.shape, header.dtype)
    return NpyLayout(header.shape[0], header.shape[1], header.dtype, header.is_fortran, header.offset)


def require_float_matrix(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what is not a 2-D array of floats, saying what it is."""
    if dtype.hasobject:
        raise FormatError(
            f"{name}: an object array (a Python pickle inside), which could run code when loaded: save plain floats"
        )
    if dtype.names is not None:
        raise FormatError(
            f"{name}: a structured dtype with the fields {', '.join(dtype.names)[:120]}, expected one float dtype"
        )
    if dtype == np.dtype("V2"):
        raise FormatError(f"{name}: dtype |V2 (bfloat16, which numpy has no name for): convert it to float32 first")
    if dtype.kind != "f":
        raise FormatError(f"{name}: dtype {dtype}, expected floats: convert it with .astype('float32')")
    if len(shape) != 2:
        hint = "pool or squeeze it first, that choice is yours" if len(shape) > 2 else "expected rows and dimensions"
        raise FormatError(f"{name}: shape {str(shape)[:60]} is not 2-D: {hint}")


class NpySource:
    """A `.npy` file, or an array inside an `.npz`."""

    has_keys = False

    def __init__(self, file: ByteFile, options: ReadOptions, *, format_name: str = "npy") -> None:
        self.path, self.format = file.name, format_name
        layout = read_layout(file.head(), self.path)
        self._layout, self.n, self.d, self.dtype = layout, layout.n, layout.d, layout.dtype
        self.is_fortran = layout.is_fortran
        require_shape(self.path, self.n, self.d)
        size = file.size
        if size is None and layout.offset + layout.n_bytes > file.most_bytes:
            raise FormatError(
                f"{self.path}: truncated: {self.n} x {self.d} {self.dtype} take {layout.n_bytes} bytes, more than "
                f"{file.compression} can pack into this file"
            )
        if size is not None and size != layout.offset + layout.n_bytes:
            fault = "truncated" if size < layout.offset + layout.n_bytes else "too long"
            raise FormatError(
                f"{self.path}: {fault}: {self.n} x {self.d} {self.dtype} take {layout.n_bytes} bytes, "
                f"{size - layout.offset} bytes follow the header"
            )
        self.file = file.plain() if layout.is_fortran else file
        self.unit = unit_rows(self.d)
        is_bare = self.file.is_plain and not layout.is_fortran
        self._rows = options.rows_per_slab(self.d * self.dtype.itemsize, self.unit, is_bare=is_bare)

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order."""
        ranges = list(row_ranges(self.n, self._rows, self.unit))
        if self.is_fortran:
            for start, stop in ranges:
                yield Slab(start, stop - start, partial(self._columns, start, stop))
            return
        width = self.d * self.dtype.itemsize
        places = [(self._layout.offset + start * width, (stop - start) * width) for start, stop in ranges]
        for (start, stop), place, read in zip(ranges, places, self.file.spans(places, reads_to_end=True), strict=True):
            matrix, bare = partial(self._matrix, start, read), partial(self._vectors, start, stop)
            if self.file.is_plain:
                seen = partial(self._vectors, start, stop, may_map=True)
                forget = partial(self.file.forget, *place)
                yield Slab(start, stop - start, matrix, partial(numbered, start, bare), bare, seen, forget)
            else:
                yield Slab(start, stop - start, matrix)

    def _matrix(self, start: int, read: Callable[[], bytes]) -> Embeddings:
        vectors: Floats = np.frombuffer(read(), self.dtype).reshape(-1, self.d)
        return Embeddings.starting_at(start, vectors)

    def _vectors(self, start: int, stop: int, rows: int, *, may_map: bool = False) -> Iterator[Floats]:
        blocks = range(start, stop, rows)
        return read_blocks(self.file, self._layout.offset, self.dtype, self.d, blocks, stop, may_map=may_map)

    def _columns(self, start: int, stop: int) -> Embeddings:
        item = self.dtype.itemsize
        places = ((self._layout.offset + (j * self.n + start) * item, (stop - start) * item) for j in range(self.d))
        columns = [np.frombuffer(read(), self.dtype) for read in self.file.spans(places)]
        return Embeddings.starting_at(start, np.stack(columns, axis=1))

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """There are no keys."""
        return iter(())

    def place(self, row: int) -> str:
        """Say where a row stands."""
        return f"row {row}"

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk, as long as that is wanted."""
        return self.file.sha256(is_wanted)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def read_blocks(
    file: ByteFile, offset: int, dtype: np.dtype[Any], d: int, starts: range, stop: int, *, may_map: bool = False
) -> Iterator[Floats]:
    """Read rows `starts`… to `stop` of a matrix that lies in C order at `offset`: into one buffer, or as they lie."""
    width, held = d * dtype.itemsize, None
    for start in starts:
        n = min(starts.step, stop - start)
        place = offset + start * width
        is_aligned = place % dtype.itemsize == 0
        pages = mapped(file.handle.fileno(), place, n * width) if may_map and is_aligned else None
        if pages is not None:
            yield np.frombuffer(pages, dtype).reshape(n, d)
            continue
        if held is None:
            buffer = np.empty((n, d), dtype)
            held = buffer.reshape(-1).view(np.uint8).data  # of any dtype: memoryview itself knows few
        file.read_into(held[: n * width], place)
        yield buffer[:n]


def numbered(start: int, read: Callable[[int], Iterator[Floats]], rows: int) -> Iterator[Embeddings]:
    """Give the vectors that `read` gives, `rows` at a time, with row numbers from `start`."""
    for vectors in read(rows):
        yield Embeddings.starting_at(start, vectors)
        start += len(vectors)


def npy_header(n: int, d: int, dtype: np.dtype[Any], *, is_fortran: bool) -> bytes:
    """Spell the header that `numpy.save` would."""
    header = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": is_fortran, "shape": (n, d)}
    np.lib.format.write_array_header_1_0(header, fields)
    return header.getvalue()


class NpyWriter(EmbeddingWriter):
    """Writes a `.npy` file, in the order of the input."""

    def __init__(self, handle: BinaryIO, *, n: int, d: int, dtype: np.dtype[Any], is_fortran: bool = False) -> None:
        self._handle, self._n, self._dtype, self._is_fortran = handle, n, dtype, is_fortran
        header = npy_header(n, d, dtype, is_fortran=is_fortran)
        self._offset, self._row, self.takes_places = len(header), 0, not is_fortran
        self._turn = threading.Lock()  # the system lets one write at a time into a file, and others spin until then
        handle.write(header)

    def encode(self, batch: Embeddings) -> Floats:
        """Lay rows out as they will be written; safe on any thread."""
        order = np.asfortranarray if self._is_fortran else np.ascontiguousarray
        return order(batch.vectors, dtype=self._dtype)

    def place(self, row: int, vectors: Floats) -> None:
        """Write consecutive rows to where they belong; safe on any thread, in any order."""
        left = np.ascontiguousarray(vectors, dtype=self._dtype).reshape(-1).view(np.uint8).data
        offset = self._offset + row * vectors.shape[1] * self._dtype.itemsize
        with self._turn:
            while len(left):
                n = os.pwrite(self._handle.fileno(), left, offset)
                left, offset = left[n:], offset + n

    def write(self, piece: Floats) -> None:
        """Append rows."""
        if not self._is_fortran:
            self._handle.write(piece.data)
        else:
            for j in range(piece.shape[1]):
                self._handle.seek(self._offset + (j * self._n + self._row) * self._dtype.itemsize)
                self._handle.write(piece[:, j].tobytes())
        self._row += len(piece)
