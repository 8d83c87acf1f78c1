"""`knn`: a vote of the nearest training rows, closer ones counting more."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import Array, Attacker, Axis, Settings


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The training rows."""

    rows: Array
    codes: NDArray[np.int64]
    classes: NDArray[Any]
    weights: Array
    """`[c]` weight of a vote for each class."""
    n_neighbours: int
    block_rows: int
    converged: bool = True

    def decision(self, x: Array) -> Array:
        """Return shares of the votes (see `Classifier.decision`)."""
        shares = self._votes(x)
        return shares[:, 1] - shares[:, 0] if len(self.classes) == 2 else shares

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the class of most votes of each row of `x` `[m, d]`."""
        predicted: NDArray[Any] = self.classes[np.argmax(self._votes(x), axis=1)]
        return predicted

    def _votes(self, x: Array) -> Array:
        votes = np.zeros((len(x), len(self.classes)))
        sizes = np.einsum("ij,ij->i", self.rows, self.rows)
        k = min(self.n_neighbours, len(self.rows))
        for start in range(0, len(x), self.block_rows):
            block = x[start : start + self.block_rows]
            distances = sizes - 2 * block @ self.rows.T
            nearest = np.argpartition(distances, k - 1, axis=1)[:, :k]
            distances = np.take_along_axis(distances, nearest, axis=1) + np.einsum("ij,ij->i", block, block)[:, None]
            closeness = 1 / np.sqrt(np.maximum(distances, 1e-12))
            for code, weight in enumerate(self.weights):
                votes[start : start + len(block), code] = weight * (closeness * (self.codes[nearest] == code)).sum(
                    axis=1
                )
        shares: Array = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-300)
        return shares


@dataclass(frozen=True)
class NearestNeighbours(Attacker):
    """k nearest neighbours by Euclidean distance."""

    weighted: bool = False
    block_rows: int = 1_024
    has_weighted = True
    is_default = False

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (distances are compared only)
        """Return the numbers of neighbours (see `Attacker.axes`)."""
        return {"k": Axis((1.0, 3.0, 7.0, 15.0, 31.0, 63.0), 15.0)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Neighbourhood:  # noqa: ARG002
        """Keep the training rows (see `Attacker.fit`); nothing is random."""
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        weights = len(y) / counts if self.weighted else np.ones(len(classes))
        return Neighbourhood(x, codes, classes, weights, int(settings["k"]), self.block_rows)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:  # noqa: ARG002 (blocks of rows)
        """Return a bound for the distances of a block and their order (see `Attacker.memory_bytes`)."""
        return 8 * 3 * n_train * self.block_rows
