"""R²: how much of the variance of a numeric attribute an attacker explains, with bounds."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.attackers.scores import r_squared
from salcli.evaluation.evidence import Explained
from salcli.evaluation.json_fields import UNWRITTEN, named
from salcli.options import RAW

Numbers = NDArray[np.float64]
CI95 = 0.025
"""Level of each end of a 95 % interval."""


@dataclass(frozen=True, eq=False)
class Guesses:
    """One attacker's predictions of its test rows, in standard deviations."""

    labels: NDArray[np.int64]
    """`[m]` which labels."""
    predicted: Numbers
    """`[m]`"""
    true: Numbers
    """`[m]`"""


@dataclass(frozen=True)
class NumericResult:
    """One attacker's result on the test rows of a numeric attribute."""

    attribute: str
    probe: str
    adversary: str
    stage: str
    """before or after erasure."""
    r2: float
    """1 − mean squared error / variance, on the test rows: 1 is all, 0 and less is nothing."""
    log_error: float
    """Standard error of log(1 − R²)."""
    freedom: float
    """Degrees of freedom of that error."""
    n_train: int
    n_test: int
    converged: bool
    capped: bool
    """Whether the training rows were cut down to the greatest number allowed."""
    hyperparameters: dict[str, float] = field(default_factory=dict, hash=False)
    """Chosen on the attacker's own rows, before and after separately."""
    form: str = field(default=RAW, metadata=named("as"))
    """In which the rows are attacked."""
    ci95: tuple[float, float] = field(init=False)
    guesses: Guesses | None = field(default=None, compare=False, repr=False, metadata=UNWRITTEN)
    """What it was computed from, while results are pooled."""

    def __post_init__(self) -> None:
        found = Explained(self.r2, self.log_error, self.freedom)
        object.__setattr__(self, "ci95", (found.lower(CI95), found.upper(CI95)))


def explained(predicted: Numbers, true: Numbers) -> tuple[float, float, float]:
    """Return R² on test rows, the standard error of log(1 − R²), and its degrees of freedom.

    1 − R² is the ratio of two means over the same rows, of squared errors and of squared deviations from the mean.
    Its logarithm moves by ψᵢ / n = (eᵢ² / ē² − dᵢ² / d̄²) / n with each row (delta method), which is nearer to a normal
    distribution than R² is, and has no bound beyond 1. Where every prediction is the same, that is 0 to first order;
    what is then left, of the difference of two means, has a variance of 2 / n². The degrees of freedom are the number
    of rows that Σψ² consists of, (Σψ²)² / Σψ⁴, so that few rows far out widen the bounds.

    Parameters
    ----------
    predicted, true : `[n]` numbers, not all the same
    """
    n, influence = len(true), influence_on_r2(predicted, true)
    variance = float(np.sum(influence**2)) / max(1, n - 2) / n + 2 / n**2
    fourth = float(np.sum(influence**4))
    freedom = float(np.sum(influence**2)) ** 2 / fourth if fourth > 0 else n - 1
    return r_squared(predicted, true), float(np.sqrt(variance)), max(2.0, freedom)


def influence_on_r2(predicted: Numbers, true: Numbers) -> Numbers:
    """Return by how much each row moves log(1 − R²), times n (see `explained`).

    Parameters
    ----------
    predicted, true : `[n]` numbers, not all the same
    """
    errors, deviations = (true - predicted) ** 2, (true - true.mean()) ** 2
    spread = float(deviations.mean())
    size = max(float(errors.mean()), np.finfo(float).eps * spread)  # of predictions that are right to the last bit
    influence: Numbers = errors / size - deviations / spread
    return influence
