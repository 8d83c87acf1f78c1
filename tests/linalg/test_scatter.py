"""Sums in place against dense products, and what must not be imported for them."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.linalg.blas import add_products


@given(
    st.integers(0, 40), st.integers(1, 7), st.integers(1, 5), st.integers(1, 3), st.integers(0, 99),
    st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_products_are_added_to_what_is_there(
    n: int, d: int, c: int, entries: int, seed: int, dtype: type[np.floating]
) -> None:
    rng = np.random.default_rng(seed)
    x, values = rng.integers(-9, 9, (n, d)).astype(dtype), rng.integers(-9, 9, n * entries).astype(dtype)
    columns = rng.integers(0, c, n * entries).astype(np.int32)
    z = np.zeros((n, c))
    np.add.at(z, (np.arange(n).repeat(entries), columns), values)
    before = rng.integers(-9, 9, (c, d)).astype(dtype)
    sums = before.copy()
    add_products(sums, np.arange(n + 1, dtype=np.int32) * np.int32(entries), columns, values, x)
    np.testing.assert_array_equal(sums, before + z.T @ x)


def test_sums_that_would_be_copied_are_refused() -> None:
    one, rows = np.ones(1), np.ones((1, 2))
    with pytest.raises(AssertionError):
        add_products(np.zeros((2, 2)).T, np.array([0, 1], np.int32), np.zeros(1, np.int32), one, rows)


def test_kernels_come_without_the_package_around_them_and_both_may_be_there() -> None:
    code = """
import sys
from salcli.linalg.blas import scipy_module
kernels = scipy_module("sparse", "_sparsetools")
assert callable(kernels.csc_matvecs) and "scipy.sparse" not in sys.modules
import numpy as np, scipy.sparse
assert (scipy.sparse.eye(3, format="csc") @ np.ones((3, 2)) == 1).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
