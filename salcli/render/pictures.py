"""Which pictures a report has, under which section they stand, and what they show in words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from salcli.evaluation.geometry import GEOMETRY, ClassPair, pair_name
from salcli.evaluation.report import LearningCurve, RepeatedFigure, Report
from salcli.evaluation.scatter import SCATTER, Classes, Scatter, class_centres, coordinate
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.task import TASK
from salcli.evaluation.task_tables import ClassRates, class_rates, gap_name
from salcli.evaluation.text import decimal, general, shortened, visible
from salcli.render import plots
from salcli.render.attackers import learning_in_words, learning_title
from salcli.render.axes import MOST_CURVES, MOST_ROWS
from salcli.render.curves import curve_plot, learning_plot, repeats_plot
from salcli.render.probe_pairs import ProbePair, shown_attributes
from salcli.render.sweep import Curve, swept
from salcli.render.verdict import accuracy_limit

MOST_DESCRIBED = 12


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn when it is needed, and its content in words."""

    title: str
    description: str
    """What the picture shows, with its numbers, as text."""
    draw: Callable[[str], str]
    """Return the SVG, whose ids begin with its argument."""


def pictures(report: Report) -> dict[str, tuple[Picture, ...]]:
    """Return the pictures of each section of `report`, by the section's key."""
    found = {
        "attackers": _accuracy_pictures(report),
        "similarity": _similarity_pictures(report),
        "task": _gap_pictures(report),
        "geometry": (*_cluster_pictures(report), *_scatter_pictures(report)),
        "sweep": _sweep_pictures(report),
        "repeats": _repeats_pictures(report),
    }
    return {key: shown for key, each in found.items() if (shown := tuple(each))}


def _joined(parts: Sequence[str]) -> str:
    more = len(parts) - MOST_DESCRIBED
    return "; ".join(parts[:MOST_DESCRIBED]) + (f"; and {more} more, which the table lists" if more > 0 else "") + "."


def _first(most: int, shown: Sequence[object]) -> str:
    """Return for a title that the picture does not show all."""
    return f", the first {most}" if len(shown) > most else ""


def _accuracy_pictures(report: Report) -> Iterator[Picture]:
    for attribute, pairs in shown_attributes(report.probes, report.judged_stage).items():
        title = f"Accuracy of attackers on {shortened(attribute, 60)}{_first(MOST_ROWS, pairs)}"
        limits = [accuracy_limit(pair, report) for pair in pairs]
        words = [_pair_in_words(*each) for each in zip(pairs, limits, strict=True)]
        yield Picture(title, _joined(words), partial(_draw_accuracy, pairs, limits))
    for curve in report.learning:
        yield Picture(learning_title(curve), learning_in_words(curve) + ".", partial(_draw_learning, curve))


def _draw_accuracy(pairs: Sequence[ProbePair], limits: Sequence[float | None], salt: str) -> str:
    return plots.accuracy_plot(pairs, limits, salt=salt)


def _draw_learning(curve: LearningCurve, salt: str) -> str:
    return learning_plot(curve, salt=salt)


def _pair_in_words(pair: ProbePair, limit: float | None) -> str:
    stages = " and ".join(
        f"{decimal(pair.stages[stage].accuracy)} {stage}" for stage in ("before", "after") if stage in pair.stages
    )
    return f"{shortened(pair.attacker, 60)}: {stages}, majority {decimal(pair.latest.majority)}" + (
        "" if limit is None else f", limit {decimal(limit)}"
    )


def _similarity_pictures(report: Report) -> Iterator[Picture]:
    rows = [row for row in report.of(SIMILARITY) or () if any(v is not None for v in plots.bars(row).values())]
    words = [
        f"{shortened(row.name, 60)}: "
        + ", ".join(f"{decimal(value)} {name}" for name, value in plots.bars(row).items() if value is not None)
        for row in rows
    ]
    if rows:
        yield Picture("Similarity kept", _joined(words), lambda salt: plots.similarity_plot(rows, salt=salt))


def _gap_pictures(report: Report) -> Iterator[Picture]:
    task = report.of(TASK)
    if task is None:
        return
    for by_group in task.every:
        groups, rates = class_rates(task, by_group)
        shown = plots.widest_gaps(rates, groups)
        if not shown:
            continue
        order = f"the {len(shown)} widest" if len(shown) == MOST_ROWS else "widest first"
        between = f"{visible(task.aside(by_group))}," if task.others else ""
        words = f"{gap_name(groups)}. {_joined([_gaps_in_words(each, groups) for each in shown])}"
        yield Picture(f"TPR gap{between} by task class, {order}", words, partial(_draw_gaps, rates, groups))


def _draw_gaps(rates: Sequence[ClassRates], groups: tuple[str, ...], salt: str) -> str:
    return plots.gap_plot(rates, groups, salt=salt)


