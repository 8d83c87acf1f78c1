"""Which dtype an erased file needs, so that rounding does not bring the attribute back."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.source import Source
from salcli.erasers.base import Eraser
from salcli.errors import RowRangeError

SAMPLE_ROWS = 1 << 12


COARSE = 5e-3  # largest residue of rounding, as a share of the first singular value


def erased_dtype(eraser: Eraser, singular_values: NDArray[np.float64], source: Source) -> np.dtype[Any]:
    """Return the dtype of an erased file: the input's, or a finer one where rounding would bring the attribute back.

    The residue of rounding in the removed directions of the first rows is compared with the first singular value.

    Parameters
    ----------
    eraser : that is applied
    singular_values : `[m]` of its fit, descending
    source : the rows to be erased, of which the first are read

    Raises
    ------
    FormatError : the file is damaged
    """
    least = np.dtype(eraser.least_dtype)
    dtype = np.promote_types(source.dtype, least) if least.itemsize > source.dtype.itemsize else source.dtype
    if dtype.itemsize >= 8:
        return dtype
    blocks = itertools.chain.from_iterable(chunk.batches(SAMPLE_ROWS) for chunk in source.chunks())
    first = next(block.vectors for block in blocks if len(block))
    allowed = COARSE * float(singular_values[0])
    finer = [dtype, *(np.dtype(t) for t in (np.float32, np.float64) if np.dtype(t).itemsize > dtype.itemsize)]
    return next((dtype for dtype in finer[:-1] if _residue(eraser, first, dtype) <= allowed), finer[-1])


def _residue(eraser: Eraser, x: NDArray[Any], dtype: np.dtype[Any]) -> float:
    """Return the residue of rounding (see `Eraser.residue`), infinite for values that `dtype` cannot hold."""
    try:
        return eraser.residue(x, dtype)
    except RowRangeError:
        return float("inf")
