"""Probes: attackers trained to read a guarded attribute, and how well they do."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError
from salcli.evaluation.shares import difference

Z95 = 1.959963984540054  # standard normal quantile of .975
MOST_STEPS = 10_000
TOLERANCE = 1e-2
TIE = 1e-4  # of the margin: above what float32 rounding of erased rows leaves


@dataclass(frozen=True)
class ProbeResult:
    """One attacker's result on the test rows."""

    attribute: str
    probe: str
    adversary: str
    """in-sample (trained on the fitted rows) or fresh (on rows that took no part in the fit)."""
    stage: str
    """before or after erasure."""
    accuracy: float
    ci95: tuple[float, float]
    """Wilson interval of the accuracy."""
    balanced_accuracy: float
    """Mean over classes of the share that was recognised."""
    majority: float
    """Share of the most frequent class among the test rows: what a blind guess reaches."""
    n_train: int
    n_test: int
    converged: bool
    capped: bool
    """Whether the training rows were cut down to --probe-rows."""
    n_classes: int
    hyperparameters: dict[str, float] = field(default_factory=dict, hash=False)
    """C, and γ where there is one; the same before and after."""

    @property
    def leakage(self) -> float:
        """What a gate judges: accuracy, and for two classes also that of the flipped answers."""
        return max(self.accuracy, difference(1, self.accuracy)) if self.n_classes == 2 else self.accuracy

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {
            "attribute": self.attribute,
            "probe": self.probe,
            "adversary": self.adversary,
            "stage": self.stage,
            "accuracy": self.accuracy,
            "ci95": list(self.ci95),
            "balanced_accuracy": self.balanced_accuracy,
            "majority": self.majority,
            "n_train": self.n_train,
            "n_test": self.n_test,
            "converged": self.converged,
            "capped": self.capped,
            "hyperparameters": self.hyperparameters,
            "leakage": self.leakage,
        }


@dataclass(frozen=True)
class Scaling:
    """One shift and one global factor, taken from the rows before erasure and used after it too.

    C then means the same before and after. Scaling features one by one would blow erased directions up again.
    """

    mean: NDArray[np.float64]
    factor: float

    @classmethod
    def of(cls, x: NDArray[Any]) -> "Scaling":
        """Centre `x`, and bring its rows to a mean squared norm of d."""
        mean = x.mean(axis=0, dtype=np.float64)
        deviation = x.astype(np.float64) - mean
        largest = float(np.max(np.abs(deviation), initial=0.0))  # taken out first, so that no square overflows
        if largest == 0:
            return cls(mean, 1.0)
        with np.errstate(over="ignore"):
            factor = float(1 / np.sqrt(np.mean((deviation / largest) ** 2)) / largest)
        if not np.isfinite(factor):
            raise RangeError(f"rows that vary by {largest:.3g} at most are too small for a probe: scale them up")
        return cls(mean, factor)

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Shift and scale."""
        return (x.astype(np.float64) - self.mean) * self.factor


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """A trained linear SVM that guesses the training majority where it has learnt nothing."""

    classifier: Any
    """scikit-learn's `LinearSVC`."""
    training_order: NDArray[np.int64]
    """`[c]` positions of the classes, most frequent among the training rows first."""
    converged: bool
    """Whether the solver met its tolerance."""

    @classmethod
    def train(cls, x: NDArray[np.float64], y: NDArray[Any], *, c: float = 1.0, seed: int) -> "LinearProbe":
        """Train with the squared hinge loss, weighed against the norm by C, one against the rest.

        Parameters
        ----------
        x : `[n, d]` scaled rows
        y : `[n]` classes, at least two
        c : C
        """
        from sklearn.svm import LinearSVC

        # The primal solver, whatever the shape, at LIBLINEAR's own tolerance: the dual one on erased rows, and
        # scikit-learn's tighter tolerance on separable ones, take far more steps to the same answers.
        solver = LinearSVC(C=c, dual=False, tol=TOLERANCE, max_iter=MOST_STEPS, random_state=seed)
        classifier = solver.fit(x, y)
        frequent = np.argsort(-np.unique(y, return_counts=True)[1], kind="stable")
        return cls(classifier, frequent, bool(np.max(classifier.n_iter_) < MOST_STEPS))

    def predict(self, x: NDArray[np.float64]) -> NDArray[Any]:
        """Answer for each row; scores closer than `TIE` are ties, and go to the more frequent class.

        On exactly erased rows the solver stops at weights that are rounding noise, whose signs mean nothing.
        """
        scores = self.classifier.decision_function(x)
        if scores.ndim == 1:
            scores = np.stack([-scores, scores], axis=1)
        by_frequency = scores[:, self.training_order]
        is_near = by_frequency >= by_frequency.max(axis=1, keepdims=True) - TIE
        answers: NDArray[Any] = self.classifier.classes_[self.training_order[np.argmax(is_near, axis=1)]]
        return answers


def wilson(n_right: int, n: int) -> tuple[float, float]:
    """Bound a share of successes with 95% confidence (Wilson 1927)."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = n_right / n, Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def balanced_accuracy(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Average the share recognised over the classes that occur in `true`."""
    return float(np.mean([np.mean(predicted[true == value] == value) for value in np.unique(true)]))


def majority_rate(true: NDArray[Any]) -> float:
    """Give the share of the most frequent class."""
    return float(np.unique(true, return_counts=True)[1].max() / len(true))
