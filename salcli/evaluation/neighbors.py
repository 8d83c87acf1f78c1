"""Neighbours by cosine before and after erasure: of given words side by side, and how many a sample of rows keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import AlignmentError
from salcli.evaluation.nearest import NOWHERE, nearest

OVERLAP_AT = 10
Near = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class WordNeighbors:
    """The neighbours of one word in both stages."""

    key: str
    before: Near
    """Keys and cosines, nearest first; empty for a zero vector."""
    after: Near
    overlap: float | None
    """Share of the neighbours that are the same rows; None if either stage has none."""

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        stages = {"before": self.before, "after": self.after}
        lists = {stage: [{"key": key, "cosine": cosine} for key, cosine in near] for stage, near in stages.items()}
        return {"key": self.key, **lists, "overlap": self.overlap}


@dataclass(frozen=True)
class Neighbors:
    """What erasure did to who is near whom."""

    words: tuple[WordNeighbors, ...]
    mean_overlap_at_10: float | None
    """Mean share of the ten nearest rows that stay, over the sample; None if no row of it has neighbours."""
    n_sampled: int
    """Sampled rows with neighbours in both stages."""

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {
            "words": [word.to_dict() for word in self.words],
            "mean_overlap_at_10": self.mean_overlap_at_10,
            "n_sampled": self.n_sampled,
        }


def neighbors(
    keys: Sequence[str],
    before: NDArray[Any],
    after: NDArray[Any],
    words: Sequence[str],
    *,
    top: int = 10,
    sample: int = 1000,
    seed: int,
) -> Neighbors:
    """Compare nearest rows before and after.

    Parameters
    ----------
    keys : `n` keys; of a repeated one the first row counts
    before, after : `[n, d]` and `[n, d']`, row i of both belongs to `keys[i]`
    words : keys whose `top` neighbours are shown
    sample : rows, drawn with `seed`, whose ten neighbours are compared

    Raises
    ------
    AlignmentError : a word is not among the keys
    """
    asked = _positions(keys, words)
    n = len(before)
    sampled = np.sort(np.random.default_rng(seed).choice(n, min(sample, n), replace=False))
    queries = np.concatenate([asked, sampled])
    positions_before, cosines_before = nearest(before, queries, max(top, OVERLAP_AT))
    positions_after, cosines_after = nearest(after, queries, max(top, OVERLAP_AT))
    shown = tuple(
        WordNeighbors(
            word,
            _named(keys, positions_before[i, :top], cosines_before[i, :top]),
            _named(keys, positions_after[i, :top], cosines_after[i, :top]),
            _overlap(positions_before[i, :top], positions_after[i, :top]),
        )
        for i, word in enumerate(words)
    )
    pairs = zip(positions_before[len(words) :], positions_after[len(words) :], strict=True)
    overlaps = [_overlap(one[:OVERLAP_AT], other[:OVERLAP_AT]) for one, other in pairs]
    kept = [share for share in overlaps if share is not None]
    return Neighbors(shown, float(np.mean(kept)) if kept else None, len(kept))


def _positions(keys: Sequence[str], words: Sequence[str]) -> NDArray[np.int64]:
    wanted, found = set(words), dict[str, int]()
    for position, key in enumerate(keys):
        if key in wanted:
            found.setdefault(key, position)
    missing = [word for word in dict.fromkeys(words) if word not in found]
    if missing:
        named = ", ".join(repr(word) for word in missing[:3])
        raise AlignmentError(f"{len(missing)} of {len(wanted)} words have no vector to find neighbours of: {named}")
    return np.array([found[word] for word in words], dtype=np.int64)


def _named(keys: Sequence[str], positions: NDArray[np.int64], cosines: NDArray[np.float64]) -> Near:
    pairs = zip(positions.tolist(), cosines.tolist(), strict=True)
    return tuple((keys[position], cosine) for position, cosine in pairs if position != NOWHERE)


def _overlap(one: NDArray[np.int64], other: NDArray[np.int64]) -> float | None:
    ones, others = set(one.tolist()) - {NOWHERE}, set(other.tolist()) - {NOWHERE}
    return len(ones & others) / max(len(ones), len(others)) if ones and others else None
