import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.shares import difference


@given(st.integers(1, 10**6), st.data())
def test_the_difference_of_shares_is_the_float_of_the_exact_one(n: int, data: st.DataObject) -> None:
    one, other = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    assert difference(one / n, other / n) == (one - other) / n


def test_a_limit_is_met_to_the_last_digit() -> None:
    assert 0.55 - 0.5 > 0.05
    assert difference(0.55, 0.5) == 0.05


@given(st.floats(0, 1), st.floats(0, 1))
def test_any_two_floats_differ_nearly_as_floats_do(one: float, other: float) -> None:
    np.testing.assert_allclose(difference(one, other), one - other, atol=1e-14)
