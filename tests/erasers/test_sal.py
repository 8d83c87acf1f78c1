import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from salcli.erasers.base import Fit
from salcli.erasers.sal import fit_sal
from salcli.erasers.spectrum import choose_k
from salcli.errors import RangeError, RankError, UsageError
from salcli.linalg.moments import CrossMoments

from ..linalg.strategies import Rows, labelled_rows

Array = NDArray[np.float64]


def fitted(x: Array, z: Array, **options: object) -> Fit:
    return fit_sal(CrossMoments.of(x, z), **options)  # type: ignore[arg-type]


def projector(fit: Fit) -> Array:
    """Compare projectors, never directions: signs and rotations inside tied σ are free."""
    return fit.eraser.left @ fit.eraser.left.T


@given(labelled_rows())
def test_erased_rows_do_not_covary_with_labels(rows: Rows) -> None:
    x, z = rows
    erased = fitted(x, z).eraser(x)
    left = CrossMoments.of(erased, z).cross_covariance()
    assert np.linalg.norm(left) < 1e-12 * max(1.0, np.abs(x).max())
    assert np.linalg.norm(CrossMoments.of(x, z).cross_covariance()) > 1e-6  # the control: before, they do


@given(labelled_rows())
def test_classes_have_equal_means_after_erasure(rows: Rows) -> None:
    x, z = rows
    erased = fitted(x, z).eraser(x)
    means = (z.T @ erased) / z.sum(0)[:, None]
    assert_allclose(means, np.broadcast_to(means[:1], means.shape), atol=1e-11 * max(1.0, np.abs(x).max()))


@given(labelled_rows())
def test_a_fresh_unpenalised_linear_fit_on_the_erased_rows_has_no_coefficients(rows: Rows) -> None:
    x, z = rows
    erased = fitted(x, z).eraser(x)
    with_intercept = np.column_stack([erased, np.ones(len(x))])
    coefficients = np.linalg.lstsq(with_intercept, z, rcond=1e-9)[0]
    predictions = with_intercept @ coefficients
    assert_allclose(predictions, np.broadcast_to(z.mean(0), z.shape), atol=1e-8)


@given(labelled_rows())
def test_the_projector_equals_that_of_the_dense_svd(rows: Rows) -> None:
    x, z = rows
    u, s, _ = np.linalg.svd((x - x.mean(0)).T @ (z - z.mean(0)) / len(x), full_matrices=False)
    fit = fitted(x, z)
    k = fit.eraser.k
    assert k == np.linalg.matrix_rank((x - x.mean(0)).T @ (z - z.mean(0)), tol=1e-10)
    assert_allclose(projector(fit), u[:, :k] @ u[:, :k].T, atol=1e-7)
    assert_allclose(fit.singular_values, s, atol=1e-12)


@given(labelled_rows())
def test_uncentred_fitting_takes_the_plain_cross_product_as_the_paper_does(rows: Rows) -> None:
    x, z = rows
    u, s, _ = np.linalg.svd(x.T @ z / len(x), full_matrices=False)
    fit = fitted(x, z, is_centred=False)
    k = fit.eraser.k
    assert (fit.eraser.mean == 0).all()
    assert_allclose(fit.singular_values, s, atol=1e-11)
    if s[k - 1] > 1e-6 * s[0]:
        assert_allclose(projector(fit), u[:, :k] @ u[:, :k].T, atol=1e-7)


@given(labelled_rows(), st.booleans())
def test_the_eraser_is_a_symmetric_idempotent_projection(rows: Rows, is_centred: bool) -> None:
    x, z = rows
    eraser = fitted(x, z, is_centred=is_centred).eraser
    p = eraser.projection()
    assert_allclose(p, p.T, atol=1e-13)
    assert_allclose(p @ p, p, atol=1e-12)
    once = eraser(x)
    assert_allclose(eraser(once), once, atol=1e-11 * max(1.0, np.abs(x).max()))
    assert_allclose(once - eraser.mean, (x - eraser.mean) @ p, atol=1e-11 * max(1.0, np.abs(x).max()))


@given(labelled_rows(max_d=6), st.integers(0, 999))
def test_rotating_the_rows_rotates_the_eraser(rows: Rows, seed: int) -> None:
    x, z = rows
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(x.shape[1],) * 2))[0]
    one, other = fitted(x, z), fitted(x @ q, z)
    assert one.rank == other.rank
    assert_allclose(projector(other), q.T @ projector(one) @ q, atol=1e-7)


@given(labelled_rows(), st.sampled_from([1e-20, 1e-3, 7.0, 1e20]))
def test_scaling_the_rows_leaves_the_projector(rows: Rows, scale: float) -> None:
    x, z = rows
    one, other = fitted(x, z), fitted(x * scale, z)
    assert one.rank == other.rank
    assert_allclose(projector(other), projector(one), atol=1e-7)


