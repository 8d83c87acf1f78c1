"""Rows of one part of the split that are copies of rows of another part, or test rows that stand several times.

They are left out of the evaluation: the former are no fresh rows, and the latter make intervals narrower than they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.join import LabelledRows
from salcli.data.labels import GuardedLabels, Index
from salcli.data.source import Chunk, Source
from salcli.data.split_parts import TEST
from salcli.data.splits import FRESH, IN_SAMPLE, POOLED, WHITE_BOX, EvaluationSplit
from salcli.evaluation.text import listed
from salcli.streaming.engine import ordered_map
from salcli.streaming.passes import gather_rows
from salcli.streaming.progress import Progress, Silent

NEAR = 1e-3
"""Distance of two rows, in units of their distance from the median row, below which they are copies.

One row of 1e6 times the others' length moves a mean so far that all others are near to each other, seen from there.
"""
LEAST_WIDTH = 16
"""Dimensions below which unrelated rows may be as close, so that only equal rows count as copies."""
MOST_COPIES = 0.1
"""Share of the test rows, or of an attacker's, above which no gate passes."""
REPEATED = "repeated"
"""In place of a part: test rows that equal an earlier test row with the same labels."""
N_PROJECTED = 8
N_CANDIDATES = 4
NAMED = 3
Array = NDArray[Any]


@dataclass(frozen=True)
class Copies:
    """Rows of one part of the split that are copies of training rows of other parts, or of earlier test rows."""

    n: int
    of: int
    """Rows of the part, copies included."""
    n_near: int
    """Those of the copies that are not equal to the last bit."""
    named: tuple[str, ...]
    """Keys or row numbers of the first of them."""

    @property
    def share(self) -> float:
        """Their share of the part."""
        return self.n / self.of


def without_copies(
    source: Source, labels: GuardedLabels, row_of_label: Index, split: EvaluationSplit, progress: Progress
) -> tuple[EvaluationSplit, Mapping[str, Copies]]:
    """Return the split without rows that are copies of training rows of other parts.

    Copies of fitted rows are removed from the rows of fresh attackers, copies of either from the test rows. The
    in-sample attacker keeps its rows, which are the fitted ones. Without held-out rows, nothing is left out; test rows
    that are all copies are kept, so that figures can be measured, but no gate passes. Of wide test rows that are equal
    and have the same labels one stays; of narrow ones, such as counts, all do: independent rows may be equal there.

    Parameters
    ----------
    source : the embeddings
    labels : that the split is of
    row_of_label : `[m]` embedding row of each label
    split : of the evaluation
    progress : shows the reading as a stage

    Returns
    -------
    the split, and by part (fresh, test, repeated) its copies; parts without copies are missing
    """
    if not split.has_held_out:
        return split, {}
    fresh = np.setdiff1d(
        np.concatenate([split.trainers.get(name, split.test[:0]) for name in (FRESH, POOLED, WHITE_BOX)]), split.fitted
    )
    parts = {"fit": split.fitted, FRESH: fresh, TEST: split.test}
    chosen = np.unique(np.concatenate(list(parts.values())))
    fingerprints = _Fingerprints.read(source, row_of_label[chosen], progress)
    places = {name: np.searchsorted(chosen, index) for name, index in parts.items()}
    trainers, found = dict(split.trainers), dict[str, Copies]()
    kept = dict[str, Index]()
    for name, among in ((FRESH, ("fit",)), (TEST, ("fit", FRESH))):
        known = np.concatenate([places[part] for part in among])
        is_equal, is_near = fingerprints.copies(places[name], known)
        is_copy = is_equal | is_near
        kept[name] = parts[name] if name == TEST and is_copy.all() else parts[name][~is_copy]
        if is_copy.any():
            named = tuple(labels.identity(int(i)) for i in parts[name][is_copy][:NAMED])
            found[name] = Copies(int(is_copy.sum()), len(is_copy), int(np.sum(is_near & ~is_equal)), named)
    if source.d >= LEAST_WIDTH:
        is_repeated = fingerprints.repeated(np.searchsorted(chosen, kept[TEST]), labels, kept[TEST])
        if is_repeated.any():
            named = tuple(labels.identity(int(i)) for i in kept[TEST][is_repeated][:NAMED])
            found[REPEATED] = Copies(int(is_repeated.sum()), len(is_repeated), 0, named)
            kept[TEST] = kept[TEST][~is_repeated]
    if not found:
        return split, {}
    left_out = np.setdiff1d(fresh, kept[FRESH])
    trainers = {name: index if name == IN_SAMPLE else np.setdiff1d(index, left_out) for name, index in trainers.items()}
    n_available = dict(split.n_available)
    for name, copies in found.items():
        n_available[TEST if name == REPEATED else name] -= copies.n
    for name in {POOLED, WHITE_BOX} & n_available.keys() if FRESH in found else ():
        n_available[name] -= found[FRESH].n
    trainers = {name: index for name, index in trainers.items() if len(index) or name == IN_SAMPLE}
    return replace(split, trainers=trainers, test=kept[TEST], n_available=n_available), found


def notes_on_copies(found: Mapping[str, Copies]) -> list[str]:
    """Return a note on each part of the split that has copies; `found`: see `without_copies`."""
    return [
        f"{TEST}: {copies.n:,} of {copies.of:,} rows are left out, repeated: {listed(copies.named)}"
        + ("" if copies.n == len(copies.named) else ", …")
        if name == REPEATED
        else f"{name}: {copies.n:,} of {copies.of:,} rows are "
        + ("" if name == TEST and copies.n == copies.of else "left out, ")
        + "copies of rows that train "
        f"({copies.n - copies.n_near} equal, {copies.n_near} nearly): {listed(copies.named)}"
        + ("" if copies.n == len(copies.named) else ", …")
        for name, copies in found.items()
    ]


