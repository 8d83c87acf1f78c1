"""Unit vectors and their cosines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PLACES = 12
"""Decimal places a cosine is rounded to, so that equal cosines are ties whatever their last bits are."""


def unit_rows(x: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return rows scaled to length 1.

    Parameters
    ----------
    x : `[n, d]` finite numbers of any float type

    Returns
    -------
    `[n, d]` units, zero where the row is zero, and `[n]` whether the row is anything else
    """
    rows = x.astype(np.float64)
    largest = np.max(np.abs(rows), axis=1, initial=0.0)
    is_nonzero = largest > 0
    rows /= np.where(is_nonzero, largest, 1.0)[:, None]  # taken out first, so that no square over- or underflows
    rows /= np.where(is_nonzero, np.linalg.norm(rows, axis=1), 1.0)[:, None]
    return rows, is_nonzero


def cosines(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows, rounded to `PLACES` decimal places.

    Each is computed from its own two rows alone (a matrix product may sum in another order from row to row), so that
    equal rows have equal cosines.

    Parameters
    ----------
    one, other : `[n, d]` units; either may be `[1, d]`
    """
    rounded: NDArray[np.float64] = np.round((one * other).sum(axis=1), PLACES)
    return rounded
