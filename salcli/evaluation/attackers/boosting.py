"""`boosting`: gradient boosting of decision trees."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from salcli.evaluation.attackers.base import Array, Attacker, Axis, Scored, Settings


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
