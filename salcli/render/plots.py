"""The pictures of a report, each drawn to a string of SVG; matplotlib is imported when the first one is drawn."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from salcli.evaluation.geometry import ClassPair
from salcli.evaluation.scatter import Classes, Point, Scatter
from salcli.evaluation.similarity import SimilarityChange
from salcli.evaluation.task_tables import ClassRates
from salcli.evaluation.text import shortened
from salcli.render.axes import MOST_COLOURS, MOST_LETTERS, MOST_ROWS, margin_of, name_rows, widen
from salcli.render.canvas import AFTER, BEFORE, COLOURS, CONTROL, FAINT, GROUND, INK, LIMIT, MARKERS, WIDTH, canvas
from salcli.render.probe_pairs import ProbePair


def accuracy_plot(pairs: Sequence[ProbePair], limits: Sequence[float | None] = (), *, salt: str = "accuracy") -> str:
    """Draw the accuracy of each attacker on one attribute before and after, with intervals, majority and limit.

    Parameters
    ----------
    pairs : attackers, of which the first `MOST_ROWS` are drawn
    limits : the largest accuracy that gates allow each attacker; None, or an empty sequence: no limit
    salt : prefix of every id in the SVG

    Returns
    -------
    SVG
    """
    shown = pairs[:MOST_ROWS]
    labels = [shortened(pair.attacker, MOST_LETTERS) for pair in shown]
    with canvas(0.42 * len(shown) + 0.85, salt) as drawn:
        axes = drawn.axes(left=margin_of(labels))
        handles: dict[str, Any] = {}
        for row, pair in enumerate(shown):
            for stage, shift in (("before", -0.13), ("after", 0.13)):
                if (result := pair.stages.get(stage)) is None:
                    continue
                colour = BEFORE if stage == "before" else AFTER
                axes.plot(result.ci95, (row + shift,) * 2, "-", color=colour, linewidth=2, alpha=0.55)
                handles[stage] = axes.plot(result.accuracy, row + shift, **_stage_marker(stage))[0]
            spot = (pair.latest.majority,) * 2
            handles["majority"] = axes.plot(spot, (row - 0.42, row + 0.42), "--", color=INK, linewidth=1)[0]
            if row < len(limits) and (limit := limits[row]) is not None:
                handles["limit"] = axes.plot((limit,) * 2, (row - 0.42, row + 0.42), "-", color=LIMIT, linewidth=2)[0]
        name_rows(axes, labels)
        axes.set_xlabel("accuracy")
        widen(axes)
        names = [name for name in ("before", "after", "majority", "limit") if name in handles]
        drawn.legend([handles[name] for name in names], names, columns=4)
    return drawn.svg


def bars(change: SimilarityChange) -> dict[str, float | None]:
    """Return the heights of the bars of one gold set, Spearman correlations, by name.

    Parameters
    ----------
    change : the set's similarity before, after and after removing random directions
    """
    return {"before": change.before, "after": change.after, "random control": change.random_control}


def similarity_plot(changes: Sequence[SimilarityChange], *, salt: str = "similarity") -> str:
    """Draw bars of the similarity before, after, and after removing random directions.

    Parameters
    ----------
    changes : gold sets, of which the first `MOST_ROWS` are drawn
    salt : prefix of every id in the SVG

    Returns
    -------
    SVG
    """
    styles = {"before": (BEFORE, ""), "after": (AFTER, ""), "random control": (CONTROL, "////")}
    shown = changes[:MOST_ROWS]
    labels = [shortened(change.name, MOST_LETTERS) for change in shown]
    with canvas(0.7 * len(shown) + 0.85, salt) as drawn:
        axes = drawn.axes(left=margin_of(labels), right=0.5)
        handles: dict[str, Any] = {}
        for row, change in enumerate(shown):
            for place, (name, value) in enumerate(bars(change).items()):
                if value is None:
                    continue
                colour, hatch = styles[name]
                look = {"color": colour} if not hatch else {"facecolor": GROUND, "edgecolor": colour, "hatch": hatch}
                handles[name] = axes.barh(row + 0.26 * (place - 1), value, height=0.22, **look)
                spot = (max(value, 0), row + 0.26 * (place - 1))
                axes.annotate(f"{value:.3f}", spot, (4, 0), textcoords="offset points", va="center", fontsize=8)
        axes.axvline(0, color=INK, linewidth=0.8)
        name_rows(axes, labels)
        axes.set_xlabel("Spearman correlation")
        names = [name for name in styles if name in handles]
        drawn.legend([handles[name] for name in names], names, columns=3)
    return drawn.svg


def gap_plot(rates: Sequence[ClassRates], groups: tuple[str, ...], *, salt: str = "gap") -> str:
    """Draw each task class's TPR gap before and after, widest first, with parity as a line.

    Parameters
    ----------
    rates : true positive rates of each task class
    groups : the classes of the guarded attribute
    salt : prefix of every id in the SVG

    Returns
    -------
    SVG
    """
    shown = widest_gaps(rates, groups)
    labels = [shortened(by_class.name, MOST_LETTERS) for by_class in shown]
    with canvas(0.2 * len(shown) + 1.0, salt) as drawn:
        axes = drawn.axes(left=margin_of(labels))
        axes.axvline(0, color=INK, linewidth=1, linestyle="--")
        handles: dict[str, Any] = {}
        for row, by_class in enumerate(shown):
            gaps = {stage: gap for stage in ("before", "after") if (gap := by_class.gap(stage, groups)) is not None}
            axes.plot(list(gaps.values()), [row] * len(gaps), "-", color=FAINT, linewidth=2, zorder=1)
            for stage, gap in gaps.items():
                handles[stage] = axes.plot(gap, row, **_stage_marker(stage))[0]
        name_rows(axes, labels)
        axes.grid(visible=False, axis="y")
        first, second = (shortened(group, 12) for group in groups[:2])
        axes.set_xlabel(f"TPR of {first} less TPR of {second}" if len(groups) == 2 else "largest TPR less the smallest")
        widen(axes)
        drawn.legend(list(handles.values()), list(handles), columns=3)
    return drawn.svg


def widest_gaps(rates: Sequence[ClassRates], groups: tuple[str, ...]) -> list[ClassRates]:
    """Return the task classes that fit into a picture: those whose gap, at either stage, is widest.

    Parameters
    ----------
    rates : true positive rates of each task class
    groups : the classes of the guarded attribute

    Returns
    -------
    at most `MOST_ROWS` of `rates`, the widest gap first, without those whose gap is undefined
    """
    widths = [
        (
            max((abs(g) for s in ("before", "after") if (g := by_class.gap(s, groups)) is not None), default=None),
            by_class,
        )
        for by_class in rates
    ]
    ranked = sorted(((width, by_class) for width, by_class in widths if width is not None), key=lambda pair: -pair[0])
    return [by_class for _, by_class in ranked[:MOST_ROWS]]


def cluster_plot(rows: Sequence[tuple[str, ClassPair]], *, salt: str = "clusters") -> str:
    """Draw the mean cosines in `rows`, of every two classes before and after (paper's figure 1); `salt`: of ids."""
    shown = rows[:MOST_ROWS]
    labels = [shortened(name, MOST_LETTERS) for name, _ in shown]
    with canvas(0.3 * len(shown) + 0.95, salt) as drawn:
        axes = drawn.axes(left=margin_of(labels))
        handles: dict[str, Any] = {}
        for row, (_, pair) in enumerate(shown):
            for stage, rho, shift in (("before", pair.before, -0.13), ("after", pair.after, 0.13)):
                colour = BEFORE if stage == "before" else AFTER
                bounds = pair.ci95.get(stage, (rho, rho))
                axes.plot(bounds, (row + shift,) * 2, "-", color=colour, linewidth=2, alpha=0.55)
                handles[stage] = axes.plot(rho, row + shift, **_stage_marker(stage))[0]
        name_rows(axes, labels)
        axes.set_xlabel("mean cosine ρ of pairs of rows")
        widen(axes)
        drawn.legend(list(handles.values()), list(handles), columns=2)
    return drawn.svg


def scatter_plot(scatter: Scatter, classes: Classes, *, salt: str = "scatter") -> str:
    """Draw the rows in two dimensions before and after, coloured by class; the rarest classes share one grey.

    Parameters
    ----------
    scatter : coordinates of the rows at both stages
    classes : the attribute whose classes have the colours
    salt : prefix of every id in the SVG

    Returns
    -------
    SVG
    """
    points = scatter.points(classes)
    ranked = [name for name, _ in Counter(name for stage in points.values() for name, _, _ in stage).most_common()]
    own = ranked if len(ranked) <= MOST_COLOURS else ranked[: MOST_COLOURS - 1]
    named = [*own, *(["other classes"] if len(own) < len(ranked) else [])]
    labels = [shortened(name, MOST_LETTERS) for name in named]
    columns = 2 if max(map(len, labels), default=0) > 14 else 3
    top = 0.17 * -(-len(named) // columns) + 0.37
    panel = (WIDTH - 0.3) / 2
    sizes = {s: max((abs(c) for _, x, y in at for c in (x, y)), default=0.0) or 1.0 for s, at in points.items()}
    is_foreign = scatter.is_foreign
    with canvas(panel + top, salt) as drawn:
        handles: list[Any] = []
        for place, stage in enumerate(("before", "after")):
            left = 0.1 + place * (panel + 0.1)
            axes = drawn.axes(left=left, right=WIDTH - left - panel, top=top, bottom=0.05)
            title = f"{stage}, in units of its own" if is_foreign and stage == "after" else stage
            largest = sizes[stage] if is_foreign else max(sizes.values())
            axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), xticks=[], yticks=[], title=title)
            axes.spines[:].set_visible(True)
            handles = [
                axes.plot(
                    *_coordinates(points[stage], {name} if name in own else set(ranked) - set(own), largest),
                    MARKERS[nth] if name in own else ".",
                    color=COLOURS[nth] if name in own else CONTROL,
                    markersize=3.5,
                    markeredgecolor=GROUND,
                    markeredgewidth=0.3,
                    alpha=0.8,
                )[0]
                for nth, name in enumerate(named)
            ]
        drawn.legend(handles, labels, columns=columns, markerscale=1.6)
    return drawn.svg


def _coordinates(rows: Sequence[Point], names: set[str], largest: float) -> tuple[list[float], list[float]]:
    chosen = [(x / largest, y / largest) for name, x, y in rows if name in names]
    return [x for x, _ in chosen], [y for _, y in chosen]


def _stage_marker(stage: str) -> dict[str, Any]:
    """Return how points of a stage are drawn: before hollow and round, after full and square, besides the colour."""
    if stage == "before":
        return {"marker": "o", "color": BEFORE, "markerfacecolor": GROUND, "markeredgewidth": 1.4, "linestyle": ""}
    return {"marker": "s", "color": AFTER, "linestyle": ""}
