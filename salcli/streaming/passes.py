"""Passes over a source: join of labels, sums of moments, rows by number or key."""

import functools
import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.blocks import Block, widening
from salcli.data.embeddings import empty_aligned
from salcli.data.join import Join, LabelledRows
from salcli.data.labels import GuardedLabels, Index, Selection, as_index, as_subscript
from salcli.data.pairing import require_paired
from salcli.data.source import Chunk, Source
from salcli.errors import AlignmentError
from salcli.formats.csv_records import LEAST_BYTES
from salcli.formats.keys import KeyCensus
from salcli.formats.label_files import label_files
from salcli.formats.label_table import read_labels
from salcli.linalg.class_sums import Grouping
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import Statistics
from salcli.linalg.relabelled import LabelMap
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
    path : of the CSV, or of several
    options : see `read_labels`
    progress : shows the stage
    """
    n_bytes = sum(os.path.getsize(file) for file in label_files(path) if os.path.isfile(file))
    if n_bytes < LEAST_BYTES:
        return read_labels(path, options)
    with progress.stage("labels", n_bytes, "bytes") as advance:
        return read_labels(path, options, advance)


def join_labels(
    source: Source, labels: GuardedLabels, progress: Progress | None = None, *, may_miss_all: bool = False
) -> Join:
    """Return the row of each label, by key or row number if the CSV has them, else by position.

    Keys that occur more than once in the source are warned of.

    Parameters
    ----------
    source : embeddings
    labels : m labels
    progress : shows the join of many labels; default: none is shown
    may_miss_all : a source may have none of the keys, as a shard of others

    Raises
    ------
    AlignmentError : the labels do not match the rows
    """
    if labels.key_column == "" and labels.index is not None:
        return Join.by_number(labels, source.n_all, source.path).without_rows(source.dropped)
    if labels.keys is None:
        if labels.parts:
            require_paired(labels, source)
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
        join = Join.by_key(labels, counted(advance), source.path, may_miss_all=may_miss_all)
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

    def by_shard(self) -> Iterator[Self]:
        """Yield the labelled rows of each shard that has any, with the classes that occur there, in file order."""
        for shard in self.source.shards:
            chosen = self.rows.between(shard.first, shard.first + shard.reader.n)
            if len(chosen):
                attributes = tuple(attribute.restricted_to(chosen.index) for attribute in self.labels.attributes)
                labels, rows = GuardedLabels(self.labels.path, attributes, None), LabelledRows.of(chosen.rows)
                yield type(self)(self.source.of_shard(shard), labels, rows)

    def standardized(self, *, is_centred: bool) -> Self:
        """Return the same rows with numeric labels in standard deviations (see `Attribute.standardized`)."""
        return replace(self, labels=self.labels.standardized(is_centred=is_centred))

    def label_matrix(self, index: Selection) -> LabelMatrix:
        """Return Z of the labels at `index` `[n]` by its entries."""
        return LabelMatrix(*self.labels.entries(index), self.labels.n_columns, self.labels.n_one_hot)


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
    kept: "Kept | None" = None,
) -> S:
    """Return the statistics of all rows and of Z, numbers in standard deviations.

    Each partition's are added up on the engine, those of a shard as a tree in file order, and then those of the shards.
    A shard is added up as if it were alone, with its own classes and units, so that its moments may come from a file.

    Parameters
    ----------
    rows : n labelled rows
    statistics : which (`CrossMoments`, `SecondMoments` …)
    engine : where partitions are added up
    progress : shows the pass as a stage
    features : map rows through these first
    is_centred : the fit uses the centred Ω, and numbers are measured from their mean: many float32 rows are added up in
        small groups first, and once more in float64 throughout if the result may be inaccurate
    grouping : from how many rows of a shard on float32 groups are used, and how large they are
    joining : least ratio of numbers that are added up before `+` to numbers in the sums
    kept : sums of shards that need not be added up again, and where others are kept

    Raises
    ------
    FormatError : the file is damaged, or a row is not finite
    """
    parts = [Part.of(part, is_centred=is_centred) for part in rows.by_shard()]
    if features is None and statistics.may_group:
        found = _folded(rows, parts, statistics, engine, progress, None, grouping, joining, is_centred, kept)
        if found.is_accurate_enough(is_centred=is_centred):
            return found
    return _folded(rows, parts, statistics, engine, progress, features, None, joining, is_centred, kept)


def fold_once(
    rows: LabelledSource,
    statistics: type[S],
    engine: Engine,
    progress: Progress,
    *,
    is_centred: bool,
    is_exact: bool,
    grouping: Grouping = GROUPING,
    joining: int = JOINING,
) -> S:
    """Return the statistics of all rows as `fold` adds them up, whatever their rounding.

    Parameters
    ----------
    rows, statistics, engine, progress, is_centred, grouping, joining : see `fold`
    is_exact : add up in float64 throughout
    """
    parts = [Part.of(part, is_centred=is_centred) for part in rows.by_shard()]
    groups = None if is_exact or not statistics.may_group else grouping
    return _folded(rows, parts, statistics, engine, progress, None, groups, joining, is_centred)


@dataclass(frozen=True, eq=False)
class Part:
    """The labelled rows of one shard, as they are added up."""

    rows: LabelledSource
    """With numbers in their own standard deviations."""
    blocks: tuple[Block, ...]
    """Of the columns of Z."""

    @classmethod
    def of(cls, rows: LabelledSource, *, is_centred: bool) -> Self:
        """Return the part of the labelled `rows` of a shard; `is_centred`: numbers are measured from their mean."""
        return cls(rows.standardized(is_centred=is_centred), tuple(map(Block.of, rows.labels.attributes)))

    def suits(self, grouping: Grouping) -> bool:
        """Return whether its rows are added up in the groups of `grouping` first."""
        source = self.rows.source
        return grouping.suits(len(self.rows), source.d, self.rows.label_matrix(range(0)), source.dtype)


@dataclass(frozen=True, eq=False)
class Slice(SentOnce):
    """Labelled rows of a part that lie together, without their source: all that sums need beside the chunks."""

    d: int
    """Dimensions of the source."""
    dtype: np.dtype[Any]
    """Of its rows."""
    fills_buffers: bool
    """See `Source.fills_buffers`."""
    rows: LabelledRows
    labels: GuardedLabels
    """Of the rows, with the classes of the part."""
    grouping: Grouping | None
    """Of its rows, in float32 first."""

    @classmethod
    def of(cls, rows: LabelledSource, grouping: Grouping | None, start: int = 0, stop: int | None = None) -> Self:
        """Return the labelled rows of a shard from `start` to `stop` (exclusive; None: all of them)."""
        source, chosen, labels = rows.source, rows.rows, rows.labels
        if stop is not None:
            chosen = chosen.between(start, stop)
            labels, chosen = labels.values_at(chosen.index), LabelledRows.of(chosen.rows)
        return cls(source.d, source.dtype, source.fills_buffers, chosen, labels, grouping)

    def label_matrix(self, index: Selection) -> LabelMatrix:
        """Return Z of the labels at `index` `[n]` by its entries."""
        return LabelMatrix(*self.labels.entries(index), self.labels.n_columns, self.labels.n_one_hot)


def _sliced(
    rows: LabelledSource, grouping: Grouping | None, partitions: Iterable[list[Chunk]], *, is_whole: bool
) -> Iterator[tuple[Slice, list[Chunk]]]:
    """Yield each group of chunks of a shard with labels: of all of it, or of about `LABELLED_BYTES` of its rows."""
    found = Slice.of(rows, grouping)
    end, stop = rows.source.shards[0].first + rows.source.n_all, 0
    for chunks in partitions:
        if not is_whole and chunks[-1].stop > stop:
            first, most = chunks[0].start, LABELLED_BYTES // (rows.source.d * rows.source.dtype.itemsize)
            stop = min(end, max(chunks[-1].stop, first + most))
            found = Slice.of(rows, grouping, first, stop)
        yield found, chunks


Item = tuple[int, Slice | None, list[Chunk]]
"""Number of the part, and chunks of it that are added up at once, with their labels; none of a part that was kept."""


@dataclass(frozen=True, eq=False)
class _Parts(Generic[S]):
    """The parts as groups of an engine."""

    finished: Callable[[int, S], S]

    def number(self, item: Item) -> int:
        """Return the part of an item."""
        return item[0]


class Kept(Protocol):
    """Sums of parts, in their order, that outlive a run."""

    def has(self, number: int, *, is_exact: bool) -> bool:
        """Return whether the sums of part `number` are there; `is_exact`: in float64 throughout."""

    def load(self, number: int, *, is_exact: bool) -> bytes:
        """Return the sums of a part that is there (`Statistics.to_bytes`)."""

    def keep(self, number: int, sums: bytes, rounding: float, *, is_exact: bool) -> None:
        """Keep the sums of a part, with their bound on rounding."""


def rounding_of(sums: Statistics) -> float:
    """Return the bound on rounding of the covariance of `sums` with the labels; 0 of no rows."""
    cross: Any = getattr(sums, "cross", sums)
    return float(cross.rounding_floor()) if sums.n else 0.0


def _maps(parts: Sequence[Part], labels: GuardedLabels, *, is_centred: bool) -> tuple[LabelMap | None, ...]:
    """Return how the columns of each of `parts` become those of `labels`, the labels of all rows."""
    total = [functools.reduce(operator.add, same) for same in zip(*(part.blocks for part in parts), strict=True)]
    total = [replace(block, classes=a.classes) for block, a in zip(total, labels.attributes, strict=bool(parts))]
    return tuple(widening(part.blocks, total, is_centred=is_centred) for part in parts)


def _folded(
    rows: LabelledSource,
    parts: Sequence[Part],
    statistics: type[S],
    engine: Engine,
    progress: Progress,
    features: Features | None,
    grouping: Grouping | None,
    joining: int,
    is_centred: bool,
    kept: Kept | None = None,
) -> S:
    is_exact = grouping is None
    known = {n for n in range(len(parts)) if kept is not None and kept.has(n, is_exact=is_exact)}
    d = rows.source.d if features is None else features.width

    def items() -> Iterator[Item]:
        for number, part in enumerate(parts):
            if number in known:
                yield number, None, []
                continue
            within = grouping if grouping is not None and part.suits(grouping) else None
            least = joining * statistics.zero(d, part.rows.labels.n_columns).n_sums
            partitions = _partitions(part.rows, least, within)
            for labels, chunks in _sliced(part.rows, within, partitions, is_whole=engine.shares_memory):
                yield number, labels, chunks

    zero: S = statistics.zero(d, rows.labels.n_columns)
    maps = _maps(parts, rows.labels, is_centred=is_centred)
    with progress.stage("fit", len(rows)) as advance:

        def finished(number: int, total: S) -> S:
            if kept is not None and number in known:
                total = statistics.from_bytes(kept.load(number, is_exact=is_exact))
                advance(total.n)
            elif kept is not None:
                kept.keep(number, total.to_bytes(), rounding_of(total), is_exact=is_exact)
            labels = maps[number]
            return total if labels is None else total.relabelled(labels)

        groups = _Parts(finished)
        return engine.fold(_Sums(statistics, d, features), items(), zero, lambda part: advance(part.n), groups)


@dataclass(frozen=True, eq=False)
class _Sums(Generic[S]):
    """The statistics of an item; can be pickled."""

    statistics: type[S]
    d: int
    features: Features | None

    def __call__(self, item: Item) -> S:
        _, rows, chunks = item
        if rows is None:
            return self.statistics.zero(self.d, 0)
        features = self.features

        def read(n: int) -> Iterator[tuple[NDArray[Any], LabelMatrix]]:
            if features is not None and not features.is_by_row:
                return _features_of(rows, chunks, features)
            batches = _labelled_batches(rows, chunks, n)
            return batches if features is None else ((features(x), z) for x, z in batches)

        found = self.statistics.of_batches(read, self.d, rows.labels.n_columns, grouping=rows.grouping)
        if not found.is_finite:
            for chunk in chunks:
                chunk.read()  # names the row
        return found


def _labelled_batches(rows: Slice, chunks: list[Chunk], n: int) -> Iterator[tuple[NDArray[Any], LabelMatrix]]:
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


def _features_of(rows: Slice, chunks: list[Chunk], features: Features) -> Iterator[tuple[NDArray[Any], LabelMatrix]]:
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
        keys = batch.keys or ()
        return [(key, np.array(batch.vectors[i]), int(batch.rows[i])) for i, key in enumerate(keys) if key in wanted]

    for some in ordered_map(look, source.chunks()):
        for key, vector, row in some:
            if key not in found:
                found[key], rows[key] = vector, row
    return found, rows
