"""`linear`: a linear support vector machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import PENALTIES, TIE, Array, Attacker, Axis, Scored, Settings


@dataclass(frozen=True)
class LinearSVM(Attacker):
    """A linear SVM with the squared hinge loss, one class against the rest."""

    max_iter: int = 10_000
    weighted: bool = False
    has_weighted = True

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (rows are scaled)
        """Return the values of C (see `Attacker.axes`)."""
        return {"C": Axis(PENALTIES, 1.0, grows=True)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Scored:
        """Train on scaled rows (see `Attacker.fit`)."""
        from sklearn.svm import LinearSVC

        # Always the primal solver, with LIBLINEAR's own tolerance: the dual solver on erased rows, and scikit-learn's
        # tighter tolerance on separable ones, take far more steps to the same predictions.
        solver = LinearSVC(
            C=settings["C"],
            dual=False,
            tol=1e-2,
            max_iter=self.max_iter,
            random_state=seed,
            class_weight="balanced" if self.weighted else None,
        )
        classifier = solver.fit(x, y)
        return Scored.of(classifier, y, converged=bool(np.max(classifier.n_iter_) < self.max_iter), tie=TIE)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (scores are small)
        """Return a bound for the solver's copies of the training rows (see `Attacker.memory_bytes`)."""
        return 8 * 2 * n_train * d
