"""Tuning of attackers by cross-validation on their training rows: all settings on few rows, the best on more."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.sampling import stratified_parts
from salcli.evaluation.attackers.base import RANKED, Array, Attacker, Axis, Settings
from salcli.evaluation.attackers.scores import areas, balanced_accuracy, r_squared

WHITENED = "whitened"
"""Setting: 1 if the rows are whitened, else 0."""
FOLDS = 3
ROUGH_ROWS, FINE_ROWS = 1_000, 3_000
"""Rows on which all settings are tried, and rows on which the best `N_FINE` are tried."""
N_FINE = 8
FEW_ROWS = 600
"""Training rows up to which every second value of an axis is tried: differences between more would be chance."""
MOST_STEPS = 4
"""Further values that are tried where the best one is at the end of an axis."""
WORTH = 0.01
"""Least gain in score for a value beyond the grid; each one takes longer than the last."""
AUC_WEIGHT = 0.25
"""Weight of the AUC beside the balanced accuracy: it decides where all predictions are of one class."""
LEVEL = 1e-3
"""Spread of class means, as a share of that expected by chance, below which erasure has made them equal."""
N_PARTS = 5
"""Strata of a numeric attribute, by size."""
View = Callable[[Settings], Array]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The training rows of an attacker."""

    view: View
    """Returns the rows `[n, d]` by settings, or inner products `[n, n]`."""
    y: NDArray[Any]
    d: int
    can_whiten: bool = False


def tuned(attacker: Attacker, rows: TrainingRows, seed: int) -> Settings:
    """Return the settings with the best mean score over folds: balanced accuracy + `AUC_WEIGHT` · AUC; of numbers R².

    All are tried on `ROUGH_ROWS` rows and the best of them on `FINE_ROWS`. Where erasure has made class means equal, as
    on the rows that an eraser was fitted on, the class means of the training and the test part of a fold differ in
    opposite directions, and cross-validation would score below chance: there the means of each fold are made equal
    first. Covariances with a number are treated alike.

    Parameters
    ----------
    attacker : with its axes
    rows : the training rows
    seed : of folds and attackers
    """
    whitens = rows.can_whiten and attacker.whitens and attacker.reads == "vectors"
    few = len(rows.y) <= FEW_ROWS
    axes = {name: _thinned(axis) if few else axis for name, axis in attacker.axes(rows.d).items()}
    if whitens:
        axes = {WHITENED: Axis((0.0, 1.0), 0.0), **axes}
    usual = {name: axis.usual for name, axis in axes.items()}
    choices = [dict(zip(axes, values, strict=True)) for values in itertools.product(*(a.values for a in axes.values()))]
    if len(choices) == 1:
        return choices[0]
    rough = _Trial.of(attacker, rows, ROUGH_ROWS, seed)
    if rough is None:
        return usual
    scores = rough.scores(choices) - _worth(axes, choices)
    trial = rough
    if len(rows.y) > ROUGH_ROWS and len(choices) > N_FINE:
        best = np.sort(np.argsort(-scores, kind="stable")[:N_FINE])
        choices = [choices[i] for i in best]
        trial = _Trial.of(attacker, rows, FINE_ROWS, seed) or rough
        scores = trial.scores(choices) - _worth(axes, choices)
    if usual in choices and scores[choices.index(usual)] >= scores.max():
        return _extended(trial, axes, usual, float(scores.max()))
    place = int(np.argmax(scores))
    return _extended(trial, axes, choices[place], float(scores[place]))


def _worth(axes: dict[str, Axis], choices: Sequence[Settings]) -> Array:
    """Return what each of the settings must gain over the usual ones."""
    return np.array([sum(a.worth for name, a in axes.items() if each[name] != a.usual) for each in choices])


def _thinned(axis: Axis) -> Axis:
    if len(axis.values) <= 2:
        return axis
    at = axis.values.index(axis.usual)
    return Axis(axis.values[at % 2 :: 2], axis.usual, axis.grows)


def _extended(trial: "_Trial", axes: dict[str, Axis], best: Settings, score: float) -> Settings:
    """Return the settings after trying values beyond the ends of axes, as long as the score gains `WORTH`."""
    for name, axis in axes.items():
        if not axis.grows or best[name] not in (axis.values[0], axis.values[-1]) or len(axis.values) < 2:
            continue
        first, second = axis.values[:2]
        ratio = second / first if best[name] == axis.values[-1] else first / second
        for _ in range(MOST_STEPS):
            further = best | {name: best[name] * ratio}
            found = float(trial.scores([further])[0])
            if found < score + WORTH:
                break
            best, score = further, found
    return best


