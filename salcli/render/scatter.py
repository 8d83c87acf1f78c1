"""The rows in two dimensions, before and after, as points with a class, and the centres of the classes."""

from collections.abc import Sequence
from typing import Any

from salcli.render.table import Table, names, numbers
from salcli.render.text import ABSENT, count, ends, general, items, records, shortened, visible

STAGES = ("before", "after")
MOST_POINTS = 1500

Point = tuple[str, float, float]
"""Class, x, y."""


def by_classes(scatter: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the same points once for each guarded attribute."""
    return [{**scatter, **of} for of in (scatter, *records(scatter.get("others")))] if scatter else []


def scatter_points(scatter: dict[str, Any]) -> dict[str, list[Point]]:
    """Give the points of the rows that have a class and a place, by stage; at most `MOST_POINTS`, evenly picked."""
    classes = items(scatter.get("classes"))
    found = {}
    for stage in STAGES:
        points = []
        for code, place in zip(items(scatter.get("codes")), items(scatter.get(stage)), strict=False):
            spot = ends(place)
            if spot is not None and isinstance(code, int) and 0 <= code < len(classes):
                points.append((shortened(classes[code], 60), *spot))
        found[stage] = points[:: -(-len(points) // MOST_POINTS) or 1]
    return found


def class_centres(points: Sequence[Point]) -> dict[str, tuple[float, float]]:
    """Give the mean of each class's points, in the order of the classes' names."""
    members: dict[str, list[Point]] = {}
    for point in points:
        members.setdefault(point[0], []).append(point)
    # divided first: the sum of large numbers may be more than a float holds
    return {
        name: (sum(x / len(of) for _, x, _ in of), sum(y / len(of) for _, _, y in of))
        for name, of in sorted(members.items())
    }


def centres_table(scatter: dict[str, Any]) -> Table:
    """Tabulate the centre of each class before and after."""
    points = scatter_points(scatter)
    centres = {stage: class_centres(points[stage]) for stage in STAGES}
    rows = []
    for name in sorted({*centres["before"], *centres["after"]}):
        spots = [of for stage in STAGES for of in _told(centres[stage].get(name))]
        rows.append((name, *spots, *(count(sum(of == name for of, _, _ in points[stage])) for stage in STAGES)))
    headings = (*(f"{axis} {stage}" for stage in STAGES for axis in "xy"), *(f"n {stage}" for stage in STAGES))
    caption = f"Centres of the classes of {visible(scatter.get('attribute') or 'the attribute')} in two dimensions"
    return Table(caption, (*names("class"), *numbers(*headings)), tuple(rows), is_detail=True, is_of_picture=True)


def _told(spot: tuple[float, float] | None) -> tuple[str, str]:
    return (ABSENT, ABSENT) if spot is None else (coordinate(spot[0]), coordinate(spot[1]))


def coordinate(value: float) -> str:
    """Give three digits: the units of an embedding may be of any size."""
    return general(float(f"{value:.3g}"))
