"""`poly`, `rbf` and `same-kernel`: support vector machines on Gram matrices.

The matrices are computed by BLAS, so that the solver does not evaluate the kernel pair by pair; decisions are the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import PENALTIES, TIE, Array, Attacker, Axis, Settings

DEGREE, COEF0 = 2, 1.0
TRIAL_STEPS = 200_000
"""Limit of the solver where settings are tried: slower ones are not chosen, as they would take hours on all rows."""


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
        """Return the classes `[m]` of rows from `gram` `[m, n]`, their inner products with the training rows."""
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
class GramSVM(Attacker):
    """An SVM with the hinge loss on the inner products of the kernel that the eraser works in."""

    max_iter: int = 10_000_000
    weighted: bool = False
    reads = "kernel"
    has_weighted = True

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (the kernel is the eraser's)
        """Return the values of C (see `Attacker.axes`)."""
        return {"C": Axis(PENALTIES, 1.0, grows=True)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> GramClassifier:  # noqa: ARG002
        """Train on inner products `[n, n]` (see `Attacker.fit`); nothing is random."""
        from sklearn.svm import SVC

        solver = SVC(
            kernel="precomputed",
            C=settings["C"],
            decision_function_shape="ovo",
            max_iter=self.max_iter,
            class_weight="balanced" if self.weighted else None,
        )
        classifier = solver.fit(x, y)
        return GramClassifier(classifier, np.unique(y, return_counts=True)[1], classifier.fit_status_ == 0)

    def decisions(
        self, x: Array, y: NDArray[Any], new: Array, choices: Sequence[Settings], seed: int
    ) -> Iterator[Array]:
        """Yield the scores of new rows (see `Attacker.decisions`), 0 where the solver takes too many steps."""
        trial = replace(self, max_iter=min(self.max_iter, TRIAL_STEPS))
        for settings in choices:
            classifier = trial.fit(x, y, settings, seed)
            decision = classifier.decision(new)
            yield decision if classifier.converged else np.zeros_like(decision)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (only n_train counts)
        """Return a bound for the solver's copy of the inner products (see `Attacker.memory_bytes`)."""
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
        """Return scores (see `Classifier.decision`), block by block."""
        return np.concatenate([*map(self.classifier.decision, self.svm.blocks(x, self.rows, self.settings))])

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the class of each row of `x` `[m, d]`, block by block."""
        return np.concatenate([*map(self.classifier.predict, self.svm.blocks(x, self.rows, self.settings))])


@dataclass(frozen=True)
class KernelSVM(Attacker):
    """An SVM with the hinge loss and a kernel: `poly`, ((γ xᵀy + 1) / (γd + 1))², or `rbf`, exp(−γ‖x − y‖²)."""

    kernel: Literal["poly", "rbf"]
    widths: tuple[float, ...]
    """γ to try, in units of 1/d."""
    block_rows: int = 2_048
    """Rows whose inner products are in memory at once in prediction."""
    solver: GramSVM = GramSVM()
    weighted: bool = False
    has_weighted = True

    def axes(self, d: int) -> dict[str, Axis]:
        """Return the values of C and γ (see `Attacker.axes`)."""
        widths = Axis(tuple(width / d for width in self.widths), 1 / d, grows=True)
        return {"gamma": widths, "C": Axis(PENALTIES, 1.0, grows=True)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> KernelClassifier:
        """Train on scaled rows (see `Attacker.fit`)."""
        return KernelClassifier(self, self._solver().fit(self.gram(x, x, settings), y, settings, seed), x, settings)

    def decisions(
        self, x: Array, y: NDArray[Any], new: Array, choices: Sequence[Settings], seed: int
    ) -> Iterator[Array]:
        """Yield the scores of new rows (see `Attacker.decisions`)."""
        for settings, among, across in self.grams(x, new, choices):
            yield from self._solver().decisions(among, y, across, [settings], seed)

    def grams(self, x: Array, new: Array, choices: Sequence[Settings]) -> Iterator[tuple[Settings, Array, Array]]:
        """Yield settings, inner products of training rows, and of new with training rows; settings of one γ share them.

        Parameters
        ----------
        x : `[n, d]` training rows
        new : `[m, d]` other rows
        choices : settings, those of one γ in succession
        """
        gamma, among, across = np.nan, np.zeros((0, 0)), np.zeros((0, 0))
        for settings in choices:
            if settings["gamma"] != gamma:
                gamma, among, across = settings["gamma"], self.gram(x, x, settings), self.gram(new, x, settings)
            yield settings, among, across

    def blocks(self, x: Array, rows: Array, settings: Settings) -> Iterator[Array]:
        """Yield the inner products of the rows `x` with the training `rows`, `block_rows` of x at once."""
        for start in range(0, len(x), self.block_rows):
            yield self.gram(x[start : start + self.block_rows], rows, settings)

    def gram(self, x: Array, y: Array, settings: Settings) -> Array:
        """Return inner products `[a, b]`.

        Parameters
        ----------
        x : `[a, d]` rows
        y : `[b, d]` rows
        settings : with `gamma`
        """
        from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

        if self.kernel == "rbf":
            return np.asarray(rbf_kernel(x, y, gamma=settings["gamma"]))
        products = np.asarray(polynomial_kernel(x, y, degree=DEGREE, gamma=settings["gamma"], coef0=COEF0))
        return products / self.size(x.shape[1], settings)

    def size(self, d: int, settings: Settings) -> float:
        """Return the divisor of inner products, that of a row of squared norm d with itself: C is then comparable.

        Parameters
        ----------
        d : width of the rows
        settings : with `gamma`
        """
        return 1.0 if self.kernel == "rbf" else float((settings["gamma"] * d + COEF0) ** DEGREE)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (blocks of test rows)
        """Return a bound for the Gram matrix, a temporary copy, blocks and rows (see `Attacker.memory_bytes`)."""
        return 8 * n_train * (2 * n_train + 2 * self.block_rows + 2 * d)

    def _solver(self) -> GramSVM:
        return GramSVM(self.solver.max_iter, self.weighted)
