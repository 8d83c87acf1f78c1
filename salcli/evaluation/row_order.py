"""Whether two files of the same rows, without keys, seem to have them in the same order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.cosine import unit_rows

MOST_ROWS, LEAST_ROWS = 1_000, 20
"""Rows that are compared."""
N_SHUFFLES = 20
ERRORS = 4.0
"""Standard errors by which rows in the same order are more alike than shuffled ones, at least."""
Array = NDArray[np.float64]


def seem_shuffled(before: NDArray[Any], after: NDArray[Any], seed: int) -> bool:
    """Return whether rows are no more alike in two files than shuffled rows are.

    Rows in the same order have other cosines with their own counterpart (higher ones, unless signs were flipped) than
    with that of another row; where another tool rotated the space, cosines within one file still correlate with those
    within the other.

    Parameters
    ----------
    before, after : `[n, d]` and `[n, d']` rows of the two files, in the order of the files
    seed : draws at most `MOST_ROWS` rows, and shuffles them

    Returns
    -------
    False too where nothing can be seen: other widths, fewer than `LEAST_ROWS` rows, or rows that are all equal
    """
    if before.shape != after.shape or len(before) < LEAST_ROWS:
        return False
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(before))[:MOST_ROWS]
    one, other = (_directions(x[chosen]) for x in (before, after))
    if not (one.any() and other.any()):
        return False
    gain = np.sum(one * (other - np.roll(other, 1, axis=0)), axis=1)
    if abs(gain.mean()) > ERRORS * gain.std() / np.sqrt(len(gain)):
        return False
    within_one, within_other = one @ one.T, other @ other.T
    np.fill_diagonal(within_one, 0.0)
    orders = (rng.permutation(len(other)) for _ in range(N_SHUFFLES))
    by_chance = np.array([np.sum(within_one * within_other[np.ix_(order, order)]) for order in orders])
    return bool(np.sum(within_one * within_other) <= by_chance.mean() + ERRORS * by_chance.std())


def _directions(x: NDArray[Any]) -> Array:
    """Return rows `x` `[n, d]` less their median, divided by their length."""
    wide = x.astype(np.float64)
    return unit_rows(wide - np.median(wide, axis=0))[0]
