"""`ByteFile`: the bytes of a file, plain or compressed, read in order or (plain) at any place by any thread."""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any, Self

from salcli.errors import FormatError
from salcli.formats import sniff as signature
from salcli.formats.compression import GREATEST_GROWTH, OPENERS, PIECE, Stream
from salcli.formats.encodings import wide_encoding
from salcli.formats.hash_in_step import HashInStep
from salcli.formats.spool import spooled_pipe
from salcli.formats.urls import Stored, is_url

MOST_AT_ONCE = 1 << 30  # macOS cannot read 2 GiB at once, Linux reads less than that
HEADER_BYTES = 1 << 16  # of a file of numbers, at most


class ByteFile:
    """Bytes that can be read from the start any number of times; plain ones at any place, by any thread.

    It pickles without its handle, and opens the file again when another process reads from it.
    """

    compression: str | None = None
    """gzip, bz2, xz, zip, or None if bytes can be read at any place."""
    is_local = True
    """Whether `handle` is the file itself, not a copy."""

    def __init__(self, name: str, handle: IO[bytes] | None = None, *, came_by_pipe: bool = False) -> None:
        self.name = name
        """For messages; the path, unless the bytes came through a pipe."""
        self._handle, self._came_by_pipe, self._lock = handle, came_by_pipe, threading.Lock()
        self._derived: list[ByteFile] = []  # that are closed with it
        self._place: str | None = None
        self._in_step: HashInStep | None = None
        self._seen = None if handle is None or came_by_pipe else _state(os.fstat(handle.fileno()))

    def __getstate__(self) -> dict[str, Any]:
        if self._came_by_pipe:
            raise FormatError(f"{self.name}: came through a pipe, which other processes cannot read")
        return {**self.__dict__, "_place": self.place, "_handle": None, "_lock": None, "_derived": [], "_in_step": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        may_be_wide: bool = False,
        is_refused: bool = True,
        allows_pickle: bool = False,
    ) -> "ByteFile":
        """Open a file, or stdin for `-`, and find out whether it is compressed.

        Parameters
        ----------
        path : of the file
        may_be_wide : whether UTF-16 text is accepted
        is_refused : whether content that is known not to be vectors raises an error
        allows_pickle : whether a pickle that is a file does not

        Raises
        ------
        FormatError : it cannot be read, or is a kind of file that is not read
        """
        name = os.fspath(path)
        if name == "-":
            return cls("<stdin>", spooled_pipe(sys.stdin.buffer, "<stdin>"), came_by_pipe=True)._recognised(
                may_be_wide, is_refused
            )
        if is_url(name):
            from salcli.formats.remote import RemoteFile

            return RemoteFile(name)._recognised(may_be_wide, is_refused)
        handle = _opened(name)
        if not handle.seekable():  # a pipe: store it, so that it can be read again
            with handle:
                return cls(name, spooled_pipe(handle, name), came_by_pipe=True)._recognised(may_be_wide, is_refused)
        return cls(name, handle)._recognised(may_be_wide, is_refused, allows_pickle=allows_pickle)

    def _recognised(self, may_be_wide: bool, is_refused: bool, *, allows_pickle: bool = False) -> "ByteFile":
        try:
            head = self.read_up_to(0, signature.HEAD_BYTES)
            self.compression = signature.compression_of(head)
            content = head if self.compression is None else self.head()
            allows_pickle = allows_pickle and self.compression is None
            reason = signature.refusal(content, allows_pickle=allows_pickle) if is_refused else None
            if reason and not (may_be_wide and wide_encoding(content)):
                inside = f"{self.compression} of " if self.compression else ""
                raise FormatError(f"{self.name}: {inside}{reason}")
        except FormatError:
            self.close()
            raise
        return self

    @property
    def handle(self) -> IO[bytes]:
        """The file as it is on disk (of a compressed one that is unpacked: the temporary file), opened when needed."""
        if self._handle is None:
            with self._lock:
                if self._handle is None:
                    self._handle = self._open_handle()
        return self._handle

    @property
    def place(self) -> str:
        """The absolute path, for processes that run in another folder."""
        return absolute(self.name) if self._place is None else self._place

    def _open_handle(self) -> IO[bytes]:
        return _opened(self.name, self.place)

    @property
    def is_plain(self) -> bool:
        """Whether bytes can be read at any place."""
        return self.compression is None

    @property
    def size(self) -> int | None:
        """Bytes of the content, None where it is unknown before the end is read."""
        return os.fstat(self.handle.fileno()).st_size if self.is_plain else None

    @property
    def most_bytes(self) -> int:
        """More bytes than this the content cannot have."""
        on_disk = os.fstat(self.handle.fileno()).st_size
        return on_disk * GREATEST_GROWTH.get(self.compression or "", 1)

    def stream(self) -> "Stream":
        """Read the content from its first byte."""
        raw = _Positioned(self.handle)
        if self.compression is None:
            return Stream(raw, self.name, "file")
        return Stream(OPENERS[self.compression](raw), self.name, self.compression)

    def head(self) -> bytes:
        """Read the first 64 KiB of the content."""
        return self.stream().read(signature.HEAD_BYTES)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from a place in a plain file; safe on any thread.

        Parameters
        ----------
        offset : of the first byte
        size : number of bytes

        Raises
        ------
        FormatError : the file ends too early
        """
        data = self.read_up_to(offset, size)
        if len(data) < size:
            raise FormatError(f"{self.name}: ended {size - len(data)} bytes early while it was being read")
        return data

    def read_up_to(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from byte `offset` of a plain file, fewer only at its end; safe on any thread."""
        pieces = []
        while size and (piece := self._read(size, offset)):
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill memory with bytes from a place in a plain file; safe on any thread.

        Parameters
        ----------
        view : memory to fill, of single bytes
        offset : of the first byte

        Raises
        ------
        FormatError : the file ends too early
        """
        while len(view) and (n := self.fill(view, offset)):
            view, offset = view[n:], offset + n
        if len(view):
            raise FormatError(f"{self.name}: ended {len(view)} bytes early while it was being read")

    def fill(self, view: memoryview, offset: int) -> int:
        """Read from a place in a plain file into memory, and return how many bytes there were, 0 only at the end.

        Parameters
        ----------
        view : memory, of single bytes
        offset : of the first byte

        Raises
        ------
        FormatError : the file cannot be read
        """
        n = self._fill(view, offset)
        if self._in_step is not None:
            self._in_step.add(view[:n], offset)
        return n

    def _fill(self, view: memoryview, offset: int) -> int:
        try:
            if hasattr(os, "preadv"):
                return os.preadv(self.handle.fileno(), [view[:MOST_AT_ONCE]], offset)
            piece = os.pread(self.handle.fileno(), min(len(view), PIECE), offset)  # macOS before 11
            view[: len(piece)] = piece
            return len(piece)
        except OSError as error:
            raise FormatError(f"{self.name}: cannot be read: {error.strerror}") from error

    def _read(self, size: int, offset: int) -> bytes:
        try:
            return os.pread(self.handle.fileno(), size, offset)
        except OSError as error:
            raise FormatError(f"{self.name}: cannot be read: {error.strerror}") from error

    def plain(self, n_bytes: int | None = None) -> "ByteFile":
        """Return this file if it is plain, else its content in an unnamed temporary file (see `UnpackedFile`).

        Parameters
        ----------
        n_bytes : that the content must have, if known
        """
        return self if self.is_plain else UnpackedFile(self, n_bytes).closed_with(self)

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the file as it is on disk, as `sha256sum` or `b3sum` prints it (see `Reader.digest`)."""
        in_step = self._in_step
        if in_step is None or in_step.algorithm != algorithm:
            in_step = HashInStep(algorithm, self.fill)
        return in_step.finish(is_wanted)

    def hash_in_step(self, algorithm: str) -> None:
        """Hash what is read into memory from now on, so that `digest` by this algorithm reads the rest only."""
        self._in_step = HashInStep(algorithm, self._fill, HEADER_BYTES)

    def hash_as_read(self, algorithm: str) -> bool:  # noqa: ARG002 (files at URLs use it)
        """Return False: the file is hashed in a pass of its own (see `Reader.hash_as_read`)."""
        return False

    def require_unchanged(self) -> None:
        """Check, after the last byte was read, that the file is the one that was opened.

        Raises
        ------
        FormatError : it has changed, or another one is in its place
        """
        try:
            is_same = self._seen is None or _state(os.stat(self.place)) == self._seen
        except OSError:
            is_same = False
        if not is_same:
            raise changed(self.name)

    def closed_with(self, other: "ByteFile") -> Self:
        """Return this file, which is closed when `other` is."""
        other._derived.append(self)
        return self

    def close(self) -> None:
        """Close the file, and those that were derived from it."""
        derived, self._derived = self._derived, []
        for file in derived:
            file.close()
        if self._handle is not None:
            with contextlib.suppress(OSError):
                self._handle.close()


