"""The assignment under class counts, against linear programming and the Hungarian method."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from salcli.linalg.assignment import assign


def best_sum(scores: np.ndarray, counts: np.ndarray) -> float:
    """Return the largest sum, by one column a place."""
    columns = np.repeat(np.arange(len(counts)), counts)
    rows, places = linear_sum_assignment(scores[:, columns], maximize=True)
    return float(scores[rows, columns[places]].sum())


@given(
    n=st.integers(1, 60),
    c=st.integers(1, 6),
    digits=st.sampled_from([0, 1, 8]),
    seed=st.integers(0, 1000),
    is_warm=st.booleans(),
)
def test_the_sum_of_scores_is_the_largest_and_the_prices_prove_it(
    n: int, c: int, digits: int, seed: int, is_warm: bool
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, c)).round(digits) * 10.0 ** rng.integers(-6, 6)  # rounded: many are equal
    counts = rng.multinomial(n, rng.dirichlet(np.ones(c)))
    found = assign(scores, counts, rng.normal(size=c) if is_warm else None)
    np.testing.assert_array_equal(np.bincount(found.codes, minlength=c), counts)
    total = scores[np.arange(n), found.codes].sum()
    size = np.abs(scores).max()
    assert total == pytest.approx(best_sum(scores, counts), abs=1e-9 * n * size)
    assert found.margins(scores).min() >= -1e-9 * size


def test_two_classes_are_a_sort() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1000, 2))
    found = assign(scores, np.array([300, 700]))
    gain = scores[:, 0] - scores[:, 1]
    assert set(np.flatnonzero(found.codes == 0)) == set(np.argsort(-gain)[:300])
    np.testing.assert_allclose(found.margins(scores), np.abs(gain - np.sort(gain)[-301:-299].mean()), atol=1e-12)


def test_many_equal_rows_are_moved_at_once() -> None:
    scores = np.repeat([[3.0, 2.0, 1.0], [0.0, 0.0, 0.0]], 50_000, axis=0)
    counts = np.array([20_000, 30_000, 50_000])
    found = assign(scores, counts)
    np.testing.assert_array_equal(np.bincount(found.codes), counts)
    assert scores[np.arange(len(scores)), found.codes].sum() == 20_000 * 3 + 30_000 * 2
