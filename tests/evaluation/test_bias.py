"""Bias tests against their formulas in the papers, written out word by word."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.bias import BIAS, BiasChange, bias_change
from salcli.evaluation.json_fields import to_json
from salcli.formats.word_sets import BiasTest, WordSet, built_in_names, read_bias_tests

Vectors = Mapping[str, np.ndarray[Any, Any]]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def weat_s(w: np.ndarray, a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    return float(np.mean([cosine(w, one) for one in a]) - np.mean([cosine(w, one) for one in b]))


def weat(x: Any, y: Any, a: Any, b: Any) -> float:
    """Caliskan et al. 2017, effect size; wefe's `WEAT(return_effect_size=True)`."""
    first, second = ([weat_s(w, a, b) for w in of] for of in (x, y))
    return float((np.mean(first) - np.mean(second)) / np.std(first + second))


def rnd(x: Any, y: Any, a: Any) -> float:
    """Garg et al. 2018; wefe's `RND`, with Euclidean distances, averaged."""
    first, second = np.mean(x, axis=0), np.mean(y, axis=0)
    return float(np.mean([np.linalg.norm(w - first) - np.linalg.norm(w - second) for w in a]))


def ripa(x: Any, y: Any, a: Any) -> float:
    """Ethayarajh et al. 2019; wefe's `RIPA`, the mean over words and pairs."""
    scores = [[w @ ((p - q) / np.linalg.norm(p - q)) for p, q in zip(x, y, strict=True)] for w in a]
    return float(np.mean([np.mean(each) for each in scores]))


def words(role: str, n: int) -> tuple[str, ...]:
    return tuple(f"{role}{i}" for i in range(n))


def bias_test(kind: str, **sizes: int) -> BiasTest:
    return BiasTest("t", kind, {role: WordSet(f"set {role}", words(role, n)) for role, n in sizes.items()})


