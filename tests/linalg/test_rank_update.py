"""Products taken from rows in place, against numpy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.linalg import blas as rank_update
from salcli.linalg.blas import add_gram, blas_product, subtract_product


@given(
    st.integers(0, 70), st.integers(1, 40), st.integers(0, 35), st.sampled_from("CF"), st.booleans(), st.integers(0, 99)
)
def test_exactly_so_many_times_the_product_is_taken(
    n: int, d: int, k: int, order: str, is_ours: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, c, l_t = (rng.integers(-99, 99, shape).astype(float) for shape in ((n, d), (n, k), (k, d)))
    once, thrice, quarter = x - c @ l_t, x - 3 * (c @ l_t), x - 0.25 * (c @ l_t)
    for times, expected in ((1.0, once), (3.0, thrice), (0.25, quarter), (0.0, x.copy())):
        changed = x.copy()
        with pytest.MonkeyPatch.context() as patch:
            if not is_ours:
                patch.setattr(rank_update, "blas_product", lambda: None)
            subtract_product(changed, np.asarray(c, order=order), l_t, times=times)
        np.testing.assert_array_equal(changed, expected)


@given(st.integers(1, 70), st.integers(1, 40), st.integers(1, 35), st.integers(0, 99))
def test_columns_of_another_matrix_will_do(n: int, d: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, c, l_t = (rng.integers(-99, 99, shape).astype(float) for shape in ((n, d), (n, 2 * k), (k, d)))
    expected = x - c[:, ::2] @ l_t
    subtract_product(x, c[:, ::2], l_t)
    np.testing.assert_array_equal(x, expected)


@given(st.integers(1, 70), st.integers(1, 40), st.integers(1, 35), st.integers(0, 99))
def test_where_blas_counts_otherwise_numpy_gives_the_same(n: int, d: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, c, l_t = (rng.standard_normal(shape) for shape in ((n, d), (n, k), (k, d)))
    one, other = x.copy(), x.copy()
    assert blas_product() is not None
    subtract_product(one, c, l_t)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_update, "blas_product", lambda: None)
        subtract_product(other, c, l_t)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


def refused() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    x, c, l_t = np.zeros((2, 4)), np.zeros((2, 1)), np.zeros((1, 4))
    frozen = x.copy()
    frozen.flags.writeable = False
    return {
        "fewer rows": (x[:1], c, l_t),
        "fewer coordinates": (x, c[:1], l_t),
        "other directions": (x, c, np.zeros((2, 4))),
        "narrower directions": (x, c, l_t[:, :3].copy()),
        "rows in Fortran order": (np.zeros((4, 2)).T, c, l_t),
        "directions with gaps": (x, c, np.zeros((1, 8))[:, ::2]),
        "float32 rows": (x.astype(np.float32), c, l_t),
        "float32 coordinates": (x, c.astype(np.float32), l_t),
        "float32 directions": (x, c, l_t.astype(np.float32)),
        "frozen rows": (frozen, c, l_t),
    }


@pytest.mark.parametrize("name", refused())
def test_what_blas_would_take_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="are not float64"):
        subtract_product(*refused()[name])


@given(st.integers(0, 70), st.integers(1, 40), st.booleans(), st.integers(0, 99))
def test_the_products_of_columns_are_added_to_the_lower_triangle(n: int, d: int, is_ours: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sums, x = rng.integers(-99, 99, (d, d)).astype(float), rng.integers(-99, 99, (n, d)).astype(float)
    expected, above = sums + x.T @ x, np.triu(sums, 1)
    with pytest.MonkeyPatch.context() as patch:
        if not is_ours:
            patch.setattr(rank_update, "_blas_function", lambda _: None)
        add_gram(sums, x)
    np.testing.assert_array_equal(np.tril(sums), np.tril(expected))
    if is_ours:
        np.testing.assert_array_equal(np.triu(sums, 1), above)


@pytest.mark.parametrize(
    ("sums", "x"),
    [
        (np.zeros((3, 3)), np.zeros((2, 4))),
        (np.zeros((4, 3)), np.zeros((2, 4))),
        (np.zeros((8, 8))[::2, ::2], np.zeros((2, 4))),
        (np.zeros((4, 4)), np.zeros((4, 2)).T),
        (np.zeros((4, 4)), np.zeros((2, 4), np.float32)),
    ],
)
def test_other_sums_and_rows_are_refused(sums: np.ndarray, x: np.ndarray) -> None:
    with pytest.raises(ValueError, match="are not float64"):
        add_gram(sums, x)
