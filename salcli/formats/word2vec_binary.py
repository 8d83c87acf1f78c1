"""word2vec binary: a text header, then for each row its word, one space and d float32."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError
from salcli.formats import sniff as signature
from salcli.formats import text_rows
from salcli.formats.files import ByteFile
from salcli.formats.keys import decoded, encoded, is_utf8
from salcli.formats.notes import Notes
from salcli.formats.source import Slab, require_shape
from salcli.formats.writer import EmbeddingWriter
from salcli.options import ReadOptions, unit_rows

FLOAT32 = np.dtype("<f4")
MAX_WORD = 65_536
PIECE = 4 << 20
LINE_FEED = ord("\n")


@dataclass(frozen=True)
class Span:
    """Consecutive records: where they lie, and the word of each, with the line feeds that stand before it."""

    offset: int
    n_bytes: int
    first_row: int
    words: list[bytes]


class Word2vecBinarySource:
    """A word2vec binary file. Opening surveys it once, since records have no fixed length."""

    format = "word2vec-bin"
    has_keys = True
    dtype = FLOAT32

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        self.path, self.file = file.name, file
        self._notes = Notes()
        header = signature.word2vec_header(file.head())
        if header is None:
            raise FormatError(f"{self.path}: line 1 is no word2vec header, `rows dimensions`")
        self.n, self.d = header.n, header.d
        require_shape(self.path, self.n, self.d)
        least = self.n * (2 + self.d * FLOAT32.itemsize)  # one letter, one space
        held = (file.most_bytes if file.size is None else file.size) - header.n_bytes
        if held < least:
            raise FormatError(
                f"{self.path}: truncated, or not float32: {self.n} records of {self.d} float32 take at least {least} "
                f"bytes, {held} bytes {'at most ' if file.size is None else ''}follow the header"
            )
        self.unit = unit_rows(self.d)
        self._rows_per_slab = options.rows_per_slab(self.d * FLOAT32.itemsize, self.unit)
        self._header_bytes = header.n_bytes
        record = rb"(\n*+[^ ]{1,%d}) .{%d}" % (MAX_WORD, self.d * FLOAT32.itemsize)
        self._record = re.compile(record, re.DOTALL)
        self._records = re.compile(rb"(?:%s)*+" % record.replace(b"(", b"(?:"), re.DOTALL)

    def _spans(self, *, copies: bool) -> Iterator[tuple[Span, bytes]]:
        """Walk over the records through one buffer, giving spans (with a copy of their bytes, or none).

        Raises
        ------
        FormatError : what is there are not n records of a word and d float32, and nothing else
        """
        width = self.d * FLOAT32.itemsize
        buffer = bytearray(max(PIECE, 2 * MAX_WORD + width))
        view, fill = memoryview(buffer), self._filler()
        offset, row, have, position = self._header_bytes, 0, 0, 0  # the buffer holds `have` bytes from `offset`
        while row < self.n:
            words = self._words(buffer, position, have)[: self.n - row]
            for some in self._cut(words, row):
                start, position = position, position + sum(map(len, some)) + len(some) * (1 + width)
                span = Span(offset + start, position - start, row, some)
                yield span, bytes(view[start:position]) if copies else b""
                row += len(some)
            if row < self.n:  # the next record is not whole
                position = _skip_line_feeds(buffer, position, have)
                self._require_word(buffer, position, have, row)
                left = have - position
                view[:left] = bytes(view[position:have])
                offset, have, position = offset + position, left, 0
                if not (got := fill(view[have:])):
                    raise FormatError(
                        f"{self.path}: truncated in record {row} of {self.n} (counting from 0): "
                        f"{self.d} float32 expected, {have} bytes left; not float32, or cut short"
                    )
                have += got
        left = len(bytes(view[position:have]).strip(b"\n"))
        while not left and (have := fill(view)):
            left = len(bytes(view[:have]).strip(b"\n"))
        if left:
            raise FormatError(
                f"{self.path}: line 1 announces {self.n} records, but {left} bytes or more follow record "
                f"{self.n - 1} (counting from 0): the count is too small, or the numbers are not float32"
            )

    def _words(self, buffer: bytearray, position: int, have: int) -> list[bytes]:
        """Give the words of all whole records from `position`, one right after the other."""
        records = self._records.match(buffer, position, have)
        assert records is not None  # there may be none of them
        return self._record.findall(buffer, position, records.end())

    def _cut(self, words: list[bytes], row: int) -> Iterator[list[bytes]]:
        """Cut the words of rows `row`… into those of slabs."""
        start = 0
        while start < len(words):
            stop = start + min(self._rows_per_slab, self.unit - (row + start) % self.unit)
            yield words[start:stop]
            start = stop

    def _filler(self) -> Callable[[memoryview], int]:
        """Give what fills a buffer with the next bytes after the header."""
        if self.file.is_plain:
            return self.file.filler(self._header_bytes)
        stream = self.file.stream()
        stream.read(self._header_bytes)

        def fill(view: memoryview) -> int:
            data = stream.read(len(view))
            view[: len(data)] = data
            return len(data)

        return fill

    def _require_word(self, buffer: bytearray, position: int, have: int, record: int) -> None:
        """Refuse a word that is empty or has no end, as far as can be seen."""
        end = buffer.find(b" ", position, have)
        fault = ""
        if end == position:
            fault = "has an empty word; not float32, or corrupt"
        elif (have if end < 0 else end) - position > MAX_WORD:
            fault = f"no space within {MAX_WORD} bytes; corrupt, or not float32"
        if fault:
            raise FormatError(
                f"{self.path}: record {record} (counting from 0){': ' if fault[0] == 'n' else ' '}{fault}"
            )

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order; the walk over the records happens as this iterates."""
        for span, copied in self._spans(copies=not self.file.is_plain):
            yield Slab(span.first_row, len(span.words), partial(self._read, span, copied))

    def _read(self, span: Span, copied: bytes) -> Embeddings:
        data, width = copied or self.file.read_at(span.offset, span.n_bytes), self.d * FLOAT32.itemsize
        lengths = np.fromiter(map(len, span.words), np.intp, len(span.words))
        # Each item of this view begins one byte after the last; only those that are vectors are copied.
        windows = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
        vectors: Floats = windows[np.cumsum(lengths + 1 + width) - width].view(FLOAT32).reshape(-1, self.d)
        return Embeddings.starting_at(span.first_row, vectors, self._keys(span))

    def _keys(self, span: Span) -> tuple[str, ...]:
        words, joined = span.words, b"".join(span.words)
        if b"\n" in joined:
            words = [word.lstrip(b"\n") for word in words]
            joined = b"".join(words)
        if b"\n" in joined:
            row = span.first_row + next(i for i, word in enumerate(words) if b"\n" in word)
            raise FormatError(
                f"{self.path}: record {row} (counting from 0): a line feed inside a word; corrupt, or not float32"
            )
        keys = decoded(words)
        if not joined.isascii():
            for i, key in enumerate(keys):
                if not is_utf8(key):
                    told = (
                        f"{self.path}: record {span.first_row + i} (counting from 0): word {text_rows.shown(words[i])}"
                    )
                    self._notes.add("bytes that are not UTF-8, kept as they are", span.first_row + i, told)
        return keys

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order."""
        for span, _ in self._spans(copies=False):
            yield self._keys(span)

    def place(self, row: int) -> str:
        """Say where a row stands."""
        return f"record {row}"

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk, as long as that is wanted."""
        return self.file.sha256(is_wanted)

    def close(self) -> None:
        """Tell what was noticed, and close the file."""
        self._notes.tell()
        self.file.close()


