"""`ByteFile`: the bytes behind a name, plain or compressed, read in order or (plain) at any place by any thread."""

import bz2
import contextlib
import gzip
import hashlib
import lzma
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import IO, Any, Self

from salcli.errors import FormatError, first_line
from salcli.formats import sniff as signature

PIECE = 1 << 20
XZ_MEMORY = 128 << 20  # `xz -9` takes 65 MiB to unpack


class Unpacked:
    """Unpacks streams that stand one after the other. Python's own readers take damage to a later one for the end.

    xz in bounded memory: a file may ask for a dictionary of 4 GiB.
    """

    def __init__(
        self, raw: IO[bytes], begin: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor], padding: bytes
    ) -> None:
        self._raw, self._begin, self._padding, self._ahead = raw, begin, padding, b""
        self._stream: lzma.LZMADecompressor | bz2.BZ2Decompressor | None = None

    @classmethod
    def bz2(cls, raw: IO[bytes]) -> Self:
        """Unpack bz2."""
        return cls(raw, bz2.BZ2Decompressor, b"")

    @classmethod
    def xz(cls, raw: IO[bytes]) -> Self:
        """Unpack xz, whose streams may have zeros between them."""
        return cls(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY), b"\0")

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; nothing at the end alone.

        Raises
        ------
        EOFError : the last stream is cut short
        OSError, lzma.LZMAError : a stream is damaged, or what follows one is none
        """
        while True:
            if self._stream is None or self._stream.needs_input or self._stream.eof:
                self._ahead = self._ahead or self._raw.read(PIECE)
                is_between = self._stream is None or self._stream.eof
                if is_between and self._padding:
                    self._ahead = self._ahead.lstrip(self._padding) or self._raw.read(PIECE).lstrip(self._padding)
                if not self._ahead:
                    if is_between:
                        return b""
                    raise EOFError
                if is_between:
                    self._stream = self._begin()
            assert self._stream is not None
            ahead, self._ahead = self._ahead, b""
            data = self._stream.decompress(ahead, size)
            if self._stream.eof:
                self._ahead = self._stream.unused_data
            if data:
                return data

    def close(self) -> None:
        """Leave the shared handle open."""


OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bz2": Unpacked.bz2,
    "xz": Unpacked.xz,
}
# At most so many bytes of content for one on disk: what cannot be in a file is refused before it is looked for.
GREATEST_GROWTH = {"gzip": 1_100, "bz2": 50_000, "xz": 10_000}


class Stream:
    """A decompressing reader whose faults are one-line errors that name the file."""

    def __init__(self, raw: Any, name: str, compression: str) -> None:
        self._raw, self._name, self._compression = raw, name, compression

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end.

        Raises
        ------
        FormatError : the compressed stream is cut short or damaged
        """
        pieces = []
        try:
            while size > 0 and (piece := self._raw.read(min(size, PIECE))):  # what is asked for may not be there
                pieces.append(piece)
                size -= len(piece)
        except EOFError as error:
            raise FormatError(
                f"{self._name}: truncated {self._compression} stream: it ends before its end mark"
            ) from error
        except (OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk, not what is on it
                raise FormatError(f"{self._name}: cannot be read: {error.strerror}") from error
            raise FormatError(f"{self._name}: damaged {self._compression} stream ({first_line(error)})") from error
        return b"".join(pieces)

    def close(self) -> None:
        """Close what is read from."""
        self._raw.close()


class ByteFile:
    """Bytes that can be read from the start any number of times."""

    def __init__(
        self, name: str, handle: IO[bytes], *, compression: str | None = None, packed: "ByteFile | None" = None
    ) -> None:
        self.name = name
        """For messages."""
        self.handle = handle
        """The file as it lies on disk."""
        self.compression = compression
        """gzip, bz2, xz or None."""
        self._packed = packed  # what this was unpacked from, and what lies on disk
        self._unpacked: ByteFile | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "ByteFile":
        """Open a file, or stdin for `-`, and find out whether it is compressed.

        Raises
        ------
        FormatError : it cannot be read, or is a kind of file that salcli refuses
        """
        name = os.fspath(path)
        if name == "-":
            return cls("<stdin>", kept(sys.stdin.buffer, "<stdin>"))._recognised()
        try:
            handle = open(name, "rb")  # noqa: SIM115 (closed by close)
        except IsADirectoryError:
            raise FormatError(f"{name}: is a folder, expected an embedding file") from None
        except OSError as error:
            raise FormatError(f"{name}: cannot be read: {error.strerror}") from error
        if not handle.seekable():  # a pipe: keep it, so that it can be read twice
            with handle:
                return cls(name, kept(handle, name))._recognised()
        return cls(name, handle)._recognised()

    def _recognised(self) -> "ByteFile":
        try:
            head = self.handle.read(signature.HEAD_BYTES)
            self.handle.seek(0)
            self.compression = signature.compression_of(head)
            reason = signature.refusal(head if self.compression is None else self.head())
            if reason:
                inside = f"{self.compression} of " if self.compression else ""
                raise FormatError(f"{self.name}: {inside}{reason}")
        except OSError as error:
            self.close()
            raise FormatError(f"{self.name}: cannot be read: {error.strerror}") from error
        except FormatError:
            self.close()
            raise
        return self

    @property
    def is_plain(self) -> bool:
        """Whether bytes can be read at any place."""
        return self.compression is None

    @property
    def size(self) -> int | None:
        """Bytes of the content, None where only reading to the end would tell."""
        return os.fstat(self.handle.fileno()).st_size if self.is_plain else None

    @property
    def most_bytes(self) -> int:
        """More bytes than this the content cannot have."""
        on_disk = os.fstat(self.handle.fileno()).st_size
        return on_disk * GREATEST_GROWTH.get(self.compression or "", 1)

    def stream(self) -> Stream:
        """Read the content from its first byte."""
        if self.compression is None:
            return Stream(_Positioned(self.handle), self.name, "file")
        self.handle.seek(0)
        return Stream(OPENERS[self.compression](self.handle), self.name, self.compression)

    def head(self) -> bytes:
        """Give the first 64 KiB of the content."""
        return self.stream().read(signature.HEAD_BYTES)

    def spans(self, places: Iterable[tuple[int, int]], *, reads_to_end: bool = False) -> Iterator[Callable[[], bytes]]:
        """Give a reader for each (offset, size), offsets rising.

        A plain file's readers may be called at any time on any thread. A compressed file is read forward as this
        iterates, and the readers hand over what was read; with `reads_to_end`, nothing may follow the last place.

        Raises
        ------
        FormatError : (the reader) the file ends too early
        """
        if self.is_plain:
            for offset, size in places:
                yield partial(self.read_at, offset, size)
            return
        stream, position = self.stream(), 0
        for offset, size in places:
            while position < offset:
                position += len(self._whole(stream.read(min(PIECE, offset - position)), 1))
            data = self._whole(stream.read(size), size)
            position += size
            yield partial(bytes, data)
        if reads_to_end and stream.read(1):
            raise FormatError(f"{self.name}: too long: more bytes follow byte {position}, where it should end")

    def read_at(self, offset: int, size: int) -> bytes:
        """Read from a place in a plain file; safe on any thread.

        Raises
        ------
        FormatError : the file ends too early
        """
        pieces, wanted = [], size
        while wanted and (piece := self._read(wanted, offset)):
            pieces.append(piece)
            offset, wanted = offset + len(piece), wanted - len(piece)
        return self._whole(pieces[0] if len(pieces) == 1 else b"".join(pieces), size)

    def filler(self, offset: int) -> Callable[[memoryview], int]:
        """Give what fills buffers from a plain file, one after the other, and says with how many bytes."""

        def fill(view: memoryview) -> int:
            nonlocal offset
            n = self._fill(view, offset)
            offset += n
            return n

        return fill

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill bytes from a place in a plain file; safe on any thread.

        Raises
        ------
        FormatError : the file ends too early
        """
        while len(view) and (n := self._fill(view, offset)):
            view, offset = view[n:], offset + n
        if len(view):
            raise FormatError(f"{self.name}: ended {len(view)} bytes early while it was being read")

    def _read(self, size: int, offset: int) -> bytes:
        try:
            return os.pread(self.handle.fileno(), size, offset)
        except OSError as error:
            raise FormatError(f"{self.name}: cannot be read: {error.strerror}") from error

    def _fill(self, view: memoryview, offset: int) -> int:
        try:
            return os.preadv(self.handle.fileno(), [view], offset)
        except OSError as error:
            raise FormatError(f"{self.name}: cannot be read: {error.strerror}") from error

    def forget(self, offset: int, size: int) -> None:
        """Let the system take back the memory that these bytes of a plain file have in its cache; on disk they stay."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # it was only advice
                os.posix_fadvise(self.handle.fileno(), offset, size, os.POSIX_FADV_DONTNEED)

    def _whole(self, data: bytes, size: int) -> bytes:
        if len(data) < size:
            raise FormatError(f"{self.name}: ended {size - len(data)} bytes early while it was being read")
        return data

    def plain(self) -> "ByteFile":
        """Unpack into a temporary file, for formats that must be read at any place."""
        if self.is_plain:
            return self
        try:
            self._unpacked = ByteFile(self.name, spooled(self.stream()), packed=self)
        except OSError as error:
            raise FormatError(
                f"{self.name}: cannot be unpacked into a temporary file in {tempfile.gettempdir()}: {error.strerror}"
            ) from error
        return self._unpacked

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk (what `sha256sum` prints), unless it is no longer wanted."""
        if self._packed is not None:
            return self._packed.sha256(is_wanted)
        digest, offset = hashlib.sha256(), 0
        while (is_wanted is None or is_wanted()) and (piece := self._read(PIECE, offset)):
            digest.update(piece)
            offset += len(piece)
        return digest.hexdigest()

    def close(self) -> None:
        """Close the file."""
        for file in (self, self._packed, self._unpacked):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.handle.close()


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


class _Piped:
    """A pipe, whose own faults are not taken for those of the file it is kept in."""

    def __init__(self, source: IO[bytes], name: str) -> None:
        self._source, self._name = source, name

    def read(self, size: int) -> bytes:
        try:
            return self._source.read(size)
        except OSError as error:
            raise FormatError(f"{self._name}: cannot be read: {error.strerror}") from error


def kept(source: IO[bytes], name: str) -> IO[bytes]:
    """Keep what comes through a pipe in a temporary file, so that it can be read twice.

    Raises
    ------
    FormatError : the pipe cannot be read, or the file not be written
    """
    try:
        return spooled(_Piped(source, name))
    except OSError as error:
        raise FormatError(
            f"{name}: cannot be kept in a temporary file in {tempfile.gettempdir()}: {error.strerror}"
        ) from error


def spooled(source: Any) -> IO[bytes]:
    """Copy a stream into an unnamed temporary file."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (closed by whoever asked for it)
    try:
        shutil.copyfileobj(source, spool, PIECE)
        spool.flush()
    except BaseException:
        with contextlib.suppress(OSError):
            spool.close()
        raise
    spool.seek(0)
    return spool
