"""Transports one after another: the composition, what an artifact holds of it, and what is refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from salcli.erasers.base import ERASERS
from salcli.erasers.transport.eraser import Posterior, TransportEraser
from salcli.erasers.transport.sequence import SequenceEraser
from salcli.errors import ParameterError, SalcliError, ShapeError
from salcli.streaming.engine import one_blas_thread

D = 5


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_blas_thread():
        yield


def step(k: int, c: int, seed: int) -> TransportEraser:
    rng = np.random.default_rng(seed)
    v = np.linalg.qr(rng.normal(size=(D, k)))[0]
    maps = np.stack([np.eye(D) + 0.1 * (m + m.T) for m in rng.normal(size=(c, D, D))])
    posterior = Posterior(rng.normal(size=(D, c)), rng.normal(size=c), float(seed))
    return TransportEraser(rng.normal(size=D), v, rng.normal(size=D), maps, posterior)


def sequence() -> SequenceEraser:
    return SequenceEraser((step(1, 2, 0), step(2, 3, 1), step(1, 4, 2)))


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_rows_are_those_of_the_steps_one_after_another(strength: float) -> None:
    eraser = sequence()
    assert (eraser.d, eraser.d_out, eraser.k) == (D, D, 4)
    x = np.random.default_rng(3).normal(size=(1000, D))
    expected = x
    for each in eraser.steps:
        expected = each(expected)
    assert_allclose(eraser(x, strength=strength), x + strength * (expected - x), atol=1e-12)
    assert_array_equal(eraser(x)[700:], eraser(x[700:]))
    own = x.copy()
    eraser(own, out=own)
    assert_array_equal(own, eraser(x))
    assert 0 < eraser.residue(x, np.float16) < 1e-2


def test_what_an_artifact_holds_is_read_again() -> None:
    eraser = sequence()
    again = ERASERS["transports"].from_arrays(eraser.arrays(), {})
    x = np.random.default_rng(3).normal(size=(20, D))
    assert_array_equal(again(x), eraser(x))
    assert tuple(eraser.arrays()) == SequenceEraser.names


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("sizes", lambda a: a.astype(np.float32)),
        ("sizes", lambda a: a + 0.5),
        ("sizes", lambda a: a * np.inf),
        ("sizes", lambda a: a[:0]),
        ("sizes", lambda a: a - 1),
        ("sizes", lambda a: a[:, :1]),
        ("sizes", lambda a: a + 1),
        ("maps", lambda a: a[1:]),
        ("maps", lambda a: a[0]),
        ("certain", lambda a: -a),
        ("means", lambda a: a.astype(np.float32)),
        ("directions", lambda a: 2 * a),
        ("posterior_bias", lambda a: a * np.nan),
        ("centres", lambda a: a[:, :3]),
    ],
)
def test_damaged_arrays_are_refused(name: str, damage: Any) -> None:
    arrays = sequence().arrays()
    with pytest.raises(SalcliError):
        SequenceEraser.from_arrays({**arrays, name: damage(arrays[name])}, {})


def test_what_is_no_sequence_is_refused() -> None:
    with pytest.raises(ShapeError):
        SequenceEraser(())
    with pytest.raises(ParameterError):
        sequence()(np.zeros((1, D)), strength=2)
    with pytest.raises(ShapeError):
        sequence()(np.zeros((1, D + 1)))
