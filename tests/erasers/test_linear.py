import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from salcli.erasers.blocks import MOST_ELEMENTS, WIDE_ELEMENTS
from salcli.erasers.linear import LinearEraser
from salcli.errors import RangeError, ShapeError, UsageError
from salcli.linalg.decompositions import TILE
from salcli.streaming.engine import one_blas_thread

SHAPES = [(5, 1), (40, 9), (100, 7), (300, 6), (300, 30), (300, 60), (768, 30), (1100, 8), (1100, 50)]
SHAPES += [(10_923, 1), (12_000, 4), (21_000, 1), (40_000, 2), (100_000, 1), (200_000, 3)]  # too long for whole tiles


def eraser_of(d: int, k: int, seed: int = 0, mean: float = 1.0) -> LinearEraser:
    rng = np.random.default_rng(seed)
    u = np.linalg.qr(rng.normal(size=(d, k)))[0]
    return LinearEraser(mean * rng.normal(size=d), u, u)


@pytest.mark.slow
@given(st.integers(1, 12), st.data())
def test_interpolation_moves_along_the_removed_directions_and_can_be_undone(d: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, d))
    strength = data.draw(st.floats(0, 0.9))
    eraser = eraser_of(d, k)
    x = np.random.default_rng(1).normal(size=(20, d))
    part = eraser(x, strength=strength)
    assert_allclose(part, strength * eraser(x) + (1 - strength) * x, atol=1e-12)
    removed = (part - eraser.mean) @ eraser.right
    back = part + (strength / (1 - strength)) * removed @ eraser.left.T
    assert_allclose(back, x, atol=1e-10)


def test_a_projection_is_the_identity_less_the_directions_and_takes_no_second_matrix() -> None:
    d, eraser = 600, eraser_of(600, 3)
    tracemalloc.start()
    projection = eraser.projection()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_array_equal(projection, np.eye(d) - eraser.right @ eraser.left.T)
    assert peak < 1.2 * projection.nbytes


def test_no_strength_leaves_every_bit_as_it_was() -> None:
    x = np.random.default_rng(1).normal(size=(20, 6)).astype(np.float32)
    assert_array_equal(eraser_of(6, 2)(x, strength=0.0), x)


@given(st.integers(2, 12), st.data())
def test_the_reduced_form_has_the_inner_products_of_the_centred_erased_rows(d: int, data: st.DataObject) -> None:
    eraser = eraser_of(d, data.draw(st.integers(1, d - 1)))
    x = np.random.default_rng(2).normal(size=(15, d)) * 3
    reduced, erased = eraser.reduce(x), eraser(x) - eraser.mean
    assert reduced.shape == (15, d - eraser.k)
    assert_allclose(reduced @ reduced.T, erased @ erased.T, atol=1e-10)


def test_rows_keep_their_dtype_and_are_computed_in_float64() -> None:
    eraser = eraser_of(30, 3, mean=100.0)
    x = np.random.default_rng(3).normal(size=(3 * WIDE_ELEMENTS // 30 + 5, 30)).astype(np.float32) + np.float32(100)
    exact = x.astype(np.float64) - ((x - eraser.mean) @ eraser.right) @ eraser.left.T
    assert eraser(x).dtype == np.float32
    assert_array_equal(eraser(x, dtype=np.float64).astype(np.float32), eraser(x))
    assert_allclose(eraser(x, dtype=np.float64), exact, atol=1e-11)


@pytest.mark.slow
@given(
    st.sampled_from(SHAPES),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
    st.data(),
)
def test_no_rows_digits_depend_on_the_batch_it_comes_in(
    shape: tuple[int, int], dtype: type[np.floating], reduces: bool, data: st.DataObject
) -> None:
    (d, k), rng = shape, np.random.default_rng(5)
    n = 3 * max(WIDE_ELEMENTS, MOST_ELEMENTS if TILE * d > MOST_ELEMENTS else 0) // d + 5
    u = np.linalg.qr(rng.normal(size=(d, k)))[0]
    x, eraser = (rng.normal(size=(n, d)) + 1).astype(dtype), LinearEraser(rng.normal(size=d), u, u)
    change = partial(eraser.reduce if reduces else eraser, dtype=np.float64)  # which shows every digit
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n) | st.integers(start + 1, min(n, start + 9)))
    with one_blas_thread():
        assert_array_equal(change(x[start:stop]), change(x)[start:stop])


def test_rows_too_long_for_a_tile_are_erased_few_at_once() -> None:
    d = 2 * MOST_ELEMENTS // TILE
    x, u = np.random.default_rng(0).normal(size=(70, d)), np.eye(d, 1)
    eraser = LinearEraser(np.zeros(d), u, u)
    assert eraser.rows_at_once < TILE
    assert_array_equal(eraser(x), np.where(np.arange(d) == 0, 0, x))


def test_big_endian_rows_stay_big_endian() -> None:
    eraser = eraser_of(4, 1)
    x = np.random.default_rng(3).normal(size=(7, 4)).astype(">f4")
    assert eraser(x).dtype == np.dtype(">f4")
    assert_array_equal(eraser(x), eraser(x.astype("<f4")))


def test_a_value_the_dtype_cannot_hold_is_named() -> None:
    u = np.array([[0.6], [0.8]])
    x = np.array([[60000.0, -60000.0]])
    with pytest.raises(RangeError, match=r"does not fit float16.*`dtype`"):
        LinearEraser(np.zeros(2), u, u)(x, dtype=np.float16)


