"""`quadratic`: a Gaussian for each class, the most accurate cheap classifier on linearly erased rows.

Friedman, "Regularized Discriminant Analysis", JASA 1989: covariances are shrunk towards the pooled one, then towards a
multiple of the identity.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import Array, Attacker, Axis, Settings

FLOOR = 1e-10
"""Least multiple of the identity, in units of the mean variance, added to a covariance to make it invertible."""


@dataclass(frozen=True, eq=False)
class Gaussians:
    """A Gaussian for each class."""

    classes: NDArray[Any]
    log_priors: Array
    means: Array
    """`[c, d]`"""
    inverse_roots: Array
    """`[c, d, d]` R with RᵀR = Σ⁻¹, lower triangular."""
    log_determinants: Array
    converged: bool = True

    def decision(self, x: Array) -> Array:
        """Return log densities, of two classes their difference (see `Classifier.decision`)."""
        scores = self._log_densities(x)
        return scores[:, 1] - scores[:, 0] if len(self.classes) == 2 else scores

    def predict(self, x: Array) -> NDArray[Any]:
        """Return the class of the largest density times prior for each row of `x` `[m, d]`."""
        predicted: NDArray[Any] = self.classes[np.argmax(self._log_densities(x), axis=1)]
        return predicted

    def _log_densities(self, x: Array) -> Array:
        found = np.empty((len(x), len(self.classes)))
        for k, root in enumerate(self.inverse_roots):
            away = (x - self.means[k]) @ root.T
            found[:, k] = self.log_priors[k] - 0.5 * (np.einsum("ij,ij->i", away, away) + self.log_determinants[k])
        return found


@dataclass(frozen=True)
class Quadratic(Attacker):
    """Class Gaussians with shrunk covariances."""

    weighted: bool = False
    has_weighted = True
    whitens = False

    def axes(self, d: int) -> dict[str, Axis]:  # noqa: ARG002 (rows are scaled)
        """Return the shares of the pooled covariance, and of the identity (see `Attacker.axes`)."""
        return {
            "pooled": Axis((0.0, 0.1, 0.25, 0.5, 0.75, 0.9), 0.25),
            "identity": Axis((1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6, 0.9), 1e-2),
        }

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Gaussians:  # noqa: ARG002
        """Estimate means and covariances (see `Attacker.fit`); nothing is random."""
        from scipy.linalg import cholesky, solve_triangular

        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        n, d = x.shape
        means = np.stack([x[codes == k].mean(axis=0) for k in range(len(classes))])
        scatters = np.stack([_scatter(x[codes == k] - means[k]) for k in range(len(classes))])
        pooled = scatters.sum(axis=0)
        share = settings["pooled"]
        roots, log_determinants = np.empty_like(scatters), np.empty(len(classes))
        for k, scatter in enumerate(scatters):
            covariance = ((1 - share) * scatter + share * pooled) / ((1 - share) * counts[k] + share * n)
            size = float(np.trace(covariance)) / d or 1.0
            covariance *= 1 - settings["identity"]
            covariance.flat[:: d + 1] += (settings["identity"] + FLOOR) * size
            lower = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
            roots[k] = solve_triangular(lower, np.eye(d), lower=True, check_finite=False)
            log_determinants[k] = 2 * np.sum(np.log(np.diag(lower)))
        priors = np.full(len(classes), 1 / len(classes)) if self.weighted else counts / n
        return Gaussians(classes, np.log(priors), means, roots, log_determinants)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        """Return a bound for the matrices of 16 classes, and for rows minus a mean (see `Attacker.memory_bytes`)."""
        return 8 * (2 * 16 * d * d + 2 * max(n_train, n_test) * d)


def _scatter(x: Array) -> Array:
    found: Array = x.T @ x
    return found
