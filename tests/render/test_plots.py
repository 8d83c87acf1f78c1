import math
import re
from collections import Counter
from typing import Any
from xml.dom import minidom

import pytest

from salcli.render import plots
from salcli.render.attackers import probe_pairs
from salcli.render.figures import figures
from salcli.render.sweep import Curve
from salcli.render.task import class_rates
from tests.render.reports import HOSTILE, full_report


def texts(svg: str) -> list[str]:
    return [node.firstChild.data for node in minidom.parseString(svg).getElementsByTagName("text")]


def test_odd_names_are_drawn_as_they_are() -> None:
    rows = [{"set": text, "before": 0.5} for text in HOSTILE]
    svg = plots.similarity_plot(rows)
    shown = texts(svg)
    assert "$x_1$ and $\\alpha$" in shown
    assert "_leading" in shown
    assert "]]>" in shown
    assert "<script" not in svg


def test_legends_keep_names_that_begin_with_an_underscore() -> None:
    curves = [Curve(name, ((0.0, 0.5), (1.0, 0.4)), name) for name in ("_a", "$b$", "c" * 300)]
    shown = [text.strip() for text in texts(plots.curve_plot(curves, "k", "accuracy", level=0.3))]
    assert {"_a", "$b$", "majority"} <= set(shown)
    assert any(text.startswith("ccc") and "…" in text for text in shown)


@pytest.mark.parametrize(("last", "ticks"), [(2.0, {"0", "1", "2"}), (0.5, {"0.0", "0.5"})])
def test_between_whole_values_there_are_no_ticks(last: float, ticks: set[str]) -> None:
    curve = Curve("linear, fresh", ((0.0, 0.41), (last, 0.42)), "linear")
    shown = texts(plots.curve_plot([curve], "k", "accuracy"))
    along = shown[: shown.index("k")]
    assert ticks <= set(along)
    assert last < 1 or all(text.isdigit() for text in along)


def test_ids_begin_with_the_salt_and_references_meet_them() -> None:
    svg = plots.scatter_plot(full_report()["scatter"], salt="here")
    ids = set(re.findall(r' id="([^"]*)"', svg))
    assert ids
    assert all(name.startswith("here-") for name in ids)
    assert {*re.findall(r'href="#([^"]*)"', svg), *re.findall(r"url\(#([^)]*)\)", svg)} <= ids
    assert "<metadata" not in svg
    assert "<style" not in svg


def test_drawing_leaves_the_settings_of_the_process_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.similarity_plot([{"set": "s", "before": 0.5}])
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 1e300], ids=str)
def test_what_is_undefined_is_left_out(value: Any) -> None:
    probe = {"attribute": "a", "probe": "linear", "adversary": "fresh", "stage": "after", "accuracy": value}
    report = {
        "probes": [probe, {**probe, "accuracy": 0.5, "ci95": [value, 1.0]}],
        "similarity": [{"set": "s", "after": value}],
    }
    for of in figures(report).values():
        for figure in of:
            assert figure.draw("x").startswith("<svg")
            assert "nan" not in figure.description


def test_rare_classes_share_one_grey() -> None:
    n = 100
    scatter = {
        "classes": [f"class {c}" for c in range(n)],
        "codes": [*range(n), 0],
        "before": [[c, 1e300] for c in range(n + 1)],
    }
    shown = texts(plots.scatter_plot(scatter))
    assert "other classes" in shown
    assert sum(text.startswith("class") for text in shown) == plots.MOST_COLOURS - 1


def test_rows_in_units_of_their_own_fill_their_panel() -> None:
    scatter = {"classes": ["a", "b"], "codes": [0, 1], "before": [[-1, 0], [1, 0]], "after": [[-1e-4, 0], [1e-4, 0]]}

    def places(svg: str) -> list[float]:
        spots = re.findall(r'<use[^>]* x="([0-9.]+)" y="([0-9.]+)"', svg)
        (height, _), *_ = Counter(y for _, y in spots).most_common()  # not those of the legend
        return sorted(float(x) for x, y in spots if y == height)

    own = places(plots.scatter_plot(scatter | {"is_foreign": True}))
    shared = places(plots.scatter_plot(scatter))
    width = own[1] - own[0]
    assert own[3] - own[2] == pytest.approx(width, rel=1e-3)
    assert shared[3] - shared[2] < width / 100
    assert "after, in units of its own" in texts(plots.scatter_plot(scatter | {"is_foreign": True}))


def test_every_guarded_attribute_has_a_picture_of_the_rows() -> None:
    scatter = {
        "attribute": "g",
        "classes": ["a", "b"],
        "codes": [0, 1],
        "before": [[-1, 0], [1, 0]],
        "after": [[0, 0], [0, 1]],
    }
    others = [{"attribute": "h", "classes": ["c", "d"], "codes": [1, 0]}]
    found = figures({"scatter": scatter | {"others": others}})["geometry"]
    assert [figure.title for figure in found] == ["Rows in two dimensions, by g", "Rows in two dimensions, by h"]
    assert {"c", "d"} <= {text.strip() for text in texts(found[1].draw("h"))}


def test_long_names_stand_one_a_line_in_a_legend() -> None:
    def lefts(n: int) -> set[str]:
        curves = [Curve(name * n, ((0.0, 0.5), (1.0, 0.4)), name) for name in "wm"]
        svg = plots.curve_plot(curves, "k", "accuracy")
        found = re.findall(r'<text[^>]* x="([0-9.]+)"[^>]*>\s*(?:w+|m+)<', svg)
        assert len(found) == 2
        return set(found)

    assert len(lefts(20)) == 2
    assert len(lefts(40)) == 1


def test_only_the_widest_gaps_are_drawn() -> None:
    cells = [
        {"stage": "after", "class": f"c{c}", "group": group, "tpr": c / 200 * sign + 0.5, "n": 9}
        for c in range(100)
        for group, sign in (("f", 1), ("m", -1))
    ]
    groups, rates = class_rates({"groups": ["f", "m"], "tpr": cells})
    widest = plots.widest_gaps(rates, groups)
    assert [of.name for of in widest] == [f"c{c}" for c in range(99, 99 - plots.MOST_ROWS, -1)]
    assert widest[0].gap("after", groups) == pytest.approx(0.99)
    assert "c99" in texts(plots.gap_plot(rates, groups))


def test_stages_meet_in_one_pair_and_a_repeated_one_opens_another() -> None:
    probe = {"attribute": "a", "probe": "linear", "adversary": "fresh"}
    stages = [{**probe, "stage": stage, "accuracy": n / 10} for n, stage in enumerate(("after", "before", "after"))]
    pairs = probe_pairs(stages)
    assert [(pair.accuracy("before"), pair.accuracy("after")) for pair in pairs] == [(0.1, 0.0), (None, 0.2)]
