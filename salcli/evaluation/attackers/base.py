"""`Attacker`: the interface of a new kind of classifier, and what all of them share."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError

Array = NDArray[np.float64]
Settings = dict[str, float]
Reads = Literal["vectors", "kernel"]
Predicts = Literal["classes", "numbers"]
TIE = 1e-4
"""Scores whose difference is smaller are equal: float32 rounding of erased rows changes scores by less."""
RANKED = "ranked"
"""Setting: 1 if columns are replaced by the normal scores of their ranks, else 0."""
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""C of the support vector machines; rows are scaled to a mean squared norm of d."""


@dataclass(frozen=True)
class Scaling:
    """One shift and one global factor, taken from the rows before erasure and used after it too.

    C then means the same before and after. Scaling each feature by itself would enlarge erased directions again.
    """

    mean: Array
    factor: float

    @classmethod
    def of(cls, x: NDArray[Any]) -> "Scaling":
        """Return the scaling that centres rows `x` `[n, d]` and gives them a mean squared norm of d.

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
        """Return rows `x` `[m, d]` shifted and scaled."""
        return (x.astype(np.float64) - self.mean) * self.factor


@dataclass(frozen=True)
class Axis:
    """The values of one hyper-parameter that are tried."""

    values: tuple[float, ...]
    """Ascending."""
    usual: float
    grows: bool = False
    """Whether further values, in the same ratio, are tried where the best is the first or the last."""
    worth: float = 0.0
    """Least gain in score for any value but the usual one: what gains less does so by chance."""


class Classifier(Protocol):
    """A trained attacker; one of numbers returns the predicted numbers `[m]` as its decision too."""

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
        """Return the predicted classes `[m]` of `x` (see `decision`); of equal scores, the most frequent class."""


class Attacker(ABC):
    """A kind of classifier or regression that tries to read a guarded attribute; one object serves many threads."""

    reads: Reads = "vectors"
    """What rows are represented by: scaled vectors, or inner products of the eraser's own kernel."""
    predicts: Predicts = "classes"
    """What attributes it reads: classes, or numbers."""
    is_default: bool = True
    """Whether it is trained where `probes` is not set."""
    whitens: bool = True
    """Whether whitened rows are tried too; useless for classifiers that are invariant to linear maps."""
    has_weighted: bool = False
    """Whether there is a field `weighted`, for scikit-learn's `class_weight="balanced"`."""

    @abstractmethod
    def axes(self, d: int) -> dict[str, Axis]:
        """Return the hyper-parameters to try on rows of width `d`, by name."""

    @abstractmethod
    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Classifier:
        """Train a classifier.

        Parameters
        ----------
        x : `[n, d]` scaled rows, or `[n, n]` inner products of the training rows, by `reads`
        y : `[n]` classes, at least two; or numbers that are not all the same, by `predicts`
        settings : a value for each of `axes(d)`
        seed : of the random number generator
        """

    @abstractmethod
    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        """Return a bound of the bytes that training and prediction take besides the rows or inner products.

        Parameters
        ----------
        n_train, n_test : training and test rows
        d : width of the rows
        """

    def usual(self, d: int) -> Settings:
        """Return the settings for rows of width `d` that are used without tuning."""
        return {name: axis.usual for name, axis in self.axes(d).items()}

    def grid(self, d: int) -> list[Settings]:
        """Return all settings that are tried first on rows of width `d`: the product of `axes(d)`."""
        axes = self.axes(d)
        return [
            dict(zip(axes, values, strict=True)) for values in itertools.product(*(a.values for a in axes.values()))
        ]

    def decisions(
        self, x: Array, y: NDArray[Any], new: Array, choices: Sequence[Settings], seed: int
    ) -> Iterator[Array]:
        """Yield the scores of new rows for each of several settings, in their order.

        Parameters
        ----------
        x, y, seed : as `fit` takes them
        new : `[m, d]` scaled rows, or `[m, n]` inner products with the training rows
        choices : settings

        Yields
        ------
        scores (see `Classifier.decision`)
        """
        for settings in choices:
            yield self.fit(x, y, settings, seed).decision(new)

    def twin(self) -> "Self | None":
        """Return the attacker with balanced class weights; None if it has them already, or cannot have them."""
        if not self.has_weighted or getattr(self, "weighted", False):
            return None
        changed: Self = replace(self, weighted=True)  # type: ignore[type-var]
        return changed


@dataclass(frozen=True, eq=False)
class Scored:
    """A trained classifier of scikit-learn that gives scores, or probabilities, by class."""

    classifier: Any
    training_order: NDArray[np.int64]
    """`[c]` positions of the classes, most frequent among the training rows first."""
    converged: bool = True
    tie: float = 0.0
    """Scores whose difference is smaller are equal."""

    @classmethod
    def of(cls, classifier: Any, y: NDArray[Any], *, converged: bool = True, tie: float = 0.0) -> "Scored":
        """Return a trained classifier with the order of its classes.

        Parameters
        ----------
        classifier : of scikit-learn, with `decision_function` or `predict_proba`
        y : `[n]` classes that it was trained on
        converged : whether the solver met its tolerance
        tie : scores whose difference is smaller are equal
        """
        return cls(classifier, np.argsort(-np.unique(y, return_counts=True)[1], kind="stable"), converged, tie)

    def decision(self, x: Array) -> Array:
        """Return scores (see `Classifier.decision`)."""
        if hasattr(self.classifier, "decision_function"):
            return np.asarray(self.classifier.decision_function(x), np.float64)
        shares = np.asarray(self.classifier.predict_proba(x), np.float64)
        return shares[:, 1] - shares[:, 0] if shares.shape[1] == 2 else shares

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the class of each row of `x` `[m, d]`; of equal scores, the more frequent class.

        On exactly erased rows a solver stops at weights that are rounding noise, whose signs mean nothing.
        """
        scores = self.decision(x)
        if scores.ndim == 1:
            scores = np.stack([-scores, scores], axis=1)
        by_frequency = scores[:, self.training_order]
        is_near = by_frequency >= by_frequency.max(axis=1, keepdims=True) - self.tie
        predicted: NDArray[Any] = self.classifier.classes_[self.training_order[np.argmax(is_near, axis=1)]]
        return predicted
