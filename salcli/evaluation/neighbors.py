"""Nearest neighbours by cosine before and after erasure: of requested words, and their overlap for a sample of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.errors import AlignmentError
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.cosine import cosines, unit_rows
from salcli.evaluation.json_fields import OPTIONAL
from salcli.evaluation.section import Section, Table, filled, names, numbers
from salcli.evaluation.stages import gather_same
from salcli.evaluation.text import count, decimal, percent, visible
from salcli.options import EvaluateOptions
from salcli.streaming.memory import require_memory
from salcli.streaming.passes import gather_rows

OVERLAP_AT = 10
LEAVES, COMES = "−", "+"
"""Marks of neighbours that are nearest only before, or only after."""


@dataclass(frozen=True)
class Neighbor:
    """A near row."""

    key: str
    cosine: float


Near = tuple[Neighbor, ...]
Found = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Positions and cosines of the nearest rows."""


@dataclass(frozen=True)
class WordNeighbors:
    """The neighbours of one word in both stages."""

    key: str
    before: Near
    """Nearest first; empty for a zero vector."""
    after: Near
    overlap: float | None
    """Share of the neighbours that are the same rows: 0 if there are none after, None if there are none before."""


@dataclass(frozen=True)
class Neighbors:
    """How erasure changed the nearest rows."""

    words: tuple[WordNeighbors, ...]
    mean_overlap_at_10: float | None
    """Mean share of the ten nearest rows that stay, over the sample; None if no row of it has neighbours."""
    n_sampled: int
    """Sampled rows with neighbours before; those that become zero keep none of them."""
    overlap_error: float | None = field(default=None, metadata=OPTIONAL)
    """Standard error of the mean; None of fewer than two rows."""


