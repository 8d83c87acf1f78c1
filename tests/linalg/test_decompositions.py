import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from salcli.linalg.decompositions import (
    SMALL_PRODUCT,
    TILE,
    column_rank,
    completing_reflections,
    numerical_rank,
    orthonormality_error,
    thin_svd,
    tiled_product,
)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 999))
def test_the_thin_svd_rebuilds_the_matrix_with_the_largest_entry_of_each_direction_positive(
    d: int, c: int, seed: int
) -> None:
    matrix = np.random.default_rng(seed).normal(size=(d, c))
    u, s, vt = thin_svd(matrix)
    assert_allclose((u * s) @ vt, matrix, atol=1e-12)
    assert (u[np.argmax(np.abs(u), axis=0), np.arange(u.shape[1])] > 0).all()
    assert orthonormality_error(u) < 1e-12


def test_signs_do_not_depend_on_the_sign_of_the_input() -> None:
    matrix = np.random.default_rng(1).normal(size=(6, 3))
    assert_allclose(thin_svd(matrix).u, thin_svd(-matrix).u, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_rank_is_relative(scale: float) -> None:
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 8)) * scale
    s = np.linalg.svd(matrix, compute_uv=False)
    assert numerical_rank(s, matrix.shape) == np.linalg.matrix_rank(matrix) == 3


def test_rank_does_not_count_what_lies_below_the_floor() -> None:
    s = np.array([1.0, 1e-3, 1e-9])
    assert numerical_rank(s, (5, 3)) == 3
    assert numerical_rank(s, (5, 3), floor=1e-6) == 2
    assert numerical_rank(np.zeros(3), (5, 3)) == numerical_rank(np.zeros(0), (0, 0)) == 0


@given(st.integers(1, 10), st.data())
def test_reflections_complete_directions_to_an_orthogonal_matrix(d: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, d))
    u = np.linalg.qr(np.random.default_rng(data.draw(st.integers(0, 999))).normal(size=(d, k)))[0]
    if data.draw(st.booleans()):
        u = np.eye(d)[:, :k]  # directions along axes: reflections that do nothing
    v, t = completing_reflections(u)
    q = np.eye(d) - v @ t @ v.T
    assert_allclose(q.T @ q, np.eye(d), atol=1e-12)
    assert_allclose(q[:, :k] @ q[:, :k].T, u @ u.T, atol=1e-12)  # the first k columns span what u spans


@given(
    st.sampled_from([1, TILE - 1, TILE, 2 * TILE, 3 * TILE + TILE // 2]) | st.integers(0, 4 * TILE),
    st.sampled_from([(1, 1), (7, 3), (100, SMALL_PRODUCT // TILE // 100), (200, SMALL_PRODUCT // TILE // 100)]),
    st.integers(0, 99),
)
def test_tiles_of_a_product_make_the_product(n: int, shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, matrix = (rng.integers(-99, 99, shape).astype(float) for shape in ((n, shape[0]), shape))
    assert_array_equal(tiled_product(x, matrix), x @ matrix)


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 9), st.booleans())
def test_independent_columns_are_counted_whatever_their_sizes(n: int, c: int, seed: int, is_centred: bool) -> None:
    rng = np.random.default_rng(seed)
    columns = np.eye(c)[rng.integers(0, c, n)]
    is_there = columns.any(axis=0)
    expected = max(0, is_there.sum() - is_centred)
    assert column_rank(columns, is_centred=is_centred) == expected
    assert column_rank(columns * 10.0 ** rng.integers(-12, 12, c), is_centred=False) == is_there.sum()
    twice = np.column_stack([columns, 3e9 * columns[:, ::-1]])
    assert column_rank(twice, is_centred=is_centred) == expected


def test_a_constant_column_is_no_direction_from_its_mean() -> None:
    columns = np.column_stack([np.arange(7.0), np.full(7, 0.1), np.full(7, 1e9 / 3), np.zeros(7)])
    assert column_rank(columns, is_centred=True) == 1
    assert column_rank(columns[:, 1:], is_centred=True) == 0
    assert column_rank(columns, is_centred=False) == 2
