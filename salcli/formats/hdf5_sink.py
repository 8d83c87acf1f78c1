"""`Hdf5Sink`: an HDF5 file that is being written, on a disk that may fill up."""

import io
from collections.abc import Callable, Iterable
from typing import Any

import h5py

from salcli.errors import FormatError

EARLIEST = "earliest"
MAX_KEY = 40  # letters of a key that a message quotes


class _Tolerant(io.RawIOBase):
    """The file beneath. HDF5 ends the process if it cannot flush what it holds, so refusals are kept for later."""

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
        """Fill a buffer; what was refused reads as zeros."""
        view = memoryview(buffer).cast("B")
        n = 0
        while n < len(view) and (got := self._raw.readinto(view[n:])):
            n += got
        view[n:] = bytes(len(view) - n)
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move."""
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        """Tell where it stands."""
        return self._raw.tell()

    def truncate(self, size: int | None = None) -> int:
        """Set the size."""
        return int(self._tried(lambda: self._raw.truncate(size), size or 0))

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """Close the file."""
        self._raw.close()
        super().close()


class Hdf5Sink:
    """An open HDF5 file to write to; `require` and `close` tell what the disk refused."""

    def __init__(self, path: str, libver: str = EARLIEST) -> None:
        """Begin a file for readers of `libver` (in h5py's words) and later."""
        self._below = _Tolerant(path)
        self.root = h5py.File(self._below, "w", libver=libver)

    def require(self) -> None:
        """Raise what the operating system said when it refused to write.

        Raises
        ------
        OSError : it did
        """
        if self._below.refusal is not None:
            raise self._below.refusal

    def close(self) -> None:
        """Close the file, whole.

        Raises
        ------
        OSError : it is not
        """
        try:
            self.root.close()
        finally:
            self._below.close()
        self.require()


def utf8_strings(target: str, keys: Iterable[str]) -> list[bytes]:
    """Encode keys as strings of variable length.

    Raises
    ------
    FormatError : one holds a NUL, which would end it
    """
    held = [key.encode("utf-8", "surrogateescape") for key in keys]
    if without := next((key for key in held if b"\0" in key), None):
        told = without.decode("utf-8", "replace")[:MAX_KEY]
        raise FormatError(f"{target}: key {told!r} would not read back the same from HDF5")
    return held
