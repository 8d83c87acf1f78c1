"""Spectral Attribute removaL: from moments to an eraser (Shao, Ziser & Cohen 2023, "The SAL Algorithm")."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.linear import LinearEraser
from salcli.errors import ParameterError, RankError, UsageError
from salcli.linalg.class_sums import may_group
from salcli.linalg.decompositions import numerical_rank, thin_svd
from salcli.linalg.label_matrix import SparseDesign
from salcli.linalg.moments import CrossMoments, Spread, is_settled

Array = NDArray[np.float64]
Eraser = TypeVar("Eraser", covariant=True)


@dataclass(frozen=True, eq=False)
class SpectralFit(Generic[Eraser]):
    """An eraser and the spectrum it was cut from."""

    eraser: Eraser
    """Removes the first k directions."""
    singular_values: Array
    """`[min(d, c)]` of Ω, falling."""
    rank: int
    """How many of them are more than rounding."""
    k_rule: dict[str, Any]
    """How k was chosen: {"given": k}, {"alpha": α} or {"rank": true}."""
    is_centred: bool
    """Whether Ω was centred."""


def fit_sal(
    moments: CrossMoments, k: int | None = None, *, alpha: float | None = None, is_centred: bool = True
) -> SpectralFit[LinearEraser]:
    """Erase the k directions of X that covary most with Z.

    Parameters
    ----------
    moments : of X [n, d] and Z [n, c]
    k : left singular vectors of Ω to remove, 1 ≤ k ≤ rank(Ω); default: all rank(Ω) of them
    alpha : instead of k, the least k with σ₁/σₖ₊₁ > alpha, alpha ≥ 1
    is_centred : False takes Ω uncentred and μ = 0, as the paper's experiments do

    Returns
    -------
    SpectralFit, whose eraser's directions [d, k] are orthonormal, the largest entry of each positive

    Raises
    ------
    RankError : Ω is zero to rounding, or k is above its rank; the message states the rank and the spectrum
    RangeError : values whose squares float64 cannot hold
    UsageError : k < 1, alpha < 1, or both given
    """
    moments.require_finite()
    omega = moments.cross_covariance(is_centred=is_centred)
    u, s, _ = thin_svd(omega)
    floor = moments.rounding_floor()
    rank = numerical_rank(s, omega.shape, floor)
    if rank == 0:
        largest = s[0] if len(s) else 0.0
        raise RankError(
            f"zero covariance (rank 0): the embeddings do not vary with the labels on these {moments.n} rows "
            f"(largest singular value {largest:.3g}, of which rounding may be {floor:.3g}); there is nothing to remove"
        )
    chosen, rule = choose_k(s, rank, k, alpha)
    mean = moments.mean_x if is_centred else np.zeros_like(moments.mean_x)
    directions = u[:, :chosen]
    return SpectralFit(LinearEraser(mean, directions, directions), s, rank, rule, is_centred)


def fit_rows(
    x: NDArray[Any],
    z: NDArray[Any],
    k: int | None = None,
    *,
    alpha: float | None = None,
    is_centred: bool = True,
    spread: Spread = map,
) -> SpectralFit[LinearEraser]:
    """Fit rows in memory: x `[n, d]`, z `[n, c]` (see `fit_sal` for the rest, `CrossMoments.of` for `spread`)."""
    design = SparseDesign.of(z)
    is_grouped = x.ndim == 2 and may_group(len(x), x.shape[1], design.width, design.n_one_hot, x.dtype)
    moments = CrossMoments.of(x, design, spread=spread, is_grouped=is_grouped)
    if is_grouped and not is_settled(moments, is_centred=is_centred):
        moments = CrossMoments.of(x, design, spread=spread)
    return fit_sal(moments, k, alpha=alpha, is_centred=is_centred)


def require_choice(k: int | None, alpha: float | None) -> None:
    """Refuse a choice of k that no data could make good: k < 1, alpha < 1 or infinite, or both given."""
    if k is not None and alpha is not None:
        raise UsageError("`k` and `alpha` both choose the number of directions: give one")
    if alpha is not None and not 1 <= alpha < float("inf"):
        raise ParameterError("alpha", alpha, "expected a finite number of at least 1")
    if k is not None and k < 1:
        raise ParameterError("k", k, "at least one direction must be removed")


def choose_k(singular_values: Array, rank: int, k: int | None, alpha: float | None) -> tuple[int, dict[str, Any]]:
    """Decide how many directions to remove: k as given, the least with σ₁/σₖ₊₁ > alpha, or all of the rank.

    Returns
    -------
    k, and how it was chosen

    Raises
    ------
    RankError : k above the rank; the message states the rank and the spectrum
    UsageError : k < 1, alpha < 1, or both given
    """
    require_choice(k, alpha)
    if k is not None and k > rank:
        raise RankError(
            f"k = {k}, but the cross-covariance has rank {rank}: only {rank} "
            f"direction{'s carry' if rank > 1 else ' carries'} the labels (singular values {_shown(singular_values)})"
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
