"""Passes over a source: join of labels, sums of moments, rows by number or key."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.embeddings import empty_aligned
from salcli.data.join import Join, LabelledRows
from salcli.data.labels import GuardedLabels, Index, Selection, as_index, as_subscript
from salcli.data.source import Chunk, Source
from salcli.errors import AlignmentError
from salcli.formats.csv_records import LEAST_BYTES
from salcli.formats.keys import KeyCensus
from salcli.formats.label_table import read_labels
from salcli.linalg.class_sums import Grouping
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import Statistics
from salcli.options import LabelOptions, block_rows
from salcli.streaming.engine import Engine, SentOnce, ordered_map
from salcli.streaming.progress import Advance, Progress, Silent

MANY_KEYS = 100_000  # from here on, progress of the join is shown
JOINING = 8  # least ratio of numbers in a group of partitions to numbers in its sums
GATHERED_ELEMENTS = 1 << 20  # numbers of a file that are in memory at once while some of its rows are gathered
LABELLED_BYTES = 1 << 30  # of rows whose labels travel together to another process
GROUPED_ROWS = 1 << 17  # whose label matrix is in memory at once
GROUPING = Grouping()


def read_table(path: str, options: LabelOptions, progress: Progress) -> GuardedLabels:
    """Read a label CSV (see `read_labels`), as a stage of its own if it is large.

    Parameters
    ----------
    path : of the CSV
    options : see `read_labels`
    progress : shows the stage
    """
    n_bytes = os.path.getsize(path) if os.path.isfile(path) else 0
    if n_bytes < LEAST_BYTES:
        return read_labels(path, options)
    with progress.stage("labels", n_bytes, "bytes") as advance:
        return read_labels(path, options, advance)


def join_labels(source: Source, labels: GuardedLabels, progress: Progress | None = None) -> Join:
    """Return the row of each label, by key or row number if the CSV has them, else by position.

    Keys that occur more than once in the source are warned of.

    Parameters
    ----------
    source : embeddings
    labels : m labels
    progress : shows the join of many labels; default: none is shown

    Raises
    ------
    AlignmentError : the labels do not match the rows
    """
    if labels.key_column == "" and labels.index is not None:
        return Join.by_number(labels, source.n_all, source.path).without_rows(source.dropped)
    if labels.keys is None:
        by_position = Join.by_position(labels, source.n_all, source.path)
        return by_position.without_rows(source.dropped)
    if not source.has_keys:
        raise AlignmentError(
            f"{labels.path} joins by its column {labels.key_column!r}, but {source.path} has no keys: "
            "give `keys_file=FILE`, or `by_row` if row i of one is row i of the other"
        )
    census = KeyCensus()
    progress = progress if progress is not None and len(labels) >= MANY_KEYS else Silent()

    def counted(advance: Advance) -> Any:
        for keys in source.key_batches():
            census.add(keys)
            yield keys
            advance(len(keys))

    with progress.stage("join", source.n_all, "keys") as advance:
        join = Join.by_key(labels, counted(advance), source.path)
    census.warn(source.path, source.key_batches, source.place)
    return join.without_rows(source.dropped)


@dataclass(frozen=True, eq=False)
class LabelledSource:
    """Rows of an embedding file with a label each, the input of methods."""

    source: Source
    labels: GuardedLabels
    """Of the rows: each attribute has the classes that occur among them."""
    rows: LabelledRows
    """Label i belongs to `rows.rows[rows.index == i]`."""

    @classmethod
    def of(cls, source: Source, labels: GuardedLabels, rows: NDArray[np.int64] | range) -> Self:
        """Return a labelled source whose label i belongs to embedding row `rows[i]`.

        Parameters
        ----------
        source : embeddings
        labels : n labels
        rows : `[n]` rows of the source
        """
        return cls(source, labels, LabelledRows.of(rows))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def row_of_label(self) -> Index:
        """`[n]` embedding row of each label."""
        rows = np.empty(len(self.rows), np.int64)
        rows[as_subscript(self.rows.index)] = as_index(self.rows.rows)
        return rows

    def restricted_to(self, index: Index) -> Self:
        """Return the rows of the labels at `index` `[n]`."""
        return self.of(self.source, self.labels.restricted_to(index), self.row_of_label[index])

    def standardized(self, *, is_centred: bool) -> Self:
        """Return the same rows with numeric labels in standard deviations (see `Attribute.standardized`)."""
        return replace(self, labels=self.labels.standardized(is_centred=is_centred))

    def label_matrix(self, index: Selection) -> LabelMatrix:
        """Return Z of the labels at `index` `[n]` by its entries."""
        return _label_matrix(self.labels, index)

    def part(self, start: int = 0, stop: int | None = None) -> "LabelledPart":
        """Return the labels of the source's rows from `start` to `stop` (exclusive; None: all), without the source."""
        source, rows, labels = self.source, self.rows, self.labels
        if stop is not None:
            rows = rows.between(start, stop)
            labels, rows = labels.values_at(rows.index), LabelledRows(rows.rows, range(len(rows)))
        return LabelledPart(source.d, source.dtype, source.fills_buffers, rows, labels)


