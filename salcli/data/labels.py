"""`GuardedLabels`: one or more guarded attributes, joined to embeddings by key or by row number."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.blocks import Block

Index = NDArray[np.int64]
Selection = Index | range
"""Positions of labels; consecutive ones are a range, which takes no memory."""
AT_ONCE = 1 << 16
COMPARED = 8  # up to so many classes, labels are compared with each: ten times as fast as counting two of them
MOST_CODES = 1 << 20  # size of a lookup table


def as_index(selection: Selection) -> Index:
    """Return `selection` as an array `[n]` of positions."""
    return np.arange(selection.start, selection.stop) if isinstance(selection, range) else selection


def as_subscript(selection: Selection) -> Index | slice:
    """Return `selection` as an index of arrays: a slice (a view) for a range."""
    return slice(selection.start, selection.stop) if isinstance(selection, range) else selection


def smallest_code(n_classes: int) -> np.dtype[np.signedinteger[Any]]:
    """Return the smallest integer type that holds the codes of `n_classes` classes, and −1, for millions of labels."""
    return np.dtype(next((t for t in (np.int8, np.int16) if n_classes <= np.iinfo(t).max), np.int32))


def _renumbered(codes: Index, n_codes: int) -> Index:
    """Return codes 0…n_codes − 1 renumbered in their order, without gaps."""
    if n_codes > MOST_CODES + len(codes):
        return np.unique(codes, return_inverse=True)[1].astype(np.int64).reshape(-1)
    is_present = np.zeros(n_codes, np.bool_)  # a table is many times faster than sorting millions of labels
    is_present[codes] = True
    return np.asarray((np.cumsum(is_present) - 1)[codes], np.int64)


def _counted(values: NDArray[Any], n_classes: int) -> Index:
    """Count labels of each class, part by part: bincount takes a copy of eight bytes a label."""
    counts = np.zeros(1 + n_classes, np.int64)  # the first is of those that have no label
    for start in range(0, len(values), AT_ONCE):
        some = values[start : start + AT_ONCE]
        if n_classes <= COMPARED:
            for code in range(n_classes):
                counts[1 + code] += np.count_nonzero(some == code)
        else:
            counts += np.bincount(some.astype(np.int64) + 1, minlength=len(counts))
    return counts[1:]


@dataclass(frozen=True, eq=False)
class Attribute:
    """A guarded attribute: a class code or a number for each label."""

    name: str
    """The column's name."""
    values: NDArray[np.signedinteger[Any]] | NDArray[np.float64]
    """`[m]` codes into `classes` (-1: unlabelled), of any width, or numbers (NaN: unlabelled)."""
    classes: tuple[str, ...] | None
    """Class names sorted by code point, or None for a numeric attribute."""

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        """`[m]`, False where the cell was empty."""
        return ~np.isnan(self.values) if self.classes is None else self.values >= 0

    @cached_property
    def n_labelled(self) -> int:
        """Number of labels that are not empty."""
        return int(np.count_nonzero(self.is_labelled) if self.classes is None else self._counts.sum())

    def restricted_to(self, index: Selection) -> Self:
        """Return the labels at `index` `[n]`, with those of the classes that occur there."""
        values = self.values[as_subscript(index)]
        if self.classes is None:
            return type(self)(self.name, values, None)
        if isinstance(index, range) and index == range(len(self.values)) and self._counts.all():
            return self
        counts = _counted(values, len(self.classes))
        if counts.all():
            found = type(self)(self.name, values, self.classes)
        else:
            new_code = np.cumsum(counts > 0) - 1
            restricted = np.append(new_code, -1).astype(self.values.dtype)[values]
            found = type(self)(self.name, restricted, tuple(self.classes[code] for code in np.flatnonzero(counts)))
        found.__dict__["_counts"] = counts[counts > 0]  # the cached property, which would count them again
        return found

    @cached_property
    def _counts(self) -> Index:
        """`[c]` labels of each class."""
        return _counted(self.values, len(self.classes or ()))

    def standardized(self, *, is_centred: bool) -> Self:
        """Return numbers in units of their standard deviation; classes are returned as they are.

        The unit of one column would otherwise decide what is rounding noise in the others: next to a column of
        nanoseconds, the covariance of a class is zero to rounding.

        Parameters
        ----------
        is_centred : measure numbers from their mean
        """
        if self.classes is not None:
            return self
        values, mean, spread, _ = self._scaled()
        mean = mean if is_centred else 0.0
        return type(self)(self.name, np.asarray((values - mean) / (spread or 1.0), dtype=np.float64), None)

    def spread(self) -> tuple[float, float]:
        """Return mean and standard deviation of numbers; 0 and 0 where there are none, or classes."""
        if self.classes is not None or not self.n_labelled:
            return 0.0, 0.0
        _, mean, spread, exponent = self._scaled()
        return float(np.ldexp(mean, exponent)), float(np.ldexp(spread, exponent))

    def _scaled(self) -> tuple[NDArray[np.float64], float, float, int]:
        """Return numbers divided by a power of two, so that no square overflows; their mean, spread, and the power."""
        exponent = int(np.frexp(float(np.nanmax(np.abs(self.values), initial=0.0)))[1])
        values = np.ldexp(self.values, -exponent)
        return values, float(np.nanmean(values)), float(np.nanstd(values)), exponent

    def codes(self, index: Index) -> Index:
        """Return the class codes `[n]` of the labels at `index` `[n]`, −1 where there is no label."""
        assert self.classes is not None
        return self.values[index].astype(np.int64)

    def counts(self) -> dict[str, int]:
        """Return how many labels each class has, in class order (empty for a numeric attribute)."""
        return dict(zip(self.classes, self._counts.tolist(), strict=True)) if self.classes else {}

    def design(self, index: Index) -> NDArray[np.float64]:
        """Return rows of Z for the labels at `index` `[n]`: one-hot `[n, c]`, or the number itself `[n, 1]`."""
        values = self.values[index]
        if self.classes is None:
            return values.astype(np.float64)[:, None]
        z = np.zeros((len(values), len(self.classes)))
        z[np.arange(len(values)), values] = 1
        return z


