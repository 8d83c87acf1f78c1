"""Directions from seed words: `he` minus `she`, or the mean of several such differences."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RangeError, RankError

Array = NDArray[np.float64]


def seed_direction(firsts: NDArray[Any], seconds: NDArray[Any]) -> Array:
    """Return the mean difference of seed pairs.

    Parameters
    ----------
    firsts, seconds : `[p, d]` vectors of the pairs' first and second words

    Returns
    -------
    `[d]`, not normalized

    Raises
    ------
    RankError : the differences cancel out
    """
    with np.errstate(over="ignore", invalid="ignore"):
        direction: Array = (firsts.astype(np.float64) - seconds.astype(np.float64)).mean(axis=0)
    if not np.any(direction):
        raise RankError("the seed words' vectors are equal: they define no direction")
    return direction


def direction_scores(x: NDArray[Any], direction: Array, *, by_cosine: bool) -> Array:
    """Return the cosine of each row with a direction, or their dot product; a zero row has cosine NaN.

    Parameters
    ----------
    x : `[n, d]`
    direction : `[d]`, of any length
    by_cosine : False: dot products

    Returns
    -------
    `[n]`

    Raises
    ------
    RangeError : values whose squares float64 cannot hold
    """
    exact = x.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if by_cosine:  # cosines are invariant to scale: squares of numbers near 1 neither underflow nor overflow
            exact, direction = _near_one(exact), _near_one(direction)
        scores: Array = exact @ direction
        if by_cosine:
            scores = scores / (np.linalg.norm(exact, axis=1) * np.linalg.norm(direction))
    if np.isinf(scores).any() or not np.isfinite(direction).all():
        raise RangeError("products of values pass the range of float64: scale the embeddings down")
    return scores


def _near_one(x: Array) -> Array:
    exponents = np.frexp(np.max(np.abs(x), axis=-1, keepdims=True))[1]
    scaled: Array = np.ldexp(x, -exponents)
    return scaled
