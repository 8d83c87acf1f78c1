import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from salcli.errors import AlignmentError
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.similarity import SIMILARITY, SimilarityChange, random_directions, similarity_change

WORDS = tuple("abcdefghij")
PAIRS = [(one, other) for i, one in enumerate(WORDS) for other in WORDS[i + 1 :]]
FIELDS = {"set", "before", "after", "random_control", "difference_ci95", "pairs_total", "pairs_used", "oov_pairs"}


def vectors(seed: int, d: int = 6, words: tuple[str, ...] = WORDS) -> dict[str, np.ndarray]:
    return dict(zip(words, np.random.default_rng(seed).normal(size=(len(words), d)), strict=True))


def gold_of(seed: int, n: int = len(PAIRS)) -> list[float]:
    return np.random.default_rng(seed).integers(0, 6, n).astype(float).tolist()


def oracle(pairs: list[tuple[str, str]], gold: list[float], by_word: dict[str, np.ndarray]) -> float:
    cosines = [by_word[a] @ by_word[b] / np.linalg.norm(by_word[a]) / np.linalg.norm(by_word[b]) for a, b in pairs]
    return float(spearmanr(np.round(cosines, 9), gold).statistic)


def change(*args: object, k: int | None = None, mean: np.ndarray | None = None, seed: int = 0) -> SimilarityChange:
    return similarity_change("set", *args, k=k, mean=mean, seed=seed)  # type: ignore[arg-type]


@given(st.integers(0, 999), st.integers(2, 9))
def test_both_stages_are_spearmans_on_the_same_pairs_whatever_their_widths(seed: int, width: int) -> None:
    before, after, gold = vectors(seed), vectors(seed + 1, width), gold_of(seed)
    found = change(PAIRS, gold, before, after)
    assert found.before == pytest.approx(oracle(PAIRS, gold, before))
    assert found.after == pytest.approx(oracle(PAIRS, gold, after))
    assert found.difference_ci95 is not None
    assert found.difference_ci95[0] < found.difference_ci95[1]
    assert found.random_control is None


def test_a_pair_with_a_zero_vector_in_either_stage_is_left_out_of_both() -> None:
    before, after, gold = vectors(1), vectors(2), gold_of(3)
    before["a"], after["b"] = np.zeros(6), np.zeros(6)
    found = change(PAIRS, gold, before, after, k=2)
    rest = [i for i, pair in enumerate(PAIRS) if not {"a", "b"} & set(pair)]
    pairs, scores = [PAIRS[i] for i in rest], [gold[i] for i in rest]
    assert (found.pairs_total, found.pairs_used, found.zero_pairs, found.oov_pairs) == (45, 28, 17, 0)
    assert found.before == pytest.approx(oracle(pairs, scores, before))
    assert found.after == pytest.approx(oracle(pairs, scores, after))
    assert found.random_control is not None


def test_words_that_either_stage_lacks_are_out_of_the_vocabulary() -> None:
    before, after = vectors(1), vectors(2)
    del before["a"], after["b"]
    found = change([*PAIRS, ("C", "D")], gold_of(3, 46), before, after)
    assert (found.pairs_used, found.oov_pairs, found.oov_words) == (29, 17, ("a", "b"))
    with pytest.raises(AlignmentError, match="0 of 1 pairs"):
        change([("a", "b")], [1.0], before, after)


def test_nothing_erased_has_a_before_alone() -> None:
    before, gold = vectors(1), gold_of(2)
    found = change(PAIRS, gold, before, None)
    assert found.before == pytest.approx(oracle(PAIRS, gold, before))
    assert (found.after, found.difference_ci95, found.random_control) == (None, None, None)


