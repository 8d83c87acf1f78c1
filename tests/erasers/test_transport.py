"""Transport against its formulas in numpy and scipy, and against what it promises of means and covariances."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.linalg import sqrtm

import salcli
from salcli.erasers.sal import fit_sal
from salcli.erasers.transport.choice import Trial, best_of
from salcli.erasers.transport.eraser import Posterior, TransportEraser
from salcli.erasers.transport.gaussians import (
    IDENTITY,
    LEAST_RIDGE,
    ClassGaussians,
    Shrinkage,
    certain_lead,
    posterior_of,
)
from salcli.erasers.transport.readers import readings
from salcli.errors import LabelError, ParameterError, RankError, RowRangeError, ShapeError, UsageError
from salcli.linalg.class_moments import ClassMoments
from salcli.streaming.engine import one_blas_thread

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


def gaussians(n: int, d: int, c: int, seed: int = 0, shift: float = 1.0) -> tuple[Array, Codes]:
    """Draw classes that differ in mean and covariance, far from the origin."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % c)
    roots = np.eye(d) + 0.5 * rng.normal(size=(c, d, d))
    x = np.einsum("nd,nde->ne", rng.normal(size=(n, d)), roots[codes])
    return x + shift * rng.normal(size=(c, d))[codes] + 3, codes


def fitted(x: Array, codes: Codes, share: float = 0.0, keep_mean: bool = False) -> TransportEraser:
    """Fit without a gate."""
    moments = ClassMoments.of(x, np.eye(codes.max() + 1)[codes])
    found = ClassGaussians.of(moments, x, codes, keep_mean=keep_mean).transport(Shrinkage(share))
    return replace(found, posterior=replace(found.posterior, certain=0.0))


def exactly_known(eraser: TransportEraser, code: int) -> TransportEraser:
    """Return the eraser whose posterior is sure of one class."""
    d, c = eraser.d, eraser.n_classes
    return replace(eraser, posterior=Posterior(np.zeros((d, c)), np.where(np.arange(c) == code, 0.0, -1e4), 0.0))


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.integers(2, 6), st.integers(2, 4), st.integers(0, 50), st.booleans())
def test_with_the_class_known_means_and_covariances_are_those_of_the_barycentre(
    d: int, c: int, seed: int, keep_mean: bool
) -> None:
    x, codes = gaussians(60 * c, d, c, seed)
    eraser = fitted(x, codes, keep_mean=keep_mean)
    moved = [exactly_known(eraser, code)(x[codes == code]) for code in range(c)]
    step = fit_sal(ClassMoments.of(x, np.eye(c)[codes]).cross, keep_mean=keep_mean).eraser
    v = step.left
    ridge = LEAST_RIDGE * 5  # covariances are lifted by it, relative to the mean variance
    first, *others = (np.cov(rows.T, ddof=0).reshape(d, d) for rows in moved)
    for rows, covariance in zip(moved, (first, *others), strict=True):
        assert_allclose(rows.mean(0), step(x).mean(0), atol=1e-8)
        assert_allclose(covariance, first, atol=ridge * max(1.0, np.trace(first)))
        assert_allclose(covariance @ v, 0, atol=1e-8)


