"""Rows in memory, before and after erasure: by an eraser, or as another tool erased them."""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index
from salcli.data.source import Source
from salcli.data.splits import WHITE_BOX
from salcli.erasers.artifact import Artifact
from salcli.erasers.base import Eraser
from salcli.erasers.kernel import KernelEraser
from salcli.erasers.precision import erased_dtype
from salcli.errors import AlignmentError, UsageError
from salcli.formats.registry import opened_source
from salcli.options import ReadOptions
from salcli.streaming.passes import gather_rows
from salcli.streaming.progress import Progress, Silent

Array = NDArray[Any]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Erasure:
    """How rows are erased: by an eraser, or in a file by another tool."""

    eraser: Eraser | None = None
    """The eraser that `apply` would use."""
    kernel: KernelEraser | None = None
    """The inner products of a kernel eraser."""
    against: Source | None = None
    """A file with the same rows, erased by another tool."""
    dtype: np.dtype[Any] | None = None
    """The dtype that `apply` would write."""
    strength: float = 1.0
    """λ"""

    @classmethod
    def of(cls, artifact: Artifact, source: Source, *, needs_vectors: bool = True) -> "Erasure":
        """Return the erasure that an artifact describes.

        Parameters
        ----------
        artifact : the eraser
        source : the rows, whose dtype decides in which erased rows are written
        needs_vectors : False: the features of an exact kernel eraser are not computed, as only inner products are
            needed

        Raises
        ------
        NotEnoughMemory : the features of an exact kernel eraser do not fit into memory
        RangeError : they cannot be computed
        """
        fitted = artifact.eraser
        kernel: KernelEraser | None = fitted.by_inner_products()
        if kernel is fitted and not needs_vectors:
            return cls(None, kernel)
        eraser = fitted.to_features("fit with `landmarks=M`, or request `probes=same-kernel` alone")
        return cls(eraser, kernel, None, erased_dtype(eraser, artifact.singular_values, source))

    def published(self, x: Array) -> Array:
        """Return rows `x` `[n, d]` as they would be published without erasure: themselves, or their features."""
        if self.eraser is not None and (self.eraser.normalizes or not self.eraser.keeps_space):
            return self.eraser(x, strength=0.0, dtype=self.dtype or np.float64)
        return x

    def erased(self, x: Array) -> Array | None:
        """Return rows `x` `[n, d]` erased as `apply` erases them; None without an eraser."""
        return None if self.eraser is None else self.eraser(x, strength=self.strength, dtype=self.dtype or x.dtype)

    def preimages(self, y: Array) -> Array | None:
        """Return what whoever holds the eraser computes of erased rows `y` `[n, w]` (see `Eraser.preimages`).

        Raises
        ------
        UsageError : there is no eraser, or nothing inverts it
        """
        if self.eraser is None:
            raise UsageError("`adversaries=white-box` inverts an eraser of vectors: there is none")
        return self.eraser.preimages(y, strength=self.strength)

    def require_invertible(self) -> None:
        """Check that the eraser can be inverted for a white-box attacker.

        Raises
        ------
        UsageError : there is no eraser, or nothing inverts it
        """
        self.preimages(np.zeros((0, 0 if self.eraser is None else self.eraser.d_out)))