@pytest.mark.parametrize("mean", [None, np.arange(6.0)])
def test_the_control_is_the_mean_over_ten_sets_of_random_directions(mean: np.ndarray | None) -> None:
    before, gold = vectors(4), gold_of(5)
    found = change(PAIRS, gold, before, before, k=2, mean=mean, seed=7)
    centre = np.zeros(6) if mean is None else mean
    values = []
    for draw in range(10):
        u = random_directions(6, 2, np.random.default_rng([7, draw, 2]))
        np.testing.assert_allclose(u.T @ u, np.eye(2), atol=1e-12)
        removed = {word: x - u @ (u.T @ (x - centre)) for word, x in before.items()}
        values.append(oracle(PAIRS, gold, removed))
    assert found.random_control == pytest.approx(np.mean(values))
    assert np.std(values) > 0
    other = change(PAIRS, gold, before, before, k=2, mean=mean, seed=8)
    assert other.random_control != found.random_control


def test_the_control_draws_directions_of_every_orientation() -> None:
    drawn = [random_directions(2, 1, np.random.default_rng(i)) for i in range(200)]
    moments = np.mean([u @ u.T for u in drawn], axis=0)
    np.testing.assert_allclose(moments, np.eye(2) / 2, atol=0.1)


@pytest.mark.parametrize("k", [6, 7])
def test_no_direction_left_leaves_no_control(k: int) -> None:
    assert change(PAIRS, gold_of(1), vectors(1), vectors(1), k=k).random_control is None


def test_no_direction_removed_is_a_control_equal_to_before() -> None:
    found = change(PAIRS, gold_of(1), vectors(1), vectors(1), k=0)
    assert found.random_control == pytest.approx(found.before)


@pytest.mark.parametrize("gold", [[3.0] * 45, None])
def test_constants_are_undefined_throughout(gold: list[float] | None) -> None:
    same = dict.fromkeys(WORDS, np.ones(3))
    found = change(PAIRS, gold or gold_of(1), same if gold is None else vectors(1, 3), same, k=1)
    assert (found.before, found.after, found.difference_ci95, found.random_control) == (None, None, None, None)


def test_a_constant_after_leaves_the_before_and_its_control() -> None:
    found = change(PAIRS, gold_of(1), vectors(1), dict.fromkeys(WORDS, np.ones(1)), k=1)
    assert found.before is not None
    assert (found.after, found.difference_ci95) == (None, None)
    assert found.random_control is not None


def test_one_pair_has_no_correlation() -> None:
    found = change([("a", "b")], [1.0], vectors(1), vectors(2), k=1)
    assert (found.pairs_used, found.before, found.after, found.difference_ci95) == (1, None, None, None)


def test_float16_and_float32_are_measured_in_float64() -> None:
    half = {word: x.astype(np.float16) for word, x in vectors(1).items()}
    wide = {word: x.astype(np.float64) for word, x in half.items()}
    assert change(PAIRS, gold_of(1), half, half, k=1) == change(PAIRS, gold_of(1), wide, wide, k=1)


def test_the_json_has_the_fields_of_the_report() -> None:
    record = to_json(change(PAIRS, gold_of(1), vectors(1), vectors(2), k=1))
    assert set(record) == FIELDS | {"oov_words", "zero_pairs", "policy"}
    assert json.loads(json.dumps(record)) == record


def test_what_is_undefined_after_is_no_figure_and_words_out_of_the_vocabulary_are_named() -> None:
    defined, undefined = (
        SimilarityChange("one|set", 0.4, after, None, None, 9, 7, 2, ("a\x1b", "b"), 0) for after in (0.3, None)
    )
    assert [(f.name, f.label, f.value) for f in SIMILARITY.figures((defined, undefined))] == [
        ("similarity one|set", "one|set", 0.3)
    ]
    assert [(fact.before, fact.after) for fact in SIMILARITY.facts((undefined,))] == [("0.400", "–")]
    section = SIMILARITY.section((defined,))
    assert section is not None
    assert section.points == (r"one|set: out of vocabulary are a\x1b, b",)
    assert "random control" not in section.paragraphs[0]
    assert SIMILARITY.section(()) is None