def doubts_of_copies(found: Mapping[str, Copies]) -> tuple[str, ...]:
    """Return why no gate can pass, for parts of which too many rows were copies; `found`: see `without_copies`."""
    return tuple(
        f"{copies.n:,} of {copies.of:,} {name} rows are copies of rows that train: at most {MOST_COPIES:.0%} may be"
        for name, copies in found.items()
        if name != REPEATED and copies.share > MOST_COPIES
    )


@dataclass(frozen=True, eq=False)
class _Fingerprints:
    """Hashes of rows, and projections of their directions from the median, by which copies are found."""

    source: Source
    rows: Index
    """`[n]` rows of the file."""
    median: Array
    """`[d]` of each column."""
    hashes: NDArray[np.uint64]
    projected: NDArray[np.float32]
    """`[n, N_PROJECTED]`; rows whose projections are far apart are so themselves. Empty for narrow rows."""

    @classmethod
    def read(cls, source: Source, rows: Index, progress: Progress) -> "_Fingerprints":
        """Return the fingerprints of rows of a file, which are read once and not stored."""
        chosen = LabelledRows.of(rows)
        rng = np.random.default_rng(0)
        words = source.d * source.dtype.itemsize // _word(source.dtype).itemsize
        factors = rng.integers(0, 2**64, size=words, dtype=np.uint64) | np.uint64(1)
        directions = np.linalg.qr(rng.standard_normal((source.d, min(N_PROJECTED, source.d))))[0]
        sample = np.sort(rng.choice(rows, min(len(rows), 1_000), replace=False))
        median = np.median(gather_rows(source, sample, Silent())[0].astype(np.float64), axis=0)
        hashes, is_wide = np.zeros(len(rows), np.uint64), source.d >= LEAST_WIDTH
        projected = np.full((len(rows), directions.shape[1] if is_wide else 0), np.nan, np.float32)

        def look(chunk: Chunk) -> tuple[Index, NDArray[np.uint64], NDArray[Any] | None]:
            x, index = chosen.within(chunk.read())
            bits = np.ascontiguousarray(x + np.zeros((), x.dtype)).view(_word(x.dtype))  # −0 is 0
            found = (bits.astype(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
            if not is_wide:
                return np.asarray(index), found, None
            away = x.astype(np.float64) - median
            size = np.linalg.norm(away, axis=1, keepdims=True)
            return np.asarray(index), found, (away / np.where(size > 0, size, 1)) @ directions

        chunks = (chunk for chunk in source.chunks() if chosen.touch(chunk.start, chunk.n_rows))
        with progress.stage("look for copies", len(rows)) as advance:
            for at, found, coordinates in ordered_map(look, chunks):
                hashes[at] = found
                if coordinates is not None:
                    projected[at] = coordinates
                advance(len(at))
        return cls(source, rows, median, hashes, projected)

    def copies(self, at: Index, known: Index) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which of the rows at the places `at` are equal to rows at `known`, and which are near to one."""
        is_equal = np.isin(self.hashes[at], self.hashes[known])
        is_near = np.zeros(len(at), np.bool_)
        if self.projected.shape[1] and len(at) and len(known):
            one, other = self._candidates(at, known)
            is_near[one[self._are_near(at[one], known[other])]] = True
        return is_equal, is_near

    def repeated(self, at: Index, labels: GuardedLabels, index: Index) -> NDArray[np.bool_]:
        """Return which of the rows at the places `at` equal an earlier one of them with the same labels.

        Parameters
        ----------
        at : `[m]` places of rows
        labels : with the attributes
        index : `[m]` labels of the rows
        """
        columns = [self.hashes[at], *(attribute.values[index] for attribute in labels.attributes)]
        codes = np.stack([np.unique(column, return_inverse=True)[1] for column in columns], axis=1)
        first = np.unique(codes, axis=0, return_index=True)[1]
        found = np.ones(len(at), np.bool_)
        found[first] = False
        return found

    def _candidates(self, at: Index, known: Index) -> tuple[Index, Index]:
        """Return pairs of places whose projections are so close that the rows may be near."""
        from scipy.spatial import cKDTree

        # Directions of rows that are near differ by at most 2 NEAR, and projections by no more.
        distances, nearest = cKDTree(self.projected[known]).query(
            self.projected[at], k=min(N_CANDIDATES, len(known)), distance_upper_bound=2 * NEAR + 1e-6
        )
        distances, nearest = distances.reshape(len(at), -1), nearest.reshape(len(at), -1)
        one, column = np.nonzero(np.isfinite(distances))
        return one, nearest[one, column]

    def _are_near(self, one: Index, other: Index) -> NDArray[np.bool_]:
        """Return whether the rows of pairs of places are near to each other."""
        if not len(one):
            return np.zeros(0, np.bool_)
        places_used = np.unique(np.concatenate([one, other]))
        x = gather_rows(self.source, self.rows[places_used], Silent())[0].astype(np.float64) - self.median
        a, b = (x[np.searchsorted(places_used, places)] for places in (one, other))
        sizes = np.minimum(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
        return np.asarray(np.linalg.norm(a - b, axis=1) <= NEAR * sizes)


def _word(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned integers that hold the bits of numbers."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.itemsize in (2, 4, 8) else np.dtype("u1")