@dataclass(frozen=True, eq=False)
class GuardedLabels:
    """The rows of a label CSV. Row i of every field belongs together."""

    path: str
    """Path of the CSV, for messages."""
    attributes: tuple[Attribute, ...]
    """At least one, each with `m` values."""
    keys: tuple[str, ...] | None
    """`m` distinct keys that join by key, or None: label i belongs to embedding row i."""
    splits: tuple[str, ...] | None = None
    """`m` names of the part each row belongs to (train, dev, test …), or None without a split column."""
    split_column: str | None = None
    """The split column's name."""
    key_column: str | None = None
    """The key column's name; empty: the rows are named by their numbers, or keys, in a column without a name."""
    task: Attribute | None = None
    """Classes of the main task, `m` values; not guarded."""
    index: Index | None = None
    """`[m]` row numbers from a first column without a name; `settle_index` decides whether they join."""
    groups: Attribute | None = None
    """Names of groups of rows, `m` values, each of which lies in one part of a split (see `salcli.data.groups`)."""
    parts: tuple[tuple[str, int], ...] = ()
    """Of all labels of several files: each file and its number of labels, in order."""
    why_by_row: str = "no key column"
    """Why they join by position where they do, for messages."""

    def __len__(self) -> int:
        return len(self.attributes[0].values)

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        """`[m]`, True where every attribute has a value: only such rows make a row of Z."""
        labelled: NDArray[np.bool_] = np.logical_and.reduce([a.is_labelled for a in self.attributes])
        return labelled

    @property
    def has_any(self) -> NDArray[np.bool_]:
        """`[m]`, True where some attribute has a value: such a row is attacked for those that it has."""
        labelled: NDArray[np.bool_] = np.logical_or.reduce([a.is_labelled for a in self.attributes])
        return labelled

    def has_all(self, names: Collection[str]) -> NDArray[np.bool_]:
        """Return `[m]`, True where the attributes of these `names` have values; without one of them, where all have."""
        chosen = [a.is_labelled for a in self.attributes if a.name in names]
        labelled: NDArray[np.bool_] = np.logical_and.reduce(chosen)
        return labelled if len(chosen) == len(names) else self.is_labelled

    @property
    def is_complete(self) -> bool:
        """Whether every attribute has a value in every row."""
        return all(attribute.n_labelled == len(attribute.values) for attribute in self.attributes)

    @cached_property
    def split_codes(self) -> tuple[tuple[str, ...], NDArray[np.signedinteger[Any]]]:
        """The distinct names of parts, and the number `[m]` of each row's name; none without a split column."""
        splits = self.splits or ()
        names = tuple(dict.fromkeys(splits))
        code_of = {name: code for code, name in enumerate(names)}
        return names, np.fromiter(map(code_of.__getitem__, splits), smallest_code(len(names)), len(splits))

    def restricted_to(self, index: Selection) -> Self:
        """Return the labels at `index` `[n]`; each attribute keeps the classes that occur there."""
        return type(self)(
            self.path,
            tuple(attribute.restricted_to(index) for attribute in self.attributes),
            None if self.keys is None else _texts(self.keys, index),
            None if self.splits is None else _texts(self.splits, index),
            self.split_column,
            self.key_column,
            None if self.task is None else self.task.restricted_to(index),
            None if self.index is None else self.index[as_subscript(index)],
            None if self.groups is None else self.groups.restricted_to(index),
        )

    def values_at(self, index: Selection) -> "GuardedLabels":
        """Return the attributes' values at `index` `[n]`, with all classes, and nothing else."""
        at = as_subscript(index)
        values = (Attribute(each.name, each.values[at], each.classes) for each in self.attributes)
        return GuardedLabels(self.path, tuple(values), None)

    def require_variety(self) -> None:
        """Check that all attributes vary (see `Block.require_variety`)."""
        for attribute in self.attributes:
            Block.of(attribute).require_variety(self.path)

    def warn_of_single_rows(self) -> None:
        """Warn of classes with one row."""
        for attribute in self.attributes:
            Block.of(attribute).warn_of_single_rows(self.path)

    def standardized(self, *, is_centred: bool) -> Self:
        """Return the labels with numeric attributes in standard deviations (see `Attribute.standardized`)."""
        return replace(self, attributes=tuple(a.standardized(is_centred=is_centred) for a in self.attributes))

    def design(self, index: Index) -> NDArray[np.float64]:
        """Return Z `[n, c]` of the labels at `index` `[n]`: the blocks of the attributes side by side."""
        blocks = [attribute.design(index) for attribute in self.attributes]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def entries(self, index: Selection) -> tuple[NDArray[np.int32], NDArray[np.float64] | None]:
        """Return Z of the labels at `index` `[n]` by its non-zero entries, one for each attribute.

        Returns
        -------
        columns `[n, a]` of Z, entries `[n, a]` (None: all are 1, as they are without numbers)
        """
        shape, at = (len(index), len(self.attributes)), as_subscript(index)
        columns = np.empty(shape, np.int32)
        entries = None if all(attribute.classes is not None for attribute in self.attributes) else np.ones(shape)
        for i, (attribute, first) in enumerate(zip(self.attributes, self._first_columns(), strict=True)):
            if attribute.classes is not None:
                np.add(attribute.values[at], np.int32(first), out=columns[:, i])
            elif entries is not None:
                columns[:, i], entries[:, i] = first, attribute.values[at]
        return columns, entries

    def _first_columns(self) -> list[int]:
        widths = [1 if attribute.classes is None else len(attribute.classes) for attribute in self.attributes]
        return [sum(widths[:i]) for i in range(len(widths))]

    @property
    def n_one_hot(self) -> int:
        """Number of leading columns of Z with exactly one 1 in each row: the classes of the first attribute."""
        return len(self.attributes[0].classes or ())

    @property
    def n_columns(self) -> int:
        """Width c of Z."""
        return sum(1 if attribute.classes is None else len(attribute.classes) for attribute in self.attributes)

    def identity(self, index: int) -> str:
        """Return the identity of label `index` as text: its key, or its row number."""
        return str(index) if self.keys is None else self.keys[index]

    def strata(self, index: Index) -> Index:
        """Return a code for each combination of classes at `index` `[n]`; numeric attributes do not count.

        Returns
        -------
        `[n]` stratum numbers, from 0
        """
        strata = np.zeros(len(index), dtype=np.int64)
        for attribute in self.attributes:
            if attribute.classes is None:
                continue
            n_codes = len(attribute.classes) + 1  # −1 is one
            combined = strata * n_codes + attribute.values[index].astype(np.int64) + 1
            strata = _renumbered(combined, n_codes * (int(strata.max(initial=0)) + 1))
        return strata


def _texts(texts: tuple[str, ...], index: Selection) -> tuple[str, ...]:
    return texts[index.start : index.stop] if isinstance(index, range) else tuple(texts[i] for i in index)