def vectors(seed: int, d: int = 4, **sizes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {word: rng.normal(size=d) + (role == "X") for role, n in sizes.items() for word in words(role, n)}


def groups(found: Vectors, **sizes: int) -> list[list[np.ndarray]]:
    return [[found[word] for word in words(role, n)] for role, n in sizes.items()]


def exact_divisions(figure: Any, targets: list[np.ndarray], n_x: int, *others: Any) -> list[float]:
    found = []
    for chosen in itertools.combinations(range(len(targets)), n_x):
        x = [targets[i] for i in chosen]
        y = [targets[i] for i in range(len(targets)) if i not in chosen]
        found.append(figure(x, y, *others))
    return found


@pytest.mark.slow
@given(st.integers(0, 999), st.integers(2, 4), st.integers(2, 4), st.integers(1, 3))
def test_weat_is_the_papers_and_p_the_share_of_divisions(seed: int, n_x: int, n_y: int, n_a: int) -> None:
    sizes = {"X": n_x, "Y": n_y, "A": n_a, "B": 2}
    stages = [vectors(seed, **sizes), vectors(seed + 1, d=3, **sizes)]
    found = bias_change(bias_test("weat", **sizes), *stages, seed=0)
    for figure, of in zip((found.before, found.after), stages, strict=True):
        x, y, a, b = groups(of, **sizes)
        assert figure is not None
        assert figure.value == pytest.approx(weat(x, y, a, b), abs=1e-9)

        def difference(x: Any, y: Any, a: Any = a, b: Any = b) -> float:
            return float(np.mean([weat_s(w, a, b) for w in x]) - np.mean([weat_s(w, a, b) for w in y]))

        every = exact_divisions(difference, [*x, *y], n_x)
        assert found.permutations == len(every)
        assert figure.p_value == pytest.approx(np.mean(np.array(every) >= difference(x, y) - 1e-9))
    assert found.is_exact
    assert found.n_words == sizes


@given(st.integers(0, 999), st.integers(2, 4), st.integers(1, 3))
def test_rnd_and_ripa_are_the_papers_and_their_p_two_sided(seed: int, n: int, n_a: int) -> None:
    sizes = {"X": n, "Y": n, "A": n_a}
    of = vectors(seed, **sizes)
    x, y, a = groups(of, **sizes)
    found = bias_change(bias_test("rnd", **sizes), of, None, seed=0).before
    assert found is not None
    assert found.value == pytest.approx(rnd(x, y, a), abs=1e-9)
    every = np.abs(exact_divisions(rnd, [*x, *y], n, a))
    assert found.p_value == pytest.approx(np.mean(every >= abs(rnd(x, y, a)) - 1e-7))
    found = bias_change(bias_test("ripa", **sizes), of, None, seed=0).before
    assert found is not None
    assert found.value == pytest.approx(ripa(x, y, a), abs=1e-9)
    swapped = []
    for signs in itertools.product((False, True), repeat=n):
        pairs = [(q, p) if swap else (p, q) for swap, p, q in zip(signs, x, y, strict=True)]
        swapped.append(abs(ripa(*zip(*pairs, strict=True), a)))
    assert found.p_value == pytest.approx(np.mean(np.array(swapped) >= abs(ripa(x, y, a)) - 1e-9))


def test_wefe_itself_says_the_same() -> None:
    metrics = pytest.importorskip("wefe.metrics")
    from wefe.query import Query
    from wefe.word_embedding_model import WordEmbeddingModel

    keyed = pytest.importorskip("gensim.models").KeyedVectors
    sizes = {"X": 5, "Y": 5, "A": 4, "B": 4}
    of = vectors(0, **sizes)
    model = keyed(4)
    model.add_vectors(list(of), np.stack(list(of.values())))
    x, y, a, b = (list(words(role, n)) for role, n in sizes.items())
    embeddings = WordEmbeddingModel(model, "m")
    effect = metrics.WEAT().run_query(Query([x, y], [a, b]), embeddings, return_effect_size=True)["result"]
    found = bias_change(bias_test("weat", **sizes), of, None, seed=0).before
    assert found is not None
    assert found.value == pytest.approx(effect, rel=1e-4)
    for kind in ("RND", "RIPA"):
        expected = getattr(metrics, kind)().run_query(Query([x, y], [a]), embeddings)["result"]
        found = bias_change(bias_test(kind.lower(), X=5, Y=5, A=4), of, None, seed=0).before
        assert found is not None
        assert found.value == pytest.approx(expected, rel=1e-4)


def test_many_divisions_are_drawn_with_the_seed() -> None:
    sizes = {"X": 12, "Y": 12, "A": 3, "B": 3}
    of = vectors(5, **sizes)
    found = [bias_change(bias_test("weat", **sizes), of, None, seed=seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert (found[0].permutations, found[0].is_exact) == (10_000, False)
    far = {
        word: x + 9 * np.eye(4)[0] * (word[0] in "XA") + 9 * np.eye(4)[1] * (word[0] in "YB") for word, x in of.items()
    }
    certain = bias_change(bias_test("weat", **sizes), far, None, seed=0).before
    assert certain is not None
    assert certain.p_value == 1 / 10_001  # what is measured is among the permutations
    assert certain.value > 1.9


def test_a_set_that_has_lost_more_than_a_fifth_is_undefined_in_words_and_the_lost_are_named() -> None:
    sizes = {"X": 5, "Y": 5, "A": 5, "B": 5}
    of = vectors(1, **sizes)
    after = {word: x.copy() for word, x in of.items()}
    del of["A0"]
    after["B1"][:] = 0  # at either stage
    found = bias_change(bias_test("weat", **sizes), of, after, seed=0)
    assert found.undefined == {}
    assert found.before is not None
    assert found.missing == {"X": (), "Y": (), "A": ("A0",), "B": ("B1",)}
    assert found.n_words == {"X": 5, "Y": 5, "A": 4, "B": 4}
    del of["A1"]
    found = bias_change(bias_test("weat", **sizes), of, after, seed=0)
    why = "only 3 of 5 words of A (set A) have vectors, 80% are needed"
    assert (found.before, found.after, found.undefined) == (None, None, {"before": why, "after": why})
    shown = BIAS.section((found,))
    assert shown is not None
    assert f"t: undefined before and after: {why}" in shown.points
    assert "t: no vector for A0, A1 (of set A)" in shown.points


def test_a_pair_needs_both_words_and_a_direction() -> None:
    sizes = {"X": 5, "Y": 5, "A": 2}
    of = vectors(2, **sizes)
    del of["Y3"]
    found = bias_change(bias_test("ripa", **sizes), of, None, seed=0)
    kept = [i for i in range(5) if i != 3]
    x, y = ([of[f"{role}{i}"] for i in kept] for role in "XY")
    assert found.before is not None
    assert found.before.value == pytest.approx(ripa(x, y, [of["A0"], of["A1"]]))
    assert found.n_words == {"X": 4, "Y": 4, "A": 2}
    flat = of | {"Y0": of["X0"]}
    found = bias_change(bias_test("ripa", **sizes), of, flat, seed=0)
    assert found.before is not None
    assert found.undefined == {"after": "the two words of a pair have the same vector, which gives no direction"}
    del of["Y2"]
    assert (
        "only 3 of 5 pairs with a word of X"
        in bias_change(bias_test("ripa", **sizes), of, None, seed=0).undefined["before"]
    )
    uneven = bias_change(bias_test("ripa", X=3, Y=2, A=2), vectors(0, X=3, Y=2, A=2), None, seed=0)
    assert "no pairs" in uneven.undefined["before"]


def test_words_that_are_all_alike_have_no_effect_size() -> None:
    sizes = {"X": 3, "Y": 3, "A": 2, "B": 2}
    of = vectors(3, **sizes)
    same = {word: np.ones(4) for word in of}
    assert bias_change(bias_test("weat", **sizes), of, same, seed=0).undefined == {
        "after": "all words of X and Y are associated alike"
    }


def test_words_are_looked_up_in_lower_case_too() -> None:
    (weat6,) = read_bias_tests("weat6")
    rng = np.random.default_rng(0)
    of = {word.lower(): rng.normal(size=5) for sets in weat6.sets.values() for word in sets.words}
    found = bias_change(weat6, of, None, seed=0)
    assert found.before is not None
    assert not found.n_missing
    assert (found.permutations, found.is_exact) == (12_870, True)


def test_every_built_in_test_runs_and_its_record_is_json() -> None:
    for name in built_in_names():
        for test in read_bias_tests(name):
            rng = np.random.default_rng(0)
            of = {word: rng.normal(size=8) for sets in test.sets.values() for word in sets.words}
            found = bias_change(test, of, of, seed=0)
            assert isinstance(found, BiasChange)
            assert found.before == found.after is not None
            assert set(to_json(found)) == {
                *("name", "test", "sets", "before", "after", "undefined"),
                *("n_words", "missing", "permutations", "is_exact"),
            }
