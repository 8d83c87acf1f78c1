import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from salcli.evaluation.rank_bootstrap import (
    centred_ranks,
    correlations,
    percentiles,
    resampled,
    resampled_counts,
)


def difference_ci95(
    before: np.ndarray, after: np.ndarray, gold: np.ndarray, *, seed: int
) -> tuple[float, float] | None:
    return percentiles(*resampled(before, after, gold, seed=seed))


def coded(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 24)), min_size=1, max_size=25))
def test_counted_resamples_correlate_as_resamples_written_out(table: list[tuple[int, int, int]]) -> None:
    one, other, drawn = (np.array(column) for column in zip(*table, strict=True))
    n = len(table)
    counts = np.bincount(drawn % n, minlength=n)[None].astype(float)
    written = [values[np.sort(drawn % n)] for values in (one, other)]
    ranks = [centred_ranks(counts, coded(values)) for values in (one, other)]
    np.testing.assert_array_equal(np.repeat(ranks[0][0], counts[0].astype(int)), rankdata(written[0]) - (n + 1) / 2)
    found = correlations(counts, *ranks)[0]
    if np.ptp(written[0]) == 0 or np.ptp(written[1]) == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(*written).statistic, abs=1e-12)


def test_each_resample_draws_as_many_as_there_are() -> None:
    counts = resampled_counts(np.random.default_rng(1), 7, 500)
    assert counts.shape == (500, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(7), abs=0.2)
    assert len(np.unique(counts, axis=0)) > 100


@pytest.mark.slow
def test_the_interval_is_that_of_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 5, 60).astype(float)
    before, after = gold + rng.normal(0, 3, 60), gold + rng.normal(0, 1, 60)
    plain = []
    for _ in range(2_000):
        at = rng.integers(0, 60, 60)
        plain.append(spearmanr(after[at], gold[at]).statistic - spearmanr(before[at], gold[at]).statistic)
    found = difference_ci95(before, after, gold, seed=0)
    assert found == pytest.approx(np.percentile(plain, (2.5, 97.5)), abs=0.04)
    assert found == difference_ci95(before, after, gold, seed=0) != difference_ci95(before, after, gold, seed=1)


def test_equal_columns_differ_by_exactly_nothing() -> None:
    values = np.random.default_rng(0).normal(size=30)
    assert difference_ci95(values, 2 * values, values[::-1], seed=0) == (0.0, 0.0)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_pairs_have_no_interval(n: int) -> None:
    assert difference_ci95(np.ones(n), np.ones(n), np.ones(n), seed=0) is None


def test_resamples_without_a_correlation_are_left_out_and_all_of_them_leave_none() -> None:
    two = np.array([0.0, 1.0])  # half of all resamples draw one pair twice
    assert difference_ci95(two, two[::-1], two, seed=0) == (-2.0, -2.0)
    assert difference_ci95(two, np.ones(2), two, seed=0) is None
