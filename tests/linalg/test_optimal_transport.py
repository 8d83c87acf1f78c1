"""Optimal maps and barycentres against scipy's square roots, and against what defines them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.linalg import sqrtm

from salcli.linalg.optimal_transport import maps_to_barycentre, optimal_map

Array = NDArray[np.float64]


def covariances(c: int, d: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(c, d, d))
    return roots @ roots.transpose(0, 2, 1) / d + 0.05 * np.eye(d)


def root(matrix: Array) -> Array:
    return np.real(sqrtm(matrix))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), st.integers(0, 99))
def test_the_map_is_that_of_the_formula(d: int, seed: int) -> None:
    source, target = covariances(2, d, seed)
    found = optimal_map(source, target)
    half = root(source)
    inverse = np.linalg.inv(half)
    assert_allclose(found, inverse @ root(half @ target @ half) @ inverse, rtol=1e-7, atol=1e-7)
    assert_allclose(found @ source @ found, target, rtol=1e-8, atol=1e-9)
    assert np.array_equal(found, found.T)
    assert np.linalg.eigvalsh(found).min() > 0


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 99), st.data())
def test_the_barycentre_is_the_fixed_point_of_the_bures_mean(c: int, d: int, seed: int, data: st.DataObject) -> None:
    given_ = covariances(c, d, seed)
    weights = np.array(data.draw(st.lists(st.floats(0.1, 1), min_size=c, max_size=c)))
    weights /= weights.sum()
    maps = maps_to_barycentre(given_, weights)
    middle = maps[0] @ given_[0] @ maps[0]
    half = root(middle)
    mean = sum(w * root(half @ each @ half) for w, each in zip(weights, given_, strict=True))
    assert_allclose(mean, middle, rtol=1e-6, atol=1e-7)  # B = Σ w (B^½ C B^½)^½
    for a, each in zip(maps, given_, strict=True):
        assert_allclose(a @ each @ a, middle, rtol=1e-6, atol=1e-7)
        assert np.array_equal(a, a.T)


def test_no_other_covariance_is_nearer_to_all() -> None:
    given_, weights = covariances(3, 4, 7), np.array([0.5, 0.2, 0.3])

    def cost(middle: Array) -> float:
        half = root(middle)
        return sum(
            w * float(np.trace(each + middle - 2 * root(half @ each @ half)))
            for w, each in zip(weights, given_, strict=True)
        )

    first = maps_to_barycentre(given_, weights)[0]
    best = first @ given_[0] @ first
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = 0.02 * rng.normal(size=(4, 4))
        other = (np.eye(4) + step) @ best @ (np.eye(4) + step).T
        assert cost(best) < cost(other)


def test_a_matrix_that_is_no_covariance_is_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        optimal_map(-np.eye(2), np.eye(2))
