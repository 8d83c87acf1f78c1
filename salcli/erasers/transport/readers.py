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
Scores = Iterator[Array]
GAMMAS, RIDGES = (0.25, 1.0, 4.0), (0.3, 3.0)  # γ in units of 1 / d
POOLED, IDENTITY = (0.0, 0.5), (0.03, 0.2)
NEIGHBOURS = (1, 7, 31)


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


def _balanced(scores: Array, codes: Codes) -> float:
    is_right = np.argmax(scores, axis=1) == codes
    return float(np.mean([is_right[codes == code].mean() for code in np.unique(codes)]))


def _rbf(rows: Reading) -> Scores:
    """Yield the scores `[m, c]` of kernel ridge regressions on the classes, one a setting."""
    targets = (np.eye(rows.n_classes)[rows.codes] - rows.shares).astype(np.float32)
    among = _distances(rows.x, rows.x)
    gram, to_new = np.empty_like(among), np.empty_like(rows.across, order="C")
    for gamma in GAMMAS:
        for ridge in RIDGES:
            for part, distances in ((gram, among), (to_new, rows.across)):
                np.multiply(distances, np.float32(-gamma / rows.x.shape[1]), out=part)
                np.exp(part, out=part)
            gram.flat[:: len(gram) + 1] = 1 + ridge
            found: Any = np.linalg.solve(gram, targets)
            yield (to_new @ found) / rows.shares + 1


def _quadratic(rows: Reading) -> Scores:
    """Yield the log densities `[m, c]` of class Gaussians with shrunk covariances, one a setting."""
    d = rows.x.shape[1]
    means = np.stack([rows.x[rows.codes == code].mean(axis=0) for code in range(rows.n_classes)])
    away = [rows.x[rows.codes == code] - mean for code, mean in enumerate(means)]
    covariances = np.stack([part.T @ part / len(part) for part in away])
    pooled = np.einsum("c,cde->de", rows.shares.astype(np.float32), covariances)
    for share in POOLED:
        for ridge in IDENTITY:
            scores = np.empty((len(rows.new), rows.n_classes), np.float32)
            for code, covariance in enumerate(covariances):
                shrunk = (1 - ridge) * ((1 - share) * covariance + share * pooled)
                shrunk.flat[:: d + 1] += ridge * (float(np.trace(covariance)) / d or 1.0)
                lower = np.linalg.cholesky(shrunk)
                white = (rows.new - means[code]) @ np.linalg.inv(lower).T
                scores[:, code] = -0.5 * np.einsum("ij,ij->i", white, white) - np.log(np.diag(lower)).sum()
            yield scores


def _knn(rows: Reading) -> Scores:
    """Yield the votes `[m, c]` of the nearest rows, one a number of neighbours."""
    most = min(max(NEIGHBOURS), len(rows.x))
    nearest = np.argpartition(rows.across, most - 1, axis=1)[:, :most]
    order = np.argsort(np.take_along_axis(rows.across, nearest, axis=1), axis=1)
    votes = np.eye(rows.n_classes)[rows.codes[np.take_along_axis(nearest, order, axis=1)]]
    for k in NEIGHBOURS:
        yield votes[:, :k].sum(axis=1) / rows.shares


def _distances(x: Array, y: Array) -> Array:
    """Return the squared distances `[n, m]` of rows `x` `[n, d]` and `y` `[m, d]`."""
    distances: Array = x @ y.T
    distances *= -2
    distances += np.einsum("ij,ij->i", x, x)[:, None]
    distances += np.einsum("ij,ij->i", y, y)
    distances.clip(0, out=distances)
    return distances


READERS: dict[str, Callable[[Reading], Scores]] = {"rbf": _rbf, "quadratic": _quadratic, "knn": _knn}
