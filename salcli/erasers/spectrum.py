"""How many directions of a spectrum are removed, and how: parameters that several methods have."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from salcli.erasers.base import Array
from salcli.errors import ParameterError, RankError, UsageError
from salcli.options import Record, option


@dataclass(frozen=True)
class SpectralParameters(Record):
    """How many directions of a spectrum are removed."""

    k: int | None = option(None, "-k", metavar="N", help="Directions to remove; default: all of the rank.")
    alpha: float | None = option(None, metavar="A", help="Instead of `k`: the least k with σ₁/σₖ₊₁ > A, at least 1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None and self.alpha is not None:
            raise ParameterError("alpha", self.alpha, "k chooses the number of directions too: give one of both")
        if self.alpha is not None and not 1 <= self.alpha < float("inf"):
            raise ParameterError("alpha", self.alpha, "expected a finite number of at least 1")
        if isinstance(self.k, int) and self.k < 1:
            raise ParameterError("k", self.k, "at least one direction must be removed")


@dataclass(frozen=True)
class ProjectionParameters(SpectralParameters):
    """Which directions an orthogonal projection removes, and what it sets their coordinates to."""

    center: bool = option(True, off="--no-center", help="Centre X and Z first; the paper does not.")
    keep_mean: bool = option(
        False,
        off="--no-keep-mean",
        help="Set removed coordinates to their mean instead of 0, for models that are not retrained. The attribute "
        "can then be read from rows that are divided by their length afterwards.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_mean and not self.center:
            raise UsageError("`keep_mean` keeps the mean that centring subtracts: it cannot go with `center=False`")


def choose_k(singular_values: Array, rank: int, k: int | None, alpha: float | None) -> tuple[int, dict[str, Any]]:
    """Return how many directions to remove: k itself, the least with σ₁/σₖ₊₁ > alpha, or all of the rank.

    Parameters
    ----------
    singular_values : `[m]`, descending
    rank : how many of them are more than rounding
    k : directions, 1 ≤ k ≤ rank
    alpha : instead of k, a finite number ≥ 1

    Returns
    -------
    k, and how it was chosen (`Fit.k_rule`)

    Raises
    ------
    RankError : k above the rank; the message states the rank and the spectrum
    ParameterError : k < 1, alpha < 1, or both are given
    """
    SpectralParameters(k, alpha)
    if k is not None and k > rank:
        raise RankError(
            f"k = {k}, but the cross-covariance has rank {rank}: only {rank} "
            f"direction{'s carry' if rank > 1 else ' carries'} the labels (singular values {_shown(singular_values)}): "
            f"leave `k` out to remove {'all of them' if rank > 1 else 'it'}"
        )
    rule: dict[str, Any] = {"rank": True} if k is None else {"given": k}
    chosen = rank if k is None else k
    if alpha is not None:
        chosen, rule = _by_threshold(singular_values, rank, alpha), {"alpha": alpha}
    return chosen, rule


def _by_threshold(singular_values: Array, rank: int, alpha: float) -> int:
    kept = singular_values[1:rank]  # beyond the rank σ counts as 0, and σ₁/0 is above every alpha
    above = np.flatnonzero(singular_values[0] > alpha * kept)
    return int(above[0]) + 1 if len(above) else rank


def _shown(singular_values: Array) -> str:
    return ", ".join(f"{s:.3g}" for s in singular_values[:6]) + (" …" if len(singular_values) > 6 else "")
