"""word2vec binary: a text header, then for each row its word, one space and d float32."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError
from salcli.formats import signature, text_rows
from salcli.formats.bytefile import ByteFile
from salcli.formats.keys import decoded, encoded, is_utf8
from salcli.formats.notes import Notes
from salcli.formats.source import Slab, require_shape
from salcli.formats.writer import EmbeddingWriter
from salcli.options import ReadOptions, unit_rows

FLOAT32 = np.dtype("<f4")
MAX_WORD = 65_536
PIECE = 8 << 20


@dataclass(frozen=True)
class Span:
    """Consecutive records: where they lie, and where each one's word begins and ends within them."""

    offset: int
    n_bytes: int
    first_row: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]


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

    def _spans(self) -> Iterator[tuple[Span, bytes]]:
        """Walk over the records in bounded reads, giving spans with their bytes."""
        stream, width = self.file.stream(), self.d * FLOAT32.itemsize
        stream.read(self._header_bytes)
        offset, held, row = self._header_bytes, b"", 0
        starts: list[int] = []
        ends: list[int] = []
        position = 0
        while row + len(starts) < self.n:
            start = position
            while held[start : start + 1] == b"\n":  # the original tool ends each record with a line feed
                start += 1
            end = held.find(b" ", start)
            if end < 0 or end + 1 + width > len(held):
                self._require_word(held, start, end, row + len(starts))
                more = stream.read(PIECE)
                if not more:
                    raise FormatError(
                        f"{self.path}: truncated in record {row + len(starts)} of {self.n} (counting from 0): "
                        f"{self.d} float32 expected, {len(held) - start} bytes left; not float32, or cut short"
                    )
                if starts:  # what is complete goes out first, so that held bytes stay few
                    yield Span(offset, position, row, tuple(starts), tuple(ends)), held[:position]
                row, offset, held, position = row + len(starts), offset + position, held[position:] + more, 0
                starts, ends = [], []
                continue
            self._require_word(held, start, end, row + len(starts))
            starts.append(start)
            ends.append(end)
            position = end + 1 + width
            if len(starts) == self._rows_per_slab or (row + len(starts)) % self.unit == 0:
                yield Span(offset, position, row, tuple(starts), tuple(ends)), held[:position]
                row, offset, held, position = row + len(starts), offset + position, held[position:], 0
                starts, ends = [], []
        if starts:
            yield Span(offset, position, row, tuple(starts), tuple(ends)), held[:position]
        left = held[position:] + stream.read(PIECE)
        if left.strip(b"\n"):
            raise FormatError(
                f"{self.path}: line 1 announces {self.n} records, but {len(left)} bytes or more follow record "
                f"{self.n - 1} (counting from 0): the count is too small, or the numbers are not float32"
            )

    def _require_word(self, held: bytes, start: int, end: int, record: int) -> None:
        if end == start:
            raise FormatError(
                f"{self.path}: record {record} (counting from 0) has an empty word; not float32, or corrupt"
            )
        if (end if end >= 0 else len(held)) - start > MAX_WORD:
            raise FormatError(
                f"{self.path}: record {record} (counting from 0): no space within {MAX_WORD} bytes; "
                "corrupt, or not float32"
            )

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order; the walk over the records happens as this iterates."""
        for span, data in self._spans():
            yield Slab(span.first_row, len(span.starts), partial(self._read, span, data))

    def _read(self, span: Span, data: bytes) -> Embeddings:
        view, width = memoryview(data), self.d * FLOAT32.itemsize
        numbers = b"".join([view[end + 1 : end + 1 + width] for end in span.ends])
        vectors: Floats = np.frombuffer(numbers, FLOAT32).reshape(len(span.ends), self.d)
        return Embeddings.starting_at(span.first_row, vectors, self._keys(span, data))

    def _keys(self, span: Span, data: bytes) -> tuple[str, ...]:
        words = [data[start:end] for start, end in zip(span.starts, span.ends, strict=True)]
        if any(b"\n" in word for word in words):
            row = span.first_row + next(i for i, word in enumerate(words) if b"\n" in word)
            raise FormatError(
                f"{self.path}: record {row} (counting from 0): a line feed inside a word; corrupt, or not float32"
            )
        keys = decoded(words)
        if not b"".join(words).isascii():
            for i, key in enumerate(keys):
                if not is_utf8(key):
                    told = (
                        f"{self.path}: record {span.first_row + i} (counting from 0): word {text_rows.shown(words[i])}"
                    )
                    self._notes.add("bytes that are not UTF-8, kept as they are", span.first_row + i, told)
        return keys

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order."""
        for span, data in self._spans():
            yield self._keys(span, data)

    def place(self, row: int) -> str:
        """Say where a row stands."""
        return f"record {row}"

    def sha256(self) -> str:
        """Hash the file as it lies on disk."""
        return self.file.sha256()

    def close(self) -> None:
        """Tell what was noticed, and close the file."""
        self._notes.tell()
        self.file.close()


class Word2vecBinaryWriter(EmbeddingWriter):
    """Writes records as gensim does: no line feed between them."""

    def __init__(self, handle: BinaryIO, *, n: int, d: int, dtype: np.dtype[Any], target: str) -> None:
        if dtype.newbyteorder("=") != np.float32:
            raise FormatError(
                f"{target}: word2vec binary holds float32 only, not {dtype}: give --dtype float32 or another format"
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
                f"{self._target}: word2vec binary needs a key for every row, and the input has none: give --keys FILE"
            )
        words = encoded(batch.keys)
        _require_readable(words, self._target)
        vectors = np.ascontiguousarray(batch.vectors, dtype=FLOAT32)
        return b"".join([b"%b %b" % (word, row.tobytes()) for word, row in zip(words, vectors, strict=True)])

    def write(self, piece: bytes) -> None:
        """Append an encoded batch."""
        self._handle.write(piece)


def _require_readable(words: Sequence[bytes], target: str) -> None:
    for word in words:
        if not word or b" " in word or b"\n" in word:
            raise FormatError(
                f"{target}: key {text_rows.shown(word)} cannot stand in word2vec binary: "
                "it is empty, or holds a space or line feed"
            )
