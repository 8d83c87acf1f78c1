"""Word similarity before and after, on the same pairs, beside what removing random directions does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import AlignmentError
from salcli.evaluation.similarity import POLICY, found_word

Array = NDArray[np.float64]
Vectors = Mapping[str, NDArray[Any]]
CONTROLS, RESAMPLES, CHUNK = 10, 1_000, 100
PLACES = 12  # so that equal pairs stay ties despite rounding


@dataclass(frozen=True)
class SimilarityChange:
    """Agreement with one gold set before and after erasure."""

    name: str
    before: float | None
    """Spearman's correlation with average ranks for ties; None where it is undefined."""
    after: float | None
    random_control: float | None
    """Mean over 10 draws of as many random directions, removed instead; None where that means nothing."""
    difference_ci95: tuple[float, float] | None
    """Of after − before: percentiles of 1,000 resamples of the pairs."""
    pairs_total: int
    pairs_used: int
    oov_pairs: int
    oov_words: tuple[str, ...]
    zero_pairs: int
    """Pairs with a zero vector before or after, left out of both."""

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {
            "set": self.name,
            "before": self.before,
            "after": self.after,
            "random_control": self.random_control,
            "difference_ci95": self.difference_ci95 and list(self.difference_ci95),
            "pairs_total": self.pairs_total,
            "pairs_used": self.pairs_used,
            "oov_pairs": self.oov_pairs,
            "oov_words": list(self.oov_words),
            "zero_pairs": self.zero_pairs,
            "policy": POLICY,
        }


def similarity_change(
    name: str,
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[float],
    before: Vectors,
    after: Vectors | None,
    *,
    k: int | None = None,
    mean: Array | None = None,
    seed: int = 0,
) -> SimilarityChange:
    """Correlate cosines with gold scores before and after.

    Parameters
    ----------
    before, after : vectors by key, `[d]` and `[d']`; after None: there is only one stage
    k, mean : of the random control: directions to remove, about which point; k None: no control
    seed : of the control's directions and of the resamples

    Raises
    ------
    AlignmentError : not one pair is in the vocabulary
    """
    found, scores, missing = [], [], dict[str, None]()
    for pair, score in zip(pairs, gold, strict=True):
        one, other = (found_word(word, before) for word in pair)
        if one is None or other is None:
            missing |= {word: None for word, key in zip(pair, (one, other), strict=True) if key is None}
        else:
            found.append((one, other))
            scores.append(score)
    if not found:
        raise AlignmentError(f"{name}: 0 of {len(pairs)} pairs are in the vocabulary ({POLICY})")
    words = sorted({word for pair in found for word in pair})
    place = {word: i for i, word in enumerate(words)}
    at = np.array([[place[word] for word in pair] for pair in found])
    x = np.stack([before[word] for word in words]).astype(np.float64)
    y = None if after is None else np.stack([after[word] for word in words]).astype(np.float64)
    is_there = np.asarray(x.any(axis=1) if y is None else x.any(axis=1) & y.any(axis=1))
    is_used = is_there[at].all(axis=1)
    at, true = at[is_used], np.array(scores)[is_used]
    at_first = _cosines(x, at)
    at_last = None if y is None else _cosines(y, at)
    return SimilarityChange(
        name,
        _spearman(at_first, true),
        None if at_last is None else _spearman(at_last, true),
        None if k is None or y is None else _control(x, at, true, k, mean, seed),
        None if at_last is None else _interval(at_first, at_last, true, seed),
        len(pairs),
        len(at),
        len(pairs) - len(found),
        tuple(missing),
        int(np.sum(~is_used)),
    )


def _cosines(x: Array, at: NDArray[np.int64]) -> Array:
    norms = np.linalg.norm(x, axis=1)
    unit = x / np.where(norms > 0, norms, 1.0)[:, None]
    cosines: Array = np.round(np.einsum("ij,ij->i", unit[at[:, 0]], unit[at[:, 1]]), PLACES)
    return cosines


def _spearman(one: Array, other: Array) -> float | None:
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(one, other).statistic)


def _control(x: Array, at: NDArray[np.int64], true: Array, k: int, mean: Array | None, seed: int) -> float | None:
    centre = np.zeros(x.shape[1]) if mean is None else mean
    values = []
    for draw in range(CONTROLS):
        rng = np.random.default_rng([seed, draw])
        directions = np.linalg.qr(rng.normal(size=(x.shape[1], k)))[0]
        values.append(_spearman(_cosines(x - ((x - centre) @ directions) @ directions.T, at), true))
    return None if any(value is None for value in values) else float(np.mean([value or 0.0 for value in values]))


def _interval(one: Array, other: Array, true: Array, seed: int) -> tuple[float, float] | None:
    if len(true) < 2:
        return None
    rng = np.random.default_rng([seed, CONTROLS])
    differences = []
    for _ in range(0, RESAMPLES, CHUNK):
        drawn = rng.integers(0, len(true), (CHUNK, len(true)))
        ranks = [_ranked(values[drawn]) for values in (one, other, true)]
        with np.errstate(invalid="ignore", divide="ignore"):
            differences.append(_correlation(ranks[1], ranks[2]) - _correlation(ranks[0], ranks[2]))
    kept = np.concatenate(differences)
    kept = kept[np.isfinite(kept)]
    if not len(kept):
        return None
    low, high = np.quantile(kept, [0.025, 0.975])
    return float(low), float(high)


def _ranked(values: Array) -> Array:
    from scipy.stats import rankdata

    ranks = np.asarray(rankdata(values, axis=1), dtype=np.float64)
    centred: Array = ranks - ranks.mean(axis=1, keepdims=True)
    return centred


def _correlation(one: Array, other: Array) -> Array:
    correlation: Array = np.sum(one * other, axis=1) / np.sqrt(np.sum(one**2, axis=1) * np.sum(other**2, axis=1))
    return correlation
