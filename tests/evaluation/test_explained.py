"""R² on test rows, with bounds: against scikit-learn, and by simulation."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from salcli.evaluation.evidence import Explained
from salcli.evaluation.explained import NumericResult, explained

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Array]


def normal(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=n)


def skewed(rng: np.random.Generator, n: int) -> Array:
    return rng.exponential(size=n) - 1


@given(st.integers(2, 60), st.integers(0, 2**32), st.sampled_from([0.0, 0.5, 3.0]))
def test_it_is_scikit_learns(n: int, seed: int, slope: float) -> None:
    rng = np.random.default_rng(seed)
    true = rng.normal(size=n)
    predicted = slope * true + rng.normal(size=n)
    r2, log_error, freedom = explained(predicted, true)
    assert r2 == pytest.approx(r2_score(true, predicted), abs=1e-9)
    bounds = [Explained(r2, log_error, freedom).lower(level) for level in (0.01, 0.05, 0.5)]
    assert bounds == sorted(bounds)
    assert bounds[2] == pytest.approx(r2)
    assert Explained(r2, log_error, freedom).upper(0.01) <= 1


def test_predictions_that_are_all_right_or_all_the_same_have_an_interval_too() -> None:
    true = np.random.default_rng(0).normal(size=50)
    r2, log_error, freedom = explained(true, true)
    assert (r2, np.isfinite(log_error), freedom >= 2) == (1.0, True, True)
    r2, log_error, _ = explained(np.full(50, true.mean()), true)
    assert r2 == pytest.approx(0.0, abs=1e-12)
    assert 0.02 < log_error < 0.2


@pytest.mark.parametrize("n", [10, 50, 400])
def test_what_is_left_of_the_error_where_nothing_is_read_is_that_of_a_difference_of_means(n: int) -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(3.0, 2.0, size=n)
    r2, log_error, _ = explained(np.full(n, true.mean()), true)  # to first order no row moves it
    assert r2 == pytest.approx(0.0, abs=1e-12)
    assert log_error == pytest.approx(np.sqrt(2) / n, rel=1e-6)
    draws = rng.normal(size=(8_000, n))  # whose true mean is what is predicted
    simulated = np.log(np.mean(draws**2, axis=1) / np.var(draws, axis=1))
    assert np.std(simulated) == pytest.approx(log_error, rel=0.25 if n == 10 else 0.12)


def test_a_result_has_its_interval() -> None:
    found = NumericResult("age", "ridge", "fresh", "after", 0.4, 0.1, 30.0, 90, 100, True, False)
    assert found.ci95 == (Explained(0.4, 0.1, 30.0).lower(0.025), Explained(0.4, 0.1, 30.0).upper(0.025))


def coverage(n: int, share: float, noise: Noise, *, n_runs: int = 2_000) -> float:
    """The share of samples whose 95 % interval holds the true R² of predictions that explain `share`."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(n_runs):
        signal = rng.normal(size=n)
        true = np.sqrt(share) * signal + np.sqrt(1 - share) * noise(rng, n)
        of = Explained(*explained(np.sqrt(share) * signal, true))
        found += of.lower(0.025) <= share <= of.upper(0.025)
    return found / n_runs


@pytest.mark.slow
@pytest.mark.parametrize("noise", [normal, skewed])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [50, 200, 1_000])
def test_the_interval_holds_the_truth_in_95_of_100_samples(n: int, share: float, noise: Noise) -> None:
    assert coverage(n, share, noise) >= 0.93
