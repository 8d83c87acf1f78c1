"""Readers that decompress gzip, bz2 and xz in bounded memory, with one-line errors."""

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from salcli.errors import FormatError, first_line

PIECE = 1 << 20
XZ_MEMORY = 128 << 20  # `xz -9` takes 65 MiB to unpack


class Concatenated:
    """Decompresses concatenated streams. Python's own readers treat damage to a later one as the end of the file.

    xz in bounded memory: a file may need a dictionary of 4 GiB.
    """

    def __init__(
        self, raw: Any, begin: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor], padding: bytes
    ) -> None:
        self._raw, self._begin, self._padding, self._ahead = raw, begin, padding, b""
        self._stream: lzma.LZMADecompressor | bz2.BZ2Decompressor | None = None

    @classmethod
    def bz2(cls, raw: Any) -> Self:
        """Return a reader of bz2 in the file object `raw`."""
        return cls(raw, bz2.BZ2Decompressor, b"")

    @classmethod
    def xz(cls, raw: Any) -> Self:
        """Return a reader of xz in the file object `raw`; its streams may have zeros between them."""
        return cls(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY), b"\0")

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; nothing at the end alone.

        Raises
        ------
        EOFError : the last stream is cut short
        OSError, lzma.LZMAError : a stream is damaged, or is followed by other bytes
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


OPENERS: dict[str, Callable[[Any], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bz2": Concatenated.bz2,
    "xz": Concatenated.xz,
}
# Most bytes of content for one on disk: a header that announces more is rejected before anything is unpacked.
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
            while size > 0 and (piece := self._raw.read(min(size, PIECE))):  # the file may be shorter
                pieces.append(piece)
                size -= len(piece)
        except EOFError as error:
            raise FormatError(
                f"{self._name}: truncated {self._compression} stream: it ends before its end mark"
            ) from error
        except (OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            if isinstance(error, OSError) and error.errno is not None:  # an error of the disk, not of the file
                raise FormatError(f"{self._name}: cannot be read: {error.strerror}") from error
            raise FormatError(f"{self._name}: damaged {self._compression} stream ({first_line(error)})") from error
        return b"".join(pieces)

    def close(self) -> None:
        """Close what is read from."""
        self._raw.close()