@dataclass(frozen=True, eq=False)
class Stages:
    """Rows in memory, before and after, and how to find a label's row among them."""

    labels: Index
    """`[m]` the labels whose rows are in memory, ascending."""
    rows: Array
    """`[m, d]` as they are in the file."""
    before: Array
    """`[m, w]` the rows, or the features of a kernel eraser."""
    after: Array | None
    """`[m, w']` the same after erasure; None without one, or if only inner products are needed."""
    kernel: KernelEraser | None = None
    is_foreign: bool = False
    """Whether another tool wrote `after`, possibly in other units."""
    erasure: Erasure | None = None
    """How `after` was computed."""
    of_file: Index | None = None
    """`[m]` rows of the file, for messages; None: not of a file."""
    known: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    """What was computed of the rows before, by `once`."""

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` returns for the rows before, computed once for each `key`, however they are erased."""
        if key not in self.known or self.known[key][0] is not self.before:
            self.known[key] = self.before, compute()
        found: T = self.known[key][1]
        return found

    def at(self, index: Index) -> Index:
        """Return the positions, ascending, of those labels of `index` whose rows are in memory."""
        return np.flatnonzero(np.isin(self.labels, index))

    @property
    def width(self) -> int:
        """Of the widest rows, as attackers read them."""
        return max(int(x.shape[1]) for x in self.named().values())

    def named(self) -> dict[str, Array]:
        """Return the stages by name: before and, if there is one, after."""
        return {"before": self.before} | ({} if self.after is None else {"after": self.after})

    @cached_property
    def white_box(self) -> "Stages":
        """The rows as whoever holds the eraser reads them: erased ones with what they may have been beside them.

        These very stages where erased rows have no trace of what was removed.

        Raises
        ------
        UsageError : nothing inverts the eraser
        """
        if self.after is None or self.erasure is None:
            return self
        found = self.erasure.preimages(self.after)
        if found is None:
            return self
        kind = np.result_type(self.after.dtype, np.float32)
        return replace(self, after=np.concatenate([self.after, found], axis=1, dtype=kind, casting="same_kind"))

    def read_by(self, adversary: str) -> "Stages":
        """Return the rows as an `adversary` reads them."""
        return self.white_box if adversary == WHITE_BOX else self


def stage_rows(
    source: Source, erasure: Erasure, row_of_label: NDArray[np.int64], index: Index, progress: Progress
) -> Stages:
    """Return the rows of the labels at `index`, before and after erasure.

    Parameters
    ----------
    source : the embeddings
    erasure : what comes after
    row_of_label : `[m]` embedding row of each label
    index : `[n]` positions of labels that have a row
    progress : shows the reading as a stage

    Raises
    ------
    AlignmentError : a file that was erased elsewhere drops other rows
    """
    rows = row_of_label[index]
    x, kept = gather_rows(source, rows, progress)
    after = erasure.erased(x)
    if erasure.against is not None:
        after = gather_same(source, erasure.against, rows, kept, progress)
    is_foreign = erasure.against is not None
    return Stages(index[kept], x, erasure.published(x), after, erasure.kernel, is_foreign, erasure, rows[kept])


def gather_same(source: Source, other: Source, rows: Index, kept: Index, progress: Progress) -> Array:
    """Return rows of another file than the source.

    Parameters
    ----------
    source : the embeddings
    other : the same rows, erased elsewhere
    rows : `[n]` row numbers
    kept : positions of those rows that were read from the source, which drops rows with NaN or Inf
    progress : shows the reading as a stage

    Raises
    ------
    AlignmentError : rows with NaN or Inf were dropped from one that the other has
    """
    x, kept_there = gather_rows(other, rows, progress)
    if not np.array_equal(kept, kept_there):
        raise AlignmentError(f"{other.path}: drops other rows than {source.path}")
    return x


def erase_keys(before: Mapping[str, Array], rows: Mapping[str, int], erasure: Erasure) -> Mapping[str, Array] | None:
    """Return the vectors of words after erasure; None without an erasure.

    Parameters
    ----------
    before : vectors `[d]` by word
    rows : which row of the file each is: a file that was erased elsewhere need not have keys
    erasure : what comes after
    """
    if erasure.against is not None:
        order = sorted(rows, key=rows.__getitem__)
        x, kept = gather_rows(erasure.against, np.array([rows[word] for word in order], np.int64), Silent())
        return {order[i]: vector for i, vector in zip(kept.tolist(), x, strict=True)}
    if erasure.eraser is None or not before:
        return None
    erased = erasure.erased(np.stack(list(before.values())))
    assert erased is not None
    return dict(zip(before, erased, strict=True))


@contextmanager
def opened_against(path: str | None, source: Source, read: ReadOptions) -> Iterator[Source | None]:
    """Yield a file that another tool erased, open, after checking that it has the same rows; None without a path.

    Parameters
    ----------
    path : of the file, or None
    source : the embeddings
    read : options that the source was opened with

    Raises
    ------
    AlignmentError : it has another number of rows, or other keys
    FormatError : it cannot be read
    """
    if path is None:
        yield None
        return
    plain = ReadOptions(batch_rows=read.batch_rows, allow_nonfinite=read.allow_nonfinite)
    with opened_source(path, plain) as other:
        n, n_other = source.n_all, other.n_all
        if n != n_other:
            raise AlignmentError(
                f"`against={path}`: {n_other:,} rows, but {source.path} has {n:,}: the same rows are needed"
            )
        if source.has_keys and other.has_keys:
            _require_same_keys(source, other)
        yield other


def _require_same_keys(source: Source, other: Source) -> None:
    pairs = zip(*(itertools.chain.from_iterable(s.key_batches()) for s in (source, other)), strict=True)
    for row, (mine, theirs) in enumerate(pairs):
        if mine != theirs:
            raise AlignmentError(
                f"`against={other.path}`: {other.place(row)} is {theirs[:40]!r}, but {source.path} has {mine[:40]!r} "
                "there: the same rows in the same order are needed"
            )
