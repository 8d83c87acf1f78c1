"""Rows in memory, before and after erasure: by an eraser, or as another tool erased them."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index
from salcli.data.source import Source
from salcli.erasers.artifact import Artifact
from salcli.erasers.kernel import FeatureEraser, KernelEraser
from salcli.erasers.kernel_route import explicit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.precision import erased_dtype
from salcli.errors import AlignmentError
from salcli.formats.registry import open_source
from salcli.options import EvaluateOptions, ReadOptions
from salcli.streaming.passes import gather_rows
from salcli.streaming.progress import Progress, Silent

Array = NDArray[Any]
Written = LinearEraser | FeatureEraser


@dataclass(frozen=True, eq=False)
class Erasure:
    """How rows come to their later stage."""

    eraser: Written | None = None
    """What `apply` would write with."""
    kernel: KernelEraser | None = None
    """Of a kernel's eraser, its inner products."""
    against: Source | None = None
    """A file erased elsewhere, row by row the same."""
    dtype: np.dtype[Any] | None = None
    """What `apply` would write."""
    strength: float = 1.0
    """λ"""

    @classmethod
    def of(cls, artifact: Artifact, source: Source, options: EvaluateOptions) -> "Erasure":
        """Take what an artifact holds; the features of an exact eraser are found only if something looks at them."""
        held = artifact.eraser
        if isinstance(held, KernelEraser):
            if not options.needs_vectors:
                return cls(None, held)
            eraser: Written = explicit(held, "fit with --landmarks M, or ask for --probes same-kernel alone")
            kernel: KernelEraser | None = held
        else:
            eraser, kernel = held, held.by_inner_products() if isinstance(held, FeatureEraser) else None
        return cls(eraser, kernel, None, erased_dtype(eraser, artifact.singular_values, source))

    def published(self, x: Array) -> Array:
        """Give what would be published if nothing were erased: rows as they are, or their features."""
        if isinstance(self.eraser, FeatureEraser):
            return self.eraser(x, strength=0.0, dtype=self.dtype or np.float64)
        return x

    def erased(self, x: Array) -> Array | None:
        """Erase rows as `apply` does."""
        return None if self.eraser is None else self.eraser(x, strength=self.strength, dtype=self.dtype or x.dtype)


@dataclass(frozen=True, eq=False)
class Stages:
    """Rows in memory, before and after, and how to find a label's row among them."""

    labels: Index
    """`[m]` the labels held, ascending."""
    rows: Array
    """`[m, d]` as they are in the file."""
    before: Array
    """`[m, w]` what an attacker is given: the rows, or of a kernel's eraser the features."""
    after: Array | None
    """`[m, w']` the same after erasure; None without one, or where only inner products are looked at."""
    kernel: KernelEraser | None = None
    is_foreign: bool = False
    """Whether another tool wrote the later stage, in units of its own."""

    def at(self, index: Index) -> Index:
        """Find the positions of those labels of `index` that are held, ascending."""
        return np.flatnonzero(np.isin(self.labels, index))

    def named(self) -> dict[str, Array]:
        """Give what there is by the stage's name."""
        return {"before": self.before} | ({} if self.after is None else {"after": self.after})


def stage_rows(
    source: Source, erasure: Erasure, row_of_label: NDArray[np.int64], index: Index, progress: Progress
) -> Stages:
    """Gather the rows of the labels at `index`, before and after."""
    rows = row_of_label[index]
    x, held = gather_rows(source, rows, progress)
    after = erasure.erased(x)
    if erasure.against is not None:
        after = gather_same(source, erasure.against, rows, held, progress)
    return Stages(index[held], x, erasure.published(x), after, erasure.kernel, erasure.against is not None)


def gather_same(source: Source, other: Source, rows: Index, held: Index, progress: Progress) -> Array:
    """Read `rows` of another file; `held`: which of them the source has.

    Raises
    ------
    AlignmentError : rows with NaN or Inf were dropped from one that the other has
    """
    x, also_held = gather_rows(other, rows, progress)
    if not np.array_equal(held, also_held):
        raise AlignmentError(f"{other.path}: drops other rows than {source.path}")
    return x


def erase_keys(before: Mapping[str, Array], rows: Mapping[str, int], erasure: Erasure) -> Mapping[str, Array] | None:
    """Give the vectors of words after erasure; None where there is none.

    Parameters
    ----------
    before : vectors by word
    rows : which row of the file each is: a file that was erased elsewhere need not have keys
    """
    if erasure.against is not None:
        order = sorted(rows, key=rows.__getitem__)
        x, held = gather_rows(erasure.against, np.array([rows[word] for word in order], np.int64), Silent())
        return {order[i]: vector for i, vector in zip(held.tolist(), x, strict=True)}
    if erasure.eraser is None or not before:
        return None
    erased = erasure.erased(np.stack(list(before.values())))
    assert erased is not None
    return dict(zip(before, erased, strict=True))


@contextmanager
def opened_against(path: str | None, source: Source, read: ReadOptions) -> Iterator[Source | None]:
    """Open a file that was erased elsewhere, and hold it to have the same rows.

    Raises
    ------
    AlignmentError : it has another number of rows, or other keys
    """
    if path is None:
        yield None
        return
    plain = ReadOptions(batch_rows=read.batch_rows, allow_nonfinite=read.allow_nonfinite)
    with closing(open_source(path, plain)) as other:
        n, n_other = source.n_all, other.n_all
        if n != n_other:
            raise AlignmentError(
                f"--against {path}: {n_other} rows, but {source.path} has {n}: the same rows are needed"
            )
        if source.has_keys and other.has_keys:
            _require_same_keys(source, other)
        yield other


def _require_same_keys(source: Source, other: Source) -> None:
    pairs = zip(*(itertools.chain.from_iterable(s.key_batches()) for s in (source, other)), strict=True)
    for row, (mine, theirs) in enumerate(pairs):
        if mine != theirs:
            raise AlignmentError(
                f"--against {other.path}: {other.place(row)} is {theirs[:40]!r}, but {source.path} has {mine[:40]!r} "
                "there: the same rows in the same order are needed"
            )
