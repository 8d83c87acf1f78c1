"""Limited-memory BFGS for smooth convex functions: what scipy's `minimize` needs 60 MB of imports for."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Value = Callable[[Array], tuple[float, Array]]
PAIRS = 20  # of steps and changes of the gradient that are remembered
SUFFICIENT, CURVATURE = 1e-4, 0.9  # of the weak Wolfe conditions
MOST_TRIALS, NEAREST = 40, 0.1  # of a line search, and how near to its ends it goes


class Minimum(NamedTuple):
    """Where the search ended."""

    x: Array
    gradient: Array
    n_steps: int


def minimize(value: Value, x: Array, *, most_steps: int, least_gradient: float, least_decrease: float) -> Minimum:
    """Return about the minimum of a convex function (Nocedal & Wright 2006, Algorithm 7.4).

    Steps satisfy the weak Wolfe conditions (Lewis & Overton 2013, Algorithm 2.6, with a secant where there is a slope).

    Parameters
    ----------
    value : returns the function and its gradient at a point `[n]`
    x : `[n]` where to start; the function is best scaled so that its Hessian is about the identity there
    most_steps : after which the search ends
    least_gradient : ends the search where no entry of the gradient is larger
    least_decrease : ends it where a step lowers the function by a smaller share, of at least 1
    """
    pairs = deque[tuple[Array, Array, float]](maxlen=PAIRS)
    f, gradient = value(x)
    for n_steps in range(most_steps):
        if np.max(np.abs(gradient)) <= least_gradient:
            return Minimum(x, gradient, n_steps)
        direction = _direction(gradient, pairs)
        if not pairs:  # nothing is known of the curvature yet
            direction = direction / np.linalg.norm(direction)
        found = _searched(value, x, f, gradient, direction)
        if found is None:  # rounding: nothing along the direction is lower
            return Minimum(x, gradient, n_steps)
        x_new, f_new, gradient_new = found
        step, change = x_new - x, gradient_new - gradient
        if (product := float(step @ change)) > 0:
            pairs.append((step, change, 1 / product))
        decrease = (f - f_new) / max(abs(f), abs(f_new), 1.0)
        x, f, gradient = x_new, f_new, gradient_new
        if decrease <= least_decrease:
            return Minimum(x, gradient, n_steps + 1)
    return Minimum(x, gradient, most_steps)


def _direction(gradient: Array, pairs: "deque[tuple[Array, Array, float]]") -> Array:
    """Return minus the gradient times the estimated inverse of the Hessian, by two loops over the pairs."""
    direction, shares = -gradient, list[float]()
    for step, change, scale in reversed(pairs):
        shares.append(scale * float(step @ direction))
        direction = direction - shares[-1] * change
    if pairs:
        _, change, scale = pairs[-1]
        direction = direction / (scale * float(change @ change))
    for (step, change, scale), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - scale * float(change @ direction)) * step
    return direction


def _searched(value: Value, x: Array, f: float, gradient: Array, direction: Array) -> tuple[Array, float, Array] | None:
    """Return point, value and gradient of a step along `direction`; None if none lowers the function."""
    slope = slope_low = float(gradient @ direction)
    low, high, t = 0.0, float("inf"), 1.0
    lowest = None
    for _ in range(MOST_TRIALS):
        point = x + t * direction
        f_new, gradient_new = value(point)
        slope_new = float(gradient_new @ direction)
        is_low = f_new <= f + SUFFICIENT * t * slope
        if is_low:
            lowest = point, f_new, gradient_new
            if slope_new >= CURVATURE * slope:
                break
            low, slope_low = t, slope_new
        else:
            high = t
        if high == float("inf"):
            t = 2 * low
        else:  # where the slope is 0 if it is linear in between, but not next to an end
            share = 0.5 if is_low or slope_new <= 0 else slope_low / (slope_low - slope_new)
            t = low + (high - low) * min(max(share, NEAREST), 1 - NEAREST)
    return lowest
