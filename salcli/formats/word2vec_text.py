"""word2vec text and GloVe text (the same rows without a header), in and out."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.errors import FormatError, RangeError
from salcli.formats import sniff as signature
from salcli.formats import text_rows
from salcli.formats.files import ByteFile, Stream
from salcli.formats.keys import decoded, encoded, is_utf8
from salcli.formats.notes import Notes
from salcli.formats.source import Slab, require_shape
from salcli.formats.text_rows import BOM, Chunk
from salcli.formats.writer import EmbeddingWriter
from salcli.options import ReadOptions, unit_rows

SPELT_ELEMENTS = 1 << 17  # numbers spelt at once: memory that is soon in use again
SLAB_BYTES = 3 << 19  # of text, which takes several times as much while it is parsed
MAX_LINE = 16 << 20


@dataclass(frozen=True)
class Span:
    """Complete lines that are parsed together."""

    offset: int
    n_bytes: int
    first_line: int
    first_row: int
    n_rows: int


class TextSource:
    """A text file of vectors. Opening surveys it once: rows, dimension, line ends and where to cut."""

    has_keys = True

    def __init__(self, file: ByteFile, options: ReadOptions, *, has_header: bool) -> None:
        self.path, self.file, self.dtype = file.name, file, options.text_dtype
        self.format = "word2vec-text" if has_header else "glove"
        self._notes = Notes()
        head = file.head()
        start = len(BOM) if head.startswith(BOM) else 0
        header = signature.word2vec_header(head[start:]) if has_header else None
        if has_header and header is None:
            line = head[start:].partition(b"\n")[0]
            raise FormatError(
                f"{self.path}: line 1: {text_rows.shown(line)}, expected a header of two numbers, `rows dimensions`"
            )
        start += header.n_bytes if header else 0
        if signature.looks_binary(head[start:], header.d if header else None):
            raise FormatError(f"{self.path}: is binary, not text: try `format=word2vec-bin`, or leave `format` out")
        if header:
            require_shape(self.path, header.n, header.d)
        self._first_line = 2 if header else 1
        survey = _survey(file, start, self._first_line, options.most_rows, None if header is None else header.d)
        self._spans, self.n, self._strips_cr, self.d, self.unit = survey
        if header and self.n != header.n:
            raise FormatError(f"{self.path}: line 1 announces {header.n} rows, {self.n} were found")
        if header is None and self.n and not self.d:
            line = head[start:].partition(b"\n")[0].rstrip(b"\r")
            raise FormatError(
                f"{self.path}: line 1: {text_rows.shown(line)}, expected a word and its numbers, "
                "with spaces between them" + (": is this a CSV?" if b"," in line or b";" in line else "")
            )
        require_shape(self.path, self.n, self.d)

    def slabs(self) -> Iterator[Slab]:
        """Give the slabs in file order."""
        for span, read in zip(self._spans, self.file.spans((s.offset, s.n_bytes) for s in self._spans), strict=True):
            yield Slab(span.first_row, span.n_rows, partial(self._rows, span, read))

    def _rows(self, span: Span, read: Callable[[], bytes]) -> Embeddings:
        words, exact = self._chunk(read).rows(self.d, self._place_in(span))
        with np.errstate(over="ignore"):
            vectors = exact.astype(self.dtype, copy=False)
        if np.isinf(vectors).any() and len(lost := np.argwhere(np.isinf(vectors) & np.isfinite(exact))):
            row, column = lost[0]
            raise RangeError(
                f"{self._place_in(span)(row)}: {exact[row, column]:.6g} does not fit {self.dtype}: "
                "scale the embeddings down (apply can: `dtype=float64`)"
            )
        return Embeddings.starting_at(span.first_row, vectors, self._keys(words, span))

    def _chunk(self, read: Callable[[], bytes]) -> Chunk:
        return Chunk(read(), strips_cr=self._strips_cr)

    def _keys(self, words: list[bytes], span: Span) -> tuple[str, ...]:
        keys = decoded(words)
        place = self._place_in(span)
        for row, word in enumerate(words):
            if (b" " in word or b"\t" in word) and text_rows.ends_in_number(word):
                told = f"{place(row)}: word {text_rows.shown(word)}"
                self._notes.add("a word that ends in a number: the row may be too long", span.first_row + row, told)
        if not b"".join(words).isascii():
            for row, key in enumerate(keys):
                if not is_utf8(key):
                    told = f"{place(row)}: word {text_rows.shown(words[row])}"
                    self._notes.add("bytes that are not UTF-8, kept as they are", span.first_row + row, told)
        return keys

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Give all keys in file order, without parsing numbers."""
        for span, read in zip(self._spans, self.file.spans((s.offset, s.n_bytes) for s in self._spans), strict=True):
            yield decoded(self._chunk(read).words(self.d, self._place_in(span)))

    def _place_in(self, span: Span) -> Callable[[int], str]:
        return lambda i: f"{self.path}: line {span.first_line + i}"

    def place(self, row: int) -> str:
        """Say where a row stands, counting lines from 1 as `sed -n` does."""
        return f"line {self._first_line + row}"

    def sha256(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Hash the file as it lies on disk, as long as that is wanted."""
        return self.file.sha256(is_wanted)

    def close(self) -> None:
        """Tell what was noticed, and close the file."""
        self._notes.tell()
        self.file.close()


def _survey(
    file: ByteFile, start: int, first_line: int, most_rows: int | None, d: int | None
) -> tuple[list[Span], int, bool, int, int]:
    """Pass over the text once: where to cut it, how many rows, whether all end in CR, d, and rows of a unit."""
    spans: list[Span] = []
    counts: Counter[int] = Counter()
    n_rows, may_strip, unit, counts_fields = 0, True, 0, d is None
    for offset, data in _complete_lines(file, file.stream(), start):
        if not unit:  # without a header, d is known at the end only: the first lines tell what it may be
            first = d or most_frequent(Counter(list(Chunk(data, strips_cr=False).field_counts()))) - 1
            unit = unit_rows(first)
        for piece in _cut(data, most_rows or unit, unit, n_rows):
            n_feeds = piece.count(b"\n")
            n_lines = n_feeds + (not piece.endswith(b"\n"))
            may_strip = may_strip and piece.count(b"\r\n") == n_feeds
            if counts_fields:
                counts.update(Counter(list(Chunk(piece, strips_cr=may_strip).field_counts())))
            spans.append(Span(offset, len(piece), first_line + n_rows, n_rows, n_lines))
            offset, n_rows = offset + len(piece), n_rows + n_lines
    return spans, n_rows, may_strip, max(0, most_frequent(counts) - 1) if d is None else d, unit or 1


def most_frequent(counts: Counter[int]) -> int:
    """Give the most frequent field count; of equally frequent ones the smaller, since a word may hold spaces."""
    return int(min(counts, key=lambda count: (-counts[count], count))) if counts else 0


def _complete_lines(file: ByteFile, stream: Stream, start: int) -> Iterator[tuple[int, bytes]]:
    stream.read(start)
    offset, held = start, b""
    while data := stream.read(SLAB_BYTES):
        held += data
        cut = held.rfind(b"\n") + 1
        if not cut and len(held) > MAX_LINE:
            raise FormatError(
                f"{file.name}: a line of more than {MAX_LINE >> 20} MiB (byte {offset}): not rows of text vectors"
            )
        if cut:
            yield offset, held[:cut]
            offset, held = offset + cut, held[cut:]
    if held:
        yield offset, held


def _cut(data: bytes, rows: int, unit: int, row: int) -> Iterator[bytes]:
    """Cut lines, the first of which is `row`, into pieces of at most `rows` that do not reach over a unit's end."""
    if data.count(b"\n") < min(rows, unit - row % unit):
        yield data
        return
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(b"\n")) + 1
    n_lines = len(ends) + (not data.endswith(b"\n"))
    start = first = 0
    while first < n_lines:
        last = first + min(rows, unit - (row + first) % unit)
        end = int(ends[last - 1]) if last <= len(ends) else len(data)
        yield data[start:end]
        start, first = end, last


