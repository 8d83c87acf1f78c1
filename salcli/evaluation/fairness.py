"""True and false positive rates by class and group, and how far groups differ (De-Arteaga et al. 2019; fairlearn)."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.gaps import GapTest, Statistic, mean, root_mean_square, shortfall

Codes = NDArray[np.integer[Any]]
Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of each class and group that a rate is measured on, and how many of them count."""

    hits: Counts
    """`[c, g]`"""
    n: Counts
    """`[c, g]`; a group without any rows is not compared."""

    @cached_property
    def rates(self) -> Array:
        """`[c, g]` shares, NaN where there are no rows."""
        with np.errstate(invalid="ignore", divide="ignore"):
            rates: Array = self.hits / self.n
        return rates

    @cached_property
    def _compared(self) -> "Cells":
        """The classes that have rows in every group that has any, of two groups or more."""
        has_rows = self.n.sum(axis=0) > 0
        hits, n = self.hits[:, has_rows], self.n[:, has_rows]
        has_all = n.all(axis=1) & (n.shape[1] > 1)
        return Cells(hits[has_all], n[has_all])

    def gap(self) -> float | None:
        """Return the mean over classes of the highest less the lowest rate; None if no class has rows in every group.

        A class that lacks them in a group is left out, as it is from `rms_gap` and `ratio`.
        """
        counts = zip(self._compared.hits.tolist(), self._compared.n.tolist(), strict=True)
        rates = [[Fraction(*pair) for pair in zip(*each, strict=True)] for each in counts]
        gaps = [max(of_class) - min(of_class) for of_class in rates]
        return float(sum(gaps) / len(gaps)) if gaps else None  # exact, for limits such as 0.05

    def rms_gap(self) -> float | None:
        """Return the root mean square over classes of the highest less the lowest rate, or None."""
        rates = self._compared.rates
        return float(root_mean_square(np.ptp(rates, axis=1))) if len(rates) else None

    def ratio(self) -> float | None:
        """Return the mean over classes of the lowest over the highest rate (fairlearn: `MetricFrame.ratio`), or None.

        A class whose rates are all 0 is left out.
        """
        rates = self._of_ratio.rates
        return float(np.mean(rates.min(axis=1) / rates.max(axis=1))) if len(rates) else None

    @property
    def _of_ratio(self) -> "Cells":
        has_any = self._compared.hits.any(axis=1)
        return Cells(self._compared.hits[has_any], self._compared.n[has_any])

    def test(self, statistic: Statistic, seed: int, effect: float = 1.0) -> GapTest | None:
        """Return the test of a gap over the classes; None where `gap` is None.

        Parameters
        ----------
        statistic : of the gaps of the classes: `gaps.mean` or `gaps.root_mean_square`
        seed : of permutations and draws
        effect : how much larger the variance of a rate is than that of independent rows
        """
        of = self._compared
        return GapTest(of.hits, of.n, statistic, seed, effect=effect) if len(of.n) else None

    def ratio_test(self, seed: int, effect: float = 1.0) -> GapTest | None:
        """Return the test of 1 less the ratio; None where `ratio` is None (`seed`, `effect`: see `test`)."""
        of = self._of_ratio
        return GapTest(of.hits, of.n, mean, seed, shortfall, effect) if len(of.n) else None


def influence_on_gap(true: Codes, predicted: Codes, groups: Codes, cells: Cells) -> Array:
    """Return by how much each row moves the mean gap of true positive rates: those of other groups not at all.

    Parameters
    ----------
    true, predicted : `[n]` classes
    groups : `[n]` group of each row
    cells : of their true positives
    """
    rates = np.where(cells.n > 0, cells.rates, np.nan)
    signs = np.zeros(cells.n.shape)
    for of_class, sign in zip(rates, signs, strict=True):
        if np.isfinite(of_class).sum() > 1:
            sign[np.nanargmin(of_class)], sign[len(sign) - 1 - np.nanargmax(of_class[::-1])] = -1.0, 1.0
    moved: Array = ((true == predicted) - rates[true, groups]) * (signs / np.maximum(cells.n, 1))[true, groups]
    return moved


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How often each (true class, predicted class, group) occurs."""

    counts: Counts
    """`[c, c, g]`"""

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

    @cached_property
    def true_positives(self) -> Cells:
        """The rows of each class, and those that are recognised: their share is the true positive rate."""
        return Cells(np.einsum("iig->ig", self.counts), self.counts.sum(axis=1))

    @cached_property
    def false_positives(self) -> Cells:
        """The rows of all other classes, and those that are taken for this one: the false positive rate.

        A class without any rows has none: it may be one that nobody was trained on, and is never predicted.
        """
        right, n = self.true_positives.hits, self.true_positives.n
        is_there = n.sum(axis=1, keepdims=True) > 0
        return Cells((self.counts.sum(axis=0) - right) * is_there, (n.sum(axis=0) - n) * is_there)


def excluded(cells: Cells) -> list[tuple[int, int]]:
    """Return the (class, group) pairs that have no rows in `cells`, of the groups that have any."""
    is_empty = (cells.n == 0) & (cells.n.sum(axis=0) > 0)
    return [(i, j) for i, j in np.argwhere(is_empty).tolist()]
