"""Attackers: what tries to read a guarded attribute, each one entry of `ATTACKERS`, tuned so that none is a straw man.

A new attacker is one object that is an `Attacker`, registered as `ATTACKERS[name] = attacker`.
Polynomial and RBF machines work on Gram matrices made by BLAS, so that the solver need not evaluate the kernel pair by
pair; the decisions are the same.
"""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute
from salcli.data.splits import stratified_parts
from salcli.errors import RangeError

Array = NDArray[np.float64]
Settings = dict[str, float]
Reads = Literal["vectors", "kernel"]
Z95 = 1.959963984540054  # standard normal quantile of .975
TIE = 1e-4  # of the margin: above what float32 rounding of erased rows leaves
PENALTIES = (1.0, 0.1, 10.0)  # C; the first of equals is taken
WIDTHS = (1.0, 0.25, 4.0)  # γ, in units of 1/d: rows are scaled to a mean squared norm of d
DEGREE, COEF0 = 2, 1.0
TUNING_ROWS, VALIDATION = 2_000, 0.25


@dataclass(frozen=True)
class Scaling:
    """One shift and one global factor, taken from the rows before erasure and used after it too.

    C then means the same before and after. Scaling features one by one would blow erased directions up again.
    """

    mean: Array
    factor: float

    @classmethod
    def of(cls, x: NDArray[Any]) -> "Scaling":
        """Return the scaling that centres rows `[n, d]` and brings them to a mean squared norm of d.

        Raises
        ------
        RangeError : the rows vary so little that the factor overflows
        """
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

    def __call__(self, x: NDArray[Any]) -> Array:
        """Return the shifted and scaled rows."""
        return (x.astype(np.float64) - self.mean) * self.factor


class Classifier(Protocol):
    """A trained attacker."""

    @property
    def converged(self) -> bool:
        """Whether the solver met its tolerance."""

    def decision(self, x: Array) -> Array:
        """Return scores as scikit-learn's `decision_function` does.

        Parameters
        ----------
        x : `[m, d]` scaled rows, or `[m, n]` inner products with the training rows

        Returns
        -------
        `[m]` for two classes, positive for the second one; `[m, c]` for more, the largest for the predicted class
        """

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the predicted classes `[m]`; a classifier that has learnt nothing predicts the training majority."""


class Attacker(Protocol):
    """A kind of classifier that tries to read a guarded attribute; one object serves many threads."""

    @property
    def reads(self) -> Reads:
        """What rows are represented by: scaled vectors, or inner products of the eraser's own kernel."""

    def grid(self, d: int) -> Sequence[Settings]:
        """Return the settings to try on rows of width `d`, the usual ones first."""

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Classifier:
        """Train a classifier.

        Parameters
        ----------
        x : `[n, d]` scaled rows, or `[n, n]` inner products of the training rows, as `reads` says
        y : `[n]` classes, at least two
        settings : a member of `grid(d)`
        seed : of every random choice
        """

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        """Bound the bytes that training and prediction take beside the rows or inner products themselves."""


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """A linear SVM that predicts the training majority where it has learnt nothing."""

    classifier: Any
    """scikit-learn's `LinearSVC`."""
    training_order: NDArray[np.int64]
    """`[c]` positions of the classes, most frequent among the training rows first."""
    converged: bool

    def decision(self, x: Array) -> Array:
        """Return scores (see `Classifier`)."""
        return np.asarray(self.classifier.decision_function(x))

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the class of each row; scores closer than `TIE` are ties, and go to the more frequent class.

        On exactly erased rows the solver stops at weights that are rounding noise, whose signs mean nothing.
        """
        scores = self.decision(x)
        if scores.ndim == 1:
            scores = np.stack([-scores, scores], axis=1)
        by_frequency = scores[:, self.training_order]
        is_near = by_frequency >= by_frequency.max(axis=1, keepdims=True) - TIE
        predicted: NDArray[Any] = self.classifier.classes_[self.training_order[np.argmax(is_near, axis=1)]]
        return predicted


@dataclass(frozen=True)
class LinearSVM:
    """A linear SVM with the squared hinge loss, one class against the rest."""

    max_iter: int = 10_000
    reads: Reads = "vectors"

    def grid(self, d: int) -> list[Settings]:  # noqa: ARG002 (rows are scaled)
        """Return the values of C."""
        return [{"C": c} for c in PENALTIES]

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> LinearClassifier:
        """Train on scaled rows (see `Attacker.fit`)."""
        from sklearn.svm import LinearSVC

        # The primal solver, whatever the shape, at LIBLINEAR's own tolerance: the dual one on erased rows, and
        # scikit-learn's tighter tolerance on separable ones, take far more steps to the same answers.
        solver = LinearSVC(C=settings["C"], dual=False, tol=1e-2, max_iter=self.max_iter, random_state=seed)
        classifier = solver.fit(x, y)
        frequent = np.argsort(-np.unique(y, return_counts=True)[1], kind="stable")
        return LinearClassifier(classifier, frequent, bool(np.max(classifier.n_iter_) < self.max_iter))

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (scores are small)
        """Bound the solver's copies of the training rows."""
        return 8 * 2 * n_train * d


