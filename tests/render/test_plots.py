import re
from collections import Counter
from xml.dom import minidom

import pytest

from salcli.evaluation.geometry import Change, ClassPair, Cluster, Geometry
from salcli.evaluation.group_rates import GroupRates, Rate
from salcli.evaluation.main_task import Accuracy, Task
from salcli.evaluation.report import Gate, LearningCurve, LearningPoint, Report
from salcli.evaluation.scatter import SCATTER, Classes
from salcli.evaluation.task_tables import class_rates
from salcli.render import axes, plots
from salcli.render.canvas import VARIABLES
from salcli.render.curves import curve_plot, learning_plot
from salcli.render.pictures import pictures
from salcli.render.probe_pairs import probe_pairs
from salcli.render.style import STYLE
from salcli.render.sweep import Curve
from tests.render.reports import ERASER, HOSTILE, full_report, result, scatter_of, similarity


def texts(svg: str) -> list[str]:
    return [node.firstChild.data for node in minidom.parseString(svg).getElementsByTagName("text")]


def test_odd_names_are_drawn_as_they_are() -> None:
    svg = plots.similarity_plot([similarity(text, 0.5) for text in HOSTILE])
    shown = texts(svg)
    assert "$x_1$ and $\\alpha$" in shown
    assert "_leading" in shown
    assert "]]>" in shown
    assert "<script" not in svg


def test_legends_keep_names_that_begin_with_an_underscore() -> None:
    curves = [Curve(name, ((0.0, 0.5), (1.0, 0.4)), name) for name in ("_a", "$b$", "c" * 300)]
    shown = [text.strip() for text in texts(curve_plot(curves, "k", "accuracy", level=0.3))]
    assert {"_a", "$b$", "majority"} <= set(shown)
    assert any(text.startswith("ccc") and "…" in text for text in shown)


@pytest.mark.parametrize(("last", "ticks"), [(2.0, {"0", "1", "2"}), (0.5, {"0.0", "0.5"})])
def test_between_whole_values_there_are_no_ticks(last: float, ticks: set[str]) -> None:
    curve = Curve("linear, fresh", ((0.0, 0.41), (last, 0.42)), "linear")
    shown = texts(curve_plot([curve], "k", "accuracy"))
    along = shown[: shown.index("k")]
    assert ticks <= set(along)
    assert last < 1 or all(text.isdigit() for text in along)


def test_ids_begin_with_the_salt_and_references_meet_them() -> None:
    scatter = full_report(0).of(SCATTER)
    assert scatter is not None
    svg = plots.scatter_plot(scatter, scatter.first, salt="here")
    ids = set(re.findall(r' id="([^"]*)"', svg))
    assert ids
    assert all(name.startswith("here-") for name in ids)
    assert {*re.findall(r'href="#([^"]*)"', svg), *re.findall(r"url\(#([^)]*)\)", svg)} <= ids
    assert "<metadata" not in svg
    assert "<style" not in svg


def test_drawing_leaves_the_settings_of_the_process_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.similarity_plot([similarity("s", 0.5)])
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("after", [None, 0.0, -0.3])
def test_what_is_undefined_is_left_out(after: float | None) -> None:
    report = Report(probes=(result(stage="before"),), measures={"similarity": (similarity("s", None, after),)})
    found = pictures(report)
    assert ("similarity" in found) == (after is not None)
    for of in found.values():
        for picture in of:
            assert picture.draw("x").startswith("<svg")
            assert "–" not in picture.description


def test_rare_classes_share_one_grey() -> None:
    n = 100
    spots = [[c, 1e300] for c in range(n + 1)]
    scatter = scatter_of([f"class {c}" for c in range(n)], [*range(n), 0], spots, spots)
    shown = texts(plots.scatter_plot(scatter, scatter.first))
    assert "other classes" in shown
    assert sum(text.startswith("class") for text in shown) == axes.MOST_COLOURS - 1


def test_rows_in_units_of_their_own_fill_their_panel() -> None:
    shared, own = (
        scatter_of("ab", [0, 1], [[-1, 0], [1, 0]], [[-1e-4, 0], [1e-4, 0]], is_foreign=is_foreign)
        for is_foreign in (False, True)
    )

    def places(svg: str) -> list[float]:
        spots = re.findall(r'<use[^>]* x="([0-9.]+)" y="([0-9.]+)"', svg)
        (height, _), *_ = Counter(y for _, y in spots).most_common()  # not those of the legend
        return sorted(float(x) for x, y in spots if y == height)

    of_own = places(plots.scatter_plot(own, own.first))
    of_shared = places(plots.scatter_plot(shared, shared.first))
    width = of_own[1] - of_own[0]
    assert of_own[3] - of_own[2] == pytest.approx(width, rel=1e-3)
    assert of_shared[3] - of_shared[2] < width / 100
    assert "after, in units of its own" in texts(plots.scatter_plot(own, own.first))


def test_every_guarded_attribute_has_a_picture_of_the_rows() -> None:
    others = (Classes("h", ("c", "d"), (1, 0)),)
    scatter = scatter_of("ab", [0, 1], [[-1, 0], [1, 0]], [[0, 0], [0, 1]], others=others)
    found = pictures(Report(measures={"scatter": scatter}))["geometry"]
    assert [picture.title for picture in found] == ["Rows in two dimensions, by g", "Rows in two dimensions, by h"]
    assert {"c", "d"} <= {text.strip() for text in texts(found[1].draw("h"))}


