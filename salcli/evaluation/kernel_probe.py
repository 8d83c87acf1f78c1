"""A support vector machine on inner products: every pair of classes votes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.probes import TIE

Array = NDArray[np.float64]
MOST_STEPS = 10_000_000


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

        machine = SVC(kernel="precomputed", C=c, decision_function_shape="ovo", max_iter=MOST_STEPS)
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
