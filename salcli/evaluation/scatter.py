"""A sample of the test rows on their first two principal axes, before and after, as points with a class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.sampling import capped
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.json_fields import INLINE
from salcli.evaluation.section import Section, Table, names, numbers
from salcli.evaluation.text import ABSENT, count, general, shortened, visible

MOST_ROWS = 1_000
DIGITS = 4  # significant digits of the largest coordinate
STAGES = ("before", "after")
Point = tuple[str, float, float]
"""Class, x, y."""


@dataclass(frozen=True)
class Classes:
    """The classes of the rows by one guarded attribute."""

    attribute: str
    classes: tuple[str, ...]
    codes: tuple[int, ...]
    """`[n]` positions in `classes`, -1: none."""


@dataclass(frozen=True)
class Scatter:
    """Rows in two dimensions."""

    first: Classes = field(metadata=INLINE)
    """Their classes by the first guarded attribute."""
    others: tuple[Classes, ...]
    is_foreign: bool
    """Whether the rows after erasure may be in other units."""
    before: tuple[tuple[float, float], ...]
    """`[n]` coordinates on the first two principal axes."""
    after: tuple[tuple[float, float], ...]

    @property
    def every(self) -> tuple[Classes, ...]:
        """The classes by each guarded attribute."""
        return (self.first, *self.others)

    def points(self, attribute: Classes) -> dict[str, list[Point]]:
        """Return the points of the rows that have a class of `attribute`, by stage."""
        rows = {"before": self.before, "after": self.after}
        return {
            stage: [
                (shortened(attribute.classes[code], 60), *spot)
                for code, spot in zip(attribute.codes, rows[stage], strict=True)
                if code >= 0
            ]
            for stage in STAGES
        }


@dataclass(frozen=True)
class ScatterMeasure(Measure[Scatter]):
    """Coordinates of a stratified sample of the test rows."""

    name: ClassVar[str] = "scatter"
    most_rows: int = MOST_ROWS

    def run(self, rows: BeforeAfter) -> Scatter | None:
        """Return the coordinates; None where nothing was erased, or no attribute has classes (see `Measure.run`)."""
        stages, options = rows.stages, rows.options
        if stages.after is None or not rows.classified:
            return None
        at = stages.at(capped(rows.labels, rows.plan.test, self.most_rows, options.seed))
        index = stages.labels[at]
        first, *others = (Classes(a.name, a.classes or (), tuple(a.codes(index).tolist())) for a in rows.classified)
        before, after = principal_coordinates(stages.before[at]), principal_coordinates(stages.after[at])
        return Scatter(first, tuple(others), stages.is_foreign, before, after)

    def section(self, record: Scatter) -> Section:
        """Return the centres of the classes, in the geometry's section (see `Measure.section`)."""
        return Section("geometry", "Geometry", tables=tuple(_centres(record, classes) for classes in record.every))


SCATTER = ScatterMeasure()


def principal_coordinates(x: NDArray[Any]) -> tuple[tuple[float, float], ...]:
    """Return the coordinates of rows `x` `[n, d]` on their first two principal axes.

    The sign of an axis is such that its coordinate of largest size is positive. Numbers are rounded to `DIGITS`
    significant digits of the largest.
    """
    centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    scores = np.zeros((len(x), 2))
    scores[:, : min(2, len(s))] = (u * s)[:, :2]
    signs = np.sign(scores[np.argmax(np.abs(scores), axis=0), [0, 1]])
    largest = float(np.abs(scores).max(initial=0.0)) or 1.0
    digits = DIGITS - 1 - int(np.floor(np.log10(largest)))
    return tuple((float(a), float(b)) for a, b in np.round(scores * signs, digits) + 0.0)


def class_centres(points: Sequence[Point]) -> dict[str, tuple[float, float]]:
    """Return the mean of the `points` of each class, in the order of the classes' names."""
    members: dict[str, list[Point]] = {}
    for point in points:
        members.setdefault(point[0], []).append(point)
    # divided first: the sum of large numbers may overflow
    return {
        name: (sum(x / len(spots) for _, x, _ in spots), sum(y / len(spots) for _, _, y in spots))
        for name, spots in sorted(members.items())
    }


def _centres(scatter: Scatter, classes: Classes) -> Table:
    """Return the centre of each class before and after, and its number of points."""
    points = scatter.points(classes)
    centres = {stage: class_centres(points[stage]) for stage in STAGES}
    rows = []
    for name in sorted({*centres["before"], *centres["after"]}):
        spots = [text for stage in STAGES for text in _spot(centres[stage].get(name))]
        rows.append((name, *spots, *(count(sum(point[0] == name for point in points[stage])) for stage in STAGES)))
    headings = (*(f"{axis} {stage}" for stage in STAGES for axis in "xy"), *(f"n {stage}" for stage in STAGES))
    caption = f"Centres of the classes of {visible(classes.attribute)} in two dimensions"
    return Table(caption, (*names("class"), *numbers(*headings)), tuple(rows), is_detail=True, is_of_picture=True)


def _spot(spot: tuple[float, float] | None) -> Iterator[str]:
    yield from (ABSENT, ABSENT) if spot is None else map(coordinate, spot)


def coordinate(value: float) -> str:
    """Return `value` as text with three significant digits: the units of an embedding may be of any size."""
    return general(float(f"{value:.3g}"))
