"""Attackers of numbers: against scikit-learn, and what tuning makes of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import rbf_kernel

from salcli.erasers.sal import fit_sal
from salcli.evaluation.attackers import REGRESSORS
from salcli.evaluation.attackers.base import Attacker, Axis, Scaling, Settings
from salcli.evaluation.attackers.boosting import BoostingRegression
from salcli.evaluation.attackers.kernel_ridge import GramRidge, KernelRidge
from salcli.evaluation.attackers.ridge import Ridge
from salcli.evaluation.attackers.tuning import TrainingRows, tuned
from salcli.linalg.moments import CrossMoments
from salcli.streaming.engine import one_blas_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As in a command: threads of trees that wait for each other take many times as long on a busy machine."""
    with one_blas_thread():
        yield


Array = NDArray[np.float64]
ON_ROWS = ("ridge", "kernel-ridge", "boosting")


def drawn(n: int = 400, d: int = 5, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return Scaling.of(x)(x), x[:, 0] + 2 * x[:, 1] + rng.normal(size=n) + 7


def choice(attacker: Attacker, x: Array, y: Array) -> Settings:
    return tuned(attacker, TrainingRows(lambda _: x, y, x.shape[1]), 0)


@pytest.mark.parametrize("shape", [(60, 5), (20, 40)])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_ridge_is_scikit_learns_with_a_penalty_of_n_alpha(shape: tuple[int, int], alpha: float) -> None:
    x, y = drawn(*shape)
    new = np.random.default_rng(1).normal(size=(30, shape[1]))
    expected = SklearnRidge(alpha=alpha * len(x)).fit(x, y).predict(new)
    assert_allclose(Ridge().fit(x, y, {"alpha": alpha}, 0).predict(new), expected, atol=1e-8)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_kernel_ridge_is_scikit_learns_about_the_mean(alpha: float) -> None:
    x, y = drawn(80)
    new, settings = np.random.default_rng(1).normal(size=(5_000, 5)), {"gamma": 0.3, "alpha": alpha}
    expected = y.mean() + SklearnKernelRidge(alpha=alpha, kernel="rbf", gamma=0.3).fit(x, y - y.mean()).predict(new)
    assert_allclose(KernelRidge().fit(x, y, settings, 0).predict(new), expected, atol=1e-8)
    gram = GramRidge().fit(rbf_kernel(x, gamma=0.3), y, {"alpha": alpha}, 0)
    assert_allclose(gram.predict(rbf_kernel(new, x, gamma=0.3)), expected, atol=1e-8)


def test_a_penalty_too_small_for_products_that_are_singular_is_said_not_to_converge() -> None:
    found = GramRidge().fit(np.ones((5, 5)), np.arange(5.0), {"alpha": -1.0}, 0)
    assert not found.converged
    assert found.predict(np.ones((1, 5))).tolist() == [2.0]


@pytest.mark.parametrize("name", REGRESSORS)
def test_scores_of_many_settings_are_those_of_one_after_the_other(name: str) -> None:
    attacker = REGRESSORS[name]
    x, y = drawn(120)
    new = np.random.default_rng(1).normal(size=(40, 5))
    if attacker.reads == "kernel":
        x, new = rbf_kernel(x), rbf_kernel(new, x)
    choices = attacker.grid(5)
    found = list(attacker.decisions(x, y, new, choices, 0))
    for settings, decision in zip(choices, found, strict=True):
        assert_allclose(decision, attacker.fit(x, y, settings, 0).decision(new), atol=1e-8)
    assert attacker.usual(5) in choices
    assert attacker.predicts == "numbers"
    assert attacker.memory_bytes(2_000, 500, 10) >= 2_000 * 10


def test_boosting_is_scikit_learns() -> None:
    x, y = drawn(200)
    trees = HistGradientBoostingRegressor(
        max_iter=25, max_leaf_nodes=4, max_bins=64, l2_regularization=1.0, early_stopping=False, random_state=0
    )
    found = BoostingRegression().fit(x, y, {"leaves": 4.0, "trees": 25.0}, 0)
    assert_allclose(found.predict(x), trees.fit(x, y).predict(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ROWS)
def test_what_is_linear_is_read_by_all_and_a_square_by_none_but_the_nonlinear(name: str) -> None:
    x, y = drawn(900)
    square = x[:, 0] ** 2 + 0.3 * np.random.default_rng(1).normal(size=900)
    for target, is_read in ((y, True), (square, name != "ridge"), (np.random.default_rng(2).normal(size=900), False)):
        attacker = REGRESSORS[name]
        settings = choice(attacker, x[:600], target[:600])
        fitted = attacker.fit(x[:600], target[:600], settings, 0)
        found = r2_score(target[600:], fitted.predict(x[600:]))
        assert found > 0.6 if is_read else -0.06 < found < 0.05


@pytest.mark.slow
def test_on_fitted_rows_whose_covariance_is_erased_tuning_still_finds_what_is_not_linear() -> None:
    rng = np.random.default_rng(0)
    n, d = 600, 8
    x = rng.normal(size=(n, d))
    number = x[:, 0] + x[:, 1] * x[:, 2] + 0.3 * rng.normal(size=n)
    eraser = fit_sal(CrossMoments.of(x, number[:, None])).eraser
    erased = Scaling.of(x)(eraser(x))
    settings = choice(KernelRidge(), erased, number)
    new = rng.normal(size=(n, d))
    true = new[:, 0] + new[:, 1] * new[:, 2] + 0.3 * rng.normal(size=n)
    fitted = KernelRidge().fit(erased, number, settings, 0)
    assert r2_score(true, fitted.predict(Scaling.of(x)(eraser(new)))) > 0.25


class Choice(Ridge):
    """Least squares, or always the mean."""

    def axes(self, d: int) -> dict[str, Axis]:
        return {"alpha": Axis((1e-9, 1e9), 1e-9)}


def test_where_a_covariance_is_erased_folds_do_not_read_less_than_nothing() -> None:
    rng = np.random.default_rng(0)
    number = rng.normal(size=700)
    x, centred = rng.normal(size=(700, 1)), number - number.mean()
    x -= x.mean(axis=0)
    erased = x - np.outer(centred, centred @ x) / (centred @ centred)
    assert choice(Choice(), erased, number) == {"alpha": 1e-9}  # as good as the mean: else it would read less
    assert choice(Choice(), x, np.sign(x[:, 0]) + number) == {"alpha": 1e-9}


@pytest.mark.parametrize("name", ["ridge", "kernel-ridge"])
def test_grids_go_on_beyond_their_ends(name: str, monkeypatch: Any) -> None:
    x, y = drawn(700, seed=3)
    narrow = REGRESSORS[name].axes(5) | {"alpha": Axis((1e3, 1e4), 1e3, grows=True)}
    monkeypatch.setattr(type(REGRESSORS[name]), "axes", lambda self, d: narrow)
    assert choice(REGRESSORS[name], x, y)["alpha"] < 1e3