def test_the_residue_measures_what_rounding_brings_back() -> None:
    u = np.array([[0.6], [0.8]])
    eraser = LinearEraser(np.array([32768.0, 32768.0]), u, u)
    x = 32768 + np.random.default_rng(0).normal(size=(500, 2)) / 16
    assert eraser.residue(x, np.float64) < 1e-10
    assert 1e-4 < eraser.residue(x, np.float32) < 2e-3  # its step there is 1/256


def class_difference(rows: np.ndarray, codes: np.ndarray, eraser: LinearEraser) -> float:
    """The largest difference of class means along a removed direction, in standard errors."""
    residue = (rows.astype(np.float64) - eraser.mean) @ eraser.right
    one, other = residue[codes == 0], residue[codes == 1]
    error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / len(other))
    return float(np.max(np.abs(one.mean(axis=0) - other.mean(axis=0)) / error))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_rounding_leaves_in_the_removed_directions_does_not_tell_classes_apart(seed: int) -> None:
    n, d, k, rng = 100_000, 100, 10, np.random.default_rng(seed)
    u, codes = np.linalg.qr(rng.normal(size=(d, k)))[0], np.arange(n) % 2
    x = (rng.normal(size=(n, d)) + 4 * codes[:, None] * u[:, 0]).astype(np.float32)
    eraser = LinearEraser(x.mean(axis=0, dtype=np.float64), u, u)
    assert class_difference(eraser(x), codes, eraser) < 5
    # Coordinates that were right, but taken off in float32, would leave a trace of what they were.
    coordinates = ((x - eraser.mean) @ u).astype(np.float32)
    assert class_difference(x - coordinates @ u.T.astype(np.float32), codes, eraser) > 10


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_strength_outside_its_range_is_refused(strength: float) -> None:
    with pytest.raises(UsageError, match="outside 0…1"):
        eraser_of(3, 1)(np.zeros((1, 3)), strength=strength)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"3 dimensions, not \(2, 4\)"):
        eraser_of(3, 1)(np.zeros((2, 4)))


def test_what_is_no_projection_is_refused() -> None:
    good = eraser_of(4, 2)
    with pytest.raises(ShapeError, match="not a projection"):
        LinearEraser(good.mean, good.left * 1.01, good.right)
    with pytest.raises(ShapeError):
        LinearEraser(good.mean[:3], good.left, good.right)
    with pytest.raises(RangeError):
        LinearEraser(np.full(4, np.nan), good.left, good.right)


def test_an_oblique_eraser_cannot_be_reduced() -> None:
    left, right = np.array([[1.0], [0.5]]), np.array([[1.0], [0.0]])
    oblique = LinearEraser(np.zeros(2), left, right)
    assert not oblique.is_orthogonal
    with pytest.raises(UsageError, match="oblique"):
        oblique.reduce(np.zeros((1, 2)))


def test_rounding_of_any_coordinate_counts_however_small_the_removed_one_is() -> None:
    rng, codes = np.random.default_rng(0), np.arange(800) % 2
    x = (32768 + rng.integers(-1, 2, size=(800, 6)) / 16).astype(np.float32)  # all values stand on a grid
    x[:, 0] += (codes / 16).astype(np.float32)
    u = np.array([[1.0], [0.02], [0.02], [0.02], [0.02], [0.02]]) / np.sqrt(1 + 5 * 0.02**2)
    eraser = LinearEraser(np.zeros(6), u, u)
    step = 2.0**-8  # of float32 at such values
    assert eraser.residue(x, np.float32) > step / 8
    assert eraser.residue(x, np.float64) < 1e-8 * 32768


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_where_all_directions_are_removed_nothing_is_left_of_a_row_not_even_rounding(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(5, 1, (50, 7)).astype(dtype)
    left = rng.normal(size=(7, 7))
    for eraser in (eraser_of(7, 7), LinearEraser(rng.normal(size=7), left, np.linalg.inv(left).T)):
        assert_array_equal(eraser(x), np.tile(eraser.mean.astype(dtype), (50, 1)))
        assert_allclose(eraser(x, strength=0.5), (x + eraser.mean) / 2, rtol=5e-3)


@pytest.mark.parametrize("seed", range(6))
def test_rounding_leaves_nothing_of_float64_rows_along_the_removed_directions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.arange(2000) % 2
    x = rng.normal(5, 1, (2000, 50))
    u = np.linalg.qr(rng.normal(size=(50, 1)))[0]
    x += np.outer(6 * y, u)
    along = LinearEraser(np.zeros(50), u, u)(x) @ u
    along /= along.std()
    found = LogisticRegression(C=100).fit(along[:1000], y[:1000]).score(along[1000:], y[1000:])
    assert found < 0.58  # after a single subtraction up to 1.0


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 8), st.floats(0.01, 0.99), st.integers(0, 50))
def test_a_strength_below_one_is_inverted_exactly_and_no_other(d: int, strength: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(d, min(2, d))))[0]
    right = left + 0.3 * (np.eye(d) - left @ left.T) @ rng.normal(size=left.shape)
    eraser, x = LinearEraser(rng.normal(size=d), left, right), rng.normal(size=(20, d))
    found = eraser.preimages(eraser(x, strength=strength), strength=strength)
    assert found is not None
    assert_allclose(found, x, atol=1e-9 / (1 - strength))
    assert eraser.preimages(eraser(x)) is None
    assert eraser.preimages(x, strength=0.0) is None
