"""The picture of leak against what is kept, with the Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from salcli.evaluation.text import shortened
from salcli.render.canvas import COLOURS, CONTROL, GROUND, INK, MARKERS, canvas

MOST_SPOTS, MOST_LETTERS = 24, 24
LEAST_ROOM = 0.05
"""At each side of the axes: a difference in the third decimal is no mountain."""


@dataclass(frozen=True)
class Spot:
    """A candidate in the picture."""

    name: str
    """Visible."""
    leak: float
    leak_ci95: tuple[float, float]
    kept: float
    """A share."""
    is_on_front: bool


def front_plot(spots: Sequence[Spot], start: float | None = None, *, salt: str = "front") -> str:
    """Draw what each candidate leaks and keeps; those on the front are full and joined by a line.

    Parameters
    ----------
    spots : the candidates
    start : leak where nothing is erased and all is kept; None: it is not known
    salt : begins every id of the picture

    Returns
    -------
    SVG
    """
    shown = spots[:MOST_SPOTS]
    labels = [shortened(spot.name, MOST_LETTERS) for spot in shown]
    columns = 2 if max(map(len, labels), default=0) > 14 else 3
    top = 0.17 * -(-(len(shown) + (start is not None)) // columns) + 0.25
    with canvas(2.6 + top, salt) as drawn:
        axes = drawn.axes(left=0.6, top=top)
        handles: list[Any] = []
        front = sorted((spot.leak, spot.kept) for spot in shown if spot.is_on_front)
        if front:
            axes.plot(*zip(*front, strict=True), "-", color=INK, linewidth=1, alpha=0.6, drawstyle="steps-post")
        for nth, spot in enumerate(shown):
            colour, marker = COLOURS[nth % len(COLOURS)], MARKERS[nth // len(COLOURS) % len(MARKERS)]
            axes.plot(spot.leak_ci95, (spot.kept,) * 2, "-", color=colour, linewidth=1.5, alpha=0.45)
            handles += axes.plot(
                spot.leak,
                spot.kept,
                marker,
                color=colour,
                markersize=7,
                markerfacecolor=colour if spot.is_on_front else GROUND,
                markeredgewidth=1.5,
            )
        if start is not None:
            handles += axes.plot(start, 1.0, "x", color=CONTROL, markersize=7, markeredgewidth=1.8)
            labels.append("nothing erased")
        for low, high, widen in ((*axes.get_xlim(), axes.set_xlim), (*axes.get_ylim(), axes.set_ylim)):
            room = max(0.0, 2 * LEAST_ROOM - (high - low)) / 2
            widen(low - room, high + room)
        axes.set_xlabel("largest leak (left is better)")
        axes.set_ylabel("share that is kept")
        drawn.legend(handles, labels, columns=columns)
    return drawn.svg
