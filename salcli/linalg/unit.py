"""Rows of length 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SMALL = 1e-200  # squares below it may have lost digits


def row_lengths(x: NDArray[Any]) -> Array:
    """Return the lengths `[n]` of float64 rows `x` `[n, d]`, also of rows whose squares float64 cannot hold."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", x, x)
        if np.all((squares > SMALL) & (squares < np.inf)):
            lengths: Array = np.sqrt(squares)
            return lengths
        exponents = np.frexp(np.max(np.abs(x), axis=1, initial=0.0))[1]
        scaled = np.ldexp(x, -exponents[:, None])
        found: Array = np.ldexp(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), exponents)
        return found


def normalize(x: Array, least: Array | float = 0.0) -> Array:
    """Divide float64 rows `x` `[n, d]` by their lengths, in place, and return them.

    Parameters
    ----------
    x : rows; those with NaN or Inf become NaN
    least : `[n]` rows no longer than this become zero
    """
    lengths = row_lengths(x)
    is_zero = ~(lengths > least)
    lengths[is_zero] = 1.0
    with np.errstate(invalid="ignore", under="ignore"):
        x /= lengths[:, None]
        x[is_zero] *= 0.0
    return x