@dataclass(frozen=True, eq=False)
class GramClassifier:
    """An SVM on inner products; ties of decisions and of votes go to the more frequent class of the training rows."""

    classifier: Any
    """scikit-learn's `SVC` on a precomputed kernel, one class against one."""
    frequency: NDArray[np.int64]
    """`[c]` rows of each class."""
    converged: bool

    def decision(self, gram: Array) -> Array:
        """Return scores (see `Classifier`); of several classes, votes and then the sum of the pairwise decisions."""
        pairwise = self._pairwise(gram)
        n_classes = len(self.frequency)
        if n_classes == 2:
            return np.asarray(-pairwise[:, 0])
        sums = np.zeros((len(pairwise), n_classes))
        for column, (i, j) in enumerate(zip(*np.triu_indices(n_classes, 1), strict=True)):
            sums[:, i] += pairwise[:, column]
            sums[:, j] -= pairwise[:, column]
        scores: Array = self._votes(pairwise) + sums / (3 * (np.abs(sums) + 1))  # below ½: no sum outweighs a vote
        return scores

    def predict(self, gram: Array) -> NDArray[Any]:
        """Return the class of rows, given their inner products `[m, n]` with the training rows."""
        by_frequency = self._rank
        winners = np.argmax(self._votes(self._pairwise(gram)) + by_frequency / (by_frequency.max() + 1), axis=1)
        predicted: NDArray[Any] = self.classifier.classes_[winners]
        return predicted

    @property
    def _rank(self) -> NDArray[np.int64]:
        """`[c]` frequencies made distinct: of equal ones, that of the first class is the largest."""
        n_classes = len(self.frequency)
        return self.frequency * n_classes - np.arange(n_classes)

    def _pairwise(self, gram: Array) -> Array:
        """Return the decision of every pair of classes `[m, c (c − 1) / 2]`, positive for the first of the pair."""
        decisions = np.asarray(self.classifier.decision_function(gram))
        return -decisions[:, None] if decisions.ndim == 1 else decisions  # of two classes, positive for the second

    def _votes(self, pairwise: Array) -> Array:
        """Count the pairs that each class wins `[m, c]`."""
        votes, rank = np.zeros((len(pairwise), len(self.frequency))), self._rank
        for column, (i, j) in enumerate(zip(*np.triu_indices(len(self.frequency), 1), strict=True)):
            is_tie = np.abs(pairwise[:, column]) <= TIE
            for_first = np.where(is_tie, rank[i] > rank[j], pairwise[:, column] > 0)
            votes[:, i] += for_first
            votes[:, j] += ~for_first
        return votes


