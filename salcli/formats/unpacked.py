"""`Unpacked`: the content of bz2 and xz files, all of it or an error."""

import bz2
import lzma
from collections.abc import Callable
from functools import partial
from typing import IO, Self

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
