"""Statistics of a gap between groups: the gap expected by chance, a permutation test of no gap, and an interval.

The gap of rates that are measured on few rows is never 0, even where the true rates are equal: each class and group
adds the noise of its rows. Groups are therefore permuted within classes to estimate the gap under no difference, and an
interval is found by inverting a test: it contains the true gaps that the test does not reject.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
DRAWS = 1_000
STEPS = 12  # of bisection: bounds to 1/4096 of the widest gap
FEW_POSITIVES = 10


def difference(rates: Array) -> Array:
    """Return the highest less the lowest of `rates` `[…, c, g]` of each class: 0 is parity."""
    return np.asarray(rates.max(axis=-1) - rates.min(axis=-1))


def shortfall(rates: Array) -> Array:
    """Return what the lowest over the highest of `rates` `[…, c, g]` lacks of 1, for each class: 0 is parity."""
    highest = rates.max(axis=-1)
    return np.asarray(1 - rates.min(axis=-1) / np.where(highest > 0, highest, 1) - (highest == 0))


def mean(gaps: Array) -> Array:
    """Return the mean over classes of `gaps` `[…, c]`."""
    return np.asarray(gaps.mean(axis=-1))


def root_mean_square(gaps: Array) -> Array:
    """Return the root mean square over classes of `gaps` `[…, c]`."""
    return np.asarray(np.sqrt(np.mean(gaps**2, axis=-1)))


def _as_tuples(counts: NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, counts.tolist()))


@lru_cache(maxsize=16)  # several gaps are of the same rows, and those before erasure come back for each eraser
def _permuted(right: tuple[int, ...], n: tuple[tuple[int, ...], ...], seed: int, draws: int) -> NDArray[np.int64]:
    """Return the rows that count `[draws, c, g]` if groups are permuted within each class.

    Parameters
    ----------
    right : `[c]` rows of each class that count
    n : `[c, g]` rows
    seed : of the permutations
    draws : how many
    """
    rng = np.random.default_rng([seed, 1])
    drawn = [
        rng.multivariate_hypergeometric(of, k, size=draws, method="marginals") for k, of in zip(right, n, strict=True)
    ]
    return np.stack(drawn, axis=1)


@dataclass(frozen=True, eq=False)
class GapTest:
    """One gap over the classes that have rows in every group: its value by chance, and confidence bounds.

    Bounds come from a one-parameter family of true rates: the rates of each class, moved towards their common rate or
    away from it, so that the gap grows from 0. Rates are rejected if gaps simulated from them are hardly ever as small,
    or as large, as the measured one.
    """

    right: NDArray[np.int64]
    """`[c, g]` rows of each class and group that count: that are recognised, or taken for the class."""
    n: NDArray[np.int64]
    """`[c, g]` rows, at least one each."""
    statistic: Statistic
    """Of the gaps `[…, c]` of the classes."""
    seed: int
    spread: Statistic = difference
    """How far the rates `[…, c, g]` of each class lie apart: `difference` or `shortfall`."""
    effect: float = 1.0
    """How much larger the variance of a rate is than that of independent rows: chance is drawn with so many fewer."""

    @cached_property
    def _worth(self) -> NDArray[np.int64]:
        """`[c, g]` independent rows that the rows are worth, at least one each."""
        return np.maximum(1, np.rint(self.n / self.effect)).astype(np.int64)

    @cached_property
    def _hits(self) -> Array:
        """`[c, g]` those of them that count, not rounded."""
        return self.right * (self._worth / self.n)

    def of_rates(self, rates: Array) -> Array:
        """Return the gap of `rates` `[…, c, g]`."""
        return self.statistic(self.spread(rates))

    @cached_property
    def value(self) -> float:
        """The measured gap."""
        return float(self.of_rates(self.right / self.n))

    @cached_property
    def _permuted(self) -> Array:
        """Gaps after permuting the groups within each class, `DRAWS` times."""
        right = np.rint(self._hits.sum(axis=1)).astype(np.int64)
        return self.of_rates(_permuted(tuple(right.tolist()), _as_tuples(self._worth), self.seed, DRAWS) / self._worth)

    @property
    def expected(self) -> float:
        """The mean gap if predictions are independent of groups."""
        return float(np.mean(self._permuted))

    @property
    def debiased(self) -> float:
        """The root of the squared gap minus the mean squared gap by chance, at least 0."""
        return float(np.sqrt(max(0.0, self.value**2 - float(np.mean(self._permuted**2)))))

    @property
    def p_value(self) -> float:
        """The share of permutations, with what was measured among them, whose gap is at least as wide."""
        return (1 + int(np.sum(self._permuted >= self.value - 1e-12))) / (DRAWS + 1)

    def lower(self, level: float) -> float:
        """Return the bound that the true gap is below with probability `level` at most."""
        return self._bound(lambda drawn: float(np.mean(drawn >= self.value - 1e-12)) > level, is_upper=False)

    def upper(self, level: float) -> float:
        """Return the bound that the true gap is above with probability `level` at most."""
        value = max(self.value, float(np.median(self._drawn(0.0))))  # a gap below that of chance is chance too
        return self._bound(lambda drawn: float(np.mean(drawn <= value + 1e-12)) <= level, is_upper=True)

    def _bound(self, is_beyond: Callable[[Array], bool], *, is_upper: bool) -> float:
        """Return the least true gap at which `is_beyond` is true, by bisection."""
        low, high = 0.0, 1.0
        if is_beyond(self._drawn(0.0)):
            return 0.0
        if not is_beyond(self._drawn(1.0)):
            return self._gap_at(1.0)
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if is_beyond(self._drawn(middle)) else (middle, high)
        return self._gap_at(high if is_upper else low)

    @cached_property
    def _pooled(self) -> Array:
        """`[c, 1]` the common rate of each class, not quite 0 or 1."""
        pooled: Array = (self._hits.sum(axis=1) + 0.5) / (self._worth.sum(axis=1) + 1)
        return pooled[:, None]

    @cached_property
    def _direction(self) -> Array:
        """`[c, g]` deviations from the common rate, scaled: the widest is 1, for a ratio the lowest is minus the rate.

        Arbitrary if the rates are equal.
        """
        apart = (self._hits + self._pooled) / (
            self._worth + 1
        ) - self._pooled  # one row more: a single row proves nothing
        if self.value == 0:
            apart = np.zeros(self.n.shape)
            apart[:, 0], apart[:, -1] = 0.5, -0.5
        relative = apart.max(axis=1) - apart.min(axis=1) if self.spread is difference else -apart / self._pooled
        largest = float(np.max(relative))
        return apart / largest if largest else apart

    def _truth(self, share: float) -> Array:
        """Return true rates `[c, g]`: equal within each class for a share of 0, as different as possible for 1."""
        apart = share / (1 - share) if share < 1 else np.inf
        with np.errstate(invalid="ignore"):
            rates = self._pooled + np.where(self._direction == 0, 0.0, apart * self._direction)
        return np.clip(rates, 0, 1)

    def _gap_at(self, share: float) -> float:
        return float(self.of_rates(self._truth(share)))

    def _drawn(self, share: float) -> Array:
        """Return gaps `[DRAWS]` simulated from the true rates `_truth(share)` with the same numbers of rows."""
        truth = self._truth(share)
        rng = np.random.default_rng([self.seed, 2])
        return self.of_rates(rng.binomial(self._worth, truth, size=(DRAWS, *truth.shape)) / self._worth)
