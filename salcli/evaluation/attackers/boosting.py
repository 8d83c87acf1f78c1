"""`boosting`: gradient boosting of decision trees."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import Array, Attacker, Axis, Scored, Settings

N_BINS = 64
"""Of a column, for numeric attributes: noise needs no more, and histograms take most of the time."""


@dataclass(frozen=True)
class Boosting(Attacker):
    """scikit-learn's `HistGradientBoostingClassifier`."""

    weighted: bool = False
    n_trees: int = 200
    has_weighted = True
    is_default = False

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (columns are binned)
        """Return the numbers of leaves of a tree (see `Attacker.axes`)."""
        return {"leaves": Axis((4.0, 16.0), 16.0)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Scored:
        """Train on scaled rows (see `Attacker.fit`)."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        trees = HistGradientBoostingClassifier(
            max_iter=self.n_trees,
            max_leaf_nodes=int(settings["leaves"]),
            l2_regularization=1.0,
            early_stopping=False,
            random_state=seed,
            class_weight="balanced" if self.weighted else None,
        )
        return Scored.of(trees.fit(x, y), y)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (trees are small)
        """Return a bound for binned rows, gradients and histograms (see `Attacker.memory_bytes`)."""
        return 2 * n_train * d + 64 * n_train + 256 * 64 * 24 * d


@dataclass(frozen=True, eq=False)
class TreeRegression:
    """Trained trees, of which the first ones are used."""

    trees: Any
    """scikit-learn's regressor."""
    converged: bool = True

    def decision(self, x: Array) -> Array:
        """Return the predicted numbers `[m]` of rows `x` `[m, d]`."""
        return np.asarray(self.trees.predict(x), np.float64)

    def predict(self, x: Array) -> Array:
        """Return the same as `decision`, of rows `x` `[m, d]`."""
        return self.decision(x)


@dataclass(frozen=True)
class BoostingRegression(Attacker):
    """scikit-learn's `HistGradientBoostingRegressor`; the number of trees is chosen, as too many fit what is noise."""

    predicts = "numbers"
    whitens = False

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (columns are binned)
        """Return the numbers of leaves of a tree, and of trees; the same for any width `d`."""
        return {"leaves": Axis((4.0, 16.0), 4.0), "trees": Axis((5.0, 10.0, 25.0, 50.0, 100.0, 200.0), 50.0)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> TreeRegression:
        """Train on scaled rows (see `Attacker.fit`)."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        trees = HistGradientBoostingRegressor(
            max_iter=int(settings["trees"]),
            max_leaf_nodes=int(settings["leaves"]),
            max_bins=N_BINS,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=seed,
        )
        return TreeRegression(trees.fit(x, y))

    def decisions(
        self, x: Array, y: NDArray[Any], new: Array, choices: Sequence[Settings], seed: int
    ) -> Iterator[Array]:
        """Return the predictions of other rows (see `Attacker.decisions`); the first trees of many are those of few."""
        for _, group in itertools.groupby(choices, key=lambda each: each["leaves"]):
            alike = list(group)
            n_trees = [int(settings["trees"]) for settings in alike]
            fitted = self.fit(x, y, alike[0] | {"trees": max(n_trees)}, seed).trees
            staged = dict(enumerate(map(np.asarray, fitted.staged_predict(new)), start=1))
            yield from (staged[n] for n in n_trees)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (trees are small)
        """Return a bound in bytes of binned rows and histograms: `n_train` and `n_test` rows of width `d`."""
        return 2 * n_train * d + 64 * n_train + N_BINS * 64 * 24 * d
