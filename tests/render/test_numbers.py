"""Tables of numeric attributes, of recall by class, and of what test rows could have shown."""

import numpy as np

from salcli.evaluation.explained import NumericResult
from salcli.evaluation.power import Detectable, of_classes, of_numbers
from salcli.evaluation.recalls import ClassRecall, Recalls
from salcli.evaluation.report import Report
from salcli.render.numbers import (
    detectable_lines,
    detectable_table,
    numeric_facts,
    numeric_findings,
    numeric_table,
    recall_table,
)
from salcli.render.probe_pairs import shown_attributes
from salcli.render.verdict import findings, subject, verdict_sentence

from .reports import ERASER, result


def explained(adversary: str, stage: str, r2: float, probe: str = "ridge") -> NumericResult:
    return NumericResult("age", probe, adversary, stage, r2, 0.1, 50.0, 80, 120, True, False, {"alpha": 0.1})


RESULTS = (
    explained("in-sample", "before", 0.9),
    explained("in-sample", "after", 0.4),
    explained("fresh", "before", 0.8),
    explained("fresh", "after", 0.25),
    explained("fresh", "after", -0.3, "boosting"),
)


def test_each_attacker_of_a_number_is_a_row_before_and_after() -> None:
    table = numeric_table(RESULTS)
    assert [row[:5] for row in table.rows] == [
        ("age", "ridge", "in-sample", "0.900", "0.400"),
        ("age", "ridge", "fresh", "0.800", "0.250"),
        ("age", "boosting", "fresh", "–", "−0.300"),
    ]
    assert table.rows[0][-1] == "alpha=0.1"


def test_the_best_fresh_attacker_is_the_one_that_is_named() -> None:
    report = Report(numeric=RESULTS, eraser=ERASER)
    assert list(numeric_findings(report)) == [
        "age, after erasure: the best attacker (ridge, fresh) explains 25.0% of its variance (before: 80.0%)."
    ]
    (fact,) = numeric_facts(report)
    assert (fact.name, fact.before, fact.after) == ("R² of age (ridge, fresh)", "0.800", "0.250")
    assert verdict_sentence(report) == "Still readable: age: ridge R² 0.250."
    assert subject(report) == "age"
    nothing = Report(numeric=(explained("fresh", "before", -0.2),))
    assert "explains 0.0% of its variance." in next(numeric_findings(nothing))


def test_recalls_of_many_classes_are_folded() -> None:
    few = Recalls("g", "rbf", "fresh", (ClassRecall("a", 60, 1.0, 0.9), ClassRecall("b", 40, None, 0.5)))
    table = recall_table(few)
    assert table.rows == (("a", "60", "1.000", "0.900"), ("b", "40", "–", "0.500"))
    assert not table.is_detail
    many = Recalls("g", "rbf", "fresh", tuple(ClassRecall(str(i), 9, 0.1, 0.1) for i in range(9)))
    assert recall_table(many).is_detail


def test_what_could_have_been_shown_is_a_row_and_a_line_for_each_attribute() -> None:
    found = (of_classes("g", np.arange(600) % 2, 0.95), of_numbers("age", 600, 0.95), Detectable("few", 4, 0.95))
    table = detectable_table(found)
    assert table is not None
    assert [row[:2] for row in table.rows] == [("g", "600"), ("age", "600"), ("few", "4")]
    lines = list(detectable_lines(found))
    assert lines[0].startswith("smallest that 600 test rows of g could have shown (power 0.8): accuracy 0.55")
    assert lines[1] == "smallest that 600 test rows of age could have shown (power 0.8): R² 0.044"
    assert lines[2].endswith("nothing")
    assert detectable_table(()) is None


def test_of_products_the_one_that_leaks_most_is_shown_beside_the_attributes_and_the_worst_is_named() -> None:
    probes = (
        result("a", accuracy=0.55, n_test_classes=2),
        result("b", accuracy=0.52, n_test_classes=2),
        result("a × b", accuracy=0.7, n_test_classes=2, factors=("a", "b")),
        result("a × c", accuracy=0.6, n_test_classes=2, factors=("a", "c")),
    )
    report = Report(probes=probes, eraser=ERASER)
    assert list(shown_attributes(probes, "after")) == ["a", "b", "a × b"]
    assert subject(report) == "a, b"
    assert findings(report)[-1] == "Of attributes and products of them, a × b is read most (leak 0.400, linear, fresh)."
    assert "a × c" not in verdict_sentence(report)
