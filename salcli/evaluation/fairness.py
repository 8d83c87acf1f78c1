"""True positive rates by class and group, and the gap between groups (De-Arteaga et al. 2019)."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.integer[Any]]
Array = NDArray[np.float64]
RESAMPLES = 1_000


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How often each (true class, predicted class, group) occurs."""

    counts: NDArray[np.int64]
    """`[c, c, g]`; groups without rows are not compared."""

    @classmethod
    def of(cls, true: Codes, predicted: Codes, groups: Codes, n_classes: int, n_groups: int) -> "Outcomes":
        """Return the counts of rows with these codes `[n]`, from 0."""
        joint = (true.astype(np.int64) * n_classes + predicted) * n_groups + groups
        shape = (n_classes, n_classes, n_groups)
        return cls(np.bincount(joint, minlength=int(np.prod(shape))).reshape(shape))

    def rates(self) -> tuple[Array, NDArray[np.int64]]:
        """Return the true positive rate of each class in each group, NaN where it has no rows, and its number of rows.

        Returns
        -------
        `[c, g]`, `[c, g]`
        """
        return _rates(self.counts), self.counts.sum(axis=1)

    @cached_property
    def _compared(self) -> NDArray[np.int64]:
        """The counts of the groups that have rows."""
        return self.counts[..., self.counts.sum(axis=(0, 1)) > 0]

    def gap(self) -> float | None:
        """Return the mean over classes of |TPR₁ − TPR₂|; None if no class has positives in every group, of two or more.

        A class that lacks them in a group is left out, as it is from `rms_gap`.
        """
        right, n = np.einsum("iig->ig", self._compared).tolist(), self._compared.sum(axis=1).tolist()
        rates = [
            [Fraction(*pair) for pair in zip(*each, strict=True)] for each in zip(right, n, strict=True) if all(each[1])
        ]
        gaps = [max(of_class) - min(of_class) for of_class in rates if len(of_class) > 1]
        return float(sum(gaps) / len(gaps)) if gaps else None  # a limit such as 0.05 is met to the last digit

    def rms_gap(self) -> float | None:
        """Return the root mean square over classes of the gap between the highest and the lowest rate."""
        return _defined(_rms_gap(_gaps(_rates(self._compared))))

    def intervals(self, seed: int) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
        """Return 95% intervals of `gap` and `rms_gap`: percentiles over `RESAMPLES` resamples of the rows.

        Resampling adds noise to a gap near 0, which only grows by it: the interval then begins at the gap itself.
        """
        counts = self._compared
        n = int(counts.sum())
        if not n:
            return None, None
        draws = np.random.default_rng(seed).multinomial(n, counts.reshape(-1) / n, size=RESAMPLES)
        gaps = _gaps(_rates(draws.reshape(-1, *counts.shape)))
        return _bounds(_mean_gap(gaps), self.gap()), _bounds(_rms_gap(gaps), self.rms_gap())


def excluded(rates: Array) -> list[tuple[int, int]]:
    """Return the (class, group) pairs that have no positives, and so no rate, of the groups that have any."""
    is_empty = np.isnan(rates) & ~np.isnan(rates).all(axis=0)
    return [(i, j) for i, j in np.argwhere(is_empty).tolist()]


def _rates(counts: NDArray[np.int64]) -> Array:
    right = np.einsum("...iig->...ig", counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates: Array = right / counts.sum(axis=-2)
    return rates


def _gaps(rates: Array) -> Array:
    """Return max − min over groups; NaN where one has no rate, or there are no two."""
    if rates.shape[-1] < 2:
        return np.full(rates.shape[:-1], np.nan)
    gaps: Array = rates.max(axis=-1) - rates.min(axis=-1)  # NaN stays NaN
    return gaps


def _mean_gap(gaps: Array) -> Array:
    return _mean(gaps)


def _rms_gap(gaps: Array) -> Array:
    return np.sqrt(_mean(gaps**2))


def _mean(values: Array) -> Array:
    """Return the mean along the last axis of what is not NaN; NaN if nothing is left."""
    is_there = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Array = np.where(is_there, values, 0).sum(axis=-1) / is_there.sum(axis=-1)
    return mean


def _defined(value: Array) -> float | None:
    return None if np.isnan(value) else float(value)


def _bounds(values: Array, estimate: float | None) -> tuple[float, float] | None:
    kept = values[~np.isnan(values)]
    if estimate is None or not len(kept):
        return None
    low, high = np.quantile(kept, [0.025, 0.975])
    return min(float(low), estimate), max(float(high), estimate)
