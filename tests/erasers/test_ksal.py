import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.linalg import null_space
from sklearn.svm import SVC

from salcli.erasers.ksal import fit_ksal
from salcli.erasers.sal import fit_sal
from salcli.errors import RankError
from salcli.linalg.kernels import Kernel, NystromMap
from salcli.linalg.moments import CrossMoments

from ..linalg.strategies import Rows, labelled_rows

Array = NDArray[np.float64]
KERNELS = (Kernel("linear"), Kernel("poly"), Kernel("rbf"))
Form = dict[str, bool]
FORMS: tuple[Form, ...] = ({"is_centred": True}, {"is_centred": True, "keep_mean": True}, {"is_centred": False})
"""How directions are found, and what becomes of the mean: the default, `--keep-mean`, the paper's."""


def planted(n: int = 300, d: int = 8, seed: int = 0, n_classes: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    return rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[labels], np.eye(n_classes)[labels]


def centred(gram: Array, is_centred: bool = True) -> Array:
    """Give HGH, the inner products about the mean."""
    return gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean() if is_centred else gram


def dense_gram(x: Array, z: Array, kernel: Kernel, k: int, *, is_centred: bool) -> Array:
    """The paper's own route: eigenvectors of K_ψ K_φ, null space of (K_φ^½ W)ᵀ, K_φ^½ L Lᵀ K_φ^½."""
    n = len(x)
    centring = np.eye(n) - np.full((n, n), 1 / n) if is_centred else np.eye(n)
    gram, of_labels = centring @ kernel.gram(x, x) @ centring, centring @ z @ z.T @ centring
    values, vectors = np.linalg.eig(of_labels @ gram)
    top = vectors[:, np.argsort(-values.real)[:k]].real
    squares, axes = np.linalg.eigh(gram)
    root = axes * np.sqrt(np.maximum(squares, 0)) @ axes.T
    basis = null_space((root @ top).T)
    return root @ basis @ basis.T @ root.T


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_papers_dense_route_gives_the_same_reduced_kernel(kernel: Kernel, form: Form) -> None:
    x, z = planted()
    eraser = fit_ksal(x, z, kernel, 2, **form).eraser
    expected = dense_gram(x, z, kernel, 2, is_centred=form["is_centred"])
    assert_allclose(centred(eraser.erased_gram(x, x), form["is_centred"]), expected, atol=1e-8 * np.abs(expected).max())


@given(labelled_rows(max_d=6), st.booleans())
def test_the_linear_kernel_is_sal(rows: Rows, is_centred: bool) -> None:
    x, z = rows
    linear = fit_sal(CrossMoments.of(x, z), is_centred=is_centred)
    fit = fit_ksal(x, z, Kernel("linear"), is_centred=is_centred)
    if fit.rank != linear.rank:  # σ² below rounding, where σ is not yet
        assert linear.singular_values[fit.rank] < 1e-5 * linear.singular_values[0]
        return
    y = np.random.default_rng(0).normal(size=(5, x.shape[1]))
    expected = linear.eraser(x) @ linear.eraser(y).T
    assert_allclose(fit.eraser.erased_gram(x, y), expected, atol=1e-6 * max(1.0, np.abs(x).max() ** 2))
    assert_allclose(fit.singular_values[: fit.rank], linear.singular_values[: fit.rank], rtol=1e-6)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_linear_kernel_is_sal_to_ten_digits(form: Form) -> None:
    x, z = planted()
    linear = fit_sal(CrossMoments.of(x, z), **form).eraser
    fit = fit_ksal(x, z, Kernel("linear"), **form)
    about = x - x.mean(axis=0) * form["is_centred"]
    expected = about @ linear.projection() @ about.T
    found = centred(fit.eraser.erased_gram(x, x), form["is_centred"])
    assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_polynomial_kernel_is_sal_on_the_explicit_map_of_degree_two(form: Form) -> None:
    x, z = planted(120, 4)
    i, j = np.triu_indices(4)

    def explicit(rows: Array) -> Array:
        pairs = rows[:, i] * rows[:, j] * np.where(i == j, 1.0, np.sqrt(2))
        return np.column_stack([np.ones(len(rows)), np.sqrt(2) * rows, pairs])

    y = np.random.default_rng(1).normal(size=(9, 4))
    linear = fit_sal(CrossMoments.of(explicit(x), z), 2, **form).eraser
    fit = fit_ksal(x, z, Kernel("poly"), 2, **form).eraser
    for strength in (1.0, 0.3):
        expected = linear(explicit(x), strength=strength) @ linear(explicit(y), strength=strength).T
        found = fit.erased_gram(x, y, strength=strength)
        assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_sal_on_the_features_of_all_rows_is_the_same_eraser(kernel: Kernel, form: Form) -> None:
    x, z = planted(150, 5)
    fit = fit_ksal(x, z, kernel, 2, **form)
    features = NystromMap.of(kernel, x)(x)
    linear = fit_sal(CrossMoments.of(features, z), 2, **form).eraser
    erased = linear(features)
    expected = fit.eraser.erased_gram(x, x)
    assert_allclose(erased @ erased.T, expected, atol=1e-8 * np.abs(expected).max())
    assert_allclose(
        fit.singular_values[:2],
        np.linalg.svd(CrossMoments.of(features, z).cross_covariance(is_centred=form["is_centred"]))[1][:2],
        rtol=1e-8,
    )


@pytest.mark.parametrize("is_centred", [True, False])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_directions_are_orthonormal_under_the_kernel(kernel: Kernel, is_centred: bool) -> None:
    x, z = planted()
    fit = fit_ksal(x, z, kernel, is_centred=is_centred)
    n = len(x)
    centring = np.eye(n) - np.full((n, n), 1 / n) if is_centred else np.eye(n)
    gram = centring @ kernel.gram(x, x) @ centring
    dual = fit.eraser.dual
    assert_allclose(dual.T @ gram @ dual, np.eye(fit.eraser.k), atol=1e-9)
    assert fit.rank == 3 - is_centred


def test_permuting_rows_changes_nothing() -> None:
    x, z = planted()
    order = np.random.default_rng(3).permutation(len(x))
    y = np.random.default_rng(4).normal(size=(6, x.shape[1]))
    one, other = (fit_ksal(a, b, Kernel("rbf")).eraser for a, b in ((x, z), (x[order], z[order])))
    assert_allclose(other.erased_gram(y, y), one.erased_gram(y, y), atol=1e-12)


def test_repeated_and_constant_rows_stay_finite() -> None:
    x, z = planted(60)
    x[10:30] = x[0]
    for kernel in KERNELS:
        assert np.isfinite(fit_ksal(x, z, kernel).eraser.erased_gram(x, x)).all()
    with pytest.raises(RankError, match="zero covariance"):
        fit_ksal(np.ones((20, 3)), np.eye(2)[np.arange(20) % 2], Kernel("rbf"))


@pytest.mark.parametrize("kernel", [Kernel("poly"), Kernel("rbf")], ids=str)
def test_a_machine_with_the_same_kernel_reads_the_fitted_rows_before_and_guesses_after(kernel: Kernel) -> None:
    x, _ = planted(400, 4, n_classes=2)
    labels = (x[:, 0] * x[:, 1] > np.median(x[:, 0] * x[:, 1])).astype(int)
    labels[:20] = 1  # so that one class is the majority
    eraser = fit_ksal(x, np.eye(2)[labels], kernel).eraser
    scores = []
    for gram in (kernel.gram(x, x), eraser.erased_gram(x, x)):
        scores.append(SVC(kernel="precomputed", C=0.1).fit(gram, labels).score(gram, labels))
    majority = max(np.mean(labels), 1 - np.mean(labels))
    assert scores[0] > majority + 0.2
    assert scores[1] == pytest.approx(majority, abs=0.02)


def test_a_k_above_the_rank_is_refused() -> None:
    x, z = planted()
    with pytest.raises(RankError, match="rank 2"):
        fit_ksal(x, z, Kernel("rbf"), 3)
