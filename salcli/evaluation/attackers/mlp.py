"""`mlp`: a neural network of one hidden layer."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from salcli.evaluation.attackers.base import Array, Attacker, Axis, Scored, Settings


@dataclass(frozen=True)
class Perceptron(Attacker):
    """One hidden layer of rectified linear units, trained by Adam, stopped early on a tenth of the rows."""

    weighted: bool = False
    n_units: int = 256
    max_iter: int = 200
    least_rows: int = 200
    """Training rows below which none are kept for early stopping."""
    has_weighted = True
    is_default = False

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (rows are scaled)
        """Return the weights of the L2 penalty (see `Attacker.axes`)."""
        return {"alpha": Axis((1e-4, 1e-1, 1.0, 10.0), 1e-1)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Scored:
        """Train on scaled rows (see `Attacker.fit`). It is stopped early, so it always counts as converged."""
        from sklearn.neural_network import MLPClassifier
        from sklearn.utils.class_weight import compute_sample_weight

        network = MLPClassifier(
            (self.n_units,),
            alpha=settings["alpha"],
            early_stopping=len(y) >= self.least_rows,
            max_iter=self.max_iter,
            random_state=seed,
        )
        return Scored.of(network.fit(x, y, compute_sample_weight("balanced", y) if self.weighted else None), y)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        """Return a bound for weights, their moments, rows and activations (see `Attacker.memory_bytes`)."""
        return 8 * (5 * self.n_units * (d + 16) + 2 * n_train * d + n_test * self.n_units)
