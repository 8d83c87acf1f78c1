import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from salcli.errors import AlignmentError
from salcli.evaluation.word_pairs import similarity_score, spellings

WORDS = "abcdefgh"


@given(
    st.integers(0, 999),
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS), st.integers(0, 4)), min_size=3, max_size=30),
)
def test_the_score_is_spearmans_on_cosines(seed: int, table: list[tuple[str, str, int]]) -> None:
    rng = np.random.default_rng(seed)
    vectors = {word: rng.integers(-2, 3, 3) + 0.5 for word in WORDS}
    pairs, gold = [(a, b) for a, b, _ in table], [float(score) for *_, score in table]
    score = similarity_score("set", pairs, gold, vectors)
    cosines = [vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b]) for a, b in pairs]
    cosines = np.round(cosines, 12).tolist()
    assert score.pairs_used == score.pairs_total == len(pairs)
    if len(set(cosines)) == 1 or len(set(gold)) == 1:
        assert score.spearman is None
    else:
        assert score.spearman == pytest.approx(spearmanr(cosines, gold).statistic)


def test_words_are_looked_up_exactly_and_then_in_lower_case() -> None:
    vectors = {"Kirun": np.array([1.0, 0]), "kirun": np.array([0, 1.0]), "bolta": np.array([1.0, 1])}
    pairs = [("Kirun", "BOLTA"), ("kirun", "bolta"), ("Kirun", "kirun")]
    score = similarity_score("set", pairs, [2.0, 2.0, 1.0], vectors)
    assert (score.pairs_used, score.oov_pairs, score.spearman) == (3, 0, pytest.approx(1.0))
    assert spellings(pairs) == {"Kirun", "kirun", "BOLTA", "bolta"}


def test_words_outside_the_vocabulary_are_counted_once_and_pairs_each_time() -> None:
    vectors = {word: np.eye(3)[i] for i, word in enumerate("abc")}
    score = similarity_score("set", [("a", "x"), ("x", "y"), ("a", "b"), ("b", "c")], [1, 2, 3, 4], vectors)
    assert (score.pairs_total, score.pairs_used, score.oov_pairs, score.oov_words) == (4, 2, 2, ("x", "y"))


def test_a_zero_vector_has_no_cosine_and_its_pairs_are_counted_apart() -> None:
    vectors = {"a": np.zeros(2), "b": np.ones(2), "c": np.array([1.0, 0])}
    score = similarity_score("set", [("a", "b"), ("b", "c"), ("b", "b")], [1, 2, 3], vectors)
    assert (score.pairs_used, score.zero_pairs, score.oov_pairs) == (2, 1, 0)


def test_no_pair_in_the_vocabulary_is_an_error_with_both_counts() -> None:
    with pytest.raises(AlignmentError, match="0 of 2 pairs"):
        similarity_score("set", [("a", "b"), ("c", "d")], [1, 2], {})