def neighbors(
    keys: Sequence[str],
    before: NDArray[Any],
    after: NDArray[Any],
    words: Sequence[str],
    *,
    top: int = 10,
    sample: int = 1000,
    seed: int,
    nearest_before: Callable[[NDArray[np.int64], int], Found] | None = None,
) -> Neighbors:
    """Return the nearest rows before and after.

    Parameters
    ----------
    keys : `n` keys; of a repeated one the first row counts
    before, after : `[n, d]` and `[n, d']`, row i of both belongs to `keys[i]`
    words : keys whose `top` neighbours are shown
    sample : rows, drawn with `seed`, whose ten neighbours are compared
    nearest_before : returns what `nearest` finds before, of queries and their number of neighbours, if it is known

    Raises
    ------
    AlignmentError : a word is not among the keys
    """
    requested = _positions(keys, words)
    n = len(before)
    sampled = np.sort(np.random.default_rng(seed).choice(n, min(sample, n), replace=False))
    queries = np.concatenate([requested, sampled])
    find = nearest_before or partial(nearest, before)
    positions_before, cosines_before = find(queries, max(top, OVERLAP_AT))
    positions_after, cosines_after = nearest(after, queries, max(top, OVERLAP_AT))
    shown = tuple(
        WordNeighbors(
            word,
            _named(keys, positions_before[i, :top], cosines_before[i, :top]),
            _named(keys, positions_after[i, :top], cosines_after[i, :top]),
            overlap(positions_before[i, :top], positions_after[i, :top]),
        )
        for i, word in enumerate(words)
    )
    pairs = zip(positions_before[len(words) :], positions_after[len(words) :], strict=True)
    shares = [overlap(one[:OVERLAP_AT], other[:OVERLAP_AT]) for one, other in pairs]
    kept = [share for share in shares if share is not None]
    error = float(np.std(kept, ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else None
    return Neighbors(shown, float(np.mean(kept)) if kept else None, len(kept), error)


def _positions(keys: Sequence[str], words: Sequence[str]) -> NDArray[np.int64]:
    requested, found = set(words), dict[str, int]()
    for position, key in enumerate(keys):
        if key in requested:
            found.setdefault(key, position)
    missing = [word for word in dict.fromkeys(words) if word not in found]
    if missing:
        named = ", ".join(repr(word) for word in missing[:3])
        raise AlignmentError(
            f"{len(missing):,} of {len(requested):,} words have no vector to find neighbours of: {named}"
        )
    return np.array([found[word] for word in words], dtype=np.int64)


def _named(keys: Sequence[str], positions: NDArray[np.int64], cosines: NDArray[np.float64]) -> Near:
    pairs = zip(positions.tolist(), cosines.tolist(), strict=True)
    return tuple(Neighbor(keys[position], cosine) for position, cosine in pairs if position != NOWHERE)


def overlap(one: NDArray[np.int64], other: NDArray[np.int64]) -> float | None:
    """Return the share of the positions in `one` `[n]` that `other` `[n]` has too; None where `one` has none."""
    ones, others = set(one.tolist()) - {NOWHERE}, set(other.tolist()) - {NOWHERE}
    return len(ones & others) / max(len(ones), len(others)) if ones else None


BLOCK_ROWS = 4096
NOWHERE = -1
FLOAT32_UNIT = 2.0**-24  # relative rounding of one operation

Positions = NDArray[np.int64]
Array = NDArray[np.float64]


def nearest(
    vectors: NDArray[Any], queries: Positions, count: int, *, block_rows: int = BLOCK_ROWS
) -> tuple[Positions, Array]:
    """Return the rows nearest to queries by cosine, without the query itself and without zero vectors.

    Products in float32 select the rows that can be among the nearest; their order is that of the cosines in float64,
    rounded to 12 places. Equal cosines are ordered by position.

    Parameters
    ----------
    vectors : `[n, d]` of any float type
    queries : `[q]` positions of rows
    count : neighbours of each
    block_rows : rows of one product; the result does not depend on it

    Returns
    -------
    `[q, count']` positions and cosines, nearest first; count' is less than `count` where there are not as many rows.
    A query with a zero vector has no neighbours: `NOWHERE`, NaN.
    """
    n, d = vectors.shape
    count = max(0, min(count, n - 1))
    directions, is_nonzero_query = unit_rows(vectors[queries])
    best = _Best(len(queries), count)
    n_nonzero = 0
    tolerance = (d + 8) * FLOAT32_UNIT  # bound on the error of a float32 product of unit vectors of width d
    narrow = directions[is_nonzero_query].T.astype(np.float32)
    for start in range(0, n, block_rows):
        units, is_nonzero = unit_rows(vectors[start : start + block_rows])
        n_nonzero += int(is_nonzero.sum())
        if not count or not narrow.size:
            continue
        products = units.astype(np.float32) @ narrow
        products[~is_nonzero] = -np.inf
        _leave_out(products, queries[is_nonzero_query] - start)
        is_candidate = _candidates(products, best.least[is_nonzero_query], count, tolerance)
        for column in np.flatnonzero(is_candidate.any(axis=0)):
            query = int(np.flatnonzero(is_nonzero_query)[column])
            rows = np.flatnonzero(is_candidate[:, column])
            best.take(query, start + rows, cosines(units[rows], directions[query][None]))
    n_found = max(0, min(count, n_nonzero - 1))
    return best.positions[:, :n_found], best.cosines[:, :n_found]


class _Best:
    """The nearest rows of each query so far."""

    def __init__(self, n_queries: int, count: int) -> None:
        self.positions: Positions = np.full((n_queries, count), NOWHERE, dtype=np.int64)
        self.cosines: Array = np.full((n_queries, count), np.nan)
        self.least: Array = np.full(n_queries, -np.inf)
        """`[q]` cosine below which a row cannot be among the nearest."""

    def take(self, query: int, positions: Positions, values: Array) -> None:
        """Merge candidate rows and their cosines into the nearest of a query."""
        is_filled = self.positions[query] != NOWHERE
        positions = np.concatenate([self.positions[query][is_filled], positions])
        values = np.concatenate([self.cosines[query][is_filled], values])
        count = self.positions.shape[1]
        order = np.lexsort((positions, -values))[:count]
        self.positions[query, : len(order)] = positions[order]
        self.cosines[query, : len(order)] = values[order]
        if len(order) == count:
            self.least[query] = values[order[-1]]


def _leave_out(products: NDArray[np.float32], own_rows: Positions) -> None:
    """Set the products of queries with themselves to −∞."""
    is_here = (own_rows >= 0) & (own_rows < len(products))
    products[own_rows[is_here], np.flatnonzero(is_here)] = -np.inf


def _candidates(products: NDArray[np.float32], least: Array, count: int, tolerance: float) -> NDArray[np.bool_]:
    """Return whether the exact cosine of each product may be among the `count` largest: `[b, q]`.

    All products are within the tolerance of exact cosines, so a product that is below the `count` largest ones of the
    block by more than twice the tolerance is excluded, and so is one below `least` by more than the tolerance.
    """
    floor = least - tolerance
    is_open = np.isinf(least)
    if is_open.any() and len(products) > count:
        at = len(products) - count
        floor[is_open] = np.partition(products[:, is_open], at, axis=0)[at] - 2 * tolerance
    is_candidate: NDArray[np.bool_] = products >= floor.astype(np.float32) - np.float32(FLOAT32_UNIT)
    return is_candidate & (products > -np.inf)


class NearestNeighbors(Measure[Neighbors]):
    """The neighbours of chosen words, and the share of neighbours that a sample of rows keeps."""

    name: ClassVar[str] = "neighbors"
    needs_labels: ClassVar[bool] = False

    def run(self, rows: BeforeAfter) -> Neighbors | None:
        """Return the neighbours among all rows of the file; None if no option requests them (see `Measure.run`).

        Raises
        ------
        AlignmentError : the file has no keys, or lacks a requested word
        NotEnoughMemory : both stages of all rows do not fit into memory
        """
        source, erasure, options = rows.source, rows.erasure, rows.options
        if not self.is_requested(options):
            return None
        if options.neighbors and not source.has_keys:
            raise AlignmentError(f"`neighbors` looks words up, but {source.path} has no keys: give `keys_file=FILE`")
        width = source.d if erasure.eraser is None else erasure.eraser.d_out
        n_bytes = source.n * (source.d * source.dtype.itemsize + 8 * width)
        require_memory(n_bytes, f"neighbours among {source.n:,} rows", "evaluate a smaller file")
        index = source.kept_rows()
        before, kept = rows.shared(gather_rows, lambda: gather_rows(source, index, rows.progress))
        after = (
            erasure.erased(before)
            if erasure.against is None
            else gather_same(source, erasure.against, index, kept, rows.progress)
        )
        assert after is not None
        keys = list(source.kept_keys()) if options.neighbors else []

        def nearest_before(queries: NDArray[np.int64], most: int) -> Found:
            return rows.shared(nearest, lambda: nearest(before, queries, most))

        return neighbors(keys, before, after, options.neighbors, seed=options.seed, nearest_before=nearest_before)

    def is_requested(self, options: EvaluateOptions) -> bool:
        """Return whether `options` need neighbours among all rows of the file, in memory."""
        return bool(options.neighbors) or options.min_neighbors_kept is not None

    def section(self, record: Neighbors) -> Section:
        """Return the neighbours of each word, before and after (see `Measure.section`)."""
        lead = (
            f"Of the 10 nearest neighbours, {percent(record.mean_overlap_at_10)} stay the same, "
            f"on average over {count(record.n_sampled)} sampled rows."
        )
        rows = tuple(
            (
                *(visible(word.key), decimal(word.overlap)),
                *(_listed(word.before, word.after, LEAVES), _listed(word.after, word.before, COMES)),
            )
            for word in record.words
        )
        columns = (*names("word"), *numbers("overlap"), *names("nearest before", "nearest after"))
        table = Table(f"Nearest neighbours and their cosine ({LEAVES}: leaves, {COMES}: comes)", columns, rows)
        return Section(self.name, "Neighbours", (lead,), filled([table]))


def _listed(near: Near, other: Near, mark: str) -> str:
    """Return neighbours as text, with a mark on those that are not among the others."""
    kept = {row.key for row in other}
    marks = (("" if row.key in kept else f"{mark} ") + visible(row.key) for row in near)
    listed = (f"{key} {row.cosine:.2f}".replace(" -", " −") for key, row in zip(marks, near, strict=True))
    return ", ".join(listed) or "none"


NEIGHBORS = NearestNeighbors()
