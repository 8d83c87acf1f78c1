"""Sums over a source: each shard as if it were alone, on the engine, and then a tree of the shards."""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.blocks import Block, widening
from salcli.data.embeddings import empty_aligned
from salcli.data.join import LabelledRows
from salcli.data.labels import GuardedLabels, Selection, as_index
from salcli.data.source import Chunk
from salcli.linalg.class_sums import Grouping
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import Statistics
from salcli.linalg.relabelled import LabelMap
from salcli.options import block_rows
from salcli.streaming.engine import Engine, SentOnce
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress

JOINING = 8  # least ratio of numbers in a group of partitions to numbers in its sums
LABELLED_BYTES = 1 << 30  # of rows whose labels travel together to another process
GROUPED_ROWS = 1 << 17  # whose label matrix is in memory at once
GROUPING = Grouping()


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

    def grouping(self, grouping: Grouping | None) -> Grouping | None:
        """Return in which groups its rows are added up first, as `grouping` has it: None if in float64 throughout."""
        source = self.rows.source
        rows = source.shards[0].reader.decoded_rows
        if grouping is None or not grouping.suits(
            len(self.rows), source.d, self.rows.label_matrix(range(0)), source.dtype
        ):
            return None
        return grouping if rows is None else replace(grouping, block_elements=rows * source.d)


@dataclass(frozen=True, eq=False)
class Slice(SentOnce):
    """Labelled rows of a part that lie together, without their source: all that sums need beside the chunks."""

    d: int
    """Dimensions of the source."""
    dtype: np.dtype[Any]
    """Of its rows."""
    fills_buffers: bool
    """See `Source.fills_buffers`."""
    decoded_rows: int | None
    """See `Reader.decoded_rows`."""
    rows: LabelledRows
    labels: GuardedLabels
    """Of the rows, with the classes of the part."""
    grouping: Grouping | None
    """Of its rows, in float32 first."""

    @classmethod
    def of(cls, rows: LabelledSource, grouping: Grouping | None, start: int = 0, stop: int | None = None) -> Self:
        """Return the labelled rows of a shard from `start` to `stop` (exclusive; None: all of them)."""
        source, chosen, labels = rows.source, rows.rows, rows.labels
        decoded_rows = source.shards[0].reader.decoded_rows
        if stop is not None:
            chosen = chosen.between(start, stop)
            labels, chosen = labels.values_at(chosen.index), LabelledRows.of(chosen.rows)
        return cls(source.d, source.dtype, source.fills_buffers, decoded_rows, chosen, labels, grouping)

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

    @functools.cache
    def least_elements(n_columns: int) -> int:
        return joining * statistics.zero(d, n_columns).n_sums

    def items() -> Iterator[Item]:
        for number, part in enumerate(parts):
            if number in known:
                yield number, None, []
                continue
            within = part.grouping(grouping)
            partitions = _partitions(part.rows, least_elements(part.rows.labels.n_columns), within)
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
    memory, n = None, min(n, rows.decoded_rows or n)
    if rows.fills_buffers:
        memory = empty_aligned(min(n, max(chunk.n_rows for chunk in chunks)), rows.d, rows.dtype)
    for chunk in chunks:
        index = rows.rows.all_of(chunk.start, chunk.n_rows)
        labels, at = None, 0
        if index is not None and chunk.shard.dropped is None:
            labels = rows.label_matrix(index)  # of all at once: each step costs time when a batch is decoded in between
        for batch in chunk.batches(n, out=memory, is_checked=index is None):
            if labels is not None:
                yield batch.vectors, labels.take(slice(at, at + len(batch)))
                at += len(batch)
                continue
            x, chosen = rows.rows.within(batch)
            if len(x):
                yield x, rows.label_matrix(chosen)


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
