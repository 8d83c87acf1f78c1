"""True positive rates by class and group, and the gap between groups (De-Arteaga et al. 2019)."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.gaps import GapTest, Statistic, root_mean_square

Codes = NDArray[np.integer[Any]]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How often each (true class, predicted class, group) occurs."""

    counts: NDArray[np.int64]
    """`[c, c, g]`; groups without rows are not compared."""

    @classmethod
    def of(cls, true: Codes, predicted: Codes, groups: Codes, n_classes: int, n_groups: int) -> "Outcomes":
        """Return the counts of rows with these codes, which count from 0.

        Parameters
        ----------
        true : `[n]` the class of each row
        predicted : `[n]` the class that was predicted
        groups : `[n]` the group of each row
        n_classes : c
        n_groups : g
        """
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
        return float(sum(gaps) / len(gaps)) if gaps else None  # exact, for limits such as 0.05

    def rms_gap(self) -> float | None:
        """Return the root mean square over classes of the gap between the highest and the lowest rate, or None.

        A class that has no rate in some group is left out; None if no class remains.
        """
        gaps = _gaps(_rates(self._compared))
        gaps = gaps[~np.isnan(gaps)]
        return float(root_mean_square(gaps)) if len(gaps) else None

    def test(self, statistic: Statistic, seed: int) -> GapTest | None:
        """Return the test of a gap over the classes; None where `gap` is None.

        Parameters
        ----------
        statistic : of the gaps of the classes: `gaps.mean` or `gaps.root_mean_square`
        seed : of permutations and draws
        """
        right, n = np.einsum("iig->ig", self._compared), self._compared.sum(axis=1)
        has_all = n.all(axis=1) & (n.shape[1] > 1)
        return GapTest(right[has_all], n[has_all], statistic, seed) if has_all.any() else None


def excluded(rates: Array) -> list[tuple[int, int]]:
    """Return the (class, group) pairs that have no rate in `rates` `[c, g]` (NaN), of the groups that have any."""
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
