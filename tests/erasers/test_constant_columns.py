"""A column that is constant stays as it is, bit for bit: else it holds the removed coordinate, scaled by rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import salcli

METHODS = {
    "sal": salcli.SAL,
    "leace": salcli.LEACE,
    "splince": salcli.SPLINCE,
    "inlp": salcli.INLP,
    "transport": salcli.Transport,
}
N, D = 400, 6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(max_examples=5, deadline=None)
@given(
    value=st.sampled_from([0.1, 1 / 3, 1e-3, 1e-9, 100.1, -7.7]),
    column=st.integers(0, D - 1),
    seed=st.integers(0, 100),
)
def test_a_constant_column_is_left_as_it_is(method: str, dtype: type, value: float, column: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, task = rng.integers(0, 2, N), rng.integers(0, 3, N)
    x = rng.standard_normal((N, D)) * (1 + z[:, None] * np.arange(D) / D)
    x += np.outer(z, rng.standard_normal(D)) * 2 + np.eye(D)[task]
    x[:, column] = value
    x = x.astype(dtype)
    estimator = METHODS[method]()
    fitted = estimator.fit(x, task, guarded=z) if method == "splince" else estimator.fit(x, guarded=z)
    erased = fitted.transform(x)
    assert np.any(erased != x)
    np.testing.assert_array_equal(erased[:, column], x[:, column])
