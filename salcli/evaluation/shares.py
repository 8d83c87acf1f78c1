"""Shares of rows, taken from each other without the noise of floats: 0.55 − 0.5 is 0.05, a limit that somebody sets."""

from fractions import Fraction

MOST_ROWS = 10**7  # shares of so many rows lie far enough apart to be told by their floats


def difference(one: float, other: float) -> float:
    """Give the float that is nearest to the difference of two shares."""
    return float(_exact(one) - _exact(other))


def _exact(share: float) -> Fraction:
    """Find the fraction that a float stands for, or else take the float itself."""
    found = Fraction(share).limit_denominator(MOST_ROWS)
    return found if float(found) == share else Fraction(share)