class UnpackedFile(ByteFile):
    """The content of a compressed file, unpacked once into an unnamed temporary file, in every process that reads it.

    The first `stream` to be read to its end does so on the way; else all is unpacked when a place is read.
    """

    def __init__(self, packed: ByteFile, n_bytes: int | None = None) -> None:
        """Wrap a compressed file `packed`, whose content must have `n_bytes`, if that is known."""
        super().__init__(packed.name)
        self.packed, self.n_bytes = packed, n_bytes
        self._spool: IO[bytes] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_spool": None}

    def stream(self) -> "Stream":
        """Read the content from its first byte."""
        return _KeptStream(self) if self._handle is None else super().stream()

    def head(self) -> bytes:
        """Read the first 64 KiB of the content."""
        return self.packed.head()

    def _open_handle(self) -> IO[bytes]:
        stream = _KeptStream(self)
        while stream.read(PIECE):
            pass
        return self.spool

    @property
    def spool(self) -> IO[bytes]:
        """The temporary file, which may not be whole yet."""
        if self._spool is None:
            self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with this file)
        return self._spool

    def begin(self) -> None:
        """Empty the temporary file."""
        self.spool.seek(0)
        self.spool.truncate()

    def finish(self) -> None:
        """Read from the temporary file from now on: it is whole."""
        self._handle = self._spool

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the compressed file (see `ByteFile.digest`)."""
        return self.packed.digest(algorithm, is_wanted)

    def require_unchanged(self) -> None:
        """Check that the compressed file is the one that was opened (see `ByteFile.require_unchanged`)."""
        self.packed.require_unchanged()

    def hash_as_read(self, algorithm: str) -> bool:
        """Return whether the compressed file is hashed as it is read (see `Reader.hash_as_read`)."""
        return self.packed.hash_as_read(algorithm)

    def close(self) -> None:
        """Close both files."""
        super().close()
        if self._spool is not None:
            self._spool.close()
        self.packed.close()


class _KeptStream(Stream):
    """Reads a compressed file, and keeps what was read in a temporary file."""

    def __init__(self, file: UnpackedFile) -> None:
        self._file, self._stream, self._n = file, file.packed.stream(), 0
        with self._spool_errors():
            file.begin()

    @contextlib.contextmanager
    def _spool_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FormatError(
                f"{self._file.name}: cannot be unpacked into a temporary file in {tempfile.gettempdir()}: "
                f"{error.strerror}"
            ) from error

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end.

        Raises
        ------
        FormatError : the stream is damaged or too long, or the temporary file cannot be written
        """
        data = self._stream.read(size)
        with self._spool_errors():
            left = memoryview(data)
            while len(left):
                left = left[self._file.spool.write(left) :]
        self._n += len(data)
        expected = self._file.n_bytes
        if expected is not None and self._n > expected:
            raise FormatError(f"{self._file.name}: too long: more bytes follow byte {expected}, where it should end")
        if len(data) < size:
            if expected is not None and self._n < expected:
                raise FormatError(f"{self._file.name}: truncated: it ends after {self._n} of {expected} bytes")
            self._file.finish()
        return data

    def close(self) -> None:
        """Leave the files open."""


