"""Attackers on vectors: linear, polynomial and RBF machines, tuned so that none of them is a straw man.

Polynomial and RBF machines work on Gram matrices made by BLAS, so that the solver need not evaluate the kernel pair by
pair; the decisions are the same.
"""

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.splits import stratified_parts
from salcli.errors import RangeError
from salcli.evaluation.shares import difference

Array = NDArray[np.float64]
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
    """Whether the training rows were cut down to `probe_rows`."""
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


MOST_SOLVER_STEPS = 10_000_000


@dataclass(frozen=True, eq=False)
class KernelProbe:
    """A trained machine; ties of decisions and of votes go to the more frequent class of the training rows."""

    classifier: Any
    """scikit-learn's `SVC` on a precomputed kernel."""
    frequency: NDArray[np.int64]
    """`[c]` rows of each class."""
    converged: bool
    """Whether the solver met its tolerance."""

    @classmethod
    def train(cls, gram: Array, y: NDArray[Any], *, c: float = 1.0) -> "KernelProbe":
        """Train with the hinge loss, weighed against the norm by C.

        Parameters
        ----------
        gram : `[n, n]` inner products of the training rows
        y : `[n]` classes, at least two
        c : C
        """
        from sklearn.svm import SVC

        machine = SVC(kernel="precomputed", C=c, decision_function_shape="ovo", max_iter=MOST_SOLVER_STEPS)
        classifier = machine.fit(gram, y)
        return cls(classifier, np.unique(y, return_counts=True)[1], classifier.fit_status_ == 0)

    def predict(self, gram: Array) -> NDArray[Any]:
        """Answer for rows, given their inner products `[m, n]` with the training rows."""
        decisions = self.classifier.decision_function(gram)
        if decisions.ndim == 1:
            decisions = -decisions[:, None]  # of two classes, scikit-learn counts towards the second
        n_classes = len(self.frequency)
        by_frequency = self.frequency * n_classes - np.arange(n_classes)  # distinct: equal classes go to the first
        votes = np.zeros((len(decisions), n_classes))
        for column, (i, j) in enumerate(zip(*np.triu_indices(n_classes, 1), strict=True)):
            is_tie = np.abs(decisions[:, column]) <= TIE
            for_first = np.where(is_tie, by_frequency[i] > by_frequency[j], decisions[:, column] > 0)
            votes[:, i] += for_first
            votes[:, j] += ~for_first
        winners = np.argmax(votes + by_frequency / (by_frequency.max() + 1), axis=1)
        answers: NDArray[Any] = self.classifier.classes_[winners]
        return answers


Settings = dict[str, float]
VECTOR_PROBES = ("linear", "poly", "rbf")
PENALTIES = (1.0, 0.1, 10.0)  # C; the first of equals is taken
WIDTHS = (1.0, 0.25, 4.0)  # γ, in units of 1/d: rows are scaled to a mean squared norm of d
DEGREE, COEF0 = 2, 1.0
TUNING_ROWS, VALIDATION = 2_000, 0.25
BLOCK_ROWS = 2_048


@dataclass(frozen=True, eq=False)
class Attacker:
    """A machine trained on vectors."""

    name: str
    settings: Settings
    """C, and γ where it has one."""
    machine: LinearProbe | KernelProbe
    rows: Array | None
    """`[n, d]` training rows, of a kernel machine."""

    @property
    def converged(self) -> bool:
        """Whether the solver met its tolerance."""
        return self.machine.converged

    @classmethod
    def train(cls, name: str, x: Array, y: NDArray[Any], settings: Settings, *, seed: int) -> "Attacker":
        """Train on rows `[n, d]`, scaled, of classes `[n]`."""
        if name == "linear":
            return cls(name, settings, LinearProbe.train(x, y, c=settings["C"], seed=seed), None)
        return cls(name, settings, KernelProbe.train(_gram(name, x, x, settings), y, c=settings["C"]), x)

    def predict(self, x: Array) -> NDArray[Any]:
        """Answer for rows `[m, d]`, block by block."""
        parts = (x[start : start + BLOCK_ROWS] for start in range(0, len(x), BLOCK_ROWS))
        return np.concatenate([self._answers(part) for part in parts])

    def _answers(self, x: Array) -> NDArray[Any]:
        if isinstance(self.machine, LinearProbe):
            return self.machine.predict(x)
        assert self.rows is not None
        return self.machine.predict(_gram(self.name, x, self.rows, self.settings))


def kernel_bytes(n_train: int, d: int) -> int:
    """Bound the memory that a kernel machine takes: its Gram matrix, a second of it on the way, blocks, rows."""
    return 8 * n_train * (2 * n_train + 2 * BLOCK_ROWS + 2 * d)


def grid(name: str, d: int) -> list[Settings]:
    """Give the settings that are tried, the usual ones first."""
    if name == "linear":
        return [{"C": c} for c in PENALTIES]
    widths = WIDTHS if name == "rbf" else WIDTHS[:1]
    return [{"C": c, "gamma": width / d} for width, c in itertools.product(widths, PENALTIES)]


def tuned(name: str, x: Array, y: NDArray[Any], *, seed: int) -> Settings:
    """Choose settings on a validation part of the training rows: at most 2,000 of them, a quarter held back.

    Returns
    -------
    the best of `grid`, or the first of it, the usual settings, unless the best beats them by a standard error: among
    attackers that read next to nothing, the luckiest is not the strongest
    """
    choices = grid(name, x.shape[1])
    strata = np.unique(y, return_inverse=True)[1].astype(np.int64)
    n_used = min(TUNING_ROWS, len(y))
    n_held = int(n_used * VALIDATION)
    shares = [(n_used - n_held) / len(y), n_held / len(y)]
    train, held = stratified_parts(strata, shares, seed, sizes=[n_used - n_held, n_held])
    if not len(held) or len(np.unique(y[train])) < 2:
        return choices[0]
    shares = []
    for settings in choices:
        attacker = Attacker.train(name, x[train], y[train], settings, seed=seed)
        shares.append(float(np.mean(attacker.predict(x[held]) == y[held])))
    usual, best = shares[0], int(np.argmax(shares))
    return choices[best if shares[best] > usual + np.sqrt(usual * (1 - usual) / len(held)) else 0]


@contextmanager
def untold() -> Iterator[None]:
    """Keep solvers from warning, once a fit, that they did not converge: every result says so itself."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _gram(name: str, x: Array, y: Array, settings: Settings) -> Array:
    from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

    if name == "rbf":
        return np.asarray(rbf_kernel(x, y, gamma=settings["gamma"]))
    return np.asarray(polynomial_kernel(x, y, degree=DEGREE, gamma=settings["gamma"], coef0=COEF0))
