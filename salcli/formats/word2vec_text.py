"""word2vec text and GloVe text (the same rows without a header), in and out."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.data.source import Reader, partition_rows, require_shape
from salcli.errors import FormatError, RangeError, warn
from salcli.formats import sniff as signature
from salcli.formats import text_rows
from salcli.formats.base import Output, Span, SpanReader, Writer
from salcli.formats.files import ByteFile
from salcli.formats.keys import decoded, encoded, is_utf8
from salcli.formats.text_rows import BOM, Lines
from salcli.options import ReadOptions

TEXT_ELEMENTS = 1 << 17  # numbers written at once
SPAN_BYTES = 3 << 19  # of text, which takes several times as much while it is parsed
MAX_LINE = 16 << 20
BLANKS = b" \t\r\n"


class TextReader(SpanReader):
    """A text file of vectors. The constructor reads it once for rows, dimension, words or none, and line ends.

    Rows have words unless each begins with a number that has a point or an exponent (and, below a header, has as many
    fields as that announces dimensions). `keyed` of the options decides otherwise.
    """

    def __init__(self, file: ByteFile, options: ReadOptions, *, has_header: bool) -> None:
        """Survey the file.

        Parameters
        ----------
        file : of the rows
        options : how rows are read
        has_header : whether line 1 holds the numbers of rows and dimensions

        Raises
        ------
        FormatError : it is not rows of text vectors, or not as many as its header announces
        """
        super().__init__()
        self.path, self.file, self.dtype = file.name, file.plain(), options.text_dtype
        self.format = "word2vec-text" if has_header else "glove"
        head = file.head()
        self._start = len(BOM) if head.startswith(BOM) else 0
        header = signature.word2vec_header(head[self._start :]) if has_header else None
        if has_header and header is None:
            line = head[self._start :].partition(b"\n")[0]
            raise FormatError(
                f"{self.path}: line 1: {text_rows.shown(line)}, expected a header of two numbers, `rows dimensions`"
            )
        self._start += header.n_bytes if header else 0
        if signature.looks_binary(head[self._start :], header.d if header else None):
            raise FormatError(f"{self.path}: is binary, not text: try `format=word2vec-bin`, or leave `format` out")
        if header:
            require_shape(self.path, header.n, header.d)
        self._first_line, self._most_rows = (2 if header else 1), options.most_rows
        self._partition_elements, self._survey_bytes = options.partition_elements, options.survey_bytes or SPAN_BYTES
        self.n, self.d, self.partition, self._strips_cr = 0, header.d if header else 0, 1, True
        first_row = head[self._start :].partition(b"\n")[0].rstrip(b"\r")
        is_narrow = header is not None and text_rows.count_fields(first_row) == header.d
        may_be_bare = header is None or (
            is_narrow and first_row[:2].strip(text_rows.SEPARATORS) != b""
        )  # no blank word
        self._keyed = options.keyed if options.keyed is not None or may_be_bare else True
        self.has_keys = self._keyed is not False
        self._may_lack_keys = options.keyed is None
        for span in self.spans():
            self.n += span.n_rows
        if header and self.n != header.n:
            raise FormatError(f"{self.path}: line 1 announces {header.n:,} rows, {self.n:,} were found")
        if header is None and self.n and not self.d:
            raise FormatError(
                f"{self.path}: line 1: {text_rows.shown(first_row)}, expected a word and its numbers, "
                "with spaces between them" + (": is this a CSV?" if b"," in first_row or b";" in first_row else "")
            )
        require_shape(self.path, self.n, self.d)

    def adopt(self, other: Reader) -> None:
        """Take over whether rows have words (see `Reader.adopt`), unless options say so."""
        self.d = self.d or other.d
        if self._may_lack_keys:
            self.has_keys = other.has_keys

    def survey(self) -> Iterator[Span]:
        """Yield spans of complete lines, and find the line ends, the kind of first field and the width of rows."""
        counts: Counter[int] = Counter()
        counts_fields, n_rows, kinds = not self.d, 0, dict[str, int]()
        for offset, data in self._complete_lines():
            if not n_rows:  # without a header, d is known at the end only, and estimated from the first lines
                likely = self.d or self._likely_width(Lines(data, strips_cr=False, has_words=False))
                self.partition = partition_rows(likely, self._partition_elements)
            for piece in _cut(data, self._most_rows or self.partition, self.partition, n_rows):
                n_feeds = piece.count(b"\n")
                n_lines = n_feeds + (not piece.endswith(b"\n"))
                self._strips_cr = self._strips_cr and piece.count(b"\r\n") == n_feeds
                if counts_fields or self._keyed is None:  # both are independent of the kind of separator
                    lines = Lines(piece, strips_cr=self._strips_cr, has_words=False)
                    counts.update(Counter(lines.field_counts()) if counts_fields else ())
                    if self._keyed is None:
                        self._look_at_first_fields(lines, n_rows, kinds)
                yield Span(n_rows, n_lines, offset, len(piece))
                offset, n_rows = offset + len(piece), n_rows + n_lines
        if self._keyed is None and kinds:
            self.has_keys = self._has_words(kinds)
        if counts_fields:
            self.d = max(0, most_frequent(counts) - self.has_keys)

    def _likely_width(self, first: Lines) -> int:
        """Return the dimensions that the first lines seem to have."""
        has_words = self._keyed is not False
        if self._keyed is None:
            has_words = text_rows.begins_with_words({*map(text_rows.kind_of_first, first.lines())}) is not False
        return most_frequent(Counter(first.field_counts())) - has_words

    def _look_at_first_fields(self, lines: Lines, row: int, kinds: dict[str, int]) -> None:
        """Record the first row that begins with each kind of field, until one begins with a word."""
        for i, line in enumerate(lines.lines(), row):
            kind = text_rows.kind_of_first(line)
            kinds.setdefault(kind, i)
            if kind == text_rows.WORD:
                self._keyed = True
                if text_rows.POINTED in kinds and text_rows.WHOLE not in kinds:
                    warn(
                        f"{self.path}: {self.place(i)} begins with a word and all lines before it with numbers, which "
                        "are taken for words too (`keyed=False`: there are no words)"
                    )
                return

    def _has_words(self, kinds: dict[str, int]) -> bool:
        """Return whether rows have words, from the kinds of all first fields.

        Raises
        ------
        FormatError : it is ambiguous
        """
        found = text_rows.begins_with_words(kinds)
        if found is None:
            pointed, whole = (self.place(kinds[kind]) for kind in (text_rows.POINTED, text_rows.WHOLE))
            raise FormatError(
                f"{self.path}: every row begins with a number, some with point or exponent ({pointed}) and some "
                f"without ({whole}): words, or the first coordinates? Give `keyed` or `keyed=False`"
            )
        return found

    def _complete_lines(self) -> Iterator[tuple[int, bytes]]:
        stream = self.file.stream()
        stream.read(self._start)
        offset, ahead = self._start, b""
        while data := stream.read(self._survey_bytes):
            ahead += data
            cut = _end_of_rows(ahead)
            if not cut and len(ahead) > MAX_LINE:
                what = "a line of more than" if ahead.strip(BLANKS) else "nothing but blank lines for"
                raise FormatError(f"{self.path}: {what} {MAX_LINE >> 20} MiB (byte {offset}): not rows of text vectors")
            if cut:
                yield offset, ahead[:cut]
                offset, ahead = offset + cut, ahead[cut:]
        if ahead.strip(BLANKS):
            yield offset, ahead[: _end_of_rows(ahead) or len(ahead)]

    def parse(self, span: Span) -> Embeddings:
        """Return the rows of `span`, which is complete lines.

        Raises
        ------
        FormatError : a line is not a word and d numbers
        RangeError : a number is too large for the dtype
        """
        words, exact = None, np.empty(0)
        if self.has_keys:
            words, exact = self._lines(span).rows(self.d, self._place_in(span))
        else:
            exact = self._lines(span).numbers(self.d, self._place_in(span))
        with np.errstate(over="ignore"):
            vectors = exact.astype(self.dtype, copy=False)
        if np.isinf(vectors).any() and len(lost := np.argwhere(np.isinf(vectors) & np.isfinite(exact))):
            row, column = lost[0]
            raise RangeError(
                f"{self._place_in(span)(row)}: {exact[row, column]:.6g} does not fit {self.dtype}: "
                "scale the embeddings down (apply can: `dtype=float64`)"
            )
        return Embeddings.starting_at(span.first_row, vectors, None if words is None else self._keys(words, span))

    def _lines(self, span: Span) -> Lines:
        data = self.file.read_at(span.offset, span.n_bytes)
        return Lines(data, strips_cr=self._strips_cr, has_words=self.has_keys)

    def _keys(self, words: list[bytes], span: Span) -> tuple[str, ...]:
        keys = decoded(words)
        place = self._place_in(span)
        for row, word in enumerate(words):
            if (b" " in word or b"\t" in word) and text_rows.ends_in_number(word):
                text = f"{place(row)}: word {text_rows.shown(word)}"
                self.notes.add("a word that ends in a number: the row may be too long", span.first_row + row, text)
        if not b"".join(words).isascii():
            for row, key in enumerate(keys):
                if not is_utf8(key):
                    text = f"{place(row)}: word {text_rows.shown(words[row])}"
                    self.notes.add("bytes that are not UTF-8, kept as they are", span.first_row + row, text)
        return keys

    def key_batches(self) -> Iterator[tuple[str, ...]]:
        """Yield all keys in file order, without parsing numbers."""
        for span in self.spans() if self.has_keys else ():
            yield decoded(self._lines(span).words(self.d, self._place_in(span)))

    def _place_in(self, span: Span) -> Callable[[int], str]:
        return lambda i: f"{self.path}: {self.place(span.first_row + i)}"

    def place(self, row: int) -> str:
        """Return where `row` is: its line, counted from 1 as `sed -n` does."""
        return f"line {self._first_line + row}"


def _end_of_rows(data: bytes) -> int:
    """Return the end of the last complete line that is not blank; blank lines are rows only if one follows."""
    complete = data[: data.rfind(b"\n") + 1]
    written = len(complete.rstrip(BLANKS))
    return complete.find(b"\n", written) + 1 if written else 0


read_word2vec = partial(TextReader, has_header=True)
read_glove = partial(TextReader, has_header=False)


def most_frequent(counts: Counter[int]) -> int:
    """Return the most frequent field count in `counts`; of equally frequent ones the smaller.

    A word may hold spaces, which makes a row longer.
    """
    return int(min(counts, key=lambda count: (-counts[count], count))) if counts else 0


def _cut(data: bytes, rows: int, partition: int, row: int) -> Iterator[bytes]:
    """Yield lines, the first of which is `row`, in pieces of at most `rows` that do not cross a partition's end."""
    if data.count(b"\n") < min(rows, partition - row % partition):
        yield data
        return
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(b"\n")) + 1
    n_lines = len(ends) + (not data.endswith(b"\n"))
    start = first = 0
    while first < n_lines:
        last = first + min(rows, partition - (row + first) % partition)
        end = int(ends[last - 1]) if last <= len(ends) else len(data)
        yield data[start:end]
        start, first = end, last


