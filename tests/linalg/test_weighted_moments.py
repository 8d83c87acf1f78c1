"""Sums of weighted rows against numpy's, for any batches."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.weighted_moments import WeightedSums

Array = NDArray[np.float64]


def covariances(x: Array, codes: NDArray[np.int64], w: Array, c: int, cuts: list[int]) -> Array:
    """Return what the sums say of rows that come in batches between the cuts."""
    sums = WeightedSums(x.shape[1], c)
    for a, b in pairwise(sorted({0, *(cut for cut in cuts if cut < len(x)), len(x)})):
        sums.add(x[a:b], LabelMatrix(codes[a:b].astype(np.int32)[:, None], w[a:b, None], c))
    return sums.covariances()


@settings(deadline=None, max_examples=30)
@given(st.integers(8, 60), st.integers(1, 5), st.integers(2, 7), st.integers(0, 99), st.lists(st.integers(0, 60)))
def test_they_are_those_of_numpy_for_any_batches(n: int, d: int, c: int, seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    x, codes, w = rng.normal(size=(n, d)), np.arange(n) % c, rng.uniform(0.1, 2, n)
    for code, covariance in enumerate(covariances(x, codes, w, c, cuts)):
        at = codes == code
        expected = np.cov(x[at].T, ddof=0, aweights=w[at]).reshape(d, d) if at.sum() > 1 else np.zeros((d, d))
        assert_allclose(covariance, expected, atol=1e-12)


@pytest.mark.parametrize("c", [2, 6])
def test_batches_of_any_size_give_the_same_bits(c: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("salcli.linalg.class_sums.SCATTER_ELEMENTS", 37 * 4)
    rng = np.random.default_rng(0)
    x, codes, w = rng.normal(size=(200, 3)), rng.integers(0, c, 200), rng.uniform(0.1, 1, 200)
    found = {covariances(x, codes, w, c, list(range(0, 200, n))).tobytes() for n in (1, 7, 18, 37, 200)}
    assert len(found) == 1


def test_what_weights_below_zero_make_negative_is_left_out() -> None:
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    found = covariances(x, np.zeros(4, np.int64), np.array([1.0, 1.0, -0.5, -0.5]), 1, [])
    assert_allclose(found[0], [[2, 0], [0, 0]], atol=1e-15)
