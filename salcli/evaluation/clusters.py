"""Rows that go together, such as those of one author: how many independent rows they are worth."""

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index

Array = NDArray[np.floating]


def cluster_effect(influence: Array, groups: Index | None) -> float:
    """Return by how much the variance of a sum is larger than that of independent rows, at least 1 (Kish 1965).

    Where nothing varies, rows of a group are taken to be all alike. Of few groups the variance is itself uncertain: it
    is raised by the square of Student's quantile over the normal one.

    Parameters
    ----------
    influence : `[n]` how much each row moves the figure, less the mean
    groups : `[n]` the group of each row; None: all rows are independent

    Returns
    -------
    at most n
    """
    if groups is None:
        return 1.0
    n, n_groups = len(influence), effective_groups(groups)
    if n_groups < 1 + 1e-9:
        return float(n)
    total = float(np.sum(influence**2))
    found = n / n_groups
    if total > 0:
        found = float(np.sum(np.bincount(groups, influence) ** 2)) / total * n_groups / (n_groups - 1)
    return min(float(n), max(1.0, found) * few_groups(n_groups))


def effective_groups(groups: Index) -> float:
    """Return how many groups of equal size are worth as much, n² / Σ size²; `groups` `[n]` has each row's group."""
    return len(groups) ** 2 / float(np.sum(np.bincount(groups).astype(np.float64) ** 2))


def few_groups(n_groups: float) -> float:
    """Return the square of Student's 97.5 % quantile of `n_groups` − 1 degrees of freedom over the normal one."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(n_groups - 1, 0.975) / ndtri(0.975)) ** 2


def independent_rows(groups: Index | None, is_used: NDArray[np.bool_]) -> float:
    """Return the fewest independent rows that some rows are worth: as if rows of a group were all alike.

    Parameters
    ----------
    groups : `[n]` the group of each row; None: all are independent
    is_used : `[n]` which rows, at least one
    """
    m = int(is_used.sum())
    if groups is None:
        return float(m)
    n_groups = effective_groups(groups)
    if n_groups < 1 + 1e-9:
        return m / len(groups)
    alike = min(m * n_groups / len(groups), effective_groups(groups[is_used]))
    return max(m / len(groups), alike / few_groups(n_groups))
