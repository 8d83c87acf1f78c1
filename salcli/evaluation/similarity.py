"""Word similarity: how well cosines agree with what people said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import AlignmentError

POLICY = "exact match, else lower case; pairs with a word outside the vocabulary are left out"


@dataclass(frozen=True)
class SimilarityScore:
    """Agreement of one file of embeddings with one gold set."""

    name: str
    pairs_total: int
    pairs_used: int
    oov_words: tuple[str, ...]
    oov_pairs: int
    zero_pairs: int
    """Pairs with a zero vector, whose cosine is undefined; left out too."""
    spearman: float | None
    """Rank correlation with average ranks for ties; None where it is undefined (fewer than two pairs, or constant)."""

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the JSON."""
        return {
            "set": self.name,
            "pairs_total": self.pairs_total,
            "pairs_used": self.pairs_used,
            "oov_pairs": self.oov_pairs,
            "oov_words": list(self.oov_words),
            "zero_pairs": self.zero_pairs,
            "spearman": self.spearman,
            "policy": POLICY,
        }


def spellings(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Name every key that the pairs may be looked up under."""
    words = {word for pair in pairs for word in pair}
    return words | {word.lower() for word in words}


def found_word(word: str, vectors: Mapping[str, NDArray[Any]]) -> str | None:
    """Find the key a word is looked up under: exactly, else in lower case."""
    return next((spelling for spelling in (word, word.lower()) if spelling in vectors), None)


def similarity_score(
    name: str, pairs: Sequence[tuple[str, str]], gold: Sequence[float], vectors: Mapping[str, NDArray[Any]]
) -> SimilarityScore:
    """Correlate cosines with gold scores.

    Parameters
    ----------
    name : of the set
    pairs, gold : words and scores
    vectors : `[d]` by key; keys outside it are out of the vocabulary

    Raises
    ------
    AlignmentError : not one pair is in the vocabulary
    """
    cosines, scores = [], []
    missing: dict[str, None] = {}
    n_oov = n_zero = 0
    for pair, score in zip(pairs, gold, strict=True):
        found = [found_word(word, vectors) for word in pair]
        absent = [word for word, key in zip(pair, found, strict=True) if key is None]
        if absent:
            n_oov += 1
            missing.update(dict.fromkeys(absent))
            continue
        one, other = (vectors[key].astype(np.float64) for key in found if key is not None)
        norms = float(np.linalg.norm(one) * np.linalg.norm(other))
        if norms == 0:
            n_zero += 1
            continue
        cosines.append(round(float(one @ other) / norms, 12))  # so that equal pairs stay ties despite rounding
        scores.append(score)
    if n_oov == len(pairs):
        raise AlignmentError(f"{name}: 0 of {len(pairs)} pairs are in the vocabulary ({POLICY})")
    return SimilarityScore(name, len(pairs), len(cosines), tuple(missing), n_oov, n_zero, _spearman(cosines, scores))


def _spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    if len(one) < 2 or len(set(one)) == 1 or len(set(other)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(one, other).statistic)
