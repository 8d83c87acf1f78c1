"""Three small readers of a class, by which a map is judged on rows that it was not fitted on.

They are weaker than the attackers of `evaluate`, and quick: of several settings the one that reads most counts, and
both halves of the rows are read by readers that were trained on the other half.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]  # balanced accuracies need no more digits, and this halves time and memory
Codes = NDArray[np.int64]
Scores = Iterator[NDArray[Any]]
GAMMAS, RIDGES = (0.25, 1.0, 4.0), (0.3, 3.0)  # γ in units of 1 / d
POOLED, IDENTITY = (0.0, 0.5), (0.03, 0.2)
NEIGHBOURS = (1, 7, 31)
ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows that a reader is trained on, and others whose class it reads."""

    x: Array
    """`[n, d]`"""
    codes: Codes
    n_classes: int
    new: Array
    """`[m, d]`"""
    across: Array
    """`[m, n]` squared distances of the new rows to the others."""

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """`[c]` of the classes; scores are in units of them, so that classes weigh the same."""
        return np.bincount(self.codes, minlength=self.n_classes) / len(self.codes)


def readings(x: NDArray[np.floating], codes: Codes, n_classes: int) -> dict[str, float]:
    """Return what each reader reads of the classes of rows, as balanced accuracy: 1 / c is chance.

    Parameters
    ----------
    x : `[n, d]`, in a random order
    codes : `[n]` class of each row
    n_classes : c; each occurs in both halves
    """
    middle = x.mean(axis=0, dtype=np.float64)
    scaled, half = (x - middle.astype(x.dtype)).astype(np.float32, copy=False), len(x) // 2
    power = float(np.einsum("ij,ij->", scaled, scaled, dtype=np.float64)) / max(1, len(x))
    scaled *= np.float32(np.sqrt(x.shape[1] / max(power, np.finfo(np.float64).tiny)))
    x1, x2, codes1, codes2 = scaled[:half], scaled[half:], codes[:half], codes[half:]
    across = _distances(x1, x2)
    both = (Reading(x2, codes2, n_classes, x1, across), codes1), (Reading(x1, codes1, n_classes, x2, across.T), codes2)
    found = {}
    for name, read in READERS.items():
        right = [[_balanced(scores, true) for scores in read(reading)] for reading, true in both]
        found[name] = float(np.mean(right, axis=0).max())
    return found


def _balanced(scores: NDArray[Any], codes: Codes) -> float:
    is_right = np.argmax(scores, axis=1) == codes
    return float(np.mean([is_right[codes == code].mean() for code in np.unique(codes)]))


def _rbf(rows: Reading) -> Scores:
    """Yield the scores `[m, c]` of kernel ridge regressions on the classes, one a setting."""
    from scipy.linalg import cho_factor, cho_solve

    targets = (np.eye(rows.n_classes)[rows.codes] - rows.shares).astype(np.float32)
    among = _distances(rows.x, rows.x)
    gram = np.empty_like(among)
    for gamma in GAMMAS:
        scale = np.float32(-gamma / rows.x.shape[1])
        for ridge in RIDGES:
            np.exp(np.multiply(among, scale, out=gram), out=gram)
            gram.flat[:: len(gram) + 1] = 1 + ridge
            factor = cho_factor(gram.T, lower=True, overwrite_a=True, check_finite=False)  # in place: it is symmetric
            found = cho_solve(factor, targets, check_finite=False)
            scores = np.vstack([np.exp(scale * part) @ found for part in _parts(rows.across)])
            yield scores / rows.shares + 1


def _quadratic(rows: Reading) -> Scores:
    """Yield the log densities `[m, c]` of class Gaussians with shrunk covariances, one a setting."""
    from scipy.linalg import cholesky, solve_triangular

    d = rows.x.shape[1]
    means = np.stack([rows.x[rows.codes == code].mean(axis=0) for code in range(rows.n_classes)])
    covariances = np.empty((rows.n_classes, d, d), np.float32)
    for code, covariance in enumerate(covariances):
        away = rows.x[rows.codes == code] - means[code]
        np.divide(away.T @ away, len(away), out=covariance)
    pooled = np.einsum("c,cde->de", rows.shares.astype(np.float32), covariances)
    for share in POOLED:
        for ridge in IDENTITY:
            scores = np.empty((len(rows.new), rows.n_classes), np.float32)
            for code, covariance in enumerate(covariances):
                shrunk = (1 - ridge) * ((1 - share) * covariance + share * pooled)
                shrunk.flat[:: d + 1] += ridge * (float(np.trace(covariance)) / d or 1.0)
                lower = cholesky(shrunk.T, lower=True, overwrite_a=True, check_finite=False)
                away = (rows.new - means[code]).T
                white = solve_triangular(lower, away, lower=True, overwrite_b=True, check_finite=False)
                scores[:, code] = -0.5 * np.einsum("ij,ij->j", white, white) - np.log(np.diag(lower)).sum()
            yield scores


def _knn(rows: Reading) -> Scores:
    """Yield the votes `[m, c]` of the nearest rows, one a number of neighbours."""
    most = min(max(NEIGHBOURS), len(rows.x))
    nearest = np.vstack([_nearest(part, most) for part in _parts(rows.across)])
    votes = np.eye(rows.n_classes)[rows.codes[nearest]]
    for k in NEIGHBOURS:
        yield votes[:, :k].sum(axis=1) / rows.shares


def _nearest(distances: Array, most: int) -> Codes:
    """Return the columns of the `most` smallest of `distances` `[m, n]` of each row, the smallest first."""
    nearest = np.argpartition(distances, most - 1, axis=1)[:, :most]
    order = np.argsort(np.take_along_axis(distances, nearest, axis=1), axis=1)
    return np.take_along_axis(nearest, order, axis=1)


def _parts(matrix: Array) -> list[Array]:
    """Return blocks of the rows of a `matrix` `[m, n]`, so that what is made of them is small."""
    return np.array_split(matrix, 1 + len(matrix) // ROWS_AT_ONCE)


def _distances(x: Array, y: Array) -> Array:
    """Return the squared distances `[n, m]` of rows `x` `[n, d]` and `y` `[m, d]`."""
    distances: Array = x @ y.T
    distances *= -2
    distances += np.einsum("ij,ij->i", x, x)[:, None]
    distances += np.einsum("ij,ij->i", y, y)
    distances.clip(0, out=distances)
    return distances


READERS: dict[str, Callable[[Reading], Scores]] = {"rbf": _rbf, "quadratic": _quadratic, "knn": _knn}