def _state(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


def changed(name: str) -> FormatError:
    """Return the error of a file, or object, that is not what it was when it was opened."""
    return FormatError(f"{name}: changed while it was read")


def _opened(name: str, place: str | None = None) -> IO[bytes]:
    try:
        return open(place or name, "rb")
    except IsADirectoryError:
        raise FormatError(f"{name}: is a folder, expected an embedding file") from None
    except OSError as error:
        raise FormatError(f"{name}: cannot be read: {error.strerror}") from error


class _Positioned:
    """Reads a shared handle by position, so that several streams do not move each other."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle, self._offset = handle, 0

    def read(self, size: int) -> bytes:
        data = os.pread(self._handle.fileno(), size, self._offset)
        self._offset += len(data)
        return data

    def close(self) -> None:
        """Leave the shared handle open."""


def absolute(path: str) -> str:
    """Return the absolute path of a file; a URL is one already."""
    return path if is_url(path) else os.path.abspath(path)


def size_of(path: str) -> int:
    """Return the bytes of a file, or of an object at a URL."""
    return Stored.of(path).size if is_url(path) else os.path.getsize(path)


def file_name(path: str) -> str:
    """Return the last part of `path`: artifacts and reports record that, so that they do not depend on folders."""
    return path.rstrip("/").rpartition("/")[2] or path
