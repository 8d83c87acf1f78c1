"""Passes over a source: joining labels, folding moments, gathering rows."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.join import Join, LabelledRows
from salcli.data.labels import GuardedLabels, Index, Selection, as_subscript
from salcli.data.source import PARTITION_ELEMENTS, Chunk, Source
from salcli.errors import AlignmentError
from salcli.formats.keys import KeyCensus
from salcli.linalg.class_sums import GroupedSums, RowSums, anchor_of, may_group
from salcli.linalg.kernels import NystromMap
from salcli.linalg.label_matrix import SparseDesign
from salcli.linalg.moments import CrossMoments, is_settled
from salcli.options import block_rows
from salcli.streaming.engine import ordered_map
from salcli.streaming.progress import Progress

JOINING = 8  # a group of partitions has at least so many numbers for each number of its sums
GROUPED_PARTITIONS = 8  # where adding up is fast, what Python does for each piece of work would be felt
GROUPED_ROWS = 1 << 17  # of which the design is held at once


def join_labels(source: Source, labels: GuardedLabels) -> Join:
    """Find the row of each label, by key if the CSV has keys, else by position; tell of duplicate keys.

    Raises
    ------
    AlignmentError : they do not meet
    """
    if labels.keys is None:
        by_position = Join.by_position(labels, source.n_all, source.path)
        return by_position.without_rows(source.dropped)
    if not source.has_keys:
        raise AlignmentError(
            f"{labels.path} joins by its column {labels.key_column!r}, but {source.path} has no keys: "
            "give --keys FILE, or --by-row if row i of one is row i of the other"
        )
    census = KeyCensus()

    def counted() -> Any:
        for keys in source.key_batches():
            census.add(keys)
            yield keys

    join = Join.by_key(labels, counted(), source.path)
    census.tell(source.path, source.key_batches, source.place)
    return join.without_rows(source.dropped)


def fold_moments(
    source: Source,
    labels: GuardedLabels,
    chosen: LabelledRows,
    progress: Progress,
    features: NystromMap | None = None,
    *,
    is_centred: bool = True,
) -> CrossMoments:
    """Fold the chosen rows into moments, chunk by chunk in file order.

    Parameters
    ----------
    labels : of the chosen rows; label i belongs to `chosen.rows[chosen.index == i]`
    features : map rows through these first
    is_centred : which Ω is wanted: many float32 rows are added up in small groups first, and once more in float64
        throughout if that leaves a doubt about it
    """
    is_grouped = features is None and may_group(len(chosen), source.d, labels.n_columns, labels.n_one_hot, source.dtype)
    moments = _folded(source, labels, chosen, progress, features, is_grouped=is_grouped)
    if is_grouped and not is_settled(moments, is_centred=is_centred):
        return _folded(source, labels, chosen, progress, features, is_grouped=False)
    return moments


def _folded(
    source: Source,
    labels: GuardedLabels,
    chosen: LabelledRows,
    progress: Progress,
    features: NystromMap | None,
    *,
    is_grouped: bool,
) -> CrossMoments:
    width = source.d if features is None else features.width
    anchor = _anchor(source, chosen, features)

    def zero() -> RowSums:
        if is_grouped:
            return GroupedSums(width, labels.n_columns)
        return RowSums(width, labels.n_columns, n_one_hot=labels.n_one_hot, anchor=anchor)

    def sums_of(chunks: list[Chunk]) -> RowSums:
        whole = chosen.all_of(chunks[0].start, chunks[-1].stop - chunks[0].start)
        sums = zero()
        if features is None:
            _add_rows(sums, chunks, source, labels, chosen, whole)
        else:
            _add_features(sums, chunks, features, labels, chosen)
        return sums

    total = zero()
    groups = _partitions(source, chosen, width * labels.n_columns, is_grouped=is_grouped)
    with progress.stage("fit", len(chosen)) as advance:
        for sums in ordered_map(sums_of, groups):
            total += sums
            advance(len(sums))
    return CrossMoments.of_sums(total)


def _design(labels: GuardedLabels, index: Selection) -> SparseDesign:
    return SparseDesign(*labels.entries(index), labels.n_columns, labels.n_one_hot)


def _add_rows(
    sums: RowSums,
    chunks: list[Chunk],
    source: Source,
    labels: GuardedLabels,
    chosen: LabelledRows,
    whole: Selection | None,
) -> None:
    if whole is not None:  # labels are looked up once, and rows are read as many at a time as are added up
        batches = (chunk.batches(sums.rows_at_once, is_checked=False) for chunk in chunks)
        vectors = (batch.vectors for batch in itertools.chain.from_iterable(batches))
        sums.add(vectors, _design(labels, whole))
        if not sums.is_finite:  # NaN and Inf never leave a sum
            for chunk in chunks:
                chunk.read()
        return
    for batch in itertools.chain.from_iterable(chunk.batches(block_rows(source.d)) for chunk in chunks):
        x, index = chosen.within(batch)
        sums.add([x], _design(labels, index))


def _add_features(
    sums: RowSums, chunks: list[Chunk], features: NystromMap, labels: GuardedLabels, chosen: LabelledRows
) -> None:
    """Map rows many at a time, always the same ones: products of other shapes round otherwise."""
    parts = [chosen.within(chunk.read()) for chunk in chunks]
    x, index = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    rows = block_rows(features.width)
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        sums.add([features(x[part])], _design(labels, index[part]))


def _partitions(source: Source, chosen: LabelledRows, n_sums: int, *, is_grouped: bool) -> Iterator[list[Chunk]]:
    """Yield the chunks that hold chosen rows, in groups of partitions: the sums of a group are added up on their own.

    Joining takes its time for each group, so with many classes a group is several of the source's partitions.
    """
    size = 1 + JOINING * n_sums // PARTITION_ELEMENTS
    if is_grouped and source.fills_buffers:
        size = max(size, min(GROUPED_PARTITIONS, GROUPED_ROWS // source.partition))
    touched = (chunk for chunk in source.chunks() if chosen.touch(chunk.start, chunk.n_rows))
    for _, chunks in itertools.groupby(touched, lambda chunk: chunk.partition(size)):
        yield list(chunks)


def _anchor(source: Source, chosen: LabelledRows, features: NystromMap | None) -> NDArray[np.float64] | None:
    """Take what sums are measured from: the first chosen row, if any must be."""
    if features is None and source.dtype.itemsize <= 4:
        return None
    chunks = (chunk for chunk in source.chunks() if chosen.touch(chunk.start, chunk.n_rows))
    held = (chosen.within(batch)[0] for chunk in chunks for batch in chunk.batches(block_rows(source.d)))
    first = next((x[:1] for x in held if len(x)), None)
    if first is None:
        return None
    return anchor_of(first if features is None else features(first))


def gather_rows(source: Source, rows: NDArray[np.int64], progress: Progress) -> tuple[NDArray[Any], Index]:
    """Read the vectors of `rows` into memory.

    Returns
    -------
    vectors `[m, d]`, and which of `rows` they belong to `[m]` (fewer, if rows with NaN were dropped)
    """
    chosen = LabelledRows.of(rows)
    x, is_held = np.empty((len(rows), source.d), source.dtype), np.zeros(len(rows), np.bool_)
    chunks = (chunk for chunk in source.chunks() if chosen.touch(chunk.start, chunk.n_rows))

    def placed(chunk: Chunk) -> int:
        part, index = chosen.within(chunk.read())
        at = as_subscript(index)
        x[at], is_held[at] = part, True
        return len(part)

    with progress.stage("read", len(chosen)) as advance:
        for n in ordered_map(placed, chunks):
            advance(n)
    return (x if is_held.all() else x[is_held]), np.flatnonzero(is_held)


def gather_keys(source: Source, wanted: set[str]) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, int]]:
    """Read the vectors of the wanted keys (the first row of each), and which rows they are of."""
    found: dict[str, NDArray[Any]] = {}
    rows: dict[str, int] = {}
    for batch in ordered_map(Chunk.read, source.chunks()):
        for i, key in enumerate(batch.keys or ()):
            if key in wanted and key not in found:
                found[key], rows[key] = np.array(batch.vectors[i]), int(batch.rows[i])
    return found, rows
