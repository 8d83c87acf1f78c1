"""Columns with one value in many rows before erasure and many values after it: they hold what was removed.

A projection x − u uᵀx subtracts u_j uᵀx from column j. Where x_j is the same in many rows (ReLU units, counts, dead
units), the erased column is the coordinate uᵀx there, up to shift and scale: linear classifiers cannot read it, as the
other rows make the class means equal, but classifiers by threshold can, however small u_j is.
"""

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.text import listed
from salcli.options import EvaluateOptions

MOST = 5
SAMPLE_ROWS = 4_096
"""Most rows that are looked at, spread evenly."""
SHARE = 0.05
"""Share of the rows that have the same value from which on a column counts."""
BY_THRESHOLD = "boosting"
"""The attacker that reads them, which is trained by default where there are such columns."""
NOTE = (
    "columns {} (from 0) have one value each in many rows before erasure and up to {:,} values in these rows after it: "
    "classifiers by threshold (boosting, random forests) may read there what was removed; leave these columns out, or "
    "write a coarser dtype"
)


def spread_columns(before: NDArray[np.floating], after: NDArray[np.floating] | None) -> dict[int, int]:
    """Return columns with one value in at least `SHARE` of the rows `before` and several in the same rows `after`.

    Parameters
    ----------
    before, after : `[n, d]`, the same rows; None: they are not erased

    Returns
    -------
    column → number of values that erased rows have there
    """
    if after is None or before.shape != after.shape or not len(before):
        return {}
    step = -(-len(before) // SAMPLE_ROWS)
    before, after = before[::step], after[::step]
    values, shares = _modes(before)
    found = dict[int, int]()
    for column in np.flatnonzero(shares >= max(SHARE, 2 / len(before))):
        n_values = len(np.unique(after[before[:, column] == values[column], column]))
        if n_values > 1:
            found[int(column)] = n_values
    return found


def _modes(x: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
    """Return the most frequent value of each column of `x` `[n, d]`, and its share of the rows."""
    ordered = np.sort(x, axis=0)
    values, counts = ordered[0].copy(), np.zeros(x.shape[1])
    for column, each in enumerate(ordered.T):
        starts = np.concatenate([[0], np.flatnonzero(each[1:] != each[:-1]) + 1, [len(each)]])
        longest = int(np.argmax(np.diff(starts)))
        values[column], counts[column] = each[starts[longest]], np.diff(starts)[longest]
    return values, counts / len(x)


def notes_on_spread_columns(found: dict[int, int]) -> tuple[str, ...]:
    """Return a note that names the columns `found` by `spread_columns`; none if there are none."""
    return (NOTE.format(listed(map(str, found), MOST), max(found.values())),) if found else ()


def with_thresholds(probes: tuple[str, ...], found: dict[int, int], options: EvaluateOptions) -> tuple[str, ...]:
    """Return the `probes`, with `BY_THRESHOLD` too where columns are `found` and `options` name no attackers."""
    return (*probes, BY_THRESHOLD) if found and options.probes is None and not options.quick else probes
