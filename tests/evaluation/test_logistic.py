"""The main task's classifier: the C that cross-validation finds best, against scikit-learn's own search."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from salcli.evaluation import logistic
from salcli.evaluation.logistic import PENALTIES, fit_logistic

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def noisy(n: int = 240, d: int = 60, n_classes: int = 3) -> Rows:
    """Rows with a weak signal in many dimensions, which a large C overfits."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n_classes, d))[y] * 0.25 + rng.normal(size=(n, d)), y


def test_the_chosen_penalty_has_most_right_answers_over_the_folds() -> None:
    x, y = noisy()
    found = fit_logistic(x, y, 0)
    right = {}
    for c in PENALTIES:
        right[c] = sum(
            int(np.sum(LogisticRegression(C=c, max_iter=5_000).fit(x[train], y[train]).predict(x[held]) == y[held]))
            for train, held in logistic._folds(y, 0)
        )
    assert right[found.c] >= max(right.values()) - 3  # the search ends early, and on another tolerance
    assert found.c < 1
    assert found.converged


def test_folds_take_turns_and_hold_every_class_in_its_share() -> None:
    y = np.repeat([0, 1, 2], [60, 30, 10])
    folds = logistic._folds(y, 0)
    assert np.array_equal(np.sort(np.concatenate([held for _, held in folds])), np.arange(100))
    for train, held in folds:
        assert not np.intersect1d(train, held).size
        assert np.bincount(y[held]).tolist() == [12, 6, 2]


def test_where_more_and_more_is_better_the_grid_goes_on() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = np.stack([3e-3 * (2 * y - 1 + 0.2 * rng.normal(size=400)), rng.normal(size=400)], axis=1)
    right = [
        np.mean(LogisticRegression(C=c, max_iter=5_000).fit(x[:200], y[:200]).predict(x[200:]) == y[200:])
        for c in (1.0, 1e2, 1e3)
    ]
    assert right == sorted(right)
    assert fit_logistic(x, y, 0).c > PENALTIES[-1]


@pytest.mark.parametrize("n", [2, 3])
def test_rows_too_few_for_folds_are_learnt_with_the_usual_penalty(n: int) -> None:
    found = fit_logistic(np.array([[-1.0], [1.0], [2.0]])[:n], np.array([0, 1, 1])[:n], 0)
    assert found.c == 1.0
    assert found.predict(np.array([[-3.0], [3.0]])).tolist() == [0, 1]


def test_a_solver_that_stops_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "MOST_STEPS", 1)
    x, y = noisy()
    with pytest.warns(match="lbfgs failed to converge"):
        assert not fit_logistic(x, y, 0).converged
