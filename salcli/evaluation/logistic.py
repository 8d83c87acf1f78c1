"""The classifier of the main task: logistic regression, whose C is chosen by cross-validation on its training rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.sampling import stratified_parts
from salcli.evaluation.attackers.base import Array

Codes = NDArray[np.integer[Any]]
PENALTIES = tuple(float(10.0 ** (half / 2)) for half in range(-8, 5))
"""C, rising from 1e-4 to 100; rows are scaled to a mean squared norm of d."""
BEYOND = 4
"""Further values, each √10 times the last, where the greatest is the best."""
FOLDS = 5
PATIENCE = 3
"""The search ends after so many values of C that are worse than the best by two standard errors: a large C is slow."""
MOST_STEPS = 5_000
ROUGH, FINE = 2e-4, 2e-5
"""Tolerance of the solver, the largest component of the gradient of the mean loss: in the search, and in the end."""


@dataclass(frozen=True, eq=False)
class Logistic:
    """A trained classifier."""

    classifier: Any
    """scikit-learn's `LogisticRegression`."""
    c: float
    converged: bool

    def predict(self, x: Array) -> Codes:
        """Return the classes `[m]` of scaled rows `x` `[m, d]`."""
        predicted: Codes = self.classifier.predict(x)
        return predicted


def fit_logistic(x: Array, y: Codes, seed: int) -> Logistic:
    """Return a multinomial logistic regression with the C of the highest cross-validated accuracy.

    Parameters
    ----------
    x : `[n, d]` scaled rows
    y : `[n]` classes, at least two
    seed : of the folds
    """
    c = _best_penalty(x, y, seed)
    classifier = _classifier(FINE).set_params(C=c).fit(x, y)
    return Logistic(classifier, c, _is_converged(classifier))


def _classifier(tolerance: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(tol=tolerance, max_iter=MOST_STEPS, warm_start=True)


def _is_converged(classifier: Any) -> bool:
    return bool(np.max(classifier.n_iter_) < MOST_STEPS)


def _best_penalty(x: Array, y: Codes, seed: int) -> float:
    """Return the C with the most correct predictions over the folds; of equally good ones the least."""
    folds = _folds(y, seed)
    if not folds:
        return 1.0
    classifiers = [_classifier(ROUGH) for _ in folds]  # warm start: each continues from its weights at the previous C
    right = list[int]()
    penalties = (*PENALTIES, *(PENALTIES[-1] * 10 ** (half / 2) for half in range(1, BEYOND + 1)))
    for c in penalties:
        if len(right) >= len(PENALTIES) and np.argmax(right) < len(right) - 1:
            break
        if right and max(right[-PATIENCE:]) < max(right) - 2 * np.sqrt(max(right) * (1 - max(right) / len(y))):
            break
        right.append(0)
        for classifier, (train, test) in zip(classifiers, folds, strict=True):
            classifier.set_params(C=c).fit(x[train], y[train])
            right[-1] += int(np.sum(classifier.predict(x[test]) == y[test]))
    return penalties[int(np.argmax(right))]


def _folds(y: Codes, seed: int) -> Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return training and held-out positions, stratified by class; none where a fold has one class to train on."""
    strata = np.unique(y, return_inverse=True)[1].astype(np.int64)
    n_folds = min(FOLDS, len(y))
    sizes = [len(part) for part in np.array_split(y, n_folds)]
    parts = stratified_parts(strata, [size / len(y) for size in sizes], seed, sizes=sizes)
    folds = [(np.setdiff1d(np.arange(len(y)), part), part) for part in parts]
    return [] if any(len(np.unique(y[train])) < 2 for train, _ in folds) else folds
