"""From the moments of classes to a transport: mean step, shrunk covariances, their barycentre, and the posterior."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.linear import LinearEraser
from salcli.erasers.sal import fit_sal
from salcli.erasers.transport.eraser import Posterior, TransportEraser
from salcli.errors import RankError
from salcli.linalg.class_moments import ClassMoments
from salcli.linalg.optimal_transport import maps_to_barycentre

Array = NDArray[np.float64]
POOLED, IDENTITY = "pooled", "identity"
LEAST_RIDGE = 0.005  # of the mean variance: what every covariance is lifted by at least, so that it has an inverse
POSTERIOR_RIDGE = 0.01
ROWS_WIDENED = 512
LEAST_CERTAIN = 0.02  # share of the labelled rows that are moved less than the whole way


@dataclass(frozen=True)
class Shrinkage:
    """How far the covariances of classes are shrunk."""

    share: float
    """0: not at all; 1: classes have one covariance, or all directions one variance."""
    towards: str = POOLED
    """pooled: the covariance within classes; identity: the class's own mean variance in all directions."""

    def __call__(self, covariances: Array, shares: Array) -> Array:
        """Return shrunk covariances, all lifted by `LEAST_RIDGE`.

        Parameters
        ----------
        covariances : `[c, d, d]`
        shares : `[c]` of the rows, by class
        """
        sizes = np.trace(covariances, axis1=1, axis2=2) / covariances.shape[1]
        lifts = LEAST_RIDGE * np.maximum(sizes, np.finfo(np.float64).tiny)
        shrunk: Array = (1 - self.share) * covariances
        if self.towards == IDENTITY:
            lifts += self.share * sizes
        else:
            shrunk += self.share * np.tensordot(shares, covariances, 1)
        np.einsum("cii->ci", shrunk)[:] += lifts[:, None]  # the diagonals
        return shrunk

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"shrinkage": self.share, "towards": self.towards}


def posterior_of(moments: ClassMoments) -> Posterior:
    """Return the posterior of linear discriminant analysis, without a gate.

    Parameters
    ----------
    moments : of the fitted rows by class

    Raises
    ------
    RankError : rows do not vary within classes
    """
    within = moments.scatters.sum(axis=0) / moments.n
    size = float(np.trace(within)) / len(within)
    if not size > 0:
        raise RankError("zero covariance within classes: rows of a class are all the same, there is nothing to move")
    within.flat[:: len(within) + 1] += POSTERIOR_RIDGE * size
    middle = moments.cross.mean_x
    weights = np.linalg.solve(within, (moments.means - middle).T)
    bias = np.log(moments.counts / moments.n) - np.einsum("dc,cd->c", weights, (moments.means + middle) / 2)
    return Posterior(weights, bias, 0.0)


def certain_lead(posterior: Posterior, x: Array, codes: NDArray[np.int64]) -> float:
    """Return the gate of a posterior: the lead, in log odds, that all but a few rows have in their own class.

    Parameters
    ----------
    posterior : of the classes
    x : `[n, d]` labelled rows
    codes : `[n]` class of each

    Returns
    -------
    0 where classes overlap so much that there is no such lead
    """
    parts = np.array_split(x, 1 + len(x) // ROWS_WIDENED)
    logits = np.vstack([part.astype(np.float64) @ posterior.weights + posterior.bias for part in parts])
    own = logits[np.arange(len(x)), codes]
    logits[np.arange(len(x)), codes] = -np.inf
    return max(0.0, float(np.quantile(own - logits.max(axis=1), LEAST_CERTAIN)))


@dataclass(frozen=True, eq=False)
class ClassGaussians:
    """What a transport is computed from, but for shrinkage."""

    mean_step: LinearEraser
    """SAL of the fitted rows, which removes all differences of class means."""
    posterior: Posterior
    rest: Array
    """`[d, d − k]` orthonormal basis of what the mean step leaves."""
    covariances: Array
    """`[c, d − k, d − k]` of the classes there, of mean variance 1."""
    shares: Array
    """`[c]` of the rows, by class."""
    centre: Array
    """`[d]` mean of every class after the mean step."""
    varies: NDArray[np.bool_]
    """`[d]` which columns are not constant within all classes; the others are not mapped, not even by rounding."""

    @classmethod
    def of(
        cls,
        moments: ClassMoments,
        x: NDArray[Any],
        codes: NDArray[np.int64],
        *,
        keep_mean: bool = False,
        few: NDArray[np.bool_] | None = None,
        covariances: Array | None = None,
    ) -> Self:
        """Return the Gaussians of some moments, and the posterior with its gate.

        Parameters
        ----------
        moments : of the fitted rows by class
        x : `[n, d]` labelled rows, by which the gate is set
        codes : `[n]` class of each
        keep_mean : see `fit_sal`
        few : `[c]` whether a class has too few rows for a covariance, and is taken to have that of all classes
        covariances : `[c, d, d]` of the classes; default: those of the moments

        Raises
        ------
        RankError : rows do not covary with the labels, or do not vary within classes
        """
        mean_step, posterior = fit_sal(moments.cross, keep_mean=keep_mean).eraser, posterior_of(moments)
        posterior = replace(posterior, certain=certain_lead(posterior, x, codes))
        v, middle = mean_step.left, moments.cross.mean_x
        rest = np.linalg.qr(v, mode="complete")[0][:, v.shape[1] :]
        inner = np.empty((len(moments.counts), *(2 * rest.shape[1:])))
        scatters = moments.scatters if covariances is None else covariances
        counts = moments.counts if covariances is None else np.ones(len(scatters))
        for part, scatter, n in zip(inner, scatters, counts, strict=True):
            np.matmul(rest.T @ scatter, rest, out=part)
            part /= max(n, 1)
        if few is not None and few.any():
            inner[few] = np.tensordot(moments.counts / moments.n, inner, 1)
        if rest.shape[1]:
            inner /= float(np.trace(inner, axis1=1, axis2=2).mean() / rest.shape[1]) or 1.0
        centre = middle - v @ (v.T @ (middle - mean_step.mean))
        varies = np.diagonal(moments.scatters, axis1=1, axis2=2).max(axis=0) > 0
        return cls(mean_step, posterior, rest, inner, moments.counts / moments.n, centre, varies)

    def transport(self, shrinkage: Shrinkage) -> TransportEraser:
        """Return the transport of the classes to their barycentre, covariances shrunk by `shrinkage`.

        Raises
        ------
        RankError : covariances without an inverse
        """
        rest, (c, d) = self.rest, (len(self.shares), len(self.centre))
        inner = np.empty((c, 0, 0))
        if rest.shape[1]:
            try:
                inner = maps_to_barycentre(shrinkage(self.covariances, self.shares), self.shares)
            except np.linalg.LinAlgError as error:
                raise RankError("covariances of classes have no inverse: give a larger `shrinkage`") from error
        maps = np.zeros((c, d, d))
        for whole, part in zip(maps, inner, strict=True):
            if rest.shape[1]:
                part.flat[:: len(part) + 1] -= 1
                np.matmul(rest @ part, rest.T, out=whole)
                whole += whole.T.copy()
                whole /= 2
                whole[~self.varies] = whole[:, ~self.varies] = 0
            whole.flat[:: d + 1] += 1
        return TransportEraser(self.mean_step.mean, self.mean_step.left, self.centre, maps, self.posterior)
