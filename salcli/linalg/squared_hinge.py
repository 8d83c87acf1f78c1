"""Linear classifiers with the squared hinge loss: the minimum that LIBLINEAR finds, by few passes over dense rows.

min over w, b of ½ (‖w‖² + b²) + C Σᵢ aᵢ max(0, 1 − yᵢ (xᵢᵀw + b))²      (Fan et al. 2008, "LIBLINEAR", L2-loss SVC)

Minimised by L-BFGS in coordinates in which I + C Σ x xᵀ, about the Hessian, is the identity, so that a few dozen passes
suffice. Rows are float32, sums over blocks of them float64, in a fixed order.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
Spread = Callable[[Callable[[slice], Any], Iterable[slice]], Iterable[Any]]
BLOCK_ELEMENTS = 1 << 20  # of a block of rows: it is read twice, so it should fit into a cache
SAMPLED = 8  # rows for each dimension that the Hessian is estimated on
TOLERANCE = 1e-5
"""Of the gradient, in units of its largest possible size at the start."""
LEAST_DECREASE = 1e-13
MOST_STEPS, PAIRS = 500, 20


@dataclass(frozen=True, eq=False)
class Targets:
    """Binary problems: one for two classes, otherwise each class against the rest."""

    signs: Floats
    """`[n, p]` 1 in the class of the problem, −1 in another."""
    weights: Floats
    """`[n, p]` with a sum of n / 2 on either side of a problem."""

    @classmethod
    def of(cls, codes: NDArray[Any], n_classes: int) -> Self:
        """Return the targets of rows.

        Parameters
        ----------
        codes : `[n]` classes 0 … n_classes − 1, each of which occurs
        n_classes : at least 2
        """
        classes = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
        is_in = codes[:, None] == classes
        n_in = np.maximum(is_in.sum(axis=0), 1)
        n_out = np.maximum(len(codes) - n_in, 1)
        weights = np.where(is_in, len(codes) / (2 * n_in), len(codes) / (2 * n_out))
        return cls(np.where(is_in, 1, -1).astype(np.float32), weights.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Hyperplanes:
    """Trained classifiers."""

    normals: Array
    """`[d, p]` w of each problem."""
    offsets: Array
    """`[p]` b"""
    converged: bool

    def scores(self, x: NDArray[Any], factors: NDArray[Any] | None = None) -> Array:
        """Return xᵀw + b `[n, p]` of rows `x` `[n, d]`, times `factors` `[n]` first if they are there."""
        with np.errstate(invalid="ignore"):  # a flag of float32 kernels of BLAS, also where all numbers are finite
            products = (x @ self.normals.astype(x.dtype)).astype(np.float64)
        scores: Array = (products if factors is None else products * factors[:, None]) + self.offsets
        return scores

    def predict(self, x: NDArray[Any], factors: NDArray[Any] | None = None) -> NDArray[np.int64]:
        """Return the class `[n]` of each row (see `scores`)."""
        scores = self.scores(x, factors)
        return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else np.argmax(scores, axis=1)


def fit_squared_hinge(
    x: Floats,
    targets: Targets,
    gram: Array,
    *,
    penalty: float = 1.0,
    removed: Array | None = None,
    factors: Floats | None = None,
    spread: Spread = map,
) -> Hyperplanes:
    """Train classifiers on rows without their components along some directions.

    Parameters
    ----------
    x : `[n, d]` rows before erasure, about centred, of a mean squared norm of about d
    targets : of the rows
    gram : `[d, d]` about (1/n) Σ x xᵀ (see `gram_of`); it affects the number of steps alone
    penalty : C
    removed : `[d, k]` orthonormal directions that the rows are without; the normals are orthogonal to them
    factors : `[n]` what each row is multiplied by
    spread : maps a function over blocks of rows, perhaps on threads, keeping their order

    Returns
    -------
    one hyperplane for each column of the targets
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import minimize

    (n, d), p = x.shape, targets.signs.shape[1]
    removed = np.zeros((d, 0)) if removed is None else removed
    lower = _root_of_hessian(gram, n, penalty, removed)
    of_offset = 1 / math.sqrt(1 + penalty * n)
    blocks = _blocks(n, d)

    def planes(v: Array) -> tuple[Array, Array]:
        matrix = v.reshape(d + 1, p)
        unscaled = solve_triangular(lower, matrix[:d], lower=True, trans="T", check_finite=False)
        return _without(unscaled, removed), matrix[d] * of_offset

    def value(v: Array) -> tuple[float, Array]:
        normals, offsets = planes(v)
        loss, of_normals, of_offsets = 0.0, np.zeros((d, p)), np.zeros(p)
        work = partial(_of_block, x, targets, factors, normals.astype(np.float32), offsets.astype(np.float32))
        for part in map(work, blocks) if len(blocks) == 1 else spread(work, blocks):
            loss, of_normals, of_offsets = loss + part[0], of_normals + part[1], of_offsets + part[2]
        gradient = np.empty((d + 1, p))
        within = _without(normals + penalty * of_normals, removed)
        gradient[:d] = solve_triangular(lower, within, lower=True, overwrite_b=True, check_finite=False)
        gradient[d] = of_offset * (offsets + penalty * of_offsets)
        return float(np.sum(normals**2) + np.sum(offsets**2)) / 2 + penalty * loss, gradient.reshape(-1)

    least = TOLERANCE * 2 * math.sqrt(penalty * n)
    options = {"maxiter": MOST_STEPS, "maxcor": PAIRS, "gtol": least, "ftol": LEAST_DECREASE}
    found = minimize(value, np.zeros((d + 1) * p), jac=True, method="L-BFGS-B", options=options)
    normals, offsets = planes(found.x)
    return Hyperplanes(normals, offsets, bool(np.max(np.abs(found.jac)) <= 100 * least))


