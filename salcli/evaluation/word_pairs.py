"""Cosines of the pairs of words of a gold set, and their rank correlation with its scores, of one file."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import AlignmentError
from salcli.evaluation.cosine import cosines, unit_rows
from salcli.evaluation.json_fields import named

POLICY = "exact match, else lower case; pairs with a word outside the vocabulary are left out"


@dataclass(frozen=True)
class SimilarityScore:
    """Agreement of one file of embeddings with one gold set."""

    name: str = field(metadata=named("set"))
    pairs_total: int
    pairs_used: int
    oov_words: tuple[str, ...]
    oov_pairs: int
    zero_pairs: int
    """Pairs with a zero vector, whose cosine is undefined; left out too."""
    spearman: float | None
    """Rank correlation with average ranks for ties; None where it is undefined (fewer than two pairs, or constant)."""
    policy: str = POLICY


def spellings(pairs: Sequence[tuple[str, str]]) -> set[str]:
    """Return every key that the words of `pairs` may be looked up under."""
    words = {word for pair in pairs for word in pair}
    return words | {word.lower() for word in words}


def found_word(word: str, vocabulary: Container[str]) -> str | None:
    """Return the key of `word` in `vocabulary`: the word itself, else in lower case; None if neither is there."""
    return next((spelling for spelling in (word, word.lower()) if spelling in vocabulary), None)


@dataclass(frozen=True)
class Lookup:
    """The pairs of a gold set whose words both have a vector, and the words that have none."""

    positions: tuple[int, ...]
    """Positions of the pairs that are in the vocabulary."""
    keys: tuple[tuple[str, str], ...]
    """The keys of the two words of each of them."""
    oov_words: tuple[str, ...]
    """Distinct, in the order of the pairs."""

    @classmethod
    def of(cls, name: str, pairs: Sequence[tuple[str, str]], vocabulary: Container[str]) -> Self:
        """Return the pairs whose words are both in a vocabulary, and the words that are not.

        Parameters
        ----------
        name : of the gold set, for messages
        pairs : of words
        vocabulary : the keys of a file

        Raises
        ------
        AlignmentError : not one pair is in the vocabulary
        """
        positions, keys = [], []
        missing: dict[str, None] = {}
        for position, pair in enumerate(pairs):
            one, other = (found_word(word, vocabulary) for word in pair)
            if one is None or other is None:
                missing.update({word: None for word, key in zip(pair, (one, other), strict=True) if key is None})
                continue
            positions.append(position)
            keys.append((one, other))
        if not positions:
            raise AlignmentError(f"{name}: 0 of {len(pairs):,} pairs are in the vocabulary ({POLICY})")
        return cls(tuple(positions), tuple(keys), tuple(missing))


def similarity_score(
    name: str, pairs: Sequence[tuple[str, str]], gold: Sequence[float], vectors: Mapping[str, NDArray[Any]]
) -> SimilarityScore:
    """Return the rank correlation of cosines with gold scores.

    Parameters
    ----------
    name : of the set
    pairs, gold : words and scores
    vectors : `[d]` by key; keys outside it are out of the vocabulary

    Raises
    ------
    AlignmentError : not one pair is in the vocabulary
    """
    found = Lookup.of(name, pairs, vectors)
    values, has_cosine = pair_cosines(found.keys, vectors)
    scores = np.asarray(gold, dtype=np.float64)[list(found.positions)]
    return SimilarityScore(
        name,
        pairs_total=len(pairs),
        pairs_used=int(has_cosine.sum()),
        oov_words=found.oov_words,
        oov_pairs=len(pairs) - len(found.keys),
        zero_pairs=int((~has_cosine).sum()),
        spearman=spearman(values[has_cosine], scores[has_cosine]),
    )


def pair_cosines(
    keys: Sequence[tuple[str, str]], vectors: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the cosine of each pair.

    Parameters
    ----------
    keys : p pairs
    vectors : `[d]` by key

    Returns
    -------
    `[p]` cosines, and `[p]` False where a vector is zero and the cosine undefined
    """
    firsts, is_first = unit_rows(np.stack([vectors[one] for one, _ in keys]))
    seconds, is_second = unit_rows(np.stack([vectors[other] for _, other in keys]))
    return cosines(firsts, seconds), is_first & is_second


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Return Spearman's correlation of `one` and `other`, both `[p]`, with average ranks for ties.

    None for fewer than two pairs and where either side is constant.
    """
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(one, other).statistic)
