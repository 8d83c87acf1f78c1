"""`.npy`: a header, then the numbers, in C or Fortran order and any byte order."""

import io
import sys
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats, empty_aligned
from salcli.data.source import partition_rows, require_shape, row_ranges
from salcli.errors import FormatError, first_line
from salcli.formats.base import FileReader, Output
from salcli.formats.files import ByteFile
from salcli.formats.rows_writer import RowsWriter
from salcli.options import ReadOptions


@dataclass(frozen=True)
class NpyLayout:
    """Shape, dtype and order of a matrix in a file."""

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
    """Return the layout of a matrix from its header, after checking it.

    Parameters
    ----------
    head : the first bytes of the array
    name : for messages

    Raises
    ------
    FormatError : the header is damaged, or not of a 2-D array of floats
    """
    header = read_header(head, name)
    require_float_matrix(name, header.shape, header.dtype)
    return NpyLayout(header.shape[0], header.shape[1], header.dtype, header.is_fortran, header.offset)


def require_float_matrix(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that an array is 2-D and of floats.

    Parameters
    ----------
    name : for messages
    shape : of the array
    dtype : of the array

    Raises
    ------
    FormatError : it is not; the message names what it is
    """
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


class NpyReader(FileReader):
    """A `.npy` file, or an array inside an `.npz`."""

    def __init__(self, file: ByteFile, options: ReadOptions, *, format_name: str = "npy") -> None:
        """Read the header.

        Parameters
        ----------
        file : of the array
        options : how rows are read
        format_name : of the format

        Raises
        ------
        FormatError : it announces other bytes than there are, or is no 2-D array of floats
        """
        self.path, self.format = file.name, format_name
        layout = read_layout(file.head(), self.path)
        self._layout, self.n, self.d, self.dtype = layout, layout.n, layout.d, layout.dtype
        self.is_fortran, self.fills_buffers = layout.is_fortran, not layout.is_fortran
        require_shape(self.path, self.n, self.d)
        end = layout.offset + layout.n_bytes
        if end > file.most_bytes and not file.is_plain:
            raise FormatError(
                f"{self.path}: truncated: {self.n} x {self.d} {self.dtype} take {layout.n_bytes} bytes, more than "
                f"{file.compression} can pack into this file"
            )
        self.file = file.plain(n_bytes=end)
        if (size := file.size) is not None and size != end:
            fault = "truncated" if size < end else "too long"
            raise FormatError(
                f"{self.path}: {fault}: {self.n} x {self.d} {self.dtype} take {layout.n_bytes} bytes, "
                f"{size - layout.offset} bytes follow the header"
            )
        self.partition = partition_rows(self.d, options.partition_elements)
        self._rows = options.rows_per_chunk(
            self.d * self.dtype.itemsize, self.partition, fills_buffers=self.fills_buffers
        )

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order."""
        return row_ranges(self.n, self._rows, self.partition)

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        if self.is_fortran:
            return Embeddings.starting_at(start, self._columns(start, stop))
        return next(read_batches(self.file, self._layout.offset, start, stop, self._memory(stop - start)))

    def batches(self, start: int, stop: int, rows: int, out: Floats | None = None) -> Iterator[Embeddings]:
        """Yield rows in batches that share memory (see `Reader.batches`)."""
        if self.is_fortran:
            return super().batches(start, stop, rows, out)
        memory = self._memory(min(rows, stop - start)) if out is None else out[:rows]
        return read_batches(self.file, self._layout.offset, start, stop, memory)

    def _memory(self, rows: int) -> Floats:
        return empty_aligned(rows, self.d, self.dtype)

    def _columns(self, start: int, stop: int) -> Floats:
        item = self.dtype.itemsize
        places = (self._layout.offset + (j * self.n + start) * item for j in range(self.d))
        columns = [np.frombuffer(self.file.read_at(place, (stop - start) * item), self.dtype) for place in places]
        return np.stack(columns, axis=1)


def read_batches(file: ByteFile, offset: int, start: int, stop: int, memory: Floats) -> Iterator[Embeddings]:
    """Yield rows of a matrix in C order, read again and again into the same memory.

    Parameters
    ----------
    file : a plain file
    offset : bytes before the matrix
    start, stop : the first row, and the row after the last
    memory : contiguous `[rows, d]` of the matrix's dtype; a batch has that many rows, the last one fewer

    Raises
    ------
    FormatError : the file ends too early
    """
    width = memory.shape[1] * memory.dtype.itemsize
    view = memory.reshape(-1).view(np.uint8).data  # of any dtype: memoryview itself has few
    for first in range(start, stop, len(memory)):
        n = min(len(memory), stop - first)
        file.read_into(view[: n * width], offset + first * width)
        yield Embeddings.starting_at(first, memory[:n])


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any], *, is_fortran: bool = False) -> bytes:
    """Return the header that `numpy.save` writes for an array.

    Parameters
    ----------
    shape : of the array
    dtype : of the array
    is_fortran : whether columns follow one another
    """
    header = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": is_fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(header, fields)
    return header.getvalue()


