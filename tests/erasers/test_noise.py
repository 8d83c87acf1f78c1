"""Keyed noise: standard normal, by row and secret alone, with the variances it should have."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from salcli.erasers.transport.eraser import TransportEraser
from salcli.erasers.transport.noise import NoisyTransportEraser, noisy, normals_of
from salcli.errors import RangeError, ShapeError, UsageError
from salcli.linalg.class_moments import ClassMoments

from .test_transport import exactly_known, fitted, gaussians

SECRET, OTHER = b"s" * 32, b"t" * 32


def test_numbers_are_normal_and_depend_on_row_and_secret_alone() -> None:
    x = np.random.default_rng(0).normal(size=(3000, 5)).astype(np.float32)
    found = normals_of(x, SECRET)
    assert found.shape == x.shape
    assert kstest(found.ravel(), "norm").pvalue > 1e-3
    assert_allclose(np.corrcoef(found.T), np.eye(5), atol=0.1)
    assert_allclose(np.corrcoef(found.T, x.T)[:5, 5:], 0, atol=0.1)
    assert_array_equal(normals_of(x[7:9].astype(np.float64), SECRET), found[7:9])
    assert_array_equal(normals_of(np.array([[-0.0, 1]]), SECRET), normals_of(np.array([[0.0, 1]]), SECRET))
    assert abs(np.corrcoef(normals_of(x, OTHER).ravel(), found.ravel())[0, 1]) < 0.05
    assert not normals_of(np.zeros((2, 5)), SECRET).any()
    near = x.copy()
    near[:, 0] = np.nextafter(near[:, 0], np.float32(9))
    assert abs(np.corrcoef(normals_of(near, SECRET).ravel(), found.ravel())[0, 1]) < 0.05


def test_moved_rows_keep_their_variance_and_lose_the_share_that_is_noise() -> None:
    x, codes = gaussians(8000, 4, 2, 5)
    plain = exactly_known(fitted(x, codes), 0)
    moments = ClassMoments.of(x, np.eye(2)[codes])
    eraser = replace(noisy(plain, moments, 0.3), secret=SECRET)
    rows = x[codes == 0]
    before, after = plain(rows), eraser(rows)
    e = eraser.components
    one, other = ((each - eraser.centre) @ e for each in (before, after))
    kept = [float(np.dot(a, b) / np.dot(a, a)) for a, b in zip(one.T[:3], other.T[:3], strict=True)]
    assert_allclose(kept, np.sqrt(0.7), atol=0.05)
    assert_allclose(other.var(0)[:3], one.var(0)[:3], rtol=0.1)
    assert_allclose(after @ eraser.directions, before @ eraser.directions, atol=1e-6)
    assert_array_equal(after, eraser(rows))
    assert_allclose(eraser(rows, strength=0.25), rows + 0.25 * (after - rows), atol=1e-9)
    assert_array_equal(eraser(rows[3:5]), after[3:5])
    shut = replace(eraser, posterior=replace(eraser.posterior, bias=np.zeros(2), certain=1.0))
    assert_allclose(shut(rows), rows, atol=1e-9)  # rows that are not moved get no noise


def test_it_needs_its_secret_which_no_array_holds() -> None:
    x, codes = gaussians(300, 4, 2)
    eraser = noisy(fitted(x, codes), ClassMoments.of(x, np.eye(2)[codes]), 0.2)
    with pytest.raises(UsageError, match="`noise_key=FILE`, and evaluate what that writes with `against=OUT`"):
        eraser(x)
    keyed = eraser.keyed(SECRET)
    assert "secret" not in repr(keyed)
    assert all(b"ssss" not in array.tobytes() for array in keyed.arrays().values())
    again = NoisyTransportEraser.from_arrays(keyed.arrays(), {})
    assert again.secret is None
    assert_array_equal(again.keyed(SECRET)(x), keyed(x))
    with pytest.raises(UsageError, match="needs no secret"):
        fitted(x, codes).keyed(SECRET)
    assert not TransportEraser.needs_secret
    for change, error in (
        ({"noise": np.full(4, 2.0)}, RangeError), ({"variances": -np.ones(4)}, RangeError),
        ({"components": 2 * np.eye(4)}, ShapeError), ({"components": np.eye(3)}, ShapeError),
    ):  # fmt: skip
        with pytest.raises(error):
            replace(eraser, **change)