@dataclass(frozen=True, eq=False)
class _Trial:
    """Folds of some of the rows."""

    attacker: Attacker
    rows: TrainingRows
    folds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
    """Training and held-out positions."""
    is_level: bool
    seed: int

    @classmethod
    def of(cls, attacker: Attacker, rows: TrainingRows, most_rows: int, seed: int) -> "_Trial | None":
        """Return folds of at most `most_rows` rows; None if the training rows of a fold would be of one class."""
        strata = _strata(rows.y)
        n = min(most_rows, len(rows.y))
        sizes = [len(part) for part in np.array_split(np.arange(n), FOLDS)]
        parts = [
            np.sort(part) for part in stratified_parts(strata, [s / len(rows.y) for s in sizes], seed, sizes=sizes)
        ]
        folds = [
            (np.sort(np.concatenate([p for j, p in enumerate(parts) if j != i])), test) for i, test in enumerate(parts)
        ]
        if any(len(test) == 0 or len(np.unique(rows.y[train])) < 2 for train, test in folds):
            return None
        return cls(attacker, rows, folds, _are_level(attacker, rows), seed)

    def scores(self, choices: Sequence[Settings]) -> Array:
        """Return the score of each of the settings."""
        found = np.zeros((len(self.folds), len(choices)))
        for i, (train, test) in enumerate(self.folds):
            place = 0
            for _, group in itertools.groupby(choices, key=lambda each: (each.get(WHITENED), each.get(RANKED))):
                settings = list(group)
                x = self.rows.view(settings[0])
                y = self.rows.y[train]
                if self.attacker.reads == "vectors":
                    among, across = x[train], x[test]
                else:
                    among, across = x[np.ix_(train, train)], x[np.ix_(test, train)]
                if self.is_level and not settings[0].get(RANKED):  # else columns that hardly vary lose their ranks
                    among, across = _levelled(among, across, y, of_products=self.attacker.reads == "kernel")
                for decision in self.attacker.decisions(among, y, across, settings, self.seed):
                    found[i, place] = self._score(decision, self.rows.y[test], y)
                    place += 1
        mean: Array = found.mean(axis=0)
        return mean

    def _score(self, decision: Array, true: NDArray[Any], trained: NDArray[Any]) -> float:
        if self.attacker.predicts == "numbers":
            return r_squared(decision, true)
        classes = np.unique(trained)
        predicted = classes[(decision > 0).astype(int) if decision.ndim == 1 else np.argmax(decision, axis=1)]
        found = areas(decision, true, classes)
        return balanced_accuracy(predicted, true) + AUC_WEIGHT * (0.5 if found is None else found.mean)


def _strata(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of each class, or of each of `N_PARTS` equal parts of the numbers by size."""
    if np.issubdtype(y.dtype, np.floating):
        return np.argsort(np.argsort(y, kind="stable")) * N_PARTS // len(y)
    return np.unique(y, return_inverse=True)[1].astype(np.int64)


def _are_level(attacker: Attacker, rows: TrainingRows) -> bool:
    """Return whether class means (or a number and the columns) are more alike (uncorrelated) than by chance."""
    x, q = rows.view({}), _contrasts(rows.y)
    if attacker.reads == "vectors":
        away = x - x.mean(axis=0)
        between, total = float(np.sum((q.T @ away) ** 2)), float(np.sum(away**2)) / len(x)
    else:
        between = float(np.sum(q * (x @ q)))
        total = float(np.trace(x) - x.sum() / len(x)) / len(x)
    return bool(between <= LEVEL * total * q.shape[1])


def _levelled(among: Array, across: Array, y: NDArray[Any], *, of_products: bool) -> tuple[Array, Array]:
    """Remove the differences of the class means of the training rows (or their covariance with y) from all rows."""
    z = _contrasts(y)
    if not of_products:
        left, sizes, _ = np.linalg.svd(among.T @ z, full_matrices=False)
        v = left[:, sizes > 1e-10 * max(float(np.max(sizes, initial=0.0)), 1e-300)]  # rows may have no dimensions
        return among - (among @ v) @ v.T, across - (across @ v) @ v.T
    t, new = among @ z, across @ z
    inverse = np.linalg.pinv(z.T @ t, rcond=1e-10, hermitian=True)
    return among - t @ inverse @ t.T, across - new @ inverse @ t.T


def _contrasts(y: NDArray[Any]) -> Array:
    """Return an orthonormal basis `[n, r]` of what is linear in the classes, or in the numbers, without a constant."""
    if np.issubdtype(y.dtype, np.floating):
        z = y[:, None].astype(np.float64)
    else:
        classes, codes = np.unique(y, return_inverse=True)
        z = np.eye(len(classes))[codes]
    left, sizes, _ = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)
    found: Array = left[:, sizes > 1e-10 * sizes.max()]
    return found
