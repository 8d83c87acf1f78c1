"""LEACE against its theorem, against concept-erasure (frozen values), and against SAL."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression

from salcli.erasers.base import Fit
from salcli.erasers.leace import fit_leace
from salcli.erasers.linear import LinearEraser
from salcli.erasers.sal import fit_sal
from salcli.errors import RankError
from salcli.linalg.moments import CrossMoments, SecondMoments

from ..linalg.strategies import Rows, labelled_rows

GOLDEN = Path(__file__).parent.parent / "golden" / "leace.npz"
Array = NDArray[np.float64]


def fitted(x: Array, z: Array, k: int | None = None) -> Fit[LinearEraser]:
    return fit_leace(SecondMoments.of(x, z), k)


def correlated(n: int = 400, d: int = 6, c: int = 3, seed: int = 0) -> tuple[Array, NDArray[np.int64], Array]:
    """Draw rows of correlated columns, far from the origin, whose class means differ."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % c
    x = (rng.normal(size=(n, d)) + rng.normal(size=(c, d))[codes]) @ (rng.normal(size=(d, d)) + np.eye(d)) + 10
    return x, codes, np.eye(c)[codes]


@pytest.mark.parametrize("name", ["two", "five", "number"])
def test_the_projector_is_that_of_concept_erasure(name: str) -> None:
    with np.load(GOLDEN) as arrays:
        x, z, erased, projection = (arrays[f"{name}_{part}"] for part in ("x", "z", "erased", "projection"))
    eraser = fitted(x, z).eraser
    assert_allclose(eraser.left @ eraser.right.T, projection, atol=1e-10 * np.abs(projection).max())
    assert_allclose(eraser(x), erased, atol=1e-10 * np.abs(erased).max())


@settings(deadline=None)
@given(labelled_rows(scales=(1e-3, 1.0, 1e3)))
def test_erased_rows_do_not_covary_with_labels(rows: Rows) -> None:
    x, z = rows
    try:
        erased = fitted(x, z).eraser(x)
    except RankError:
        assert len(x) <= x.shape[1] + z.shape[1]
        return
    size = np.linalg.norm(x - x.mean(0)) * np.linalg.norm(z - z.mean(0)) / len(x)
    assert_allclose(CrossMoments.of(erased, z).cross_covariance(), 0, atol=1e-9 * size)


def test_an_unpenalised_logistic_regression_is_at_the_majority_rate_and_before_it_is_not() -> None:
    x, codes, z = correlated()
    erased = fitted(x, z).eraser(x)
    probe = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-9)
    assert probe.fit(x, codes).score(x, codes) > 0.6
    units = (erased - erased.mean(0)) / erased.std(0)
    assert_allclose(probe.fit(units, codes).coef_, 0, atol=1e-4)


def test_no_other_eraser_with_that_property_changes_the_rows_less() -> None:
    x, _, z = correlated()
    moments = SecondMoments.of(x, z)
    inverse = np.linalg.inv(moments.covariance())
    leace, sal = fit_leace(moments).eraser, fit_sal(moments.cross).eraser
    rng = np.random.default_rng(1)
    others = [sal]  # and projections on the same column space, that of Σ_xz, along other null spaces
    for _ in range(20):
        aside = (np.eye(6) - leace.left @ np.linalg.pinv(leace.left)) @ rng.normal(size=leace.right.shape)
        others.append(LinearEraser(leace.mean, leace.left, leace.right + 0.1 * aside))
    for other in others:
        assert_allclose(CrossMoments.of(other(x), z).cross_covariance(), 0, atol=1e-9)
    for norm in (inverse, np.eye(6), np.diag(rng.uniform(0.1, 3, 6))):  # Mahalanobis, Euclidean, another

        def change(eraser: LinearEraser, norm: Array = norm) -> float:
            moved = eraser(x) - x
            return float(np.einsum("ij,jk,ik->", moved, norm, moved))

        assert all(change(leace) < change(other) for other in others)


@pytest.mark.parametrize("size", [1e-3, 1e-7])
def test_a_label_in_a_column_much_smaller_than_the_others_is_erased_too(size: float) -> None:
    rng = np.random.default_rng(2)
    codes = np.arange(600) % 2
    x = rng.normal(size=(600, 8))
    x[:, 3] = size * (codes + 0.1 * rng.normal(size=600))
    erased = fitted(x, np.eye(2)[codes]).eraser(x)
    column = (erased[:, 3] - erased[:, 3].mean()) / size
    assert abs(np.corrcoef(x[:, 3], codes)[0, 1]) > 0.9  # the control
    assert abs(column[codes == 1].mean() - column[codes == 0].mean()) < 1e-6


def test_numbers_and_classes_side_by_side_are_erased() -> None:
    x, codes, z = correlated()
    number = x @ np.arange(6.0) + np.random.default_rng(3).normal(size=len(x))
    both = np.column_stack([z, number / number.std()])
    fit = fitted(x, both)
    erased = fit.eraser(x)
    assert fit.rank == fit.eraser.k == 3
    assert LinearRegression().fit(x, number).score(x, number) > 0.9
    assert LinearRegression().fit(erased, number).score(erased, number) < 1e-9
    assert all(abs(erased[codes == c].mean(0) - erased.mean(0)).max() < 1e-8 for c in range(3))


def test_the_mean_stays() -> None:
    x, _, z = correlated()
    assert_allclose(fitted(x, z).eraser(x).mean(0), x.mean(0), rtol=1e-12)


def test_the_first_k_directions_are_those_of_a_fit_with_k() -> None:
    x, _, z = correlated(c=4)
    whole = fitted(x, z).eraser
    one, other = whole.truncated(2), fitted(x, z, 2).eraser
    assert_allclose(one(x), other(x), atol=1e-10)
    assert whole.k == 3
    with pytest.raises(RankError, match="rank 3"):
        fitted(x, z, 4)


@settings(deadline=None, max_examples=30)
@given(labelled_rows(), st.lists(st.integers(0, 60), max_size=4))
def test_second_moments_fold_over_any_split_and_survive_bytes(rows: Rows, cuts: list[int]) -> None:
    x, z = rows
    borders = sorted({0, *(cut for cut in cuts if cut < len(x)), len(x)})
    total = SecondMoments.zero(x.shape[1], z.shape[1])
    for a, b in pairwise(borders):
        total = total.add(x[a:b], z[a:b])
    total = SecondMoments.from_bytes(total.to_bytes())
    centred = x - x.mean(0)
    assert_allclose(total.scatter, centred.T @ centred, atol=1e-9)
    assert_allclose(total.cross.comoment, centred.T @ (z - z.mean(0)), atol=1e-9)
    assert total.n == len(x)
    assert total.to_bytes() == SecondMoments.from_bytes(total.to_bytes()).to_bytes()
