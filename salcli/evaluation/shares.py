"""Differences of shares of rows without rounding noise: 0.55 − 0.5 is 0.05, a limit that a user may set."""

from fractions import Fraction

MOST_ROWS = 10**7  # shares of at most so many rows are identified by their floats


def difference(one: float, other: float) -> float:
    """Return the float nearest to the exact difference `one` − `other` of two shares of rows."""
    return float(_exact(one) - _exact(other))


def _exact(share: float) -> Fraction:
    """Return the fraction of at most `MOST_ROWS` rows whose float this is, else the float itself."""
    found = Fraction(share).limit_denominator(MOST_ROWS)
    return found if float(found) == share else Fraction(share)
