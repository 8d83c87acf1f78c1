import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from salcli.evaluation.cosine import cosines, unit_rows


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_rows_of_any_size_become_units_and_zero_rows_stay_zero(scale: float) -> None:
    x = np.random.default_rng(0).normal(size=(20, 5))
    x[3] = 0
    units, is_nonzero = unit_rows(x * scale)
    assert_array_equal(np.flatnonzero(~is_nonzero), [3])
    assert_allclose(np.linalg.norm(units, axis=1), np.where(is_nonzero, 1.0, 0.0))
    assert_allclose(units * np.linalg.norm(x, axis=1, keepdims=True), x, atol=1e-12)


def test_cosines_are_those_of_numpy_and_equal_rows_tie() -> None:
    x = np.tile(np.random.default_rng(1).normal(size=(4, 7)), (5, 1))
    units, _ = unit_rows(x)
    found = cosines(units, units[:1])
    assert_allclose(found, x @ x[0] / np.linalg.norm(x, axis=1) / np.linalg.norm(x[0]), atol=1e-12)
    assert len(set(found.tolist())) == 4
    assert found[0] == 1