@dataclass(frozen=True)
class GramSVM:
    """An SVM with the hinge loss on the inner products of the kernel that the eraser works in."""

    max_iter: int = 10_000_000
    reads: Reads = "kernel"

    def grid(self, d: int) -> list[Settings]:  # noqa: ARG002 (the kernel is the eraser's)
        """Return the usual C alone."""
        return [{"C": 1.0}]

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> GramClassifier:  # noqa: ARG002
        """Train on inner products `[n, n]` (see `Attacker.fit`); nothing is random."""
        from sklearn.svm import SVC

        solver = SVC(kernel="precomputed", C=settings["C"], decision_function_shape="ovo", max_iter=self.max_iter)
        classifier = solver.fit(x, y)
        return GramClassifier(classifier, np.unique(y, return_counts=True)[1], classifier.fit_status_ == 0)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (d is the kernel's affair)
        """Bound the solver's copy of the inner products."""
        return 8 * n_train * n_train


@dataclass(frozen=True, eq=False)
class KernelClassifier:
    """A trained `KernelSVM`, with the rows that it was trained on."""

    svm: "KernelSVM"
    classifier: GramClassifier
    rows: Array
    """`[n, d]` training rows."""
    settings: Settings

    @property
    def converged(self) -> bool:
        """Whether the solver met its tolerance."""
        return self.classifier.converged

    def decision(self, x: Array) -> Array:
        """Return scores (see `Classifier`), block by block."""
        return np.concatenate([self.classifier.decision(gram) for gram in self._grams(x)])

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the class of each row, block by block."""
        return np.concatenate([self.classifier.predict(gram) for gram in self._grams(x)])

    def _grams(self, x: Array) -> Iterator[Array]:
        for start in range(0, len(x), self.svm.block_rows):
            yield self.svm.gram(x[start : start + self.svm.block_rows], self.rows, self.settings)


@dataclass(frozen=True)
class KernelSVM:
    """An SVM with the hinge loss and a kernel of its own: `poly` (γ xᵀy + 1)², or `rbf` exp(−γ‖x − y‖²)."""

    kernel: Literal["poly", "rbf"]
    widths: tuple[float, ...]
    """γ to try, in units of 1/d."""
    block_rows: int = 2_048
    """Rows whose inner products are in memory at once in prediction."""
    solver: GramSVM = GramSVM()
    reads: Reads = "vectors"

    def grid(self, d: int) -> list[Settings]:
        """Return the pairs of C and γ."""
        return [{"C": c, "gamma": width / d} for width, c in itertools.product(self.widths, PENALTIES)]

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> KernelClassifier:
        """Train on scaled rows (see `Attacker.fit`)."""
        return KernelClassifier(self, self.solver.fit(self.gram(x, x, settings), y, settings, seed), x, settings)

    def gram(self, x: Array, y: Array, settings: Settings) -> Array:
        """Return the inner products `[a, b]` of rows `[a, d]` with rows `[b, d]`."""
        from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

        if self.kernel == "rbf":
            return np.asarray(rbf_kernel(x, y, gamma=settings["gamma"]))
        return np.asarray(polynomial_kernel(x, y, degree=DEGREE, gamma=settings["gamma"], coef0=COEF0))

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (blocks of test rows)
        """Bound the Gram matrix, a second of it on the way, blocks and rows."""
        return 8 * n_train * (2 * n_train + 2 * self.block_rows + 2 * d)


ATTACKERS: dict[str, Attacker] = {
    "linear": LinearSVM(),
    "poly": KernelSVM("poly", WIDTHS[:1]),
    "rbf": KernelSVM("rbf", WIDTHS),
    "same-kernel": GramSVM(),
}
"""By the name in `--probes`. Unless some are named, all that can read what there is take part, in this order."""


def names_of(reads: Reads) -> tuple[str, ...]:
    """Return the names of the attackers that read vectors, or of those that read a kernel."""
    return tuple(name for name, attacker in ATTACKERS.items() if attacker.reads == reads)


def tuned(
    attacker: Attacker, x: Array, y: NDArray[Any], d: int, *, seed: int, most_rows: int = TUNING_ROWS
) -> Settings:
    """Return the best settings on a validation part of the training rows, a quarter of at most `most_rows` rows.

    Parameters
    ----------
    x : `[n, d]` scaled rows, or `[n, n]` inner products, as the attacker reads them
    y : `[n]` classes
    d : width of the rows

    Returns
    -------
    the best of `grid`, or the first of it, the usual settings, unless the best beats them by a standard error: among
    attackers that read next to nothing, the luckiest is not the strongest
    """
    choices = attacker.grid(d)
    strata = np.unique(y, return_inverse=True)[1].astype(np.int64)
    n_used = min(most_rows, len(y))
    n_validation = int(n_used * VALIDATION)
    sizes = [n_used - n_validation, n_validation]
    train, validation = stratified_parts(strata, [size / len(y) for size in sizes], seed, sizes=sizes)
    if len(choices) == 1 or not len(validation) or len(np.unique(y[train])) < 2:
        return choices[0]
    if attacker.reads == "vectors":
        of_train, of_validation = x[train], x[validation]
    else:
        of_train, of_validation = x[np.ix_(train, train)], x[np.ix_(validation, train)]
    shares = []
    for settings in choices:
        classifier = attacker.fit(of_train, y[train], settings, seed)
        shares.append(float(np.mean(classifier.predict(of_validation) == y[validation])))
    usual, best = shares[0], int(np.argmax(shares))
    return choices[best if shares[best] > usual + np.sqrt(usual * (1 - usual) / len(validation)) else 0]


def wilson(n_right: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of successes (Wilson 1927)."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = n_right / n, Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def balanced_accuracy(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    """Return the recall averaged over the classes that occur in `true`."""
    return float(np.mean([np.mean(predicted[true == value] == value) for value in np.unique(true)]))


def majority_rate(true: NDArray[Any]) -> float:
    """Return the share of the most frequent class."""
    return float(np.unique(true, return_counts=True)[1].max() / len(true))


def class_counts(attribute: Attribute, codes: NDArray[Any]) -> dict[str, int]:
    """Return how many of the codes `[n]` are of each class, by its name, without the classes that do not occur."""
    found, counts = np.unique(codes, return_counts=True)
    return {(attribute.classes or ())[code]: n for code, n in zip(found.tolist(), counts.tolist(), strict=True)}


@contextmanager
def silence_convergence_warnings() -> Iterator[None]:
    """Ignore scikit-learn's ConvergenceWarning of each fit: every result says itself whether it converged."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
