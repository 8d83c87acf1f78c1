import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.cosine import PLACES, cosines, unit_rows


@given(st.integers(0, 999), st.sampled_from(["f2", "f4", "f8"]), st.integers(1, 6))
def test_units_have_length_one_or_are_zero(seed: int, dtype: str, d: int) -> None:
    x = np.random.default_rng(seed).integers(-2, 3, (20, d)).astype(dtype)
    units, is_nonzero = unit_rows(x)
    np.testing.assert_array_equal(is_nonzero, np.any(x != 0, axis=1))
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), is_nonzero.astype(float))
    np.testing.assert_allclose(units * np.linalg.norm(x.astype(float), axis=1)[:, None], x, atol=1e-12)


def test_no_square_overflows_or_underflows() -> None:
    units, is_nonzero = unit_rows(np.array([[3e300, 4e300], [3e-300, 4e-300], [5e-324, 0]]))
    np.testing.assert_allclose(units, [[0.6, 0.8], [0.6, 0.8], [1, 0]])
    assert is_nonzero.all()


def test_equal_rows_have_equal_cosines_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    units, _ = unit_rows(np.concatenate([rng.normal(size=(500, 37)), np.tile(rng.normal(size=37), (500, 1))]))
    found = cosines(units, units[:1])
    assert len(np.unique(found[500:])) == 1
    np.testing.assert_allclose(found, units @ units[0], atol=10.0**-PLACES)
