"""How far erasure moves a kernel: γ/ρ = mean|K̂ − K| / std(K) (Shao, Ziser & Cohen 2023)."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def deviation(tiles: Iterable[tuple[Array, Array]]) -> float | None:
    """Accumulate γ/ρ over tiles of a kernel matrix.

    Parameters
    ----------
    tiles : (K, K̂ − K) of the same shape; together they cover the matrix once

    Returns
    -------
    γ/ρ, or None where K does not vary
    """
    n, mean, power, moved = 0, 0.0, 0.0, 0.0
    low, high = np.inf, -np.inf
    for gram, change in tiles:
        moved += float(np.abs(change).sum())
        low, high = min(low, float(gram.min())), max(high, float(gram.max()))
        here = float(gram.mean())
        step, total = here - mean, n + gram.size
        power += float(np.sum((gram - here) ** 2)) + step**2 * n * gram.size / total  # Chan, Golub & LeVeque 1983
        mean += step * gram.size / total
        n = total
    if low >= high or power <= 0:  # equal values can have a power by rounding
        return None
    return moved / n / float(np.sqrt(power / n))
