"""Pictures of figures along something: sweeps, repeated fits, learning curves."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from salcli.evaluation.report import LearningCurve, RepeatedFigure
from salcli.evaluation.text import shortened
from salcli.render.axes import (
    LEAST_HEIGHT,
    MOST_BANDS,
    MOST_CURVES,
    MOST_LETTERS,
    MOST_ROWS,
    margin_of,
    name_rows,
    widen,
)
from salcli.render.canvas import AFTER, BEFORE, COLOURS, CONTROL, DASHES, FAINT, GROUND, INK, MARKERS, canvas
from salcli.render.sweep import Curve


def curve_plot(
    curves: Sequence[Curve], parameter: str, quantity: str, *, level: float | None = None, salt: str = "sweep"
) -> str:
    """Draw figures along a parameter; a colour for each group of curves, dashes and markers within it.

    Parameters
    ----------
    curves : of which the first `MOST_CURVES` are drawn
    parameter : label of the horizontal axis
    quantity : label of the vertical axis
    level : where a horizontal line marks the accuracy of a constant prediction; None: no line
    salt : prefix of every id in the SVG

    Returns
    -------
    SVG
    """
    shown = curves[:MOST_CURVES]
    labels = [shortened(curve.name, 2 * MOST_LETTERS if len(shown) < 3 else MOST_LETTERS) for curve in shown]
    groups = list(dict.fromkeys(curve.group for curve in shown))
    longest = max(map(len, labels), default=0)
    columns = 1 if longest > MOST_LETTERS else 2 if longest > 14 else 3
    n_lines = -(-(len(shown) + (level is not None)) // columns)
    top = 0.17 * n_lines + 0.2
    with canvas(2.4 + top, salt) as drawn:
        axes = drawn.axes(left=0.6, top=top)
        handles, within = [], Counter[str]()
        for curve, label in zip(shown, labels, strict=True):
            nth, place = groups.index(curve.group), within[curve.group]
            if curve.bounds and len(shown) <= MOST_BANDS:
                at = [value for value, _ in curve.points]
                low, high = zip(*curve.bounds, strict=True)
                axes.fill_between(at, low, high, color=COLOURS[nth % len(COLOURS)], alpha=0.12, linewidth=0)
            elif curve.bounds:  # too many bands to draw, but the axis includes them
                axes.update_datalim([(curve.points[0][0], edge) for bounds in curve.bounds for edge in bounds])
            within[curve.group] += 1
            handles += axes.plot(
                [value for value, _ in curve.points],
                [found for _, found in curve.points],
                color=COLOURS[nth % len(COLOURS)],
                marker=MARKERS[(nth + place * 3) % len(MARKERS)],
                linestyle=DASHES[place % len(DASHES)],
                markersize=4,
                markevery=max(1, len(curve.points) // 16),
                markerfacecolor=GROUND if place % 2 else None,
                label=label,
            )
        if level is not None:
            handles.append(axes.axhline(level, color=INK, linestyle=(0, (1, 1.5)), linewidth=1.2))
            labels.append("majority")
        axes.set_xlabel(shortened(parameter, MOST_LETTERS))
        axes.set_ylabel(quantity)
        axes.margins(y=0.08)
        low, high = axes.get_ylim()
        room = max(0.0, LEAST_HEIGHT - (high - low)) / 2
        axes.set_ylim(low - room, high + room)
        if all(value.is_integer() for curve in shown for value, _ in curve.points):
            axes.xaxis.get_major_locator().set_params(integer=True)  # k is a whole number
        drawn.legend(handles, labels, columns=columns)
    return drawn.svg


def repeats_plot(figures: Sequence[RepeatedFigure], *, salt: str = "repeats") -> str:
    """Draw each figure of every repeat as a point, their mean, and one standard deviation on both sides.

    Parameters
    ----------
    figures : of which the first `MOST_ROWS` are drawn
    salt : prefix of every id in the SVG

    Returns
    -------
    SVG
    """
    shown = figures[:MOST_ROWS]
    labels = [shortened(figure.name.removesuffix(": accuracy"), MOST_LETTERS + 8) for figure in shown]
    with canvas(0.3 * len(shown) + 0.95, salt) as drawn:
        axes = drawn.axes(left=margin_of(labels))
        handles: dict[str, Any] = {}
        for row, figure in enumerate(shown):
            if figure.std is not None:
                ends = (figure.mean - figure.std, figure.mean + figure.std)
                handles["± one standard deviation"] = axes.plot(ends, (row, row), "-", color=FAINT, linewidth=5)[0]
            look: dict[str, Any] = {"marker": "o", "color": BEFORE, "linestyle": "", "alpha": 0.7}
            handles["each fit"] = axes.plot(figure.values, [row] * len(figure.values), markersize=3.5, **look)[0]
            handles["mean"] = axes.plot(figure.mean, row, marker="|", color=INK, markersize=11, linestyle="")[0]
        name_rows(axes, labels)
        axes.set_xlabel("accuracy, unless another figure is named")
        widen(axes)
        drawn.legend(list(handles.values()), list(handles), columns=3)
    return drawn.svg


def learning_plot(curve: LearningCurve, *, salt: str = "learning") -> str:
    """Draw an attacker's balanced accuracy by its training rows (logarithmic), every draw, and the extrapolation.

    Parameters
    ----------
    curve : the learning curve
    salt : prefix of every id in the SVG

    Returns
    -------
    SVG
    """
    with canvas(2.6, salt) as drawn:
        axes = drawn.axes(left=0.6, top=0.37)
        sizes, means = [p.n_train for p in curve.points], [p.mean for p in curve.points]
        handles = axes.plot(sizes, means, "o-", color=AFTER, markersize=4)
        for point in curve.points[:-1]:
            axes.plot([point.n_train] * len(point.values), point.values, ".", color=AFTER, markersize=3, alpha=0.5)
        axes.plot([sizes[-1], curve.n_extrapolated], [means[-1], curve.extrapolated], "--", color=CONTROL, linewidth=1)
        axes.plot([curve.n_extrapolated] * 2, curve.extrapolated_ci95, "-", color=CONTROL, linewidth=2, alpha=0.7)
        handles += axes.plot(curve.n_extrapolated, curve.extrapolated, "o", color=CONTROL, markerfacecolor="white")
        axes.set_xscale("log")
        ticks = [*sizes, curve.n_extrapolated]
        axes.set_xticks(ticks, [f"{n:,}" for n in ticks])  # not powers in TeX, which text in an SVG shows as it is
        axes.minorticks_off()
        axes.set_xlabel("training rows")
        axes.set_ylabel("balanced accuracy")
        axes.margins(y=0.08)
        drawn.legend(handles, ["measured", "extrapolated, with interval"], columns=2)
    return drawn.svg
