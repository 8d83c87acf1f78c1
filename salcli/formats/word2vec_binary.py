"""word2vec binary: a text header, then for each row its word, one space and d float32."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.data.source import partition_rows, require_shape
from salcli.errors import FormatError
from salcli.formats import sniff as signature
from salcli.formats import text_rows
from salcli.formats.base import Output, Span, SpanReader, Writer
from salcli.formats.files import ByteFile
from salcli.formats.keys import decoded, encoded, is_utf8
from salcli.options import ReadOptions

FLOAT32 = np.dtype("<f4")
MAX_WORD = 65_536
SURVEY_BYTES = 4 << 20
WORDS_AHEAD = 16  # spans whose words the survey keeps for the threads that read them next
LINE_FEED = ord("\n")


class Word2vecBinaryReader(SpanReader):
    """A word2vec binary file. Records have no fixed length, so the first pass over them finds their positions."""

    format = "word2vec-bin"
    has_keys = True
    dtype = FLOAT32

    def __init__(self, file: ByteFile, options: ReadOptions) -> None:
        """Read the header; a compressed file is unpacked and surveyed.

        Parameters
        ----------
        file : of the records
        options : how rows are read

        Raises
        ------
        FormatError : there is no header, or it announces more than the file can hold
        """
        super().__init__()
        self.path, self.file, self._is_plain = file.name, file.plain(), file.is_plain
        header = signature.word2vec_header(file.head())
        if header is None:
            raise FormatError(f"{self.path}: line 1 is no word2vec header, `rows dimensions`")
        self.n, self.d = header.n, header.d
        require_shape(self.path, self.n, self.d)
        least = self.n * (2 + self.d * FLOAT32.itemsize)  # one letter, one space
        n_bytes = (file.most_bytes if file.size is None else file.size) - header.n_bytes
        if n_bytes < least:
            raise FormatError(
                f"{self.path}: truncated, or not float32: {self.n} records of {self.d} float32 take at least {least} "
                f"bytes, {n_bytes} bytes {'at most ' if file.size is None else ''}follow the header"
            )
        self.partition = partition_rows(self.d, options.partition_elements)
        self._rows_per_span = options.rows_per_chunk(self.d * FLOAT32.itemsize, self.partition)
        self._header_bytes, self._survey_bytes = header.n_bytes, options.survey_bytes or SURVEY_BYTES
        self._words_ahead: dict[int, list[bytes]] = {}
        if not file.is_plain:
            for _ in self.spans():
                pass

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_words_ahead": {}}

    @property
    def _patterns(self) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
        """Patterns of one record, with its word as a group, and of any number of them."""
        record = rb"(\n*+[^ ]{1,%d}) .{%d}" % (MAX_WORD, self.d * FLOAT32.itemsize)
        return re.compile(record, re.DOTALL), re.compile(rb"(?:%s)*+" % record.replace(b"(", b"(?:"), re.DOTALL)

    def survey(self) -> Iterator[Span]:
        """Yield the positions of the records, read through one buffer.

        Raises
        ------
        FormatError : the file is not n records of a word and d float32 and nothing else
        """
        width = self.d * FLOAT32.itemsize
        buffer = bytearray(max(self._survey_bytes, 2 * MAX_WORD + width))
        view, fill = memoryview(buffer), self._filler()
        offset, row, have, position = self._header_bytes, 0, 0, 0  # the buffer holds `have` bytes from `offset`
        while row < self.n:
            words = self._words(buffer, position, have)[: self.n - row]
            for part in self._cut(words, row):
                start, position = position, position + sum(map(len, part)) + len(part) * (1 + width)
                self._words_ahead[row] = part
                if len(self._words_ahead) > WORDS_AHEAD:
                    self._words_ahead.pop(min(self._words_ahead.copy()), None)  # other threads take theirs meanwhile
                yield Span(row, len(part), offset + start, position - start)
                row += len(part)
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
        """Return the words of all whole records from `position`, with the line feeds before them."""
        record, any_records = self._patterns
        records = any_records.match(buffer, position, have)
        assert records is not None  # the pattern also matches no records
        return record.findall(buffer, position, records.end())

    def _cut(self, words: list[bytes], row: int) -> Iterator[list[bytes]]:
        """Yield the words of rows `row`… in parts, those of one span each."""
        start = 0
        while start < len(words):
            stop = start + min(self._rows_per_span, self.partition - (row + start) % self.partition)
            yield words[start:stop]
            start = stop

    def _filler(self) -> Callable[[memoryview], int]:
        """Return a function that fills memory with the next bytes after the header."""
        if self._is_plain:
            offset = self._header_bytes

            def fill_in_place(view: memoryview) -> int:
                nonlocal offset
                n = self.file.fill(view, offset)
                offset += n
                return n

            return fill_in_place
        stream = self.file.stream()
        stream.read(self._header_bytes)

        def fill(view: memoryview) -> int:
            data = stream.read(len(view))
            view[: len(data)] = data
            return len(data)

        return fill

    def _require_word(self, buffer: bytearray, position: int, have: int, record: int) -> None:
        """Check that a word is not empty and has an end within the bytes read so far."""
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

    def parse(self, span: Span) -> Embeddings:
        """Return the records of `span`.

        Raises
        ------
        FormatError : a word holds a line feed
        """
        data, width = self.file.read_at(span.offset, span.n_bytes), self.d * FLOAT32.itemsize
        words = self._words_ahead.pop(span.first_row, None) or self._patterns[0].findall(data)
        lengths = np.fromiter(map(len, words), np.intp, len(words))
        # Each item of this view begins one byte after the last; only those that are vectors are copied.
        windows = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
        vectors: Floats = windows[np.cumsum(lengths + 1 + width) - width].view(FLOAT32).reshape(-1, self.d)
        return Embeddings.starting_at(span.first_row, vectors, self._keys(span, words))

    def _keys(self, span: Span, words: list[bytes]) -> tuple[str, ...]:
        joined = b"".join(words)
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
                    row = span.first_row + i
                    text = f"{self.path}: record {row} (counting from 0): word {text_rows.shown(words[i])}"
                    self.notes.add("bytes that are not UTF-8, kept as they are", row, text)
        return keys

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order."""
        for span in self.spans():
            words = self._words_ahead.pop(span.first_row, None)
            yield self._keys(span, words or self._patterns[0].findall(self.file.read_at(span.offset, span.n_bytes)))

    def place(self, row: int) -> str:
        """Return where `row` is: its record, counted from 0."""
        return f"record {row}"


class Word2vecBinaryWriter(Writer):
    """Writes records as gensim does: no line feed between them."""

    def __init__(self, handle: BinaryIO, *, n: int, d: int, dtype: np.dtype[Any], target: str) -> None:
        if dtype.newbyteorder("=") != np.float32:
            raise FormatError(
                f"{target}: word2vec binary holds float32 only, not {dtype}: give `dtype=float32` or another format"
            )
        self._handle, self._target = handle, target
        handle.write(f"{n} {d}\n".encode())

    @classmethod
    def create(cls, output: Output) -> "Word2vecBinaryWriter":
        """Return a writer for `output`.

        Raises
        ------
        FormatError : its dtype is not float32
        """
        return cls(output.open(), n=output.n, d=output.d, dtype=output.dtype, target=output.target)

    def encode(self, batch: Embeddings) -> bytes:
        """Return the records of `batch`; safe on any thread.

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
        """Append `piece`, which `encode` returned."""
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
                f"{target}: key {text_rows.shown(word)} cannot be written as word2vec binary: "
                "it is empty, or holds a space or line feed"
            )
