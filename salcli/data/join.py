"""Which embedding row each label belongs to (`Join`), and the chosen rows with their design (`LabelledRows`)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from salcli.data.embeddings import Embeddings, Floats, Rows
from salcli.data.labels import GuardedLabels, Index, Selection, as_index, as_subscript
from salcli.data.source import Source
from salcli.errors import AlignmentError, warn


@dataclass(frozen=True, eq=False)
class Join:
    """The embedding row of each label of a CSV."""

    row_of_label: Rows | range
    """`[m]` embedding row of each label (the first one with its key), -1 where there is none."""
    n_rows: int
    """Rows of the embedding file."""

    @classmethod
    def by_position(cls, labels: GuardedLabels, n_rows: int, path: str) -> Self:
        """Return the join in which label i belongs to row i.

        Parameters
        ----------
        labels : m labels
        n_rows : rows of the embedding file
        path : of the embedding file, for messages

        Raises
        ------
        AlignmentError : the counts differ
        """
        if len(labels) != n_rows:
            raise AlignmentError(
                f"{labels.path} joins by row ({labels.why_by_row}): {len(labels):,} labels, "
                f"but {path} has {n_rows:,} rows"
            )
        return cls(range(n_rows), n_rows)

    @classmethod
    def by_number(cls, labels: GuardedLabels, n_rows: int, path: str) -> Self:
        """Return the join in which label i belongs to the row of its number in the column without a name.

        Numbers count from 0, or from 1 where they are 1…n_rows, as R writes them.

        Parameters
        ----------
        labels : with `index`
        n_rows : rows of the embedding file
        path : of the embedding file, for messages

        Raises
        ------
        AlignmentError : there is no such row
        """
        assert labels.index is not None
        numbers = labels.index
        if len(numbers) == numbers.max() == n_rows and numbers.min() == 1:
            warn(f"{labels.path}: the rows in the column without a name count from 1 to {n_rows}")
            numbers = numbers - 1
        if numbers.max() >= n_rows:
            raise AlignmentError(
                f"{labels.path}: row {numbers.max()} in the column without a name, but {path} has {n_rows:,} rows, "
                "which count from 0"
            )
        return cls(numbers, n_rows)

    @classmethod
    def by_key(
        cls, labels: GuardedLabels, key_batches: Iterable[tuple[str, ...]], path: str, *, may_miss_all: bool = False
    ) -> Self:
        """Return the join in which label i belongs to the first row whose key equals its key exactly.

        Labels without a row are warned of.

        Parameters
        ----------
        labels : with `keys`
        key_batches : all keys of the embedding file, in its order
        path : of the embedding file, for messages
        may_miss_all : warn only where not one label has a row

        Raises
        ------
        AlignmentError : not one label has a row
        """
        assert labels.keys is not None
        label_of_key = {key: i for i, key in enumerate(labels.keys)}
        row_of_label = np.full(len(labels), -1, dtype=np.int64)
        n_rows = 0
        for keys in key_batches:
            for offset, key in enumerate(keys):
                label = label_of_key.get(key)
                if label is not None and row_of_label[label] < 0:
                    row_of_label[label] = n_rows + offset
            n_rows += len(keys)
        join = cls(row_of_label, n_rows)
        misses = join.unmatched()
        if len(misses):
            named = ", ".join(repr(labels.keys[i]) for i in misses[:3])
            text = f"{len(misses):,} of {len(labels):,} labels not in the embedding {path}: {named}"
            if len(misses) == len(labels) and not may_miss_all:
                raise AlignmentError(text)
            warn(text + (" …" if len(misses) > 3 else ""))
        return join

    def without_rows(self, dropped: Rows) -> Self:
        """Return the join without the rows `dropped` `[n]`; their labels then have no row."""
        if not len(dropped):
            return self
        rows = as_index(self.row_of_label)
        return type(self)(np.where(np.isin(rows, dropped), -1, rows), self.n_rows)

    def unmatched(self) -> Index:
        """Return the labels without a row, ascending."""
        if isinstance(self.row_of_label, range):
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.row_of_label < 0)

    def matched(self, labels: GuardedLabels, *, by_any: bool = False) -> Selection:
        """Return the positions of those labels that have a row and a value for every attribute, ascending.

        Parameters
        ----------
        labels : of the CSV
        by_any : a value for one of the attributes is enough
        """
        if isinstance(self.row_of_label, range) and labels.is_complete:
            return self.row_of_label
        is_matched = labels.has_any if by_any else labels.is_labelled
        if not isinstance(self.row_of_label, range):
            is_matched &= self.row_of_label >= 0
        return range(len(is_matched)) if is_matched.all() else np.flatnonzero(is_matched)

    def rows_of(self, index: Selection) -> Rows | range:
        """Return the embedding rows of the labels at `index`."""
        if isinstance(self.row_of_label, range):
            return index  # label i belongs to row i
        return self.row_of_label[as_subscript(index)]


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Chosen rows of an embedding file, in file order, and the label of each."""

    rows: Rows | range
    """`[n]` embedding rows, ascending."""
    index: Selection
    """`[n]` the label of each row."""

    @classmethod
    def of(cls, rows: Rows | range) -> Self:
        """Return labels 0…n-1, which belong to `rows` `[n]`, in the order of the embedding file."""
        if isinstance(rows, range) or bool(np.all(rows[1:] > rows[:-1])):  # the usual case: already ascending
            return cls(rows, range(len(rows)))
        index = np.argsort(rows, kind="stable")
        return cls(rows[index], index)

    def touch(self, start: int, n_rows: int) -> bool:
        """Return whether any chosen row is among `n_rows` rows from `start`."""
        first, last = self._span(start, start + n_rows)
        return last > first

    def all_of(self, start: int, n_rows: int) -> Selection | None:
        """Return the labels of `n_rows` rows from `start`, or None where some of them are not chosen."""
        first, last = self._span(start, start + n_rows)
        return self.index[first:last] if last - first == n_rows else None

    def between(self, start: int, stop: int) -> Self:
        """Return those of the chosen rows that lie from `start` to `stop` (exclusive), with the label of each."""
        first, last = self._span(start, stop)
        return type(self)(self.rows[first:last], self.index[first:last])

    def _span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the positions at which chosen rows from `start` to `stop` (exclusive) begin and end."""
        if isinstance(self.rows, range):
            first, last = self.rows.start, self.rows.stop
            return min(max(start, first), last) - first, min(max(stop, first), last) - first
        first, last = np.searchsorted(self.rows, [start, stop])
        return int(first), int(last)

    def __len__(self) -> int:
        return len(self.rows)

    def within(self, batch: Embeddings) -> tuple[Floats, Selection]:
        """Return the vectors of `batch` whose rows are chosen, with the label of each.

        Returns
        -------
        vectors `[b, d]`, labels `[b]`
        """
        if not len(batch):
            return batch.vectors, self.index[:0]
        start, stop = int(batch.rows[0]), int(batch.rows[-1]) + 1
        first, last = self._span(start, stop)
        if last - first == len(batch) == stop - start:  # every row of the batch is chosen
            return batch.vectors, self.index[first:last]
        rows = as_index(self.rows[first:last])
        positions = np.searchsorted(batch.rows, rows)
        is_present = batch.rows[np.minimum(positions, len(batch) - 1)] == rows  # some may be dropped
        chosen = positions[is_present]
        is_whole = len(chosen) == len(batch)
        return (batch.vectors if is_whole else batch.vectors[chosen]), as_index(self.index[first:last])[is_present]


def settle_index(labels: GuardedLabels, source: Source) -> GuardedLabels:
    """Return the labels after deciding whether row numbers in a column without a name join.

    Labels that join by a key, or by an option, are returned as they are. Numbers that only count the rows are left out.
    Fewer labels than rows, numbered without repeats, join by their numbers. Others are ambiguous: the table may have
    been shuffled before the rows were encoded, or after.

    Parameters
    ----------
    labels : with row numbers in `index`, or without
    source : the embeddings that they join

    Raises
    ------
    AlignmentError : they are ambiguous
    """
    if labels.index is None or labels.keys is not None:
        return labels
    if not len(labels):
        return replace(labels, index=None)
    m, numbers, n_rows, path = len(labels), labels.index, source.n_all, source.path
    from_one = bool(np.array_equal(numbers, np.arange(1, m + 1)))
    if m > n_rows or (m == n_rows and (from_one or np.array_equal(numbers, np.arange(m)))):
        return replace(labels, index=None)
    about = f"{labels.path}: the first column has no name and holds row numbers ({numbers[0]} … {numbers[-1]})"
    ways = "as an index, counted from 0 (`key=''`), or by position (`by_row`)?"
    if m == n_rows:
        raise AlignmentError(f"{about} in another order than 0…{n_rows - 1}: are labels to be joined by them {ways}")
    if from_one or numbers.max() >= n_rows or len(np.unique(numbers)) < m:
        what = "count from 1" if from_one else "repeat, or go beyond the rows"
        raise AlignmentError(f"{about} that {what}; {path} has {n_rows:,} rows, 0…{n_rows - 1}: join {ways}")
    warn(f"{about}: the {m:,} labels are joined by them to the {n_rows:,} rows of {path}, counted from 0")
    return replace(labels, keys=tuple(map(str, numbers.tolist())), key_column="")
