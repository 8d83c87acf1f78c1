import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from salcli.errors import RankError, RowRangeError, ShapeError, UsageError
from salcli.linalg.kernels import Kernel, NystromMap, block_rows
from salcli.streaming.engine import one_blas_thread

KERNELS = (Kernel("linear"), Kernel("poly"), Kernel("poly", 0.3, 3, 0.5), Kernel("rbf"), Kernel("rbf", 2.0))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 6), st.integers(0, 99))
def test_gram_matrices_equal_scikit_learns(n: int, m: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    assert_allclose(Kernel("linear").gram(x, y), linear_kernel(x, y), atol=1e-12)
    assert_allclose(Kernel("poly", 0.3, 3, 0.5).gram(x, y), polynomial_kernel(x, y, 3, 0.3, 0.5), rtol=1e-10)
    assert_allclose(Kernel("rbf", 2.0).gram(x, y), rbf_kernel(x, y, 2.0), rtol=1e-9, atol=1e-15)


@pytest.mark.slow
@given(st.sampled_from([Kernel("linear"), Kernel("poly", 0.1, 3), Kernel("rbf", 0.01)]), st.data())
def test_no_rows_features_depend_on_the_batch_it_comes_in(kernel: Kernel, data: st.DataObject) -> None:
    x = np.random.default_rng(1).normal(size=(1500, 40)).astype(np.float32)
    features = NystromMap.of(kernel, x[:200])
    start = data.draw(st.integers(0, len(x) - 1))
    stop = data.draw(st.integers(start + 1, len(x)) | st.integers(start + 1, min(len(x), start + 9)))
    with one_blas_thread():
        assert_array_equal(features(x[start:stop]), features(x)[start:stop])


def test_the_defaults_are_the_papers() -> None:
    x = np.array([[1.0, 2.0]])
    assert_allclose(Kernel("poly").gram(x, x), (1 + 5) ** 2)
    assert_allclose(Kernel("rbf").gram(x, x + 1), np.exp(-0.1 * 2))


def test_rbf_distances_hold_on_a_mean_a_million_times_the_spread() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 5))
    assert_allclose(Kernel("rbf").gram(x + 1e6, x + 1e6), Kernel("rbf").gram(x, x), atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_features_of_landmarks_have_the_kernels_inner_products(kernel: Kernel) -> None:
    x = np.random.default_rng(1).normal(size=(40, 4))
    x = np.concatenate([x, x[:7]])  # repeated rows: a Gram matrix of lower rank
    features = NystromMap.of(kernel, x)(x)
    gram = kernel.gram(x, x)
    assert np.isfinite(features).all()
    assert_allclose(features @ features.T, gram, atol=1e-8 * np.abs(gram).max())


def test_the_linear_kernels_features_have_at_most_d_dimensions() -> None:
    assert NystromMap.of(Kernel("linear"), np.random.default_rng(2).normal(size=(50, 6))).width == 6


def test_landmarks_without_any_kernel_are_refused() -> None:
    with pytest.raises(RankError, match="no features"):
        NystromMap.of(Kernel("linear"), np.zeros((5, 3)))


@pytest.mark.parametrize(
    "options",
    [("cubic",), ("rbf", 0.0), ("rbf", -1.0), ("rbf", float("nan")), ("poly", 1.0, 0), ("poly", 1.0, 2, -1.0)],
)
def test_kernels_out_of_range_are_refused(options: tuple[object, ...]) -> None:
    with pytest.raises(UsageError):
        Kernel(*options)  # type: ignore[arg-type]


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ShapeError, match="3 dimensions"):
        Kernel("rbf").gram(np.zeros((2, 4)), np.zeros((2, 3)))


def test_a_row_out_of_range_is_named_whichever_block_it_is_in() -> None:
    x = np.ones((2 * block_rows(1) + 5, 2))
    features = NystromMap.of(Kernel("poly"), x[:1])
    for row in (0, block_rows(1) - 1, block_rows(1), len(x) - 1):
        far = x.copy()
        far[row] = 1e200
        with pytest.raises(RowRangeError) as caught:
            features(far)
        assert caught.value.row == row
