"""`ridge`: a linear regression with a penalty, of numeric attributes (Hoerl and Kennard 1970)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import Array, Attacker, Axis, Settings


@dataclass(frozen=True, eq=False)
class LinearRegression:
    """A trained `Ridge`."""

    intercept: float
    mean: Array
    """`[d]` of the training rows."""
    weights: Array
    """`[d]`"""
    converged: bool = True

    def decision(self, x: Array) -> Array:
        """Return the predicted numbers `[m]` of rows `x` `[m, d]`."""
        found: Array = self.intercept + (x - self.mean) @ self.weights
        return found

    def predict(self, x: Array) -> Array:
        """Return the same as `decision`, of rows `x` `[m, d]`."""
        return self.decision(x)


@dataclass(frozen=True)
class Ridge(Attacker):
    """The weights w that minimize mean (y − wᵀx)² + α ‖w‖², of rows less their mean."""

    predicts = "numbers"

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (rows are scaled)
        """Return the values of α; the same for any width `d`."""
        return {"alpha": Axis((1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3), 0.1, grows=True)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> LinearRegression:  # noqa: ARG002
        """Train on scaled rows (see `Attacker.fit`); nothing is random."""
        return _Spectrum.of(x, y).solved(settings["alpha"])

    def decisions(
        self,
        x: Array,
        y: NDArray[Any],
        new: Array,
        choices: Sequence[Settings],
        seed: int,  # noqa: ARG002
    ) -> Iterator[Array]:
        """Return the predictions of other rows (see `Attacker.decisions`); one decomposition serves all α."""
        spectrum = _Spectrum.of(x, y)
        for settings in choices:
            yield spectrum.solved(settings["alpha"]).decision(new)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        """Return a bound in bytes of centred rows (`n_train`, `n_test` of width `d`) and the eigenvectors."""
        return 8 * ((n_train + n_test) * d + 3 * min(n_train, d) ** 2)


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Eigenvectors of the covariance of rows, or of their inner products where those are fewer."""

    mean: Array
    intercept: float
    variances: Array
    """`[r]`"""
    directions: Array
    """`[d, r]`, such that weights are `directions @ (covariances / (variances + α))`."""
    covariances: Array
    """`[r]` of the numbers, along eigenvectors."""

    @classmethod
    def of(cls, x: Array, y: Array) -> "_Spectrum":
        n, d = x.shape
        mean, intercept = x.mean(axis=0), float(y.mean())
        away, of = x - mean, y - intercept
        if d <= n:
            variances, vectors = np.linalg.eigh(away.T @ away / n)
            return cls(mean, intercept, np.maximum(variances, 0), vectors, vectors.T @ (away.T @ of / n))
        variances, vectors = np.linalg.eigh(away @ away.T / n)
        return cls(mean, intercept, np.maximum(variances, 0), away.T @ vectors / n, vectors.T @ of)

    def solved(self, alpha: float) -> LinearRegression:
        weights = self.directions @ (self.covariances / (self.variances + alpha))
        return LinearRegression(self.intercept, self.mean, weights)