def test_the_rows_are_those_of_the_formulas() -> None:
    x, codes = gaussians(400, 5, 2, 3)
    share = 0.3
    eraser = fitted(x, codes, share)
    mu, n = x.mean(0), len(x)
    means = np.stack([x[codes == z].mean(0) for z in (0, 1)])
    shares = np.array([np.mean(codes == z) for z in (0, 1)])
    v = (means[1] - means[0])[:, None] / np.linalg.norm(means[1] - means[0])
    p = np.eye(5) - v @ v.T
    within = sum((x[codes == z] - means[z]).T @ (x[codes == z] - means[z]) for z in (0, 1)) / n
    inverse = np.linalg.inv(within + 0.01 * np.trace(within) / 5 * np.eye(5))
    logits = np.stack([np.log(w) - 0.5 * np.einsum("ni,ij,nj->n", x - m, inverse, x - m)
                       for w, m in zip(shares, means, strict=True)], axis=1)  # fmt: skip
    q = np.exp(logits - logits.max(1, keepdims=True))
    q /= q.sum(1, keepdims=True)
    basis = np.linalg.svd(v)[0][:, 1:]
    found = [basis.T @ np.cov(x[codes == z].T, ddof=0) @ basis for z in (0, 1)]
    pooled = shares[0] * found[0] + shares[1] * found[1]
    size = np.mean([np.trace(each) for each in found])
    found = [(1 - share) * each + share * pooled + LEAST_RIDGE * np.trace(each) / 4 * np.eye(4) for each in found]
    assert size > 0
    middle = pooled
    for _ in range(200):
        half = np.real(sqrtm(middle))
        inner = sum(w * np.real(sqrtm(half @ each @ half)) for w, each in zip(shares, found, strict=True))
        middle = np.linalg.inv(half) @ inner @ inner @ np.linalg.inv(half)
    expected = x @ p
    centre = p @ mu
    for z, each in enumerate(found):
        half = np.real(sqrtm(each))
        a = np.linalg.inv(half) @ np.real(sqrtm(half @ middle @ half)) @ np.linalg.inv(half)
        shift = basis @ (a - np.eye(4)) @ basis.T
        expected += q[:, z : z + 1] * ((x @ p - centre) @ shift)
    assert_allclose(eraser(x), expected, atol=1e-6)
    assert_allclose(eraser(x, strength=0.4), x + 0.4 * (expected - x), atol=1e-6)
    assert_array_equal(eraser(x, strength=0.0), x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_no_digit_of_a_row_depends_on_the_rows_around_it(dtype: str) -> None:
    x, codes = gaussians(2000, 6, 3)
    x = x.astype(dtype)
    eraser = replace(
        fitted(x.astype(np.float64), codes),
        posterior=replace(fitted(x.astype(np.float64), codes).posterior, certain=2.0),
    )
    whole = eraser(x)
    assert whole.dtype == x.dtype
    for start, stop in ((0, 1), (1, 700), (700, 2000)):
        assert_array_equal(eraser(x[start:stop]), whole[start:stop])
    own = x.copy()
    assert eraser(own, out=own) is not x
    assert_array_equal(own, whole)
    if dtype != "f2":
        assert_allclose(whole.astype(np.float64), eraser(x.astype(np.float64)), rtol=1e-5, atol=1e-5)


def test_the_gate_lets_rows_between_the_classes_stay() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(400) % 2
    x = rng.normal(size=(400, 4))
    x[:, 0] += np.where(codes == 1, 10, -10)
    moments = ClassMoments.of(x, np.eye(2)[codes])
    posterior = posterior_of(moments)
    lead = certain_lead(posterior, x, codes)
    logits = x @ posterior.weights + posterior.bias
    own = logits[np.arange(400), codes] - logits[np.arange(400), 1 - codes]
    assert lead == pytest.approx(np.quantile(own, 0.02))
    gated = replace(posterior, certain=lead)
    edge = (logits[:, 1] - logits[:, 0]) / lead
    assert_allclose(gated(x).sum(1), np.minimum(np.abs(edge), 1))
    middle = x.mean(0, keepdims=True)
    eraser = ClassGaussians.of(moments, x, codes).transport(Shrinkage(0.0))
    assert eraser.posterior.certain == pytest.approx(lead)
    assert_allclose(eraser(middle), middle, atol=1e-2)
    assert certain_lead(posterior, x, 1 - codes) == 0  # where classes overlap, all rows move
    assert_allclose(posterior(x).sum(1), 1)


def test_shrunk_wholly_the_map_is_sal() -> None:
    x, codes = gaussians(500, 5, 3)
    moments = ClassMoments.of(x, np.eye(3)[codes])
    ridge_only = fitted(x, codes, share=1.0)
    scaled = ClassMoments(moments.cross, moments.scatters * 0 + moments.counts[:, None, None] * np.eye(5))
    exact = ClassGaussians.of(scaled, x, codes).transport(Shrinkage(1.0, IDENTITY))
    exact = replace(exact, posterior=posterior_of(moments))
    assert_allclose(exact(x), fit_sal(moments.cross).eraser(x), atol=1e-10)
    assert_allclose(ridge_only(x), fit_sal(moments.cross).eraser(x), atol=0.1)


def test_an_eraser_survives_its_arrays_and_refuses_others() -> None:
    x, codes = gaussians(200, 4, 2)
    eraser = fitted(x, codes)
    again = TransportEraser.from_arrays(eraser.arrays(), {})
    assert_array_equal(again(x), eraser(x))
    assert (eraser.k, eraser.d, eraser.d_out, eraser.n_classes) == (1, 4, 4, 2)
    assert eraser.truncated(1) is None
    for name, change in {
        "maps": lambda a: a[:, :3], "directions": lambda a: 2 * a, "centre": lambda a: a.astype(np.float32),
        "certain": lambda a: np.array(-1.0), "posterior_bias": lambda a: a * np.nan, "mean": lambda a: a[None],
    }.items():  # fmt: skip
        arrays: dict[str, Any] = eraser.arrays()
        arrays[name] = change(arrays[name])
        with pytest.raises((ShapeError, salcli.errors.RangeError)):
            TransportEraser.from_arrays(arrays, {})
    skew = eraser.maps.copy()
    skew[0, 0, 1] += 1
    with pytest.raises(ShapeError, match="not symmetric"):
        replace(eraser, maps=skew)
    with pytest.raises(ParameterError, match="outside 0"):
        eraser(x, strength=2.0)
    bad = x.copy()
    bad[3, 1] = np.nan
    with pytest.raises(RowRangeError, match="row 3"):
        eraser(bad)


def test_readers_read_what_is_there_and_nothing_else() -> None:
    with one_blas_thread():
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 2, 600)
        noise = rng.normal(size=(600, 4))
        found = readings(noise, codes, 2)
        assert set(found) == {"rbf", "quadratic", "knn"}
        assert all(0.4 < value < 0.6 for value in found.values())
        wide = noise * np.where(codes == 1, 3, 1)[:, None]
        assert all(value > 0.75 for value in readings(wide, codes, 2).values())
        rare = rng.random(600) < 0.1
        apart = noise + 4 * rare[:, None]
        assert all(value > 0.9 for value in readings(apart, rare.astype(np.int64), 2).values())