class NpyWriter(RowsWriter):
    """Writes a `.npy` file, in the order of the input."""

    def __init__(self, handle: BinaryIO, *, n: int, d: int, dtype: np.dtype[Any], is_fortran: bool = False) -> None:
        super().__init__(handle, npy_header((n, d), dtype, is_fortran=is_fortran), dtype)
        self._n, self._is_fortran, self._row, self.takes_places = n, is_fortran, 0, not is_fortran

    @classmethod
    def create(cls, output: Output) -> "NpyWriter":
        """Return a writer for `output`, in the order of the input."""
        is_fortran = getattr(output.model, "is_fortran", False)
        return cls(output.open(), n=output.n, d=output.d, dtype=output.dtype, is_fortran=is_fortran)

    def encode(self, batch: Embeddings) -> Floats:
        """Return `batch` as it is laid out in the file; safe on any thread."""
        order = np.asfortranarray if self._is_fortran else np.ascontiguousarray
        return order(batch.vectors, dtype=self._dtype)

    def write(self, piece: Floats) -> None:
        """Append `piece`, which `encode` returned."""
        if not self._is_fortran:
            super().write(piece)
        else:
            for j in range(piece.shape[1]):
                self._handle.seek(self._offset + (j * self._n + self._row) * self._dtype.itemsize)
                self._handle.write(piece[:, j].tobytes())
        self._row += len(piece)


STRINGS_AT_ONCE = 1 << 20  # bytes
# Format 3.0 differs from 2.0 in the encoding of field names only, and arrays with fields are refused.
HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}
HEADER_FAULTS = (
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    MemoryError,
    RecursionError,
    SyntaxError,
    tokenize.TokenError,
)


@dataclass(frozen=True)
class NpyHeader:
    """What precedes the numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    offset: int
    """Where the numbers begin."""

    @property
    def n_items(self) -> int:
        """How many numbers (or strings) the shape announces."""
        items = 1
        for size in self.shape:
            items *= size
        return items

    @property
    def n_bytes(self) -> int:
        """Bytes they take."""
        return self.n_items * self.dtype.itemsize


def read_header(head: bytes, name: str) -> NpyHeader:
    """Return a header of format version 1, 2 or 3, after checking it.

    Parameters
    ----------
    head : the first bytes of the array, at least 10,012 (numpy's limit of a header) if there are so many
    name : for messages

    Raises
    ------
    FormatError : it is no such header
    """
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in HEADER_READERS:
            raise FormatError(f"{name}: npy format version {version[0]}.{version[1]}, expected 1.0, 2.0 or 3.0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers of Python 2, and what the parser warns of in damaged headers
            shape, is_fortran, dtype = HEADER_READERS[version](stream)
    except HEADER_FAULTS as error:
        raise FormatError(f"{name}: damaged npy header: {first_line(error)}") from error
    if not all(type(size) is int and 0 <= size < 1 << 63 for size in shape):  # numpy does not check
        raise FormatError(f"{name}: damaged npy header: shape {shape!r:.60}, expected whole numbers from 0 to 2⁶³ − 1")
    return NpyHeader(shape, dtype, is_fortran, stream.tell())


def read_strings(file: ByteFile, header: NpyHeader, name: str) -> tuple[str, ...]:
    """Return a list of strings, read in memory that follows the sum of their lengths.

    Parameters
    ----------
    file : the array's
    header : of it, with one dimension
    name : for messages

    Raises
    ------
    FormatError : as `strings`
    """
    stream, width = file.stream(), header.dtype.itemsize
    stream.read(header.offset)
    sizes = (stop - start for start, stop in row_ranges(header.n_items, max(1, STRINGS_AT_ONCE // width)))
    pieces = (strings(stream.read(size * width), header.dtype, name) for size in sizes)
    return tuple(key for piece in pieces for key in piece)


def strings(data: bytes, dtype: np.dtype[Any], name: str) -> list[str]:
    """Return strings of fixed width from the bytes of an array; bytes that are not UTF-8 become surrogates.

    Parameters
    ----------
    data : the bytes
    dtype : of kind S or U
    name : for messages

    Raises
    ------
    FormatError : a character that does not exist, or half of a surrogate pair
    """
    if dtype.kind == "S":
        return [key.decode("utf-8", "surrogateescape") for key in np.frombuffer(data, dtype).tolist()]
    codes = np.frombuffer(data, np.dtype(np.uint32).newbyteorder(dtype.byteorder))
    is_half = (codes >= 0xD800) & (codes <= 0xDFFF) & ~((codes >= 0xDC80) & (codes <= 0xDCFF))
    if len(bad := np.flatnonzero(is_half | (codes > sys.maxunicode))):
        kind = "half of a surrogate pair" if codes[bad[0]] <= sys.maxunicode else "a character that does not exist"
        raise FormatError(f"{name}: a string with {kind} ({codes[bad[0]]:#x})")
    found: list[str] = np.frombuffer(data, dtype).tolist()
    return found