def test_long_names_stand_one_a_line_in_a_legend() -> None:
    def lefts(n: int) -> set[str]:
        curves = [Curve(name * n, ((0.0, 0.5), (1.0, 0.4)), name) for name in "wm"]
        svg = curve_plot(curves, "k", "accuracy")
        found = re.findall(r'<text[^>]* x="([0-9.]+)"[^>]*>\s*(?:w+|m+)<', svg)
        assert len(found) == 2
        return set(found)

    assert len(lefts(20)) == 2
    assert len(lefts(40)) == 1


def test_only_the_widest_gaps_are_drawn() -> None:
    cells = tuple(
        Rate("after", f"c{c}", group, c / 200 * sign + 0.5, 9)
        for c in range(100)
        for group, sign in (("f", 1), ("m", -1))
    )
    of = GroupRates("g", ("f", "m"), cells, None, None, ())
    task = Task("job", tuple(f"c{c}" for c in range(100)), 0.5, 9, 9, Accuracy(0.5, 0.5, None), True, of, ())
    groups, rates = class_rates(task, of)
    widest = plots.widest_gaps(rates, groups)
    assert [of.name for of in widest] == [f"c{c}" for c in range(99, 99 - axes.MOST_ROWS, -1)]
    assert widest[0].gap("after", groups) == pytest.approx(0.99)
    assert "c99" in texts(plots.gap_plot(rates, groups))


def test_stages_meet_in_one_pair() -> None:
    probes = [result("a", "after", 0.1), result("a", "before", 0.2), result("b", "after", 0.3)]
    pairs = probe_pairs(probes)
    assert [pair.stages for pair in pairs] == [{"after": probes[0], "before": probes[1]}, {"after": probes[2]}]
    assert [pair.latest.accuracy for pair in pairs] == [0.1, 0.3]


def y_ticks(svg: str, x_label: str) -> list[float]:
    shown = texts(svg)
    numbers = [text.replace("−", "-") for text in shown[shown.index(x_label) + 1 :]]
    return [float(text) for text in numbers if re.fullmatch(r"-?\d+(\.\d+)?", text)]


def test_a_change_smaller_than_its_interval_is_no_mountain() -> None:
    points, bounds = ((0.0, 0.500), (1.0, 0.504)), ((0.45, 0.55), (0.454, 0.554))
    ticks = y_ticks(curve_plot([Curve("c", points, "c", bounds)], "k", "accuracy"), "k")
    assert max(ticks) - min(ticks) >= 0.08
    many = [Curve(f"c{i}", points, f"c{i}", bounds) for i in range(axes.MOST_BANDS + 1)]
    ticks = y_ticks(curve_plot(many, "k", "accuracy"), "k")
    assert max(ticks) - min(ticks) >= 0.08
    ticks = y_ticks(curve_plot([Curve("c", points, "c")], "k", "accuracy"), "k")
    assert max(ticks) - min(ticks) >= 0.06


def test_limits_are_drawn_for_the_attackers_that_they_judge() -> None:
    probes = (result("a", probe="rbf", majority=0.5), result("a", probe="linear", majority=0.5))
    gates = (Gate("max-accuracy", 0.9, 0.5, "passed"), Gate("max-gain rbf", 0.1, 0.0, "passed"))
    report = Report(probes=probes, gates=gates, eraser=ERASER)
    (picture,) = pictures(report)["attackers"]
    assert "rbf, fresh: 0.500 after, majority 0.500, limit 0.600" in picture.description
    assert "linear, fresh: 0.500 after, majority 0.500, limit 0.900" in picture.description
    assert "limit" in [text.strip() for text in texts(picture.draw("x"))]
    (bare,) = pictures(Report(probes=probes, eraser=ERASER))["attackers"]
    assert "limit" not in bare.description
    assert "limit" not in [text.strip() for text in texts(bare.draw("x"))]


def test_every_colour_follows_the_page() -> None:
    for found in pictures(full_report(3)).values():
        for picture in found:
            svg = picture.draw("x")
            assert "var(--plot-" in svg
            assert not re.findall(r"(?<!, )#[0-9a-fA-F]{6}", svg)
    style = STYLE.split("@media")
    for name in VARIABLES.values():
        assert all(f"--plot-{name}: #" in style[place] for place in (0, 1, -1))


def test_clusters_are_drawn_with_each_pair_of_classes_and_its_task_class() -> None:
    pair = ClassPair(("m", "f"), 90, 0.25, -0.03, {"before": (0.2, 0.3)})
    change = Change(0.25, -0.03)
    found = (Cluster("g", None, change, change, (pair,)), Cluster("g", "nurse", change, change, (pair,)))
    (picture,) = pictures(Report(measures={"geometry": Geometry((*found, Cluster("h", None, change, change)), 0.1)}))[
        "geometry"
    ]
    assert picture.title == "Mean cosine ρ of pairs of rows, by g"
    assert picture.description == "m × f: 0.250 before, −0.030 after; nurse: m × f: 0.250 before, −0.030 after."
    assert {"m × f", "nurse: m × f", "before", "after"} <= set(texts(picture.draw("a")))


def test_the_rows_of_a_learning_curve_are_numbers_not_powers_in_tex() -> None:
    points = (LearningPoint(100, (0.6, 0.7)), LearningPoint(800, (0.75,)))
    svg = learning_plot(LearningCurve("g", "rbf", "fresh", "after", points, 8_000, 0.8, (0.77, 0.83)))
    assert {"100", "800", "8,000"} <= set(texts(svg))
    assert not any("$" in text for text in texts(svg))
