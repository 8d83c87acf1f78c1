"""Measured figures with confidence bounds: a share of rows, an estimate with its standard error."""

from dataclasses import dataclass
from math import ceil, exp
from typing import Protocol

MOST_ROWS = 10**9
"""Above this number of rows, none is reported to decide."""


class Evidence(Protocol):
    """A figure, and one-sided confidence bounds of its true value."""

    @property
    def value(self) -> float:
        """The measured figure."""

    def lower(self, level: float) -> float:
        """Return the bound that the true value is below with probability `level` at most."""

    def upper(self, level: float) -> float:
        """Return the bound that the true value is above with probability `level` at most."""


@dataclass(frozen=True)
class Share:
    """A share of rows that are right, less a constant: exact bounds (Clopper and Pearson 1934)."""

    n_right: float
    n: float
    less: float = 0.0
    inflation: float = 1.0
    """Rows for each that is independent of the others."""

    @property
    def value(self) -> float:
        """The share less the constant."""
        return self.n_right / self.n - self.less

    def lower(self, level: float) -> float:
        """Return the lower bound (see `Evidence`)."""
        from scipy.special import betaincinv

        share = betaincinv(self.n_right, self.n - self.n_right + 1, level) if self.n_right > 0 else 0.0
        return float(share) - self.less

    def upper(self, level: float) -> float:
        """Return the upper bound (see `Evidence`)."""
        from scipy.special import betaincinv

        is_inside = self.n_right < self.n
        share = betaincinv(self.n_right + 1, self.n - self.n_right, 1 - level) if is_inside else 1.0
        return float(share) - self.less


@dataclass(frozen=True)
class Estimate:
    """A figure with a standard error, normally distributed."""

    value: float
    error: float

    def lower(self, level: float) -> float:
        """Return the lower bound (see `Evidence`)."""
        return self.value - self._margin(level)

    def upper(self, level: float) -> float:
        """Return the upper bound (see `Evidence`)."""
        return self.value + self._margin(level)

    def _margin(self, level: float) -> float:
        return _quantile(level) * self.error


@dataclass(frozen=True)
class Magnitude(Estimate):
    """An estimate of something that is never negative, and above 0 by chance alone."""

    chance: float = 0.0
    """Its expectation where the true value is 0."""

    def lower(self, level: float) -> float:
        """Return the lower bound (see `Evidence`), minus what chance adds on average."""
        return super().lower(level) - self.chance


@dataclass(frozen=True)
class Explained:
    """R², the share of a variance that is explained: log(1 − R²) has Student's t distribution about the truth."""

    value: float
    log_error: float
    """Standard error of log(1 − R²)."""
    freedom: float
    """Degrees of freedom of that error."""

    def lower(self, level: float) -> float:
        """Return the lower bound (see `Evidence`)."""
        return 1 - (1 - self.value) * exp(self._margin(level))

    def upper(self, level: float) -> float:
        """Return the upper bound (see `Evidence`)."""
        return 1 - (1 - self.value) * exp(-self._margin(level))

    def _margin(self, level: float) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, 1 - level)) * self.log_error


def rows_needed(
    evidence: Evidence, limit: float, n: int, pass_level: float, fail_level: float, *, is_upper: bool
) -> int | None:
    """Return about how many rows would decide whether the true value is within a limit, if the figure stays the same.

    Parameters
    ----------
    evidence : the figure, with bounds
    limit : of the gate
    n : rows that gave the figure
    pass_level, fail_level : of the bound that must be within the limit, and of that which must be beyond
    is_upper : whether the limit is one from above

    Returns
    -------
    None where the figure is the limit, or more than `MOST_ROWS` are needed
    """
    value = getattr(evidence, "debiased", evidence.value)
    is_within = value <= limit if is_upper else value >= limit
    level, distance = pass_level if is_within else fail_level, abs(limit - value)
    if distance == 0:
        return None
    if isinstance(evidence, Share):  # of a test against the limit, with a continuity correction
        share = min(max(limit + evidence.less, 0.0), 1.0)
        needed = _quantile(level) ** 2 * share * (1 - share) / distance**2 + 1 / distance
        needed *= evidence.inflation
    else:  # bounds come closer to the figure with the root of the number of rows
        bound = evidence.upper(level) if is_upper == is_within else evidence.lower(level)
        needed = n * ((bound - value) / distance) ** 2
    return max(n + 1, ceil(needed)) if needed <= MOST_ROWS else None


def _quantile(level: float) -> float:
    """Return the standard normal quantile of 1 − level."""
    from scipy.special import ndtri

    return -float(ndtri(level))