def test_the_worst_reader_decides_and_the_gentlest_of_equals_wins() -> None:
    trials = [
        Trial(Shrinkage(1.0), {"rbf": 0.9, "quadratic": 0.6}),
        Trial(Shrinkage(0.5), {"rbf": 0.7, "quadratic": 0.7}),
        Trial(Shrinkage(0.2), {"rbf": 0.5, "quadratic": 0.7}),
        Trial(Shrinkage(0.1), {"rbf": 0.4, "quadratic": 0.8}),
    ]
    assert best_of(trials) is trials[1]
    assert trials[1].worst == 0.7


def test_classes_that_differ_in_covariance_alone_become_alike() -> None:
    rng = np.random.default_rng(1)
    codes = rng.permutation(np.arange(2400) % 2)
    x = rng.normal(size=(2400, 6)) * [1, 5, 1, 1, 1, 1]
    x[codes == 1, 1:] = x[codes == 1, 1:] @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    x[:, 0] += 12 * codes  # so that the posterior knows the class
    fit, new = x[:1200], x[1200:]
    eraser = salcli.fit(fit, codes[:1200], method="transport").eraser
    sal = salcli.fit(fit, codes[:1200]).eraser
    with one_blas_thread():
        after, linear = (readings(each(new), codes[1200:], 2) for each in (eraser, sal))
    assert min(linear["rbf"], linear["quadratic"]) > 0.75
    assert max(after["rbf"], after["quadratic"]) < 0.58