class Word2vecBinaryWriter(EmbeddingWriter):
    """Writes records as gensim does: no line feed between them."""

    def __init__(self, handle: BinaryIO, *, n: int, d: int, dtype: np.dtype[Any], target: str) -> None:
        if dtype.newbyteorder("=") != np.float32:
            raise FormatError(
                f"{target}: word2vec binary holds float32 only, not {dtype}: give `dtype=float32` or another format"
            )
        self._handle, self._target = handle, target
        handle.write(f"{n} {d}\n".encode())

    def encode(self, batch: Embeddings) -> bytes:
        """Lay rows out as records; safe on any thread.

        Raises
        ------
        FormatError : no keys, or a key that a record cannot hold
        """
        if batch.keys is None:
            raise FormatError(
                f"{self._target}: word2vec binary needs a key for every row, and the input has none: "
                "give `keys_file=FILE`"
            )
        words = encoded(batch.keys)
        _require_readable(words, self._target)
        vectors = np.ascontiguousarray(batch.vectors, dtype=FLOAT32)
        return b"".join([b"%b %b" % (word, row.tobytes()) for word, row in zip(words, vectors, strict=True)])

    def write(self, piece: bytes) -> None:
        """Append an encoded batch."""
        self._handle.write(piece)


def _skip_line_feeds(buffer: bytearray, position: int, have: int) -> int:
    """Pass over line feeds: the original tool ends each record with one."""
    while position < have and buffer[position] == LINE_FEED:
        position += 1
    return position


def _require_readable(words: Sequence[bytes], target: str) -> None:
    for word in words:
        if not word or b" " in word or b"\n" in word:
            raise FormatError(
                f"{target}: key {text_rows.shown(word)} cannot stand in word2vec binary: "
                "it is empty, or holds a space or line feed"
            )
