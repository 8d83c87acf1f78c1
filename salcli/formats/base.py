"""`Format`: the name, reader and writer of a file format; the registry lists all formats."""

import importlib
import operator
import threading
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from salcli.data.embeddings import Embeddings, Floats
from salcli.data.source import Reader, Source
from salcli.errors import warn
from salcli.formats.beside import Beside
from salcli.formats.files import ByteFile
from salcli.options import ReadOptions


class Writer:
    """Base of all writers. `encode` may run on any thread; `write` and what follows run on one, in file order."""

    takes_places = False
    """Whether `place` may be used instead of `encode` and `write`."""
    digest: str | None = None
    """Hash of the whole file as it was written, once the writer is closed; None if it was not hashed in step."""

    def place(self, row: int, vectors: Floats) -> None:
        """Write consecutive rows where they belong in the output; safe on any thread, in any order.

        Parameters
        ----------
        row : the first of them, in the output
        vectors : `[b, d]`
        """
        raise NotImplementedError

    def begin(self, name: str) -> None:
        """Write the rows that follow to the array called `name`, one of those that are erased too."""
        raise NotImplementedError

    def encode(self, batch: Embeddings) -> Any:
        """Return `batch` in the form that `write` takes; safe on any thread."""
        return batch

    def write(self, piece: Any) -> None:
        """Append `piece`, which `encode` returned."""
        raise NotImplementedError

    def hash_in_step(self, algorithm: str) -> None:
        """Hash bytes as they are written, where the format writes each place once: `digest` is the result.

        Parameters
        ----------
        algorithm : of `hasher`
        """

    def close(self) -> None:
        """Write what is still in memory; after this the file is whole."""

    def discard(self) -> None:
        """Close what is open, when the file will not be used."""


@dataclass(frozen=True)
class Output:
    """The path, shape and dtype of an output, and its input."""

    path: str
    """The temporary file that takes the place of the target when all is written."""
    target: str
    """Name of the output in messages."""
    source: Source
    """The input, whose rows, order, keys and companions the output keeps."""
    d: int
    """Width of the output."""
    dtype: np.dtype[Any]
    """Type of its numbers."""
    beside: Beside = field(default_factory=Beside)
    """Which of the arrays beside the matrix are copied, erased or left out, where the format holds several."""
    opened: ExitStack = field(default_factory=ExitStack)

    @property
    def n(self) -> int:
        """Rows of the output."""
        return self.source.n

    @property
    def has_keys(self) -> bool:
        """Whether each row has a key."""
        return self.source.has_keys

    @property
    def model(self) -> Reader | None:
        """The reader of the input, if that is one file: an output of the same format is written like it."""
        return self.source.shards[0].reader.innermost if len(self.source.shards) == 1 else None

    def open(self) -> BinaryIO:
        """Open the temporary file for writing; it is closed after the writer is."""
        return self.opened.enter_context(open(self.path, "wb"))


@dataclass(frozen=True)
class Format:
    """A kind of embedding file. A new one is one such object in `registry.FORMATS`."""

    name: str
    """Its name for `--format`."""
    suffixes: tuple[str, ...]
    """Suffixes of its files, in lower case; the first format that lists one writes it."""
    sniff: Callable[[bytes], bool]
    """Whether the first 64 KiB of (decompressed) content are of this format."""
    reader: Callable[[ByteFile, ReadOptions], Reader | Sequence[Reader]]
    """Open a file, checking what can be checked before rows are read; several readers are shards, in order."""
    writer: Callable[[Output], Writer]
    """Start an output."""
    title: str = ""
    """Name of such a file in messages; default: the name."""
    has_magic: bool = False
    """Whether `sniff` is certain, so that no other format is possible."""
    is_by_suffix: bool = False
    """Whether files are recognised by their suffix alone, as their content has no signature."""
    holds_keys: bool = True
    """Whether a file of it can have a key for each row."""
    holds_several_arrays: bool = False
    """Whether `--dataset` and `--keys-dataset` choose among arrays."""
    is_table: bool = False
    """Whether a file of it may be labels as well as vectors."""
    may_hold_int8: bool = False
    """Whether its matrix may hold int8, with `dequantize`."""
    is_text: bool = False
    """Whether it may be written to stdout."""
    needs_rows: bool = False
    """Whether a file without rows would be empty, and could not be read."""

    def __str__(self) -> str:
        return self.title or self.name


def lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports another one when it is called.

    Parameters
    ----------
    module : of this package
    name : of the function in it; dots are allowed
    """

    def call(*args: Any, **options: Any) -> Any:
        found = operator.attrgetter(name)(importlib.import_module(f"salcli.formats.{module}"))
        return found(*args, **options)

    return call


class Notes:
    """Remarks about rows that several threads read: one warning for each kind when the file is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, set[int]] = {}
        self._first: dict[str, tuple[int, str]] = {}

    def __reduce__(self) -> Any:
        return Notes, ()

    def add(self, kind: str, row: int, text: str) -> None:
        """Add a remark on a row.

        Parameters
        ----------
        kind : what all such remarks have in common
        row : that it is on
        text : shown if it is the first of its kind
        """
        with self._lock:
            self._rows.setdefault(kind, set()).add(row)  # a row may be read more than once
            self._first[kind] = min(self._first.get(kind, (row, text)), (row, text))

    def take(self) -> list[tuple[str, int, str]]:
        """Return the remarks (kind, row, text; "" for all but the first of a kind), and forget them."""
        with self._lock:
            kinds, firsts = self._rows, self._first
            self._rows, self._first = {}, {}
        return [
            (kind, row, firsts[kind][1] if row == firsts[kind][0] else "")
            for kind, rows in kinds.items()
            for row in sorted(rows)
        ]

    def warn(self) -> None:
        """Warn once for each kind, with the first row and the number of others."""
        with self._lock:
            kinds, firsts = self._rows, self._first
            self._rows, self._first = {}, {}
        for kind, rows in sorted(kinds.items()):
            more = f" (and {len(rows) - 1} more such rows)" if len(rows) > 1 else ""
            warn(f"{firsts[kind][1]}: {kind}{more}")


class FileReader(Reader):
    """A reader of one `ByteFile`."""

    file: ByteFile

    @property
    def container(self) -> ByteFile:
        """The file, from which another reader can read another array."""
        return self.file

    def digest(self, algorithm: str, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the file as it is on disk (see `Reader.digest`)."""
        return self.file.digest(algorithm, is_wanted)

    def hash_as_read(self, algorithm: str) -> bool:
        """Return whether the file is hashed as it is read (see `Reader.hash_as_read`)."""
        return self.container.hash_as_read(algorithm)

    def require_unchanged(self) -> None:
        """Check that the file is the one that was opened (see `ByteFile.require_unchanged`)."""
        self.container.require_unchanged()

    def close(self) -> None:
        """Close the file."""
        self.file.close()


@dataclass(frozen=True)
class Span:
    """Consecutive rows that are parsed together, and their position in the file."""

    first_row: int
    n_rows: int
    offset: int
    n_bytes: int


class SpanReader(FileReader):
    """A reader of rows of no fixed length, whose positions are found in one pass over the file."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._is_surveyed = False
        self.notes = Notes()

    def __getstate__(self) -> dict[str, Any]:
        for _ in self.spans():  # every other process would have to pass over the file
            pass
        return dict(self.__dict__)

    @abstractmethod
    def survey(self) -> Iterator[Span]:
        """Pass over the file and yield its spans, none of which crosses a multiple of `partition`."""

    @abstractmethod
    def parse(self, span: Span) -> Embeddings:
        """Return the rows of `span`.

        Raises
        ------
        FormatError : the span is damaged
        """

    def spans(self) -> Iterator[Span]:
        """Yield the spans in file order; the file is surveyed as the first such iteration goes on."""
        if self._is_surveyed:
            yield from self._spans
            return
        found = []
        for span in self.survey():
            found.append(span)
            if len(found) > len(self._spans):
                self._spans.append(span)
            yield span
        self._is_surveyed = True

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of every chunk in file order."""
        for span in self.spans():
            yield span.first_row, span.first_row + span.n_rows

    def read(self, start: int, stop: int) -> Embeddings:
        """Return rows in memory of their own (see `Reader.read`)."""
        if not self._is_surveyed and (not self._spans or self._spans[-1].first_row + self._spans[-1].n_rows < stop):
            for _ in self.spans():
                pass
        parts = []
        at = bisect_right(self._spans, start, key=lambda span: span.first_row) - 1
        while at < len(self._spans) and (span := self._spans[at]).first_row < stop:
            batch = self.parse(span)
            if start > span.first_row or stop < span.first_row + span.n_rows:
                batch = batch.take(slice(max(0, start - span.first_row), stop - span.first_row))
            parts.append(batch)
            at += 1
        return parts[0] if len(parts) == 1 else concatenated(parts)

    def close(self) -> None:
        """Warn of what was found while reading, and close the file."""
        self.notes.warn()
        super().close()


def concatenated(parts: list[Embeddings]) -> Embeddings:
    """Return the batches `parts`, at least one and all of consecutive rows, as one."""
    keys = None if parts[0].keys is None else tuple(key for part in parts for key in part.keys or ())
    return Embeddings(np.concatenate([p.vectors for p in parts]), np.concatenate([p.rows for p in parts]), keys)
