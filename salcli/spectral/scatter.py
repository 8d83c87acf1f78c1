"""Zᵀ X added to sums in place, for a sparse Z: scipy's own kernel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.spectral.compiled import scipy_module


def add_products(
    sums: NDArray[Any], starts: NDArray[np.int32], columns: NDArray[np.int32], values: NDArray[Any], x: NDArray[Any]
) -> None:
    """Add Zᵀ x to `sums`, row after row of x.

    The public product of a sparse matrix makes a new matrix for every block; this adds to the one there is.

    Parameters
    ----------
    sums : `[c, d]`, in C order, of the dtype of x and the values
    starts : `[n + 1]` where the entries of each row of Z begin
    columns, values : `[m]` the entries of Z `[n, c]`, row by row
    x : `[n, d]`
    """
    assert sums.flags.c_contiguous  # else a copy would get them
    kernels, shape = scipy_module("sparse", "_sparsetools"), (len(sums), *x.shape)
    kernels.csc_matvecs(*shape, starts, columns, values, x.reshape(-1), sums.reshape(-1))
