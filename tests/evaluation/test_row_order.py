"""Files whose rows are in another order than those that they are compared with, and files that erased much."""

import numpy as np
import pytest
from numpy.typing import NDArray

from salcli.evaluation.row_order import seem_shuffled

N, D = 200, 24
Array = NDArray[np.float64]


def rows(seed: int, shift: float) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D)) * np.logspace(0, -1, D) + 5
    x[:, 0] += shift * (np.arange(N) % 2)
    return np.asarray(x, np.float64)


def erased(x: Array, shift: float) -> dict[str, Array]:
    rng = np.random.default_rng(9)
    without_class = x.copy()
    without_class[:, 0] = 0
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0]
    return {
        "same": x,
        "without the class": without_class,
        "in other units": -1e3 * without_class - 7,
        "rotated": without_class @ rotation if shift < 9 else x @ rotation,
        "noisy": x + 2 * x.std(axis=0) * rng.normal(size=x.shape),
        "few directions kept": np.where(np.arange(D) < D - 3, 0.0, x),
    }


@pytest.mark.parametrize("shift", [0.0, 3.0, 100.0])
@pytest.mark.parametrize("seed", range(4))
def test_rows_in_another_order_are_seen_and_rows_in_the_same_order_are_not(seed: int, shift: float) -> None:
    x, order = rows(seed, shift), np.random.default_rng(seed + 5).permutation(N)
    for how, y in erased(x, shift).items():
        if how != "in other units":  # −y is unlike y, but pairs of rows are as alike
            assert not seem_shuffled(x.astype("f4"), y.astype("f4"), seed), how
        assert seem_shuffled(x, y[order], seed), how


def test_where_nothing_can_be_seen_there_is_no_doubt() -> None:
    x, rng = rows(0, 1.0), np.random.default_rng(0)
    assert not seem_shuffled(x[:10], rng.permutation(x[:10]), 0)
    assert not seem_shuffled(x, np.ones_like(x), 0)
    assert not seem_shuffled(x, rng.permutation(x[:, :5]), 0)
