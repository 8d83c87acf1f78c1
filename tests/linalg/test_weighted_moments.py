"""Moments of weighted rows against numpy's, for any split and batch."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from salcli.errors import ShapeError
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import in_memory
from salcli.linalg.weighted_moments import WeightedMoments


@settings(deadline=None, max_examples=30)
@given(st.integers(8, 60), st.integers(1, 5), st.integers(2, 7), st.integers(0, 99), st.lists(st.integers(0, 60)))
def test_they_are_those_of_numpy_for_any_split_and_survive_bytes(
    n: int, d: int, c: int, seed: int, cuts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    x, codes, w = rng.normal(size=(n, d)), np.arange(n) % c, rng.uniform(0.1, 2, n)
    z = np.eye(c)[codes] * w[:, None]
    borders = sorted({0, *(cut for cut in cuts if cut < n), n})
    found = WeightedMoments.zero(d, c)
    for a, b in pairwise(borders):
        found = found.add(x[a:b], z[a:b])
    found = WeightedMoments.from_bytes(found.to_bytes())
    assert found.n == n
    assert found.is_finite
    for code, covariance in enumerate(found.covariances()):
        at = codes == code
        expected = np.cov(x[at].T, ddof=0, aweights=w[at]).reshape(d, d) if at.sum() > 1 else np.zeros((d, d))
        assert_allclose(covariance, expected, atol=1e-12)


def test_batches_of_any_size_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("salcli.linalg.class_sums.SCATTER_ELEMENTS", 37 * 4)
    rng = np.random.default_rng(0)
    x, codes, w = rng.normal(size=(200, 3)), rng.integers(0, 6, 200), rng.normal(size=200)
    z = LabelMatrix(codes.astype(np.int32)[:, None], w[:, None], 6)
    found = {
        WeightedMoments.of_batches(lambda _, n=n: in_memory(x, z)(n), 3, 6).to_bytes() for n in (1, 7, 18, 37, 200)
    }
    assert len(found) == 1


def test_what_weights_below_zero_make_negative_is_left_out() -> None:
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    found = WeightedMoments.zero(2, 1).add(x, np.array([[1.0], [1.0], [-0.5], [-0.5]]))
    assert_allclose(found.covariances()[0], [[2, 0], [0, 0]], atol=1e-15)
    with pytest.raises(ShapeError, match="do not add up"):
        found + WeightedMoments.zero(3, 1)
    assert not found.add(np.array([[np.nan, 0]]), np.ones((1, 1))).is_finite
