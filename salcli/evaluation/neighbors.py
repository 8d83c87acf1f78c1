"""Nearest neighbours by cosine before and after erasure, in blocks, without an n×n matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import AlignmentError

Floats = NDArray[Any]
Index = NDArray[np.int64]
BLOCK_ROWS = 8_192
SPARE = 8  # candidates beyond those asked for, so that float32 products cannot lose one
TOP, SAMPLE = 10, 1_000


@dataclass(frozen=True)
class Neighbors:
    """Neighbours of words side by side, and how many of theirs rows keep on average."""

    words: tuple[dict[str, Any], ...]
    mean_overlap: float | None
    """Share of a row's ten nearest before that are among its ten nearest after; None if no row has neighbours."""
    n_sampled: int

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {"words": list(self.words), "mean_overlap_at_10": self.mean_overlap, "n_sampled": self.n_sampled}


def nearest(vectors: Floats, queries: Index, count: int, *, block_rows: int = BLOCK_ROWS) -> list[tuple[Index, Floats]]:
    """Find the rows nearest to each query row by cosine.

    Parameters
    ----------
    vectors : `[n, d]`; zero rows are nobody's neighbours and have none
    queries : `[q]` positions
    count : neighbours of each, the row itself left out

    Returns
    -------
    for each query, positions and cosines, falling; of equals the earlier row comes first
    """
    asked = _units(vectors[queries]).astype(np.float32)
    best = np.full((len(queries), 0), -np.inf, np.float32)
    where = np.zeros((len(queries), 0), np.int64)
    for start in range(0, len(vectors), block_rows):
        block = _units(vectors[start : start + block_rows])
        here = np.arange(start, start + len(block))
        products = asked @ block.astype(np.float32).T
        products[:, ~block.any(axis=1)] = -np.inf
        products[queries[:, None] == here] = -np.inf
        best, where = np.hstack([best, products]), np.hstack([where, np.tile(here, (len(queries), 1))])
        kept = min(count + SPARE, best.shape[1])
        top = np.argpartition(-best, kept - 1, axis=1)[:, :kept]
        best, where = np.take_along_axis(best, top, axis=1), np.take_along_axis(where, top, axis=1)
    return [
        _ordered(vectors, int(query), rows[np.isfinite(values)], count)
        for query, rows, values in zip(queries, where, best, strict=True)
    ]


def neighbors(
    keys: Sequence[str], before: Floats, after: Floats, words: Sequence[str], *, sample: int = SAMPLE, seed: int = 0
) -> Neighbors:
    """Compare neighbours before and after.

    Parameters
    ----------
    keys : `n`; the first of equal keys counts
    before, after : `[n, d]`, `[n, d']`
    words : whose ten nearest are shown
    sample : rows, drawn by `seed`, over which the overlap is averaged

    Raises
    ------
    AlignmentError : a word that is no key
    """
    place: dict[str, int] = {}
    for row, key in enumerate(keys):
        place.setdefault(key, row)
    if missing := [word for word in words if word not in place]:
        raise AlignmentError(f"--neighbors: no row has the key {', '.join(map(repr, missing[:3]))}")
    named = np.array([place[word] for word in words], dtype=np.int64)
    shown = []
    for word, one, other in zip(words, nearest(before, named, TOP), nearest(after, named, TOP), strict=True):
        sides = {
            side: [{"key": keys[row], "cosine": float(cosine)} for row, cosine in zip(*found, strict=True)]
            for side, found in (("before", one), ("after", other))
        }
        shown.append({"key": word, **sides, "overlap": _overlap(one[0], other[0])})
    drawn = np.sort(np.random.default_rng(seed).permutation(len(keys))[:sample]).astype(np.int64)
    shares = [
        _overlap(one[0], other[0])
        for one, other in zip(nearest(before, drawn, TOP), nearest(after, drawn, TOP), strict=True)
    ]
    defined = [share for share in shares if share is not None]
    return Neighbors(tuple(shown), float(np.mean(defined)) if defined else None, len(drawn))


def _units(x: Floats) -> Floats:
    wide = x.astype(np.float64)
    largest = np.abs(wide).max(axis=1, initial=0.0, keepdims=True)
    wide /= np.where(largest > 0, largest, 1.0)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(norms > 0, norms, 1.0)


def _ordered(vectors: Floats, query: int, rows: Index, count: int) -> tuple[Index, Floats]:
    rows = np.sort(rows)
    one = _units(vectors[query : query + 1])[0]
    if not one.any():
        return rows[:0], np.zeros(0)
    cosines = np.round(_units(vectors[rows]) @ one, 12)  # so that equal rows stay ties despite rounding
    order = np.argsort(-cosines, kind="stable")[:count]
    return rows[order], cosines[order]


def _overlap(one: Index, other: Index) -> float | None:
    return len(np.intersect1d(one, other)) / len(one) if len(one) else None