class TextWriter(Writer):
    """Writes rows as text, with the shortest decimals that are read back as the same numbers.

    Rows without keys are numbers only.
    """

    def __init__(
        self,
        handle: BinaryIO,
        *,
        n: int,
        d: int,
        dtype: np.dtype[Any],
        has_header: bool,
        target: str,
        separator: bytes = b" ",
    ) -> None:
        self._handle, self._d, self._target, self._has_header = handle, d, target, has_header
        self._separator, self._kinds = separator, set[str]()
        self._dtype = np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
        self._lock = threading.Lock()
        self._field_counts: Counter[int] = Counter()
        if has_header:
            handle.write(f"{n} {d}\n".encode())

    def encode(self, batch: Embeddings) -> list[bytes]:
        """Return the rows of `batch` as text, piece by piece; safe on any thread.

        Raises
        ------
        FormatError : a key that would read back as another one
        """
        vectors = np.ascontiguousarray(batch.vectors, dtype=self._dtype)
        step = max(1, TEXT_ELEMENTS // self._d)
        parts = [slice(start, start + step) for start in range(0, len(vectors), step)]
        if batch.keys is None:
            return [self._text(vectors[part]) for part in parts]
        words = encoded(batch.keys)
        self._require_readable(words, is_first=bool(len(batch)) and batch.rows[0] == 0)
        if not self._has_header:
            with self._lock:
                self._field_counts.update(Counter(text_rows.count_fields(word) + self._d for word in words))
                if text_rows.WORD not in self._kinds:  # before a word of separators alone, a row begins with a number
                    self._kinds |= {text_rows.kind_of_first(word + b" .0") for word in words}
        return [self._text(vectors[part], words[part], itertools.repeat(self._separator)) for part in parts]

    def _text(self, vectors: Floats, *before: Iterable[bytes]) -> bytes:
        fields = zip(*before, text_rows.to_text(vectors, self._separator), itertools.repeat(b"\n"))
        return b"".join(itertools.chain.from_iterable(fields))

    def _require_readable(self, words: list[bytes], *, is_first: bool) -> None:
        for word in words:
            if not word or b"\n" in word or (word[-1:] in (b" ", b"\t") and word.strip(text_rows.SEPARATORS)):
                raise FormatError(f"{self._target}: key {text_rows.shown(word)} would not read back the same from text")
        if is_first and not self._has_header and (words[0].startswith(BOM) or (self._d == 1 and words[0].isdigit())):
            raise FormatError(f"{self._target}: key {text_rows.shown(words[0])} in line 1 would be taken for a header")

    def write(self, piece: list[bytes]) -> None:
        """Append `piece`, which `encode` returned."""
        self._handle.writelines(piece)

    def close(self) -> None:
        """Check that a file without a header reads back, its dimension and its words.

        Raises
        ------
        FormatError : it does not
        """
        if not self._has_header and self._kinds and not text_rows.begins_with_words(self._kinds):
            raise FormatError(
                f"{self._target}: every key begins with a number, so without a header keys would be taken for "
                "coordinates: use `output_format=word2vec-text`"
            )
        if not self._field_counts:
            return
        if not self._has_header and (found := most_frequent(self._field_counts)) != self._d + 1:
            raise FormatError(
                f"{self._target}: most keys hold spaces, so without a header {found - 1} dimensions are read back, "
                f"not {self._d}: use `output_format=word2vec-text`"
            )


def _begin(output: Output, *, has_header: bool) -> TextWriter:
    is_like = isinstance(output.model, TextReader) and (output.source.format == "word2vec-text" or not has_header)
    if not (output.has_keys or is_like or (_is_tsv(output.target) and not has_header)):
        raise FormatError(
            f"{output.target}: text needs a key for every row, and the input has none: give `keys_file=FILE`, "
            "or write .tsv, whose rows may be numbers only"
        )
    return TextWriter(
        output.open(),
        n=output.n,
        d=output.d,
        dtype=output.dtype,
        has_header=has_header,
        target=output.target,
        separator=b"\t" if _is_tsv(output.target) else b" ",
    )


def _is_tsv(target: str) -> bool:
    return target.lower().removesuffix(".gz").endswith(".tsv")


write_word2vec = partial(_begin, has_header=True)
write_glove = partial(_begin, has_header=False)
