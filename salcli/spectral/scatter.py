"""Zᵀ X added to sums in place, for a sparse Z: scipy's own kernel."""

import functools
import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MODULE = "scipy.sparse._sparsetools"


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
    shape = (len(sums), *x.shape)
    _kernels().csc_matvecs(*shape, starts, columns, values, x.reshape(-1), sums.reshape(-1))


@functools.cache
def _kernels() -> Any:
    """Load the module of scipy's kernels alone: `scipy.sparse` imports much that no fit needs.

    Where that module is not found on its own, `scipy.sparse` brings it.
    """
    scipy = importlib.util.find_spec("scipy")
    if MODULE not in sys.modules and os.name == "posix" and scipy is not None and scipy.origin is not None:
        stem = Path(scipy.origin).parent / "sparse" / "_sparsetools"
        path = next((path for end in EXTENSION_SUFFIXES if (path := Path(f"{stem}{end}")).is_file()), None)
        spec = None if path is None else importlib.util.spec_from_file_location(MODULE, path)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return importlib.import_module(MODULE)