def _gaps_in_words(rates: ClassRates, groups: tuple[str, ...]) -> str:
    gaps = {stage: rates.gap(stage, groups) for stage in ("before", "after")}
    words = ", ".join(f"{decimal(gap)} {stage}" for stage, gap in gaps.items() if gap is not None)
    return f"{shortened(rates.name, 60)}: {words}"


def _cluster_pictures(report: Report) -> Iterator[Picture]:
    geometry = report.of(GEOMETRY)
    if geometry is None:
        return
    for attribute in dict.fromkeys(cluster.attribute for cluster in geometry.clusters):
        rows = [
            ("" if cluster.task_class is None else f"{visible(cluster.task_class)}: ", pair)
            for cluster in geometry.clusters
            if cluster.attribute == attribute
            for pair in cluster.pairs
        ]
        named = [(start + pair_name(pair.classes), pair) for start, pair in rows]
        if named:
            words = [
                f"{shortened(name, 60)}: {decimal(pair.before)} before, {decimal(pair.after)} after"
                for name, pair in named
            ]
            title = f"Mean cosine ρ of pairs of rows, by {shortened(attribute, 60)}{_first(MOST_ROWS, named)}"
            yield Picture(title, _joined(words), partial(_draw_clusters, named))


def _draw_clusters(rows: Sequence[tuple[str, ClassPair]], salt: str) -> str:
    return plots.cluster_plot(rows, salt=salt)


def _scatter_pictures(report: Report) -> Iterator[Picture]:
    scatter = report.of(SCATTER)
    if scatter is None:
        return
    for classes in scatter.every:
        points = scatter.points(classes)
        if any(points.values()):
            words = []
            for stage, rows in points.items():
                centres = list(class_centres(rows).items())
                spots = [f"{name} ({coordinate(x)}; {coordinate(y)})" for name, (x, y) in centres[:MOST_DESCRIBED]]
                more = f" and {len(centres) - MOST_DESCRIBED} more" if len(centres) > MOST_DESCRIBED else ""
                of_classes = f", centres of the classes: {', '.join(spots)}{more}" if rows else ""
                words.append(f"{len(rows):,} rows drawn {stage}{of_classes}")
            title = f"Rows in two dimensions, by {visible(classes.attribute)}"
            yield Picture(title, "; ".join(words) + ".", partial(_draw_scatter, scatter, classes))


def _draw_scatter(scatter: Scatter, classes: Classes, salt: str) -> str:
    return plots.scatter_plot(scatter, classes, salt=salt)


def _sweep_pictures(report: Report) -> Iterator[Picture]:
    sweep = swept(report)
    if sweep is None:
        return
    for attribute, curves in sweep.accuracy.items():
        title, level = f"Accuracy of attackers on {shortened(attribute, 60)}", sweep.majority[attribute]
        yield _curve_picture(title, sweep.parameter, curves, "accuracy", level)
    for attribute, curves in sweep.not_retrained.items():
        title = f"Accuracy on {shortened(attribute, 60)} of attackers that are not retrained"
        yield _curve_picture(title, sweep.parameter, curves, "accuracy", sweep.majority.get(attribute))
    for attribute, curves in sweep.explained.items():
        raised = tuple(curve.at_least(0.0) for curve in curves)
        picture = _curve_picture(f"R² of attackers on {shortened(attribute, 60)}", sweep.parameter, raised, "R²")
        yield replace(picture, description=f"{picture.description} 0: nothing is read, or less.")
    for measure in sweep.kept:
        yield _curve_picture(measure.title, sweep.parameter, measure.curves, measure.quantity)


def _repeats_pictures(report: Report) -> Iterator[Picture]:
    figures = () if report.repeats is None else report.repeats.figures
    if figures:
        words = [_figure_in_words(figure) for figure in figures]
        title = f"Figures of each fit{_first(MOST_ROWS, figures)}"
        yield Picture(title, _joined(words), lambda salt: repeats_plot(figures, salt=salt))


def _figure_in_words(figure: RepeatedFigure) -> str:
    spread = "" if figure.std is None else f" ± {decimal(figure.std)}"
    return f"{shortened(figure.name, 60)}: {decimal(figure.mean)}{spread}"


def _curve_picture(
    title: str, parameter: str, curves: tuple[Curve, ...], quantity: str, level: float | None = None
) -> Picture:
    words = [
        f"{shortened(curve.name, 60)}: from {decimal(curve.points[0][1])} at {general(curve.points[0][0])} "
        f"to {decimal(curve.points[-1][1])} at {general(curve.points[-1][0])}"
        for curve in curves
    ]
    return Picture(
        f"{title} along {parameter}{_first(MOST_CURVES, curves)}",
        _joined(words) + ("" if level is None else f" Majority {decimal(level)}."),
        lambda salt: curve_plot(curves, parameter, quantity, level=level, salt=salt),
    )
