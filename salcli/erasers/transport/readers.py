"""Three small readers of a class, by which a map is judged on rows that it was not fitted on.

They are weaker than the attackers of `evaluate`, and quick: of several settings the one that reads most counts, and
both halves of the rows are read by readers that were trained on the other half.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
Scores = Iterator[Array]
GAMMAS, RIDGES = (0.25, 1.0, 4.0), (0.1, 1.0, 10.0)  # in units of 1 / d
POOLED, IDENTITY = (0.0, 0.5), (0.01, 0.1, 0.3)
NEIGHBOURS = (1, 7, 31)


def readings(x: Array, codes: Codes, n_classes: int) -> dict[str, float]:
    """Return what each reader reads of the classes of rows, as balanced accuracy: 1 / c is chance.

    Parameters
    ----------
    x : `[n, d]`, in a random order
    codes : `[n]` class of each row
    n_classes : c; each occurs in both halves
    """
    x = x - x.mean(axis=0)
    x *= np.sqrt(x.shape[1] / max(float(np.mean(np.einsum("ij,ij->i", x, x))), np.finfo(np.float64).tiny))
    halves = [np.arange(start, len(x), 2) for start in (0, 1)]
    found = {}
    for name, read in READERS.items():
        both = [
            [_balanced(scores, codes[test]) for scores in read(x[train], codes[train], x[test], n_classes)]
            for train, test in (halves, halves[::-1])
        ]
        found[name] = float(np.mean(both, axis=0).max())
    return found


def _balanced(scores: Array, codes: Codes) -> float:
    is_right = np.argmax(scores, axis=1) == codes
    return float(np.mean([is_right[codes == code].mean() for code in np.unique(codes)]))


def _rbf(x: Array, codes: Codes, new: Array, n_classes: int) -> Scores:
    """Yield the scores `[m, c]` of kernel ridge regressions on the classes, one a setting."""
    targets = np.eye(n_classes)[codes]
    shares = targets.mean(axis=0)
    among, across = _distances(x, x), _distances(new, x)
    for gamma in GAMMAS:
        gram, to_new = (np.exp(part * (-gamma / x.shape[1])) for part in (among, across))
        for ridge in RIDGES:
            gram.flat[:: len(gram) + 1] = 1 + ridge
            yield (to_new @ np.linalg.solve(gram, targets - shares)) / shares + 1


def _quadratic(x: Array, codes: Codes, new: Array, n_classes: int) -> Scores:
    """Yield the log densities `[m, c]` of class Gaussians with shrunk covariances, one a setting."""
    d = x.shape[1]
    means = np.stack([x[codes == code].mean(axis=0) for code in range(n_classes)])
    away = [x[codes == code] - mean for code, mean in enumerate(means)]
    covariances = np.stack([part.T @ part / len(part) for part in away])
    pooled = np.tensordot(np.bincount(codes, minlength=n_classes) / len(codes), covariances, 1)
    for share in POOLED:
        for ridge in IDENTITY:
            scores = np.empty((len(new), n_classes))
            for code, covariance in enumerate(covariances):
                shrunk = (1 - ridge) * ((1 - share) * covariance + share * pooled)
                shrunk.flat[:: d + 1] += ridge * (float(np.trace(covariance)) / d or 1.0)
                lower = np.linalg.cholesky(shrunk)
                white = np.linalg.solve(lower, (new - means[code]).T)
                scores[:, code] = -0.5 * np.einsum("ij,ij->j", white, white) - np.log(np.diag(lower)).sum()
            yield scores


def _knn(x: Array, codes: Codes, new: Array, n_classes: int) -> Scores:
    """Yield the votes `[m, c]` of the nearest rows, each class in units of its share, one a number of neighbours."""
    distances = _distances(new, x)
    most = min(max(NEIGHBOURS), len(x))
    nearest = np.argpartition(distances, most - 1, axis=1)[:, :most]
    order = np.argsort(np.take_along_axis(distances, nearest, axis=1), axis=1)
    votes = np.eye(n_classes)[codes[np.take_along_axis(nearest, order, axis=1)]]
    shares = np.bincount(codes, minlength=n_classes) / len(codes)
    for k in NEIGHBOURS:
        yield votes[:, :k].sum(axis=1) / shares


def _distances(x: Array, y: Array) -> Array:
    """Return the squared distances `[n, m]` of rows `x` `[n, d]` and `y` `[m, d]`."""
    squares = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", y, y)
    squares -= 2 * (x @ y.T)
    distances: Array = np.maximum(squares, 0)
    return distances


READERS: dict[str, Callable[[Array, Codes, Array, int], Scores]] = {"rbf": _rbf, "quadratic": _quadratic, "knn": _knn}
