"""Moments of the same rows with other labels: classes that others have, and numbers in other units."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.linalg.moments import CrossMoments, SecondMoments

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


def relabelled(moments: Any, labels: LabelMap) -> Any:
    """Return the moments of the same rows x with the labels z' that `labels` makes of z: exact in real arithmetic.

    Parameters
    ----------
    moments : `CrossMoments` or `SecondMoments`
    labels : the map of z
    """
    if isinstance(moments, SecondMoments):
        return replace(moments, cross=_relabelled(moments.cross, labels))
    return _relabelled(moments, labels)


def _relabelled(moments: CrossMoments, labels: LabelMap) -> CrossMoments:
    mean_z, comoment = np.zeros(labels.width), np.zeros((len(moments.mean_x), labels.width))
    if moments.n:
        mean_z[labels.columns] = moments.mean_z * labels.scales + labels.shifts
        comoment[:, labels.columns] = moments.comoment * labels.scales
    grown = moments.n * float(np.sum(labels.variances * (labels.scales**2 - 1)))
    root_z = math.sqrt(max(0.0, moments.root_z**2 + grown))
    return replace(moments, mean_z=mean_z, comoment=comoment, root_z=root_z)
