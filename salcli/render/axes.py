"""What pictures have in common: rows with names, margins, and the most that is drawn."""

from collections.abc import Sequence
from typing import Any

MOST_ROWS, MOST_CURVES, MOST_COLOURS, MOST_LETTERS = 40, 12, 7, 30
MOST_BANDS = 4
LEAST_HEIGHT = 0.1
"""Least height of an axis of shares, so that differences in the third decimal look small."""
LETTER = 0.075
"""Mean width of a letter in inches."""


def margin_of(labels: Sequence[str]) -> float:
    """Return the width in inches that `labels` of rows take at the left of the axes."""
    return 0.2 + LETTER * max(map(len, labels), default=0)


def name_rows(axes: Any, labels: Sequence[str]) -> None:
    """Set the names of the rows of `axes` to `labels`, the first at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)


def widen(axes: Any) -> None:
    """Set limits with a margin at both ends, so that a difference in the third decimal does not fill the width."""
    low, high = axes.get_xlim()
    margin = max(0.0, 0.1 - (high - low)) / 2
    axes.set_xlim(low - margin, high + margin)
