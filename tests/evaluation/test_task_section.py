"""The main task in tables and pictures: by each guarded attribute, and where something is missing."""

import dataclasses

from salcli.evaluation.main_task import Accuracy, Cell, Gap, GroupRates, Rate, Task
from salcli.evaluation.report import Report
from salcli.evaluation.section import Section
from salcli.evaluation.task import TASK
from salcli.render.pictures import pictures


def rates(groups: str, tpr: float, without: str = "") -> tuple[Rate, ...]:
    return tuple(
        Rate(stage, name, group, tpr / (i + 1), 10)
        for stage in ("before", "after")
        for name in "pq"
        for i, group in enumerate(groups)
        if name + group != without
    )


def section_of(task: Task) -> Section:
    found = TASK.section(task)
    assert found is not None
    return found


OF_G = GroupRates(
    "g", ("x", "y", "absent"), rates("xy", 0.8, without="py"), None, Gap(0.4, 0.4, None), (Cell("p", "y"),)
)
OF_H = GroupRates("h", ("m", "n"), rates("mn", 0.6), None, Gap(0.3, 0.3, None), ())
FOUND = Task("job", ("p", "q"), 0.5, 100, 50, Accuracy(0.8, 0.7, 0.6), True, OF_G, (OF_H,))


def test_every_guarded_attribute_has_a_table_a_picture_and_its_gaps() -> None:
    overview, of_g, of_h = section_of(FOUND).tables
    assert [row[0] for row in overview.rows] == [
        "accuracy",
        "TPR gap, RMS over classes, g",
        "TPR gap, RMS over classes, h",
    ]
    assert (of_g.caption.split(" by")[0], of_h.caption.split(" by")[0]) == (
        "True positive rates, g",
        "True positive rates, h",
    )
    assert [picture.title for picture in pictures(Report(measures={"task": FOUND}))["task"]] == [
        "TPR gap, g, by task class, widest first",
        "TPR gap, h, by task class, widest first",
    ]


def test_a_class_that_is_left_out_of_the_gap_has_none_and_a_group_without_rows_is_no_group() -> None:
    section = section_of(FOUND)
    of_g = section.tables[1]
    assert not any("absent" in column.name for column in of_g.columns)
    gaps = {row[0]: row[5:7] for row in of_g.rows}
    assert gaps == {"p": ("–", "–"), "q": ("0.400", "0.400")}
    assert any("no test row is there: p × y" in told for told in section.paragraphs)


def test_where_nothing_was_erased_nothing_is_said_of_after() -> None:
    section = section_of(dataclasses.replace(FOUND, accuracy=Accuracy(0.8, None, None), others=()))
    assert "Not retrained" not in section.paragraphs[0]
    assert section.tables[0].caption == "The task"
    assert section.tables[0].rows[0][1:3] == ("0.800", "–")


def test_many_cells_without_rows_are_a_table_of_their_own() -> None:
    many = tuple(Cell(f"c{i}", "y") for i in range(13))
    for excluded, is_table in ((many, True), (many[:12], False)):
        section = section_of(dataclasses.replace(FOUND, first=dataclasses.replace(FOUND.first, excluded=excluded)))
        captions = [table.caption for table in section.tables]
        assert ("The 13 cells without a test row, whose classes are left out of the gaps, g" in captions) == is_table
        assert any("Left out of the gaps, g, because" in told for told in section.paragraphs) != is_table


def test_a_gap_at_an_end_of_its_interval_is_explained() -> None:
    def paragraphs(gap: Gap) -> str:
        return " ".join(
            section_of(
                dataclasses.replace(FOUND, first=dataclasses.replace(OF_G, tpr_gap_rms=gap), others=())
            ).paragraphs
        )

    assert "RMS over classes, lies at an end of its interval" not in paragraphs(Gap(0.3, 0.2, (0.1, 0.3)))
    assert "lies at an end of its interval" not in paragraphs(Gap(0.3, 0.0, (0.0, 0.3)))
    for bounds in ((0.2, 0.3), (0.0, 0.2)):
        assert "TPR gap, RMS over classes lies at an end of its interval" in paragraphs(Gap(0.3, 0.2, bounds))
