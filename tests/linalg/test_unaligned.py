"""AMSAL's turns of SVD and assignment, against all assignments there are."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salcli.errors import RangeError, RankError
from salcli.linalg.unaligned import FREE, align


def assignments(counts: list[int], left: tuple[int, ...] | None = None, code: int = 0) -> Iterator[dict[int, int]]:
    """Yield every assignment of rows to classes of these sizes."""
    left = tuple(range(sum(counts))) if left is None else left
    if code == len(counts):
        yield {}
        return
    for chosen in itertools.combinations(left, counts[code]):
        rest = tuple(row for row in left if row not in chosen)
        for others in assignments(counts, rest, code + 1):
            yield dict.fromkeys(chosen, code) | others


def strength_of(x: np.ndarray, codes: np.ndarray, c: int) -> float:
    """Return the nuclear norm of the covariance, by its definition."""
    z = np.eye(c)[codes]
    return float(np.linalg.norm((x - x.mean(axis=0)).T @ (z - z.mean(axis=0)) / len(x), "nuc"))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(counts=st.sampled_from([[4, 5], [2, 7], [3, 3, 3], [1, 2, 5]]), d=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_best_of_many_starts_is_the_best_assignment_there_is(counts: list[int], d: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(sum(counts), d)).astype(np.float32)
    wide, c = x.astype(np.float64), len(counts)
    every = (np.array([found[i] for i in range(len(x))]) for found in assignments(counts))
    best = max(strength_of(wide, codes, c) for codes in every)
    unknown = np.full(len(x), FREE)
    found = [align(x, unknown, np.array(counts), seed=(seed, i)) for i in range(40)]
    for each in found:
        np.testing.assert_array_equal(np.bincount(each.codes, minlength=c), counts)
        assert each.strength == pytest.approx(strength_of(wide, each.codes, c), rel=1e-6)
        assert each.strength <= best * (1 + 1e-6)
    assert max(each.strength for each in found) == pytest.approx(best, rel=1e-6)


def test_known_rows_stay_and_give_the_classes_their_names() -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(300) % 3)
    x = rng.normal(size=(300, 5)) + 6 * np.eye(3, 5)[y]
    known = np.full(300, FREE)
    known[:15] = y[:15]
    found = align(x, known, np.bincount(y), seed=None)
    assert np.mean(found.codes == y) > 0.97
    np.testing.assert_array_equal(found.codes[:15], y[:15])
    known[0] = (y[0] + 1) % 3  # wrong, but known
    assert align(x, known, np.bincount(y), seed=None).codes[0] == known[0]


def test_more_rounds_never_lower_the_sum() -> None:
    x = np.random.default_rng(1).normal(size=(200, 20))
    unknown, counts = np.full(200, FREE), np.array([50, 60, 90])
    found = [align(x, unknown, counts, seed=(3,), most=most).strength for most in range(1, 12)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_rows_that_are_all_equal_and_rows_too_large_are_refused() -> None:
    unknown = np.full(6, FREE)
    with pytest.raises(RankError, match="nothing separates them"):
        align(np.ones((6, 2)), unknown, np.array([3, 3]), seed=(0,))
    with pytest.raises(RangeError, match="scale the embeddings down"):
        align(np.linspace(1.0, 1.7, 6)[:, None] * 1e308, unknown, np.array([3, 3]), seed=(0,))
