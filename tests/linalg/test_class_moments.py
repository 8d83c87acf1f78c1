"""Moments of classes against numpy's, for any split, batch and class size."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from salcli.errors import ShapeError
from salcli.linalg.class_moments import ClassMoments
from salcli.linalg.label_matrix import LabelMatrix
from salcli.linalg.moments import in_memory

Array = NDArray[np.float64]


def drawn(n: int, d: int, c: int, seed: int, shift: float = 0.0) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, c, n)
    return rng.normal(size=(n, d)) * (1 + codes[:, None]) + rng.normal(size=(c, d))[codes] + shift, codes


@settings(deadline=None, max_examples=40)
@given(
    st.integers(2, 60),
    st.integers(1, 7),
    st.integers(2, 6),
    st.integers(0, 99),
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from([0.0, 1e3]),
)
def test_they_are_those_of_numpy_for_any_split_and_survive_bytes(
    n: int, d: int, c: int, seed: int, cuts: list[int], shift: float
) -> None:
    x, codes = drawn(n, d, c, seed, shift)
    borders = sorted({0, *(cut for cut in cuts if cut < n), n})
    found = ClassMoments.zero(d, c)
    for a, b in pairwise(borders):
        found = found.add(x[a:b], np.eye(c)[codes[a:b]])
    assert found.to_bytes() == ClassMoments.from_bytes(found.to_bytes()).to_bytes()
    found = ClassMoments.from_bytes(found.to_bytes())
    assert found.n == n
    assert_allclose(found.counts, np.bincount(codes, minlength=c))
    for code in range(c):
        rows = x[codes == code]
        if len(rows):
            assert_allclose(found.means[code], rows.mean(0), rtol=1e-9, atol=1e-9)
            assert_allclose(found.covariances()[code], np.cov(rows.T, ddof=0).reshape(d, d), rtol=1e-7, atol=1e-7)
        else:
            assert not found.scatters[code].any()


@pytest.mark.parametrize("c", [2, 6])
def test_batches_of_any_size_give_the_same_bits(c: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("salcli.linalg.class_sums.SCATTER_ELEMENTS", 37 * 4)
    x, codes = drawn(200, 4, c, 0)
    z = LabelMatrix.of(np.eye(c)[codes])
    whole = ClassMoments.of(x, z)
    for size in (1, 5, 37, 200):
        found = ClassMoments.of_batches(lambda _, size=size: in_memory(x, z)(size), 4, c)
        assert_array_equal(found.scatters, whole.scatters)
        assert_array_equal(found.means, whole.means)


def test_they_need_one_class_a_row() -> None:
    with pytest.raises(ShapeError, match="one class for each row"):
        ClassMoments.of(np.eye(3), np.ones((3, 2)))
    with pytest.raises(ShapeError, match="do not add up"):
        ClassMoments.zero(2, 2) + ClassMoments.zero(2, 3)