def gram_of(x: Floats) -> Array:
    """Return (1/m) Σ x xᵀ `[d, d]` of a sample of rows `x` `[n, d]`: evenly spaced."""
    n, d = x.shape
    part = x[:: max(1, n // (SAMPLED * d))]
    with np.errstate(invalid="ignore"):  # see `_of_block`
        return np.asarray(part.T @ part, np.float64) / len(part)


def _of_block(
    x: Floats, targets: Targets, factors: Floats | None, normals: Floats, offsets: Floats, rows: slice
) -> tuple[float, Array, Array]:
    """Return loss and gradients of a block of rows.

    float32 kernels of BLAS may flag an invalid operation in lanes beyond the matrix, of whatever memory holds there.
    """
    with np.errstate(invalid="ignore"):
        return _loss_of(x, targets, factors, normals, offsets, rows)


def _loss_of(
    x: Floats, targets: Targets, factors: Floats | None, normals: Floats, offsets: Floats, rows: slice
) -> tuple[float, Array, Array]:
    block, signs = x[rows], targets.signs[rows]
    margins = block @ normals
    if factors is not None:
        margins *= factors[rows, None]
    margins += offsets
    slack = np.maximum(1 - signs * margins, 0)
    pull = targets.weights[rows] * slack
    loss = float(np.sum(pull * slack, dtype=np.float64))
    pull *= -2 * signs
    of_offsets = pull.sum(axis=0, dtype=np.float64)
    if factors is not None:
        pull *= factors[rows, None]
    return loss, np.asarray(block.T @ pull, np.float64), of_offsets


def _root_of_hessian(gram: Array, n: int, penalty: float, removed: Array) -> Array:
    """Return the lower triangular L `[d, d]` with L Lᵀ = I + C n P gram P, P off the removed directions."""
    from scipy.linalg import cholesky

    within = _without(_without(gram, removed).T, removed)
    hessian = within + within.T
    del within  # of wide rows, each is large
    hessian *= penalty * n / 2
    hessian.flat[:: len(hessian) + 1] += 1
    lower: Array = cholesky(hessian.T, lower=True, overwrite_a=True, check_finite=False)  # .T: in BLAS's order
    return lower


def _without(columns: Array, removed: Array) -> Array:
    """Return `columns` `[d, p]` without their components along orthonormal directions `removed` `[d, k]`."""
    return columns - removed @ (removed.T @ columns) if removed.shape[1] else columns


def _blocks(n: int, d: int) -> list[slice]:
    rows = max(1, BLOCK_ELEMENTS // d)
    return [slice(start, start + rows) for start in range(0, n, rows)]
