"""Passes over a source: join of labels, rows by number or key."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.join import Join, LabelledRows
from salcli.data.labels import GuardedLabels, Index, Selection, as_index, as_subscript
from salcli.data.pairing import require_paired
from salcli.data.source import Chunk, Source
from salcli.errors import AlignmentError
from salcli.formats.csv_records import LEAST_BYTES
from salcli.formats.keys import KeyCensus
from salcli.formats.label_files import label_files
from salcli.formats.label_table import read_labels
from salcli.linalg.label_matrix import LabelMatrix
from salcli.options import LabelOptions
from salcli.streaming.engine import ordered_map
from salcli.streaming.progress import Advance, Progress, Silent

MANY_KEYS = 100_000  # from here on, progress of the join is shown
GATHERED_ELEMENTS = 1 << 20  # numbers of a file that are in memory at once while some of its rows are gathered


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
                rows = LabelledRows(chosen.rows, range(len(chosen)))  # ascending, as those of all shards are
                yield type(self)(self.source.of_shard(shard), GuardedLabels(self.labels.path, attributes, None), rows)

    def standardized(self, *, is_centred: bool) -> Self:
        """Return the same rows with numeric labels in standard deviations (see `Attribute.standardized`)."""
        if all(attribute.classes is not None for attribute in self.labels.attributes):
            return self
        return replace(self, labels=self.labels.standardized(is_centred=is_centred))

    def label_matrix(self, index: Selection) -> LabelMatrix:
        """Return Z of the labels at `index` `[n]` by its entries."""
        return LabelMatrix(*self.labels.entries(index), self.labels.n_columns, self.labels.n_one_hot)


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
