"""AMSAL: classes of rows that no label is aligned with, from the sizes of the classes alone.

Source: Shao, Ziser & Cohen 2023, "Erasure of Unaligned Attributes from Neural Representations" (TACL 11). It looks for
the assignment of rows to classes whose cross-covariance Ω has the largest sum of singular values, by turns: an SVD
Ω = U Σ Vᵀ of the classes assigned last, and the assignment with the largest Σᵢ (Uᵀ xᵢ) · (Vᵀ zᵢ). No step lowers the
sum (von Neumann's trace inequality), so that the turns end, in a local maximum that depends on the start.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, RankError
from salcli.linalg.assignment import Array, Codes, assign
from salcli.linalg.decompositions import numerical_rank, thin_svd

MOST_ROUNDS = 100
BLOCK_ELEMENTS = 1 << 20
FREE = -1
"""Code of a row whose class is not known."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """Rows with the classes that were assigned to them."""

    codes: Codes
    """`[n]`"""
    strength: float
    """Σσ of the cross-covariance of rows and assigned classes."""
    direction: Array
    """`[d, c]` U Vᵀ: a row less `mean`, times it, is its score for each class."""
    mean: Array
    """`[d]` of all rows."""
    prices: Array
    """`[c]` of the classes (see `Assignment`)."""


def align(
    x: NDArray[np.floating], known: Codes, counts: Codes, *, seed: tuple[int, ...] | None, most: int = MOST_ROUNDS
) -> Alignment:
    """Return the assignment of rows to classes that a start leads to.

    Parameters
    ----------
    x : `[n, d]` rows
    known : `[n]` the class of rows that are fixed, `FREE` elsewhere
    counts : `[c]` rows of each class, known ones included
    seed : of a random start; None: begin with the covariance of the known rows and their classes
    most : rounds of SVD and assignment

    Raises
    ------
    RankError : the rows are all equal
    RangeError : products of values pass the range of float64
    """
    n, d, c = *x.shape, len(counts)
    with np.errstate(over="ignore"):  # `scores_of` refuses what is not finite
        mean = x.mean(axis=0, dtype=np.float64)
    is_free = known == FREE
    free_counts = counts - np.bincount(known[~is_free], minlength=c)
    shares = counts / n
    direction = (
        _direction(_covariance(x, mean, known, shares))[0]
        if seed is None
        else np.random.default_rng(seed).standard_normal((d, c))
    )
    codes, strength, prices = known.copy(), -1.0, np.zeros(c)
    for _ in range(most):
        scores = scores_of(x, mean, direction)
        found = assign(scores[is_free], free_counts, prices)
        assigned = known.copy()
        assigned[is_free], prices = found.codes, found.prices
        new_direction, new_strength = _direction(_covariance(x, mean, assigned, shares))
        if new_strength <= strength:  # equal where the classes are those of the round before
            break
        codes, direction, strength = assigned, new_direction, new_strength
    return Alignment(codes, strength, direction, mean, prices)


def scores_of(x: NDArray[np.floating], mean: Array, direction: Array) -> Array:
    """Return the score of rows `x` `[n, d]` for each class, `[n, c]`: (x − mean) U Vᵀ, in blocks.

    Parameters
    ----------
    x : rows
    mean : `[d]`
    direction : `[d, c]` U Vᵀ

    Raises
    ------
    RangeError : products of values pass the range of float64
    """
    scores = np.empty((len(x), direction.shape[1]))
    rows = max(1, BLOCK_ELEMENTS // x.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(x), rows):
            np.matmul(x[start : start + rows] - mean, direction, out=scores[start : start + rows])
    if not np.isfinite(scores).all():
        raise RangeError("products of values pass the range of float64: scale the embeddings down")
    return scores


def _covariance(x: NDArray[np.floating], mean: Array, codes: Codes, shares: Array) -> Array:
    """Return (1/n) Σ (x − mean)(z − shares)ᵀ `[d, c]` over the rows that have a class."""
    found, rows = np.zeros((len(shares), x.shape[1])), max(1, BLOCK_ELEMENTS // x.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            has_class = codes[part] != FREE
            z = (codes[part][:, None] == np.arange(len(shares))) - shares
            z[~has_class] = 0
            found += z.T @ (x[part] - mean)
    if not np.isfinite(found).all():
        raise RangeError("sums of values pass the range of float64: scale the embeddings down")
    covariance: Array = found.T / len(x)
    return covariance


def _direction(omega: Array) -> tuple[Array, float]:
    """Return U Vᵀ `[d, c]` of Ω's directions above rounding, and Σσ.

    Raises
    ------
    RankError : there is none
    """
    u, s, vt = thin_svd(omega)
    rank = numerical_rank(s, omega.shape)
    if rank == 0 or not s[0] > 0:
        raise RankError("the rows do not vary with any assignment of classes: nothing separates them")
    return u[:, :rank] @ vt[:rank], float(s[:rank].sum())
