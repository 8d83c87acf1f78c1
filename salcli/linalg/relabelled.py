"""`LabelMap`: other columns of Z for rows that were added up: classes that others have, numbers in other units."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelMap:
    """Each column of Z becomes a column of a wider Z: z' = z · scale + shift; new columns are 0."""

    columns: NDArray[np.int64]
    """`[c]` their places in the wider Z."""
    scales: Array
    """`[c]` factors, 1 for classes."""
    shifts: Array
    """`[c]` what is added, 0 for classes."""
    variances: Array
    """`[c]` variance of z where the scale is not 1, else of no effect."""
    width: int
    """Columns c' of the wider Z."""