def test_two_attributes_are_guarded_by_their_product_and_numbers_are_refused() -> None:
    x, codes = gaussians(200, 4, 2)
    with pytest.raises(LabelError, match="column 'y' is numeric, expected classes"):
        salcli.fit(x, x[:, 0], method="transport", numeric=True)
    with pytest.raises(UsageError, match="`towards` says what"):
        salcli.fit(x, codes, method="transport", towards="pooled")
    with pytest.raises(RankError):
        salcli.fit(np.repeat(np.eye(4)[:2], 100, axis=0), np.repeat([0, 1], 100), method="transport", shrinkage=0.0)


def test_a_class_with_few_rows_has_the_covariance_of_all_classes() -> None:
    x, codes = gaussians(400, 4, 2)
    few = np.arange(400) % 60 == 0
    codes[few] = 2
    fit = salcli.fit(x, codes, method="transport")
    (doubt, *_) = fit.doubts
    assert "column 'y': classes with few fitted rows for a covariance in 4 dimensions: 2 (7), expected at l" in doubt
    assert "their covariance is taken for that of all classes" in doubt
    assert len(fit.header["transport"]["tried"]) > 1  # by the rows of the others
    moments, shares = ClassMoments.of(x, np.eye(3)[codes]), np.array([np.mean(codes == z) for z in range(3)])
    found = ClassGaussians.of(moments, x, codes, few=np.arange(3) == 2)
    own = ClassGaussians.of(moments, x, codes).covariances
    expected = np.stack([*own[:2], np.einsum("c,cde->de", shares, own)])
    unit = np.trace(found.covariances[0]) / np.trace(own[0])  # the mean variance of all classes is 1
    assert_allclose(found.covariances, unit * expected, atol=1e-9)
    chosen = Shrinkage(fit.header["transport"]["shrinkage"], fit.header["transport"]["towards"])
    assert_allclose(fit.eraser.maps, found.transport(chosen).maps, atol=1e-9)  # type: ignore[attr-defined]


def test_with_no_two_classes_of_enough_rows_only_means_are_removed_and_that_is_said() -> None:
    x, codes = gaussians(105, 4, 2)[0], (np.arange(105) >= 100).astype(int)
    fit = salcli.fit(x, codes, method="transport")
    assert "1 (5), expected at least 10: class means alone are removed, as method sal does" in fit.doubts[0]
    assert fit.header["transport"]["tried"] == []
    open_gate = replace(fit.eraser, posterior=replace(fit.eraser.posterior, certain=0.0))  # type: ignore[attr-defined,type-var]
    assert_allclose(open_gate(x), salcli.fit(x, codes).eraser(x), atol=1e-3)


@settings(deadline=None, max_examples=12)
@given(st.integers(2, 5), st.integers(2, 3), st.integers(0, 50), st.sampled_from([0.3, 0.9, 1.0]), st.booleans())
def test_the_preimage_of_the_right_class_is_the_row(
    d: int, c: int, seed: int, strength: float, keep_mean: bool
) -> None:
    x, codes = gaussians(60 * c, d, c, seed)
    eraser = fitted(x, codes, keep_mean=keep_mean)
    step = fit_sal(ClassMoments.of(x, np.eye(c)[codes]).cross, keep_mean=keep_mean).eraser
    expected = step(x) if strength == 1 else x
    for code in range(c):
        known = exactly_known(eraser, code)
        found = known.preimages(known(x, strength=strength), strength=strength)
        assert found.shape == (len(x), c * d + c)
        assert_allclose(found[:, code * d : (code + 1) * d], expected, atol=1e-6 * max(1, np.abs(x).max()))
        believed = found[:, c * d :] / np.sqrt(np.mean((known(x, strength=strength) - eraser.centre) ** 2))
        assert_allclose(believed, np.broadcast_to(np.arange(c) == code, believed.shape), atol=1e-9)
