"""Columns with one value in most rows before erasure and many after it: they hold what was removed.

A projection x − u uᵀx subtracts u_j uᵀx from column j. Where x_j is the same in most rows, the erased column is the
coordinate uᵀx there, up to shift and scale: linear classifiers cannot read it, as the few other rows make the class
means equal, but classifiers by rank or threshold can, however small u_j is.
"""

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.text import listed

MOST = 5
SAMPLE_ROWS = 4_096
"""Most rows that are looked at, spread evenly."""
NOTE = (
    "columns {} (from 0) have one value each in most rows before erasure and up to {:,} values in these rows after it: "
    "they may give away what was removed to classifiers by rank or threshold (quadratic, boosting); leave them out, or "
    "write a coarser dtype"
)


def spread_columns(before: NDArray[np.floating], after: NDArray[np.floating]) -> dict[int, int]:
    """Return columns with one value in more than half of the rows `before` and several in the same rows `after`.

    Parameters
    ----------
    before, after : `[n, d]`, the same rows

    Returns
    -------
    column → number of values that erased rows have there
    """
    if before.shape != after.shape or not len(before):
        return {}
    step = -(-len(before) // SAMPLE_ROWS)
    before, after = before[::step], after[::step]
    middle = np.sort(before, axis=0)[len(before) // 2]  # the value of more than half of the rows, if there is one
    is_middle = before == middle
    found = dict[int, int]()
    for column in np.flatnonzero(2 * is_middle.sum(axis=0) > len(before)):
        n_values = len(np.unique(after[is_middle[:, column], column]))
        if n_values > 1:
            found[int(column)] = n_values
    return found


def notes_on_spread_columns(before: NDArray[np.floating], after: NDArray[np.floating]) -> tuple[str, ...]:
    """Return a note that names such columns of rows `before` and `after` `[n, d]`; none if there are none."""
    found = spread_columns(before, after)
    return (NOTE.format(listed(map(str, found), MOST), max(found.values())),) if found else ()
