"""The main task in tables and pictures: by each guarded attribute, and where something is missing."""

import dataclasses

from salcli.evaluation.group_rates import Cell, FalseRate, Gap, GroupRates, Rate, Ratio
from salcli.evaluation.main_task import Accuracy, Task
from salcli.evaluation.report import Report
from salcli.evaluation.section import Section
from salcli.evaluation.task import TASK
from salcli.evaluation.task_tables import class_rates
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


def test_gap_and_ratio_of_a_class_need_a_rate_of_every_group() -> None:
    groups, (p, q) = class_rates(FOUND, OF_G)
    assert groups == ("x", "y")
    assert (p.gap("after", groups), p.ratio("after", groups)) == (None, None)
    assert (q.gap("after", groups), q.gap("after", groups[::-1]), q.ratio("after", groups)) == (0.4, -0.4, 0.5)
    assert q.counts == {"x": 10, "y": 10}


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


def test_false_positive_rates_have_a_table_and_ratios_a_row() -> None:
    false = tuple(FalseRate(r.stage, r.class_name, r.group, r.tpr / 10, 30) for r in rates("xy", 0.8))
    ratio = Ratio(0.8, 0.9, (0.7, 1.0), {"after": 0.97}, {"after": 0.2})
    of_g = dataclasses.replace(
        OF_H, groups=("x", "y"), tpr=rates("xy", 0.8), fpr=false, tpr_ratio=ratio, fpr_ratio=ratio
    )
    overview, chance, true, of_false = section_of(dataclasses.replace(FOUND, first=of_g, others=())).tables
    assert ("FPR ratio", "0.800", "0.900", "0.700–1.000", "–", "–") in overview.rows
    assert ("TPR ratio", "–", "–", "–", "0.970", "–", "0.200") in chance.rows
    assert of_false.caption == "False positive rates by class and group; gap: FPR of x less FPR of y"
    assert of_false.is_detail
    assert true.rows[0][-2:] == of_false.rows[0][-2:] == ("0.500", "0.500")
    assert of_false.rows[1][1:5] == ("0.080", "0.040") * 2


def test_cells_with_few_rows_are_all_named() -> None:
    few = dataclasses.replace(OF_G, tpr=tuple(dataclasses.replace(rate, n=3) for rate in OF_G.tpr))
    section = section_of(dataclasses.replace(FOUND, first=few, others=()))
    assert "Measured on fewer than 10 test rows: p × x (3), q × x (3), q × y (3)." in section.paragraphs
    many = tuple(Rate("before", f"c{i}", "x", 0.5, 3) for i in range(13))
    record = dataclasses.replace(FOUND, classes=tuple(f"c{i}" for i in range(13)), others=())
    captions = [
        t.caption for t in section_of(dataclasses.replace(record, first=dataclasses.replace(OF_G, tpr=many))).tables
    ]
    assert "The 13 cells with fewer than 10 test rows" in captions


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