def _label_matrix(labels: GuardedLabels, index: Selection) -> LabelMatrix:
    return LabelMatrix(*labels.entries(index), labels.n_columns, labels.n_one_hot)


@dataclass(frozen=True, eq=False)
class LabelledPart(SentOnce):
    """Labels of some rows of a source: all that their sums need beside the chunks."""

    d: int
    """Dimensions of the source."""
    dtype: np.dtype[Any]
    """Of its rows."""
    fills_buffers: bool
    """See `Source.fills_buffers`."""
    rows: LabelledRows
    labels: GuardedLabels
    """Of the rows, with the classes of all."""

    def label_matrix(self, index: Selection) -> LabelMatrix:
        """Return Z of the labels at `index` `[n]` by its entries."""
        return _label_matrix(self.labels, index)


class Features(Protocol):
    """A map of rows to features, which are added up instead; can be pickled."""

    is_by_row: ClassVar[bool]
    """Whether the features of a row are the same bits in batches of any size."""

    @property
    def width(self) -> int:
        """Width of the mapped rows."""

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return mapped rows `[n, width]` of rows `x` `[n, d]`."""


S = TypeVar("S", bound=Statistics)


def fold(
    rows: LabelledSource,
    statistics: type[S],
    engine: Engine,
    progress: Progress,
    features: Features | None = None,
    *,
    is_centred: bool = True,
    grouping: Grouping = GROUPING,
    joining: int = JOINING,
) -> S:
    """Return the statistics of all rows: each partition's on the engine, added up as a tree in file order.

    Parameters
    ----------
    rows : n labelled rows
    statistics : which (`CrossMoments`, `SecondMoments` …)
    engine : where partitions are added up
    progress : shows the pass as a stage
    features : map rows through these first
    is_centred : the fit uses the centred Ω: many float32 rows are added up in small groups first, and once more in
        float64 throughout if the result may be inaccurate
    grouping : from how many rows on float32 groups are used, and how large they are
    joining : least ratio of numbers that are added up before `+` to numbers in the sums

    Raises
    ------
    FormatError : the file is damaged, or a row is not finite
    """
    source = rows.source
    suits = grouping.suits(len(rows), source.d, rows.label_matrix(range(0)), source.dtype)
    if features is None and suits and statistics.may_group:
        found = _folded(rows, statistics, engine, progress, None, grouping, joining)
        if found.is_accurate_enough(is_centred=is_centred):
            return found
    return _folded(rows, statistics, engine, progress, features, None, joining)


def _folded(
    rows: LabelledSource,
    statistics: type[S],
    engine: Engine,
    progress: Progress,
    features: Features | None,
    grouping: Grouping | None,
    joining: int,
) -> S:
    source, c = rows.source, rows.labels.n_columns
    d = source.d if features is None else features.width
    zero = statistics.zero(d, c)
    work = _Sums(statistics, d, c, features, grouping)
    items = _with_labels(rows, _partitions(rows, joining * zero.n_sums, grouping), is_whole=engine.shares_memory)
    with progress.stage("fit", len(rows)) as advance:
        return engine.fold(work, items, zero, lambda part: advance(part.n))


@dataclass(frozen=True, eq=False)
class _Sums(Generic[S]):
    """The statistics of a few chunks; can be pickled."""

    statistics: type[S]
    d: int
    c: int
    features: Features | None
    grouping: Grouping | None

    def __call__(self, item: tuple[LabelledPart, list[Chunk]]) -> S:
        rows, chunks = item
        features = self.features

        def read(n: int) -> Iterator[tuple[NDArray[Any], LabelMatrix]]:
            if features is not None and not features.is_by_row:
                return _features_of(rows, chunks, features)
            batches = _labelled_batches(rows, chunks, n)
            return batches if features is None else ((features(x), z) for x, z in batches)

        found = self.statistics.of_batches(read, self.d, self.c, grouping=self.grouping)
        if not found.is_finite:
            for chunk in chunks:
                chunk.read()  # names the row
        return found


def _with_labels(
    rows: LabelledSource, partitions: Iterable[list[Chunk]], *, is_whole: bool
) -> Iterator[tuple[LabelledPart, list[Chunk]]]:
    """Yield each group of chunks with the labels of its rows.

    Parameters
    ----------
    rows : labelled rows
    partitions : groups of chunks, in order
    is_whole : all have the labels of all rows. Otherwise consecutive ones share those of up to `LABELLED_BYTES` of
        their shard
    """
    whole = rows.part()
    part, stop = whole, 0
    for chunks in partitions:
        first = chunks[0]
        if not is_whole and (chunks[-1].stop > stop or first.start == first.shard.first):
            row_bytes = rows.source.d * rows.source.dtype.itemsize
            end = first.shard.first + first.shard.reader.n
            stop = min(end, max(chunks[-1].stop, first.start + LABELLED_BYTES // row_bytes))
            part = rows.part(first.start, stop)
        yield part, chunks


def _labelled_batches(rows: LabelledPart, chunks: list[Chunk], n: int) -> Iterator[tuple[NDArray[Any], LabelMatrix]]:
    """Read the rows that have a label, at most n at a time, and their labels.

    Where all rows of a chunk have one, the sums show whether they are finite; others are checked as they are read.
    """
    memory = None
    if rows.fills_buffers:
        memory = empty_aligned(min(n, max(chunk.n_rows for chunk in chunks)), rows.d, rows.dtype)
    for chunk in chunks:
        is_whole = rows.rows.all_of(chunk.start, chunk.n_rows) is not None
        for batch in chunk.batches(n, out=memory, is_checked=not is_whole):
            x, index = rows.rows.within(batch)
            if len(x):
                yield x, rows.label_matrix(index)


def _features_of(
    rows: LabelledPart, chunks: list[Chunk], features: Features
) -> Iterator[tuple[NDArray[Any], LabelMatrix]]:
    """Map rows in blocks that depend on the file only: products of other shapes round differently."""
    parts = [rows.rows.within(chunk.read()) for chunk in chunks]
    x, index = np.concatenate([x for x, _ in parts]), np.concatenate([as_index(index) for _, index in parts])
    n = block_rows(features.width)
    for start in range(0, len(x), n):
        part = slice(start, start + n)
        yield features(x[part]), rows.label_matrix(index[part])


def _partitions(rows: LabelledSource, least_elements: int, grouping: Grouping | None) -> Iterator[list[Chunk]]:
    """Yield the chunks that hold labelled rows, in groups of partitions: the sums of a group are complete before `+`.

    Adding sums takes time, so with many of them a group is several of the source's partitions.
    """
    source = rows.source
    size = 1 + least_elements // (source.partition * source.d)
    if grouping is not None and source.fills_buffers:
        size = max(size, min(grouping.partitions, GROUPED_ROWS // source.partition))
    touched = (chunk for chunk in source.chunks() if rows.rows.touch(chunk.start, chunk.n_rows))
    for _, chunks in itertools.groupby(touched, lambda chunk: chunk.partition(size)):
        yield list(chunks)


def gather_rows(source: Source, rows: NDArray[np.int64], progress: Progress) -> tuple[NDArray[Any], Index]:
    """Return the vectors of some rows, in memory.

    Parameters
    ----------
    source : embeddings
    rows : `[m]` row numbers, in any order
    progress : shows the reading as a stage

    Returns
    -------
    vectors `[r, d]`, and the positions `[r]` in `rows` that they belong to (r < m if rows with NaN were dropped)
    """
    chosen = LabelledRows.of(rows)
    x, is_read = np.empty((len(rows), source.d), source.dtype), np.zeros(len(rows), np.bool_)
    chunks = (chunk for chunk in source.chunks() if chosen.touch(chunk.start, chunk.n_rows))
    n = max(1, GATHERED_ELEMENTS // source.d)

    def read(chunk: Chunk) -> list[tuple[NDArray[Any], Selection]]:
        found = (chosen.within(batch) for batch in chunk.batches(n))
        return [(np.array(part), index) for part, index in found]  # a batch is overwritten by the next one

    with progress.stage("read", len(chosen)) as advance:
        for parts in ordered_map(read, chunks):
            for part, index in parts:
                at = as_subscript(index)
                x[at], is_read[at] = part, True
                advance(len(part))
    return (x if is_read.all() else x[is_read]), np.flatnonzero(is_read)


def gather_keys(source: Source, wanted: set[str]) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, int]]:
    """Return the vectors and row numbers of some keys, by key: of the first row that has it.

    Parameters
    ----------
    source : embeddings with keys
    wanted : the keys; those that no row has are missing in the result
    """
    found: dict[str, NDArray[Any]] = {}
    rows: dict[str, int] = {}

    def look(chunk: Chunk) -> list[tuple[str, NDArray[Any], int]]:
        batch = chunk.read()
        at = (i for i, key in enumerate(batch.keys or ()) if key in wanted)
        return [((batch.keys or ())[i], np.array(batch.vectors[i]), int(batch.rows[i])) for i in at]

    for some in ordered_map(look, source.chunks()):
        for key, vector, row in some:
            if key not in found:
                found[key], rows[key] = vector, row
    return found, rows
