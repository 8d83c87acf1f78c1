"""Kernels whose γ does not fit the rows: what is said, and the γ that does fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist

from salcli.erasers import kernel_scale
from salcli.erasers.kernel_scale import (
    SAMPLE_ROWS,
    closeness,
    dissimilarity_doubt,
    explained_by,
    fitting_gamma,
    sampled,
    scale_doubts,
)
from salcli.erasers.ksal import KSALParameters, parse_gamma
from salcli.errors import ParameterError, RangeError, RankError
from salcli.linalg.kernels import Kernel

from .test_ksal import KERNELS, Array, planted


def rows(n: int, d: int, size: float = 1.0, seed: int = 0) -> Array:
    return size * np.random.default_rng(seed).normal(size=(n, d)) + size


@given(st.integers(2, 60), st.integers(1, 6), st.integers(0, 99), st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_gamma_that_fits_is_one_over_the_median_squared_distance(n: int, d: int, seed: int, size: float) -> None:
    x = rows(n, d, size, seed)
    assert_allclose(fitting_gamma(x), 1 / np.median(pdist(x) ** 2), rtol=1e-6)


def test_repeated_rows_count_once_and_a_sample_stands_for_many() -> None:
    x = rows(50, 3)
    assert fitting_gamma(np.concatenate([x, np.repeat(x[:1], 200, axis=0)])) == fitting_gamma(x)
    many = rows(4 * SAMPLE_ROWS, 3)
    some = sampled(many, 7)
    assert some.shape == (SAMPLE_ROWS, 3)
    assert np.array_equal(some, sampled(many, 7))
    assert not np.array_equal(some, sampled(many, 8))
    assert fitting_gamma(some) == pytest.approx(fitting_gamma(many[:SAMPLE_ROWS]), rel=0.1)


def test_rows_that_have_no_scale_are_refused() -> None:
    with pytest.raises(RankError, match="all rows are the same"):
        fitting_gamma(np.ones((9, 3)))
    for size in (1e200, 1e-200):
        with pytest.raises(RangeError, match="median squared distance"):
            fitting_gamma(rows(9, 3, size))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_closeness_is_the_sum_of_squared_cosines_in_feature_space(kernel: Kernel) -> None:
    x, landmarks = rows(40, 3), rows(700, 3, seed=1)
    gram = kernel.gram(x, landmarks)
    expected = gram**2 / np.outer(np.diag(kernel.gram(x, x)), np.diag(kernel.gram(landmarks, landmarks)))
    assert_allclose(closeness(kernel, x, landmarks), expected.sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("times", "fault"), [(1e-4, "too small"), (0.1, ""), (1.0, ""), (3.0, ""), (1e3, "too large")])
def test_a_gamma_is_doubted_by_its_ratio_to_the_one_that_fits_whatever_the_size_of_the_rows(
    size: float, times: float, fault: str
) -> None:
    x = rows(300, 8, size)
    doubts = scale_doubts(Kernel("rbf", times * fitting_gamma(x)), x, 0)
    assert len(doubts) == bool(fault)
    for doubt in doubts:
        assert fault in doubt
        assert f"`gamma={fitting_gamma(x):.3g}` fits" in doubt


def test_a_gamma_that_no_other_would_better_is_not_doubted() -> None:
    x = rows(300, 8)
    assert scale_doubts(Kernel("linear"), 1e9 + x, 0) == ()
    assert scale_doubts(Kernel("poly"), 1e9 + x, 0) == ()  # all is its mean, at any gamma
    assert scale_doubts(Kernel("rbf"), np.ones((50, 3)), 0) == ()
    assert "too small" in scale_doubts(Kernel("poly", 1e-6), x, 0)[0]


@pytest.mark.parametrize(("square", "is_doubted"), [(1e-4, True), (3e-4, False)])
def test_a_sample_stands_for_the_neighbours_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, square: float, is_doubted: bool
) -> None:
    monkeypatch.setattr(kernel_scale, "SAMPLE_ROWS", 20)
    gamma = -np.log(square) / 4  # K² of each pair of these rows, of which a sample of 20 has too few either way
    assert bool(scale_doubts(Kernel("rbf", gamma), np.eye(60), 0)) == is_doubted


def test_kernels_whose_squares_pass_float64_are_looked_at_without_a_word() -> None:
    x = rows(50, 3, 1e60)
    assert scale_doubts(Kernel("poly", degree=2), x, 0) == ()
    assert np.isfinite(closeness(Kernel("poly", degree=2), x, x)).all()


def test_rows_far_from_all_landmarks_are_dissimilar() -> None:
    x = rows(200, 4)
    assert dissimilarity_doubt(Kernel("rbf", fitting_gamma(x)), x[:100], x[100:]) == ""
    assert dissimilarity_doubt(Kernel("rbf", fitting_gamma(x)), x[:0], x[100:]) == ""
    assert "100% of the test rows are dissimilar" in dissimilarity_doubt(Kernel("rbf", 1e4), x[:100], x[100:])
    assert dissimilarity_doubt(Kernel("rbf", 1e4), x, x) == ""  # rows are similar to themselves


def test_an_error_of_a_fit_ends_with_what_is_wrong_with_its_kernel() -> None:
    with pytest.raises(RankError, match="^nothing; too small$"), explained_by(("too small",)):
        raise RankError("nothing")
    with pytest.raises(RankError, match="^nothing$"), explained_by(()):
        raise RankError("nothing")


def test_scale_is_a_gamma_of_rbf_and_poly_alone() -> None:
    assert parse_gamma("scale") == "scale"
    assert parse_gamma("0.5") == 0.5
    with pytest.raises(ValueError, match="or scale"):
        parse_gamma("wide")
    with pytest.raises(ParameterError, match="or scale"):
        KSALParameters(gamma="wide")
    with pytest.raises(ParameterError, match="the linear kernel has no such parameter"):
        KSALParameters(kernel="linear", gamma="scale")
    x, _ = planted(60, 4)
    assert KSALParameters(gamma="scale").scaled_to(x, 0).gamma == fitting_gamma(x)
    assert KSALParameters(gamma=0.5).scaled_to(x, 0).gamma == 0.5
