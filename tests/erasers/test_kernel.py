import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from salcli.erasers.kernel import FeatureEraser, KernelEraser
from salcli.erasers.ksal import exact_bytes, fit_ksal
from salcli.erasers.linear import LinearEraser
from salcli.erasers.sal import fit_sal
from salcli.errors import RangeError, RowRangeError, ShapeError
from salcli.linalg.kernels import Kernel, NystromMap
from salcli.linalg.moments import CrossMoments

from .test_ksal import FORMS, KERNELS, Array, Form, planted


def by_landmarks(x: Array, z: Array, kernel: Kernel, m: int, **form: bool) -> FeatureEraser:
    features = NystromMap.of(kernel, x[:m])
    return FeatureEraser(features, fit_sal(CrossMoments.of(features(x), z), **form).eraser)


def close(found: NDArray[np.floating], expected: Array, digits: int) -> None:
    assert_allclose(found, expected, rtol=0, atol=10.0**-digits * np.abs(expected).max())


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_vectors_written_with_all_rows_as_landmarks_have_the_reduced_kernel_as_inner_products(
    kernel: Kernel, form: Form
) -> None:
    x, z = planted(150, 5)
    eraser = fit_ksal(x, z, kernel, **form).eraser
    written = eraser.explicit()
    for strength in (1.0, 0.4):
        rows = written(x, strength=strength)
        close(rows @ rows.T, eraser.erased_gram(x, x, strength=strength), 8)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_reduced_vectors_have_the_inner_products_of_the_papers_null_space(kernel: Kernel, form: Form) -> None:
    x, z = planted(120, 4)
    written = fit_ksal(x, z, kernel, **form).eraser.explicit()
    rows, reduced = written(x), written.reduce(x)
    assert reduced.shape[1] == written.d_out - written.k
    mean = written.linear.mean
    close(reduced @ reduced.T, (rows - mean) @ (rows - mean).T, 8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_both_routes_give_new_rows_the_kernel_of_the_joint_dense_formula(kernel: Kernel) -> None:
    x, z = planted(90, 4)
    y = np.random.default_rng(1).normal(size=(20, 4))
    joint = kernel.gram(np.concatenate([x, y]), np.concatenate([x, y]))  # dense and uncentred: K̂ = K − (KW)(KW)ᵀ
    values, vectors = np.linalg.eig(z @ z.T @ joint[:90, :90])
    top = vectors[:, np.argsort(-values.real)[:3]].real
    small = top.T @ joint[:90, :90] @ top
    expected = joint - joint[:, :90] @ top @ np.linalg.solve(small, top.T @ joint[:90])
    exact = fit_ksal(x, z, kernel, is_centred=False).eraser
    close(exact.erased_gram(y, y), expected[90:, 90:], 8)
    close(exact.erased_gram(y, x), expected[90:, :90], 8)
    landmarks = by_landmarks(x, z, kernel, 90, is_centred=False).by_inner_products()
    close(landmarks.erased_gram(y, y), expected[90:, 90:], 7)


@pytest.mark.slow
@given(st.integers(5, 60), st.sampled_from(FORMS))
def test_inner_products_and_features_of_a_few_landmarks_take_off_the_same_directions(m: int, form: Form) -> None:
    x, z = planted(100, 4)
    eraser = by_landmarks(x, z, Kernel("rbf"), m, **form)
    rows = x[:m]  # the landmarks: there the features' inner products are the kernel's
    close(eraser(rows) @ eraser(rows).T, eraser.by_inner_products().erased_gram(rows, rows), 7)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_fitted_rows_are_erased_out_of_sample_as_they_were_in_sample(kernel: Kernel) -> None:
    x, z = planted(100, 4)
    for written in (fit_ksal(x, z, kernel).eraser.explicit(), by_landmarks(x, z, kernel, 40)):
        rows = written(x)
        left = CrossMoments.of(rows, z).cross_covariance()
        before = CrossMoments.of(written.features(x), z).cross_covariance()
        assert np.abs(left).max() < 1e-8 * np.abs(before).max()
        assert_allclose(rows[::-1][:7], written(x[::-1][:7]), atol=1e-9 * np.abs(rows).max())


def test_repeated_and_collinear_rows_have_features_as_wide_as_their_span() -> None:
    x, z = planted(80, 5)
    x[10:40] = x[0]
    written = fit_ksal(x, z, Kernel("linear")).eraser.explicit()
    assert written.d_out == 5
    close(written(x) @ written(x).T, fit_ksal(x, z, Kernel("linear")).eraser.erased_gram(x, x), 9)
    spanned = NystromMap.spanning(Kernel("rbf"), x)
    assert spanned.width == 50
    close(spanned(x) @ spanned(x).T, Kernel("rbf").gram(x, x), 9)


def test_nothing_is_removed_at_strength_zero() -> None:
    x, z = planted(50, 4)
    eraser = fit_ksal(x, z, Kernel("rbf")).eraser
    close(eraser.erased_gram(x, x, strength=0), Kernel("rbf").gram(x, x), 14)
    written = eraser.explicit()
    close(written(x, strength=0), written.features(x), 14)


def test_rows_of_another_width_and_pieces_that_do_not_fit_are_refused() -> None:
    x, z = planted(50, 4)
    eraser = fit_ksal(x, z, Kernel("rbf")).eraser
    with pytest.raises(ShapeError, match="4 dimensions"):
        eraser.coordinates(np.ones((3, 5)))
    with pytest.raises(ShapeError, match="not .m, d., .m, k."):
        KernelEraser(Kernel(), x, eraser.dual[:-1], eraser.offset)
    with pytest.raises(RangeError, match="finite"):
        KernelEraser(Kernel(), x, eraser.dual * np.nan, eraser.offset)
    written = eraser.explicit()
    with pytest.raises(ShapeError, match="not .m, d., .m, r."):
        FeatureEraser(NystromMap(Kernel(), x, written.features.whitener[:, 1:]), written.linear)
    with pytest.raises(RangeError, match="poly kernel pass the range"):
        Kernel("poly", degree=9).gram(x * 1e40, x)


def test_the_memory_of_the_exact_route_grows_with_rows_not_with_their_square() -> None:
    assert exact_bytes(30_000, 768, 4, 2, 2) < 2.2 * exact_bytes(15_000, 768, 4, 2, 2) < 2.2 * 1.0e9


@pytest.mark.parametrize("name", ["call", "reduce"])
def test_a_row_that_does_not_fit_is_counted_from_the_first_of_the_batch(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9000, 3))
    features = NystromMap.of(Kernel("poly", 1.0, 2, 1.0), x[:20])
    u = np.linalg.qr(rng.normal(size=(features.width, 2)))[0]
    eraser = FeatureEraser(features, LinearEraser(np.zeros(features.width), u, u))
    x[8500] = 1e4  # its square is above what float16 holds
    with pytest.raises(RowRangeError) as caught:
        (eraser if name == "call" else eraser.reduce)(x, dtype=np.float16)
    assert caught.value.row == 8500
    x[8501] = 1e200
    with pytest.raises(RowRangeError, match="poly kernel pass the range") as caught:
        (eraser if name == "call" else eraser.reduce)(x[8501 - 300 :])
    assert caught.value.row == 300
    with pytest.raises(RowRangeError, match="poly kernel pass the range") as caught:
        eraser.by_inner_products().coordinates(x)
    assert caught.value.row == 8501
