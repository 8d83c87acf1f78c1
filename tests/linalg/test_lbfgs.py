"""Limited-memory BFGS against scipy's, and against minima that are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import optimize

from salcli.linalg.lbfgs import minimize

Array = NDArray[np.float64]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 30), st.integers(0, 99), st.floats(0, 3))
def test_a_quadratic_has_the_minimum_of_linear_equations(n: int, seed: int, power: float) -> None:
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix, b = (q * np.geomspace(1, 10**power, n)) @ q.T, rng.normal(size=n)
    found = minimize(
        lambda x: (float(x @ matrix @ x / 2 - b @ x), matrix @ x - b),
        np.zeros(n), most_steps=500, least_gradient=1e-9, least_decrease=0.0,
    )  # fmt: skip
    assert_allclose(found.x, np.linalg.solve(matrix, b), atol=1e-5)
    assert_allclose(found.gradient, matrix @ found.x - b, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_squared_hinge_has_the_minimum_that_scipy_finds_in_about_as_many_calls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(400, 20)) * np.geomspace(1, 0.1, 20), rng.choice([-1.0, 1.0], 400)
    x[:, 0] += y
    calls = [0]

    def value(w: Array) -> tuple[float, Array]:
        calls[0] += 1
        slack = np.maximum(1 - y * (x @ w), 0)
        return float(w @ w / 2 + slack @ slack), w - 2 * x.T @ (y * slack)

    found = minimize(value, np.zeros(20), most_steps=500, least_gradient=1e-6, least_decrease=0.0)
    ours, calls[0] = calls[0], 0
    options = {"gtol": 1e-6, "ftol": 1e-16, "maxcor": 20}
    expected = optimize.minimize(value, np.zeros(20), jac=True, method="L-BFGS-B", options=options)
    assert_allclose(found.x, expected.x, atol=1e-6)
    assert ours <= 2 * calls[0]


def test_it_ends_where_nothing_is_lower_and_after_the_steps() -> None:
    found = minimize(lambda x: (1.0, np.ones(2)), np.zeros(2), most_steps=9, least_gradient=0.0, least_decrease=0.0)
    assert found.n_steps == 0
    assert not found.x.any()
    short = minimize(
        lambda x: (float(x @ x), 2 * x), np.ones(2) * 100, most_steps=1, least_gradient=0.0, least_decrease=0.0
    )
    assert short.n_steps == 1
