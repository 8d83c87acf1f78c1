"""Directions from seed words: `he` minus `she`, or the mean of several such differences."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.errors import RankError

Array = NDArray[np.float64]


def seed_direction(firsts: NDArray[Any], seconds: NDArray[Any]) -> Array:
    """Average the differences of seed pairs.

    Parameters
    ----------
    firsts, seconds : `[p, d]` vectors of the pairs' first and second words

    Returns
    -------
    `[d]`, not normalised

    Raises
    ------
    RankError : the differences cancel out
    """
    direction: Array = (firsts.astype(np.float64) - seconds.astype(np.float64)).mean(axis=0)
    if not np.linalg.norm(direction) > 0:
        raise RankError("the seed words' vectors are equal: they give no direction")
    return direction


def direction_scores(x: NDArray[Any], direction: Array, *, by_cosine: bool) -> Array:
    """Score rows by cosine with `direction`, or by dot product; a zero row has cosine NaN.

    Returns
    -------
    `[n]`
    """
    exact = x.astype(np.float64)
    scores: Array = exact @ direction
    if not by_cosine:
        return scores
    norms = np.linalg.norm(exact, axis=1) * np.linalg.norm(direction)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: Array = scores / norms
    return cosines
