"""The main task in tables and pictures: by each guarded attribute, and where something is missing."""

from typing import Any

from salcli.render.figures import figures
from salcli.render.table import Section
from salcli.render.task import task_section


def cell(stage: str, name: str, group: str, tpr: float) -> dict[str, Any]:
    return {"stage": stage, "class": name, "group": group, "tpr": tpr, "n": 10}


def rates(groups: str, tpr: float, without: str = "") -> list[dict[str, Any]]:
    stages, names = ("before", "after"), "pq"
    return [
        cell(s, n, g, tpr / (i + 1)) for s in stages for n in names for i, g in enumerate(groups) if n + g != without
    ]


def section_of(task: dict[str, Any]) -> Section:
    found = task_section({"task": task})
    assert found is not None
    return found


TASK = {
    "column": "job",
    "classes": ["p", "q"],
    "accuracy": {"before": 0.8, "after": 0.7, "not_retrained": 0.6},
    "majority": 0.5,
    "guarded": "g",
    "groups": ["x", "y", "absent"],
    "tpr": rates("xy", 0.8, without="py"),
    "tpr_gap_rms": {"before": 0.4, "after": 0.4},
    "excluded": [{"class": "p", "group": "y"}],
    "others": [
        {"guarded": "h", "groups": ["m", "n"], "tpr": rates("mn", 0.6), "tpr_gap_rms": {"before": 0.3, "after": 0.3}}
    ],
}


def test_every_guarded_attribute_has_a_table_a_picture_and_its_gaps() -> None:
    overview, of_g, of_h = section_of(TASK).tables
    assert [row[0] for row in overview.rows] == [
        "accuracy",
        "TPR gap, RMS over classes, g",
        "TPR gap, RMS over classes, h",
    ]
    assert (of_g.caption.split(" by")[0], of_h.caption.split(" by")[0]) == (
        "True positive rates, g",
        "True positive rates, h",
    )
    assert [figure.title for figure in figures({"task": TASK})["task"]] == [
        "TPR gap, g, by task class, widest first",
        "TPR gap, h, by task class, widest first",
    ]


def test_a_class_that_is_left_out_of_the_gap_has_none_and_a_group_without_rows_is_no_group() -> None:
    section = section_of(TASK)
    of_g = section.tables[1]
    assert not any("absent" in column.name for column in of_g.columns)
    gaps = {row[0]: row[5:7] for row in of_g.rows}
    assert gaps == {"p": ("–", "–"), "q": ("0.400", "0.400")}
    assert any("no test row is there: p × y" in told for told in section.paragraphs)


def test_where_nothing_was_erased_nothing_is_said_of_after() -> None:
    task = TASK | {"accuracy": {"before": 0.8, "after": None, "not_retrained": None}, "others": []}
    section = section_of(task)
    assert "Not retrained" not in section.paragraphs[0]
    assert section.tables[0].caption == "The task"
    assert section.tables[0].rows[0][1:3] == ("0.800", "–")
