"""Assignment of rows to classes of given sizes: the transportation problem, solved exactly by prices of classes.

With a price for each class, every row takes the class of the largest score less price. Such an assignment is the best
one for the class sizes that it leads to (linear programming duality). Prices are moved until these sizes are nearly
those that were requested; the last rows are exchanged along shortest paths of classes (Ahuja, Magnanti & Orlin 1993,
"Network Flows", section 9.7), so that the result is optimal for the requested sizes. Memory is a few n × c arrays;
`linear_sum_assignment` on repeated columns needs n × n.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
MOST_SWEEPS = 50
"""Times that every price is set; two classes need one."""
STALLED = 5
"""Sweeps without fewer misplaced rows after which paths take over."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """The best classes of rows, and prices that prove it."""

    codes: Codes
    """`[n]`"""
    prices: Array
    """`[c]`: no row's class has a smaller score less price than another, to rounding."""

    def margins(self, scores: Array) -> Array:
        """Return by how much each row's class beats the next one, scores less prices, `[n]`; `scores` is `[n, c]`."""
        reduced = scores - self.prices
        at = np.arange(len(scores)), self.codes
        own = reduced[at]
        reduced[at] = -np.inf
        found: Array = own - reduced.max(axis=1)
        return found


def assign(scores: Array, counts: Codes, prices: Array | None = None) -> Assignment:
    """Return the classes of rows with the largest sum of scores, of all that give each class its count.

    Parameters
    ----------
    scores : `[n, c]` of each row for each class, finite
    counts : `[c]` rows of each class, which add up to n
    prices : `[c]` to begin with, of a similar problem; default: 0

    Returns
    -------
    the assignment; the price of a class without rows is infinite
    """
    assert counts.sum() == len(scores), "counts add up to the rows"
    used = np.flatnonzero(counts)
    whole = np.full(len(counts), np.inf)
    if len(used) < 2:
        whole[used] = 0.0
        return Assignment(np.full(len(scores), used[0] if len(used) else 0, np.int64), whole)
    scores, counts = scores[:, used], counts[used]
    found = np.zeros(len(used)) if prices is None else np.where(np.isfinite(prices[used]), prices[used], 0.0)
    codes = _exchanged(scores, _priced(scores, counts, found), counts)
    whole[used] = _proving(scores, codes, found)
    return Assignment(used[codes], whole)


def _priced(scores: Array, counts: Codes, prices: Array) -> Codes:
    """Return the classes `[n]` of the largest scores less `prices`, which are moved in place.

    Each price in turn is set so that its class has its count: coordinate descent on the dual problem.
    """
    n, c = scores.shape
    least, stalled = n + 1, 0
    for _ in range(MOST_SWEEPS):
        codes = np.argmax(scores - prices, axis=1)
        n_wrong = int(np.abs(np.bincount(codes, minlength=c) - counts).sum())
        stalled = 0 if n_wrong < least else stalled + 1
        least = min(least, n_wrong)
        if not n_wrong or stalled == STALLED:
            break
        for one in range(c):
            others = scores - prices
            others[:, one] = -np.inf
            gaps = scores[:, one] - others.max(axis=1)
            last = n - int(counts[one])
            prices[one] = np.partition(gaps, [last - 1, last])[last - 1 : last + 1].mean()
    best: Codes = np.argmax(scores - prices, axis=1)
    return best


def _losses(scores: Array, codes: Codes, one: int) -> tuple[Codes, Array]:
    """Return the rows `[m]` of class `one`, and what each loses in every class `[m, c]`."""
    rows = np.flatnonzero(codes == one)
    return rows, scores[rows, one][:, None] - scores[rows]


def _exchanged(scores: Array, codes: Codes, counts: Codes) -> Codes:
    """Return classes with their counts, from `codes` that are optimal for the counts that they have.

    One path from a class with too many rows to one with too few, of the least loss, after the other.
    """
    c = len(counts)
    codes = codes.copy()
    losses = np.full((c, c), np.inf)
    stale = set(range(c))
    while (excess := np.bincount(codes, minlength=c) - counts).any():
        for one in stale:
            found = _losses(scores, codes, one)[1]
            losses[one] = found.min(axis=0) if len(found) else np.inf
            losses[one, one] = np.inf
        path = _cheapest(losses, excess)
        steps = list(pairwise(path))
        movable = []
        for one, other in steps:
            rows, found = _losses(scores, codes, one)
            movable.append(rows[found[:, other] <= losses[one, other]])  # more than one where they are equal
        n = min(int(excess[path[0]]), int(-excess[path[-1]]), *map(len, movable))
        for (_, other), rows in zip(steps, movable, strict=True):
            codes[rows[:n]] = other
        stale = set(path)
    return codes


def _cheapest(losses: Array, excess: Codes) -> list[int]:
    """Return the path of least loss from a class with too many rows to one with too few (Bellman & Ford).

    Parameters
    ----------
    losses : `[c, c]` least loss of a row that goes from one class to another
    excess : `[c]` rows above the count
    """
    c = len(excess)
    cost, before = np.where(excess > 0, 0.0, np.inf), np.full(c, -1)
    rounding = 1e-12 * float(np.max(np.abs(losses[np.isfinite(losses)]), initial=0.0))  # no cycle gains by it
    for _ in range(c - 1):
        through = cost[:, None] + losses
        best = np.argmin(through, axis=0)
        reached = through[best, np.arange(c)]
        is_better = reached < cost - rounding
        is_better |= np.isfinite(reached) & np.isinf(cost)
        cost, before = np.where(is_better, reached, cost), np.where(is_better, best, before)
    at = int(np.argmin(np.where(excess < 0, cost, np.inf)))
    path = [at]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return path[::-1]


def _proving(scores: Array, codes: Codes, prices: Array) -> Array:
    """Return prices `[c]`, near `prices`, by which no row would rather be in another class than in `codes` `[n]`."""
    c = len(prices)
    losses = np.stack([_losses(scores, codes, one)[1].min(axis=0) for one in range(c)])
    lowered, raised = prices.copy(), prices.copy()
    for _ in range(c):
        lowered = np.minimum(lowered, (losses + lowered).min(axis=1))
        raised = np.maximum(raised, (raised[:, None] - losses).max(axis=0))
    found: Array = (lowered + raised) / 2
    return found
