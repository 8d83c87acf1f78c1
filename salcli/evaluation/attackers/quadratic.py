"""`quadratic`: a Gaussian for each class, the most accurate cheap classifier on linearly erased rows.

Friedman, "Regularized Discriminant Analysis", JASA 1989: covariances are shrunk towards the pooled one, then towards a
multiple of the identity. Columns may be replaced by their normal scores first (Liu, Lafferty & Wasserman, "The
Nonparanormal", JMLR 2009): a column that hardly varies, or has one value in most rows, is then read like any other. A
linear eraser writes the removed coordinate into such a column, however small.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.base import RANKED, Array, Attacker, Axis, Settings

FLOOR = 1e-10
"""Least multiple of the identity, in units of the mean variance, added to a covariance to make it invertible."""
RANKED_WORTH = 0.02
"""Least gain in score for normal scores."""


@dataclass(frozen=True, eq=False)
class NormalScores:
    """A monotone map of each column after which the training rows are normally distributed in it."""

    values: Array
    """`[n, d]` the columns of the training rows, each sorted."""

    @classmethod
    def of(cls, x: Array) -> "NormalScores":
        """Return the map for training rows `x` `[n, d]`."""
        return cls(np.sort(x, axis=0))

    def __call__(self, x: Array) -> Array:
        """Return the normal scores of rows `x` `[m, d]`: Φ⁻¹ of the mean rank among the training rows."""
        found = np.empty(x.shape)
        for column, values in enumerate(self.values.T):
            below, upto = (np.searchsorted(values, x[:, column], side=side) for side in ("left", "right"))
            found[:, column] = self._quantiles[below + upto]
        return found

    @cached_property
    def _quantiles(self) -> Array:
        from scipy.special import ndtri

        n = len(self.values)
        found: Array = ndtri((np.arange(2 * n + 1) + 1) / (2 * n + 2))
        return found


@dataclass(frozen=True, eq=False)
class ClassScatters:
    """Number, mean and scatter matrix of the rows of each class."""

    classes: NDArray[Any]
    counts: NDArray[np.int64]
    means: Array
    """`[c, d]`"""
    scatters: Array
    """`[c, d, d]`"""

    @classmethod
    def of(cls, x: Array, y: NDArray[Any]) -> "ClassScatters":
        """Return those of rows `x` `[n, d]` of classes `y` `[n]`."""
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        means = np.stack([x[codes == k].mean(axis=0) for k in range(len(classes))])
        scatters = np.empty((len(classes), x.shape[1], x.shape[1]))
        for k, scatter in enumerate(scatters):
            away = x[codes == k] - means[k]
            np.matmul(away.T, away, out=scatter)
        return cls(classes, counts, means, scatters)


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
    scores: NormalScores | None = None
    """What rows are replaced by; None: they are taken as they are."""
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
        x = x if self.scores is None else self.scores(x)
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
        """Return whether columns are ranked, and the shares of the pooled covariance and of the identity."""
        return {
            RANKED: Axis((0.0, 1.0), 0.0, worth=RANKED_WORTH),
            "pooled": Axis((0.0, 0.1, 0.25, 0.5, 0.75, 0.9), 0.25),
            "identity": Axis((1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 0.6, 0.9), 1e-2),
        }

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Gaussians:  # noqa: ARG002
        """Estimate means and covariances (see `Attacker.fit`); nothing is random."""
        normal = NormalScores.of(x) if settings[RANKED] else None
        found = self._shrunk(ClassScatters.of(x if normal is None else normal(x), y), settings)
        return found if normal is None else replace(found, scores=normal)

    def decisions(
        self,
        x: Array,
        y: NDArray[Any],
        new: Array,
        choices: Sequence[Settings],
        seed: int,  # noqa: ARG002
    ) -> Iterator[Array]:
        """Yield the scores of new rows (see `Attacker.decisions`); scatter matrices are computed once."""
        for is_ranked, group in itertools.groupby(choices, key=lambda settings: settings[RANKED]):
            normal = NormalScores.of(x) if is_ranked else None
            scatters = ClassScatters.of(x if normal is None else normal(x), y)
            across = new if normal is None else normal(new)
            for settings in group:
                yield self._shrunk(scatters, settings).decision(across)

    def _shrunk(self, of: ClassScatters, settings: Settings) -> Gaussians:
        """Return the Gaussians whose covariances are shrunk by `settings`."""
        from scipy.linalg import cholesky, solve_triangular

        n, d = of.counts.sum(), of.means.shape[1]
        pooled = of.scatters.sum(axis=0)
        share = settings["pooled"]
        roots, log_determinants = np.empty_like(of.scatters), np.empty(len(of.classes))
        for k, scatter in enumerate(of.scatters):
            covariance = ((1 - share) * scatter + share * pooled) / ((1 - share) * of.counts[k] + share * n)
            size = float(np.trace(covariance)) / d or 1.0
            covariance *= 1 - settings["identity"]
            covariance.flat[:: d + 1] += (settings["identity"] + FLOOR) * size
            lower = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
            roots[k] = solve_triangular(lower, np.eye(d), lower=True, check_finite=False)
            log_determinants[k] = 2 * np.sum(np.log(np.diag(lower)))
        priors = np.full(len(of.classes), 1 / len(of.classes)) if self.weighted else of.counts / n
        return Gaussians(of.classes, np.log(priors), of.means, roots, log_determinants)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        """Return a bound for the matrices of 16 classes, and for rows minus a mean (see `Attacker.memory_bytes`)."""
        return 8 * (2 * 16 * d * d + 2 * max(n_train, n_test) * d)
