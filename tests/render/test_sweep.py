from salcli.evaluation.explained import NumericResult
from salcli.evaluation.report import Report, SweepStep
from salcli.render.markdown import markdown
from salcli.render.pictures import pictures
from salcli.render.sweep import sweep_section, swept
from tests.render.reports import full_report, result, similarity


def step(value: float, accuracy: float, after: float | None) -> SweepStep:
    measures = {"similarity": (similarity("a|set", 0.5, after),)}
    probes = (result("g", "after", accuracy), result("g", "after", accuracy, probe="rbf", majority=0.6))
    return SweepStep(probes=probes, measures=measures, parameter="strength", value=value)


def test_a_curve_has_no_point_where_its_figure_is_undefined_after_erasure() -> None:
    found = swept(Report(sweep=(step(0, 0.9, 0.5), step(0.5, 0.8, None), step(1, 0.7, 0.4))))
    assert found is not None
    assert found.values == (0, 0.5, 1)
    assert [curve.points for of in found.kept for curve in of.curves] == [((0, 0.5), (1, 0.4))]
    assert [curve.points for curve in found.accuracy["g"]] == [((0, 0.9), (0.5, 0.8), (1, 0.7))] * 2
    assert [curve.group for curve in found.accuracy["g"]] == ["linear", "rbf"]


def test_each_value_is_a_row_of_the_tables() -> None:
    section = sweep_section(Report(sweep=(step(0, 0.9, 0.5), step(0.5, 0.8, None))))
    assert section is not None
    of_attackers, of_kept = section.tables
    assert of_attackers.caption == "Accuracy of attackers on g along strength; majority 0.600"
    assert of_attackers.rows == (("0", "0.900", "0.900"), ("0.5", "0.800", "0.800"))
    assert [column.name for column in of_kept.columns] == ["strength", "similarity a|set"]
    assert of_kept.rows == (("0", "0.500"), ("0.5", "–"))


def test_measures_keep_their_order_and_a_report_without_sweep_has_no_section() -> None:
    found = swept(full_report(2))
    assert found is not None
    assert [(of.measure, of.title, of.quantity) for of in found.kept] == [
        ("similarity", "Similarity kept", "Spearman correlation"),
        ("task", "Task", "accuracy, gap"),
    ]
    assert sweep_section(full_report(0)) is None


def test_a_numeric_attribute_has_a_table_and_a_picture_of_r2() -> None:
    def step(value: float, ridge: float, boosting: float) -> SweepStep:
        files = (("ridge", ridge, "raw"), ("boosting", boosting, "unit"))
        numeric = tuple(
            NumericResult("age", probe, "fresh", "after", r2, 0.05, 90.0, 200, 100, True, False, form=form)
            for probe, r2, form in files
        )
        return SweepStep(numeric=numeric, parameter="k", value=value)

    report = Report(sweep=(step(0.0, 0.6, 0.5), step(1.0, 0.1, -0.2)))
    found = swept(report)
    assert found is not None
    ridge, boosting = found.explained["age"]
    assert (ridge.name, ridge.points) == ("ridge, fresh", ((0, 0.6), (1, 0.1)))
    assert (boosting.name, boosting.points) == ("boosting as unit, fresh", ((0, 0.5), (1, -0.2)))
    assert ridge.bounds[0] == report.sweep[0].numeric[0].ci95
    section = sweep_section(report)
    assert section is not None
    (table,) = section.tables
    assert table.caption == "R² of attackers on age along k"
    assert table.rows == (("0", "0.600", "0.500"), ("1", "0.100", "−0.200"))
    (picture,) = pictures(report)["sweep"]
    assert picture.title == "R² of attackers on age along k"
    assert "boosting as unit, fresh: from 0.500 at 0 to 0.000 at 1" in picture.description
    assert picture.description.endswith("0: nothing is read, or less.")
    assert "R²" in picture.draw("x")
    assert min(y for _, y in boosting.at_least(0.0).points) == 0
    assert "R² of attackers on age along k" in markdown(report)