@given(labelled_rows(), st.randoms(use_true_random=False))
def test_permuting_rows_and_relabelling_classes_changes_nothing(rows: Rows, random: object) -> None:
    x, z = rows
    order, columns = list(range(len(x))), list(range(z.shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    random.shuffle(columns)  # type: ignore[attr-defined]
    assert_allclose(projector(fitted(x[order], z[order][:, columns])), projector(fitted(x, z)), atol=1e-7)


@given(labelled_rows(), st.data())
def test_what_is_left_of_the_cross_covariance_has_the_remaining_singular_values(
    rows: Rows, data: st.DataObject
) -> None:
    x, z = rows
    rank = fitted(x, z).rank
    k = data.draw(st.integers(1, rank))
    fit = fitted(x, z, k=k)
    left = CrossMoments.of(fit.eraser(x), z).cross_covariance()
    expected = np.sort(np.concatenate([fit.singular_values[k:], np.zeros(k)]))[::-1]
    assert_allclose(np.linalg.svd(left, compute_uv=False)[: len(expected)], expected, atol=1e-10)


@given(labelled_rows(), st.floats(1, 1e6))
def test_alpha_takes_the_least_k_whose_next_ratio_is_above_it(rows: Rows, alpha: float) -> None:
    x, z = rows
    fit = fitted(x, z, alpha=alpha)
    ratios = [fit.singular_values[0] / s for s in fit.singular_values[1 : fit.rank]]
    expected = next((i + 1 for i, ratio in enumerate(ratios) if ratio > alpha), fit.rank)
    assert fit.eraser.k == expected
    assert fit.k_rule == {"alpha": alpha}


def test_two_classes_need_one_direction_centred_and_two_uncentred() -> None:
    rng = np.random.default_rng(0)
    z = np.eye(2)[np.arange(100) % 2]
    x = rng.normal(size=(100, 10)) + 3
    assert fitted(x, z).rank == 1
    assert fitted(x, z, is_centred=False).rank == 2


def test_numeric_attributes_take_one_direction_each() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    z = np.column_stack([x[:, 0] * 2 + rng.normal(size=200), x[:, 1]])
    fit = fitted(x, z)
    erased = fit.eraser(x)
    assert fit.rank == 2
    assert_allclose([np.corrcoef(erased[:, j], z[:, i])[0, 1] for i in range(2) for j in range(3)], 0, atol=1e-10)


def test_labels_that_carry_nothing_are_refused_and_not_erased_in_name_only() -> None:
    half = np.random.default_rng(0).normal(size=(50, 4))
    x, z = np.concatenate([half, half]), np.repeat(np.eye(2), 50, axis=0)
    with pytest.raises(RankError, match="zero covariance"):
        fitted(x, z)
    with pytest.raises(RankError, match="rank 0"):
        fitted(np.full((6, 3), 0.1), np.eye(2)[np.arange(6) % 2])


def test_values_whose_squares_pass_float64_are_refused_and_those_below_are_not() -> None:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(40, 3)) + 1, np.eye(2)[np.arange(40) % 2]
    assert fitted(x * 1e150, z).rank == fitted(x * 1e-150, z).rank == 1
    with pytest.raises(RangeError, match="scale the embeddings"):
        fitted(x * 1e200, z)


def test_k_above_the_rank_is_refused_with_the_rank_and_the_spectrum() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(RankError, match=r"k = 3.*rank 1.*1 direction carries.*singular values"):
        fitted(rng.normal(size=(30, 4)), np.eye(2)[np.arange(30) % 2], k=3)


@pytest.mark.parametrize(
    "options", [{"k": 0}, {"k": -1}, {"alpha": 0.5}, {"alpha": float("nan")}, {"k": 1, "alpha": 2.0}]
)
def test_choices_of_k_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        fitted(np.random.default_rng(0).normal(size=(9, 3)), np.eye(2)[np.arange(9) % 2], **options)


def test_a_ratio_that_equals_alpha_is_not_above_it() -> None:
    spectrum = np.array([4.0, 2.0, 1.0, 1e-20])
    assert choose_k(spectrum, 3, None, 2.0)[0] == 2
    assert choose_k(spectrum, 3, None, 4.0)[0] == 3
    assert choose_k(spectrum, 3, None, 1.999)[0] == 1


def test_beyond_the_rank_a_singular_value_counts_as_zero() -> None:
    assert choose_k(np.array([4.0, 3.0, 2.0, 1e-3]), 2, None, 3.0)[0] == 2