class TextWriter(EmbeddingWriter):
    """Writes rows as text that reads back to the same numbers: the shortest decimals that do."""

    def __init__(
        self, handle: BinaryIO, *, n: int, d: int, dtype: np.dtype[Any], has_header: bool, target: str
    ) -> None:
        self._handle, self._d, self._target, self._has_header = handle, d, target, has_header
        self._dtype = np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
        self._lock = threading.Lock()
        self._field_counts: Counter[int] = Counter()
        if has_header:
            handle.write(f"{n} {d}\n".encode())

    def encode(self, batch: Embeddings) -> list[bytes]:
        """Spell rows out, piece by piece; safe on any thread.

        Raises
        ------
        FormatError : no keys, or a key that would read back as another one
        """
        if batch.keys is None:
            raise FormatError(
                f"{self._target}: text needs a key for every row, and the input has none: give `keys_file=FILE`"
            )
        words = encoded(batch.keys)
        self._require_readable(words, is_first=bool(len(batch)) and batch.rows[0] == 0)
        if not self._has_header:
            with self._lock:
                self._field_counts.update(Counter(text_rows.count_fields(word) + self._d for word in words))
        vectors = np.ascontiguousarray(batch.vectors, dtype=self._dtype)
        step = max(1, SPELT_ELEMENTS // self._d)
        parts = (slice(start, start + step) for start in range(0, len(words), step))
        return [_lines(words[part], vectors[part]) for part in parts]

    def _require_readable(self, words: list[bytes], *, is_first: bool) -> None:
        for word in words:
            if not word or b"\n" in word or (word[-1:] in (b" ", b"\t") and word.strip(text_rows.SEPARATORS)):
                raise FormatError(f"{self._target}: key {text_rows.shown(word)} would not read back the same from text")
        if is_first and not self._has_header and (words[0].startswith(BOM) or (self._d == 1 and words[0].isdigit())):
            raise FormatError(f"{self._target}: key {text_rows.shown(words[0])} in line 1 would be taken for a header")

    def write(self, piece: list[bytes]) -> None:
        """Append an encoded batch."""
        self._handle.writelines(piece)

    def close(self) -> None:
        """Make sure that a file without a header reads back: its dimension is told from the most frequent row."""
        if not self._has_header and (found := most_frequent(self._field_counts)) != self._d + 1:
            raise FormatError(
                f"{self._target}: most keys hold spaces, so without a header {found - 1} dimensions are read back, "
                f"not {self._d}: use `output_format=word2vec-text`"
            )


def _lines(words: list[bytes], vectors: Floats) -> bytes:
    fields = zip(words, itertools.repeat(b" "), text_rows.spelt(vectors), itertools.repeat(b"\n"))
    return b"".join(itertools.chain.from_iterable(fields))
