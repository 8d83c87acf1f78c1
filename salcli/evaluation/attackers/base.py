"""`Attacker`: the seam through which a new kind of classifier comes, and what all of them share."""

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
"""Of the margin: scores closer than this are equal; above what float32 rounding of erased rows leaves."""
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""C of the machines; rows are scaled to a mean squared norm of d."""


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


@dataclass(frozen=True)
class Axis:
    """The values of one hyper-parameter that are tried."""

    values: tuple[float, ...]
    """Ascending."""
    usual: float
    grows: bool = False
    """Whether further values, in the same ratio, are tried where the best is the first or the last."""


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
        """Return the predicted classes `[m]`; a classifier that has learnt nothing predicts the training majority."""


class Attacker(ABC):
    """A kind of classifier or regression that tries to read a guarded attribute; one object serves many threads."""

    reads: Reads = "vectors"
    """What rows are represented by: scaled vectors, or inner products of the eraser's own kernel."""
    predicts: Predicts = "classes"
    """What attributes it reads: classes, or numbers."""
    is_default: bool = True
    """Whether it takes part where no attackers are named."""
    whitens: bool = True
    """Whether whitened rows are tried too; of no use to what does not mind linear maps."""
    has_weighted: bool = False
    """Whether `weighted` is a field: classes weigh the same, however many rows they have."""

    @abstractmethod
    def axes(self, d: int) -> dict[str, Axis]:
        """Return the hyper-parameters to try on rows of width `d`, by name."""

    @abstractmethod
    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Classifier:
        """Train a classifier.

        Parameters
        ----------
        x : `[n, d]` scaled rows, or `[n, n]` inner products of the training rows, as `reads` says
        y : `[n]` classes, at least two; or numbers that are not all the same, as `predicts` says
        settings : a value for each of `axes(d)`
        seed : of every random choice
        """

    @abstractmethod
    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        """Bound the bytes that training and prediction take beside the rows or inner products themselves."""

    def usual(self, d: int) -> Settings:
        """Return the settings that are used where nothing can be tuned."""
        return {name: axis.usual for name, axis in self.axes(d).items()}

    def grid(self, d: int) -> list[Settings]:
        """Return all settings that are tried at first."""
        axes = self.axes(d)
        return [
            dict(zip(axes, values, strict=True)) for values in itertools.product(*(a.values for a in axes.values()))
        ]

    def decisions(
        self, x: Array, y: NDArray[Any], new: Array, choices: Sequence[Settings], seed: int
    ) -> Iterator[Array]:
        """Return the scores of other rows for each of some settings, in their order."""
        for settings in choices:
            yield self.fit(x, y, settings, seed).decision(new)

    def twin(self) -> "Self | None":
        """Return the attacker whose classes weigh the same; None if it is one, or has none."""
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
    """Scores that are closer than this are equal."""

    @classmethod
    def of(cls, classifier: Any, y: NDArray[Any], *, converged: bool = True, tie: float = 0.0) -> "Scored":
        """Return the classifier that was trained on classes `y`."""
        return cls(classifier, np.argsort(-np.unique(y, return_counts=True)[1], kind="stable"), converged, tie)

    def decision(self, x: Array) -> Array:
        """Return scores (see `Classifier`)."""
        if hasattr(self.classifier, "decision_function"):
            return np.asarray(self.classifier.decision_function(x), np.float64)
        shares = np.asarray(self.classifier.predict_proba(x), np.float64)
        return shares[:, 1] - shares[:, 0] if shares.shape[1] == 2 else shares

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the class of each row; of equal scores, the more frequent class.

        On exactly erased rows a solver stops at weights that are rounding noise, whose signs mean nothing.
        """
        scores = self.decision(x)
        if scores.ndim == 1:
            scores = np.stack([-scores, scores], axis=1)
        by_frequency = scores[:, self.training_order]
        is_near = by_frequency >= by_frequency.max(axis=1, keepdims=True) - self.tie
        predicted: NDArray[Any] = self.classifier.classes_[self.training_order[np.argmax(is_near, axis=1)]]
        return predicted
