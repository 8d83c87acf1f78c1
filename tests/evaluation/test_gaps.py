"""What a gap shows: against permutations row by row, and over data whose true gap is known."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.evaluation import gaps
from salcli.evaluation.gaps import GapTest, mean, root_mean_square, shortfall

CELLS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=4, max_size=4)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "DRAWS", 300)


def gap_test(right: Any, n: Any, statistic: Any = mean, seed: int = 0) -> GapTest:
    return GapTest(np.array(right), np.array(n), statistic, seed)


@pytest.mark.parametrize("statistic", [mean, root_mean_square])
def test_chance_is_what_permuting_the_groups_of_each_class_gives(
    statistic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaps, "DRAWS", 4_000)
    right, n = np.array([[9, 3, 5], [4, 8, 2]]), np.array([[12, 9, 7], [6, 16, 5]])
    rng, found = np.random.default_rng(1), []
    for _ in range(4_000):
        differences = []
        for k, sizes in zip(right, n, strict=True):
            answers = rng.permutation(np.arange(sizes.sum()) < k.sum())
            rates = [part.mean() for part in np.split(answers, np.cumsum(sizes)[:-1])]
            differences.append(max(rates) - min(rates))
        found.append(float(statistic(np.array(differences))))
    one = gap_test(right, n, statistic)
    assert one.expected == pytest.approx(np.mean(found), abs=0.01)
    assert one.p_value == pytest.approx(np.mean(np.array(found) >= one.value - 1e-12), abs=0.03)
    assert one.debiased == pytest.approx(np.sqrt(max(0, one.value**2 - np.mean(np.square(found)))), abs=0.02)


@settings(max_examples=30, deadline=None)
@given(CELLS)
def test_bounds_lie_between_parity_and_the_widest_gap_and_are_the_same_again(cells: list[tuple[int, int]]) -> None:
    n = np.array([n for n, _ in cells]).reshape(2, 2)
    right = np.minimum(n, np.array([k for _, k in cells]).reshape(2, 2))
    one = gap_test(right, n)
    low, lower, upper, high = one.lower(0.005), one.lower(0.05), one.upper(0.05), one.upper(0.005)
    assert 0 <= low <= lower <= upper <= high <= 1
    assert (lower, upper) == (gap_test(right, n).lower(0.05), gap_test(right, n).upper(0.05))
    assert 1 / 301 <= one.p_value <= 1
    assert 0 <= one.debiased <= one.value or one.debiased == pytest.approx(one.value)


def test_equal_rates_are_no_gap_and_opposite_ones_are_one() -> None:
    equal, opposite = gap_test([[20, 20], [10, 10]], [[40, 40], [20, 20]]), gap_test([[400, 0]], [[400, 400]])
    assert (equal.value, equal.debiased, equal.p_value, equal.lower(0.025)) == (0, 0, 1, 0)
    assert 0.05 < equal.upper(0.025) < 0.5
    assert opposite.lower(0.025) > 0.97
    assert opposite.p_value == 1 / 301


def drawn(rates: NDArray[np.float64], n: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).binomial(n, rates)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 0.1])
@pytest.mark.parametrize("n_classes", [2, 9])
def test_intervals_hold_the_true_gap_as_often_as_they_say(n_classes: int, gap: float) -> None:
    centre = np.linspace(0.4, 0.8, n_classes)[:, None]
    rates = centre + gap / 2 * np.array([1, -1]) * (-1) ** np.arange(n_classes)[:, None]
    hits, debiased, n_runs = 0, [], 60
    for seed in range(n_runs):
        one = gap_test(drawn(rates, 60, seed), np.full(rates.shape, 60), root_mean_square, seed)
        hits += one.lower(0.025) <= gap + 1e-12 and gap <= one.upper(0.025) + 1e-12
        debiased.append(one.debiased**2)
    assert hits >= 52  # of 57 that are expected: fewer come once in a hundred runs of an interval that is right
    assert np.mean(debiased) == pytest.approx(gap**2, abs=0.006)


def test_what_a_ratio_lacks_of_one_is_nothing_where_all_rates_are_zero() -> None:
    rates = np.array([[0.2, 0.5, 0.4], [0.3, 0.3, 0.3], [0, 0, 0], [0, 0.1, 1]])
    np.testing.assert_allclose(shortfall(rates), [0.6, 0, 0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 0.8])
@pytest.mark.parametrize("rate", [0.08, 0.7])
def test_intervals_hold_the_true_ratio_as_often_as_they_say(rate: float, ratio: float) -> None:
    rates = np.array([[rate, rate * ratio], [rate * ratio, rate]])
    hits, n_runs = 0, 60
    for seed in range(n_runs):
        one = GapTest(drawn(rates, 300, seed), np.full(rates.shape, 300), mean, seed, shortfall)
        hits += one.lower(0.025) <= 1 - ratio + 1e-12 and 1 - ratio <= one.upper(0.025) + 1e-12
    assert hits >= 52  # as above


def test_the_bounds_of_a_ratio_of_small_rates_are_as_fine_as_those_of_large_ones() -> None:
    n = 10**7
    for rate in (1e-4, 0.5):
        right = np.round(n * np.array([[rate, 0.9 * rate]])).astype(np.int64)
        one = GapTest(right, np.full((1, 2), n), mean, 0, shortfall)
        assert one.lower(0.025) < 0.1 < one.upper(0.025)
        error = 0.9 * np.sqrt(np.sum(1 / right - 1 / n))
        assert one.upper(0.025) - one.lower(0.025) == pytest.approx(2 * 1.96 * error, rel=0.15, abs=0.001)


@given(CELLS, st.integers(2, 6), st.integers(0, 3))
@settings(max_examples=25)
def test_rows_that_come_k_at_a_time_show_what_one_of_each_would(
    cells: list[tuple[int, int]], k: int, seed: int
) -> None:
    n = np.array([n for n, _ in cells]).reshape(2, 2)
    right = np.minimum(n, np.array([right for _, right in cells]).reshape(2, 2))
    one, many = GapTest(right, n, mean, seed), GapTest(k * right, k * n, mean, seed, effect=k)
    assert many.value == pytest.approx(one.value)
    assert (many.expected, many.debiased) == pytest.approx((one.expected, one.debiased))
    assert (many.lower(0.05), many.upper(0.05)) == pytest.approx((one.lower(0.05), one.upper(0.05)))
