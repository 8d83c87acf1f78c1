"""Word similarity before and after erasure, beside what removing as many random directions would have done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.cosine import cosines, unit_rows
from salcli.evaluation.rank_bootstrap import difference_ci95
from salcli.evaluation.similarity import POLICY, Lookup, pair_cosines, spearman

N_CONTROLS = 10
Array = NDArray[np.float64]


@dataclass(frozen=True)
class SimilarityChange:
    """Agreement with one gold set before and after erasure, on the same pairs."""

    name: str
    before: float | None
    """Spearman's rank correlation of cosine and gold; None where it is undefined."""
    after: float | None
    """The same after erasure; None also where nothing was erased."""
    random_control: float | None
    """Mean of it over `N_CONTROLS` draws of random directions, as many as were erased; None if there is no number."""
    difference_ci95: tuple[float, float] | None
    """Bootstrap interval of after − before."""
    pairs_total: int
    pairs_used: int
    oov_pairs: int
    oov_words: tuple[str, ...]
    zero_pairs: int
    """Pairs with a zero vector before or after, whose cosine is undefined; left out of both."""

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {
            "set": self.name,
            "before": self.before,
            "after": self.after,
            "random_control": self.random_control,
            "difference_ci95": None if self.difference_ci95 is None else list(self.difference_ci95),
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
    before: Mapping[str, NDArray[Any]],
    after: Mapping[str, NDArray[Any]] | None,
    *,
    k: int | None,
    mean: NDArray[Any] | None,
    strength: float = 1.0,
    seed: int,
) -> SimilarityChange:
    """Correlate cosines with gold scores before and after erasure.

    Parameters
    ----------
    name : of the set
    pairs, gold : words and scores
    before : `[d]` by key
    after : `[d']` by key, or None if nothing was erased; keys that either lacks are out of the vocabulary
    k : directions that the random control removes; None: no control
    mean : `[d]`, about which it removes them; None: about zero
    strength : λ, the share of the way that it goes
    seed : of the control and of the bootstrap

    Raises
    ------
    AlignmentError : not one pair is in the vocabulary
    """
    found = Lookup.of(name, pairs, before if after is None else before.keys() & after.keys())
    values_before, is_used = pair_cosines(found.keys, before)
    values_after = None
    if after is not None:
        values_after, has_cosine = pair_cosines(found.keys, after)
        is_used &= has_cosine
        values_after = values_after[is_used]
    values_before = values_before[is_used]
    scores = np.asarray(gold, dtype=np.float64)[list(found.positions)][is_used]
    rho_before = spearman(values_before, scores)
    rho_after = None if values_after is None else spearman(values_after, scores)
    interval, control = None, None
    if values_after is not None and rho_before is not None and rho_after is not None:
        interval = difference_ci95(values_before, values_after, scores, seed=seed)
    if k is not None and rho_before is not None:
        used = [keys for keys, is_in in zip(found.keys, is_used, strict=True) if is_in]
        control = _random_control(used, scores, before, k, mean, strength, seed)
    return SimilarityChange(
        name,
        rho_before,
        rho_after,
        control,
        interval,
        pairs_total=len(pairs),
        pairs_used=len(scores),
        oov_pairs=len(pairs) - len(found.keys),
        oov_words=found.oov_words,
        zero_pairs=int((~is_used).sum()),
    )


def _random_control(
    keys: Sequence[tuple[str, str]],
    scores: Array,
    vectors: Mapping[str, NDArray[Any]],
    k: int,
    mean: NDArray[Any] | None,
    strength: float,
    seed: int,
) -> float | None:
    """Average Spearman over draws; None where one is undefined, as when no direction is left."""
    words = {word: row for row, word in enumerate(dict.fromkeys(word for pair in keys for word in pair))}
    x = np.stack([vectors[word] for word in words]).astype(np.float64)
    if k >= x.shape[1]:
        return None
    centre = np.zeros(x.shape[1]) if mean is None else mean.astype(np.float64)
    firsts, seconds = np.array([[words[one], words[other]] for one, other in keys]).T
    found = []
    for draw in range(N_CONTROLS):
        directions = random_directions(x.shape[1], k, np.random.default_rng([seed, draw, k]))
        units, is_nonzero = unit_rows(x - strength * ((x - centre) @ directions) @ directions.T)
        rho = spearman(cosines(units[firsts], units[seconds]), scores) if is_nonzero.all() else None
        if rho is None:
            return None
        found.append(rho)
    return float(np.mean(found))


def random_directions(d: int, k: int, rng: np.random.Generator) -> Array:
    """Draw k orthonormal directions, uniform over all such sets: `[d, k]`."""
    directions: Array = np.linalg.qr(rng.standard_normal((d, k)))[0]
    return directions
