"""Writing HDF5: a copy of the input's file with another matrix in its place, or a new file."""

import io
from collections.abc import Callable, Iterable
from typing import Any

import h5py
import numpy as np

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError, warn
from salcli.formats.base import Output, Writer
from salcli.formats.hdf5 import Hdf5Reader
from salcli.formats.hdf5_checks import damage
from salcli.formats.hdf5_copy import Hdf5Copy
from salcli.formats.quantized import BECOMES

DEFAULT_MATRIX, DEFAULT_KEYS = "vectors", "keys"
EARLIEST = "earliest"
MAX_KEY = 40  # letters of a key that a message quotes


class _Tolerant(io.RawIOBase):
    """The raw file. HDF5 aborts the process if it cannot flush its buffers, so errors are stored and raised later."""

    def __init__(self, path: str) -> None:
        self.refusal: OSError | None = None
        self._raw = io.FileIO(path, "w+b")

    def _tried(self, work: Callable[[], Any], otherwise: Any) -> Any:
        if self.refusal is not None:
            return otherwise
        try:
            return work()
        except OSError as error:
            self.refusal = error
            return otherwise

    def write(self, data: Any) -> int:
        """Write all of `data`."""
        left = memoryview(data).cast("B")
        n = len(left)

        def all_of_it() -> int:
            nonlocal left
            while len(left):
                left = left[self._raw.write(left) :]
            return n

        return int(self._tried(all_of_it, n))

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; what could not be written reads as zeros."""
        view = memoryview(buffer).cast("B")
        n = 0
        while n < len(view) and (got := self._raw.readinto(view[n:])):
            n += got
        view[n:] = bytes(len(view) - n)
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, and return the position."""
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._raw.tell()

    def truncate(self, size: int | None = None) -> int:
        """Set the size."""
        return int(self._tried(lambda: self._raw.truncate(size), size or 0))

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Close the file."""
        self._raw.close()
        super().close()


class Hdf5Sink:
    """An open HDF5 file to write to; `require` and `close` raise the errors of the disk."""

    def __init__(self, path: str, libver: str = EARLIEST) -> None:
        """Start a file at `path` for readers of `libver` (in h5py's words) and later."""
        self._below = _Tolerant(path)
        self.root = h5py.File(self._below, "w", libver=libver)

    def require(self) -> None:
        """Raise the first error of writing, if there was one.

        Raises
        ------
        OSError : as the operating system raised it
        """
        if self._below.refusal is not None:
            raise self._below.refusal

    def close(self) -> None:
        """Close the file, whole.

        Raises
        ------
        OSError : something could not be written
        """
        try:
            self.root.close()
        finally:
            self._below.close()
        self.require()


def utf8_strings(target: str, keys: Iterable[str]) -> list[bytes]:
    """Return keys as UTF-8, for strings of variable length.

    Parameters
    ----------
    target : the output, for messages
    keys : of any number

    Raises
    ------
    FormatError : one holds a NUL, which would end it
    """
    encoded = [key.encode("utf-8", "surrogateescape") for key in keys]
    if without := next((key for key in encoded if b"\0" in key), None):
        text = without.decode("utf-8", "replace")[:MAX_KEY]
        raise FormatError(f"{target}: key {text!r} would not read back the same from HDF5")
    return encoded


class Hdf5Writer(Writer):
    """Writes a copy of the input's HDF5 file with the new matrix in the old one's place, or a new file."""

    def __init__(self, output: Output) -> None:
        """Start the file of `output`.

        Raises
        ------
        FormatError : the input is damaged, or the output has a dataset of its own in the place of the keys
        """
        like = output.model if isinstance(output.model, Hdf5Reader) else None
        if like is not None and like.is_bfloat16:
            warn(BECOMES.format(output.target, output.dtype))
        n, d, beside = output.n, output.d, output.beside
        self._target, self._sink = output.target, Hdf5Sink(output.path, EARLIEST if like is None else like.libver)
        self._file = self._sink.root
        self._dtype, self._row, self._beside = output.dtype, 0, beside
        is_copy = like is not None and like.n == n and not beside.is_only
        name = like.dataset if like else DEFAULT_MATRIX
        copy = None
        if like is not None and not beside.is_only:
            skipped = {like.dataset, *beside.erased} | (set() if is_copy else {str(like.keys_name)})
            with damage(f"{like.path}: objects beside dataset {like.dataset}"):
                copy = Hdf5Copy(like.path, like.root, self._file, skipped, beside.dropped)
                copy.groups()
        for each, its_dtype in {**beside.erased, name: output.dtype}.items():
            old = None if like is None else like.root[each]
            self._matrix = self._file.create_dataset(each, (n, d), its_dtype, **_storage(old, d))
            if like is not None and copy is not None:
                with damage(f"{like.path}: attributes of dataset {each}"):
                    copy.attributes(old, self._matrix)
        self._keys = None
        if output.has_keys and not (is_copy and like is not None and like.has_keys):
            keys_name = (like.keys_name if like else None) or DEFAULT_KEYS
            if keys_name in self._file:
                why = f"keys have no place: the input has a dataset {keys_name} of its own"
                raise FormatError(f"{output.target}: {why}")
            self._keys = self._file.create_dataset(keys_name, (n,), h5py.string_dtype())
            if like is not None and copy is not None and like.keys_name is not None:
                with damage(f"{like.path}: attributes of dataset {keys_name}"):
                    copy.attributes(like.root[keys_name], self._keys)
        if like is not None and copy is not None:
            with damage(f"{like.path}: links and references to dataset {like.dataset}"):
                copy.finish()

    def begin(self, name: str) -> None:
        """Write the rows that follow to the dataset called `name`, one of those that are erased too."""
        self._matrix, self._dtype, self._keys, self._row = self._file[name], self._beside.erased[name], None, 0

    def encode(self, batch: Embeddings) -> Embeddings:
        """Return `batch` in the dtype of the output; safe on any thread."""
        return batch.with_vectors(np.ascontiguousarray(batch.vectors, dtype=self._dtype))

    def write(self, piece: Embeddings) -> None:
        """Append `piece`, which `encode` returned.

        Raises
        ------
        FormatError : a key that would not read back the same
        OSError : the disk is full, or fails
        """
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


def _storage(source: h5py.Dataset | None, d: int) -> dict[str, Any]:
    """Return options that chunk and compress a dataset as the input's is."""
    if source is None or source.chunks is None:
        return {}
    rows, columns = source.chunks
    return {
        "chunks": (min(rows, source.shape[0]) or rows, min(columns, d)),
        "maxshape": (source.maxshape[0], source.maxshape[1] if d == source.shape[1] else d),
        "compression": source.compression,
        "compression_opts": source.compression_opts,
        "shuffle": source.shuffle,
        "fletcher32": source.fletcher32,
    }
