"""Recall by class of the strongest attackers."""

from salcli.evaluation.json_fields import to_json
from salcli.evaluation.recalls import ClassRecall, strongest_recalls
from salcli.evaluation.report import Report, Worst

from .results import result


def test_the_recalls_are_those_of_the_strongest_attacker_of_each_adversary() -> None:
    strong = {"probe": "rbf", "n_test_classes": 2, "n_test": 100}
    probes = (
        result(0.9, stage="before", recalls={"a": (1.0, 60), "b": (0.8, 40)}, **strong),
        result(0.7, stage="after", recalls={"a": (0.9, 60), "b": (0.5, 40)}, **strong),
        result(0.6, stage="after", recalls={"a": (0.6, 60), "b": (0.6, 40)}, n_test_classes=2),
        result(0.8, stage="after", adversary="in-sample", recalls={"a": (0.8, 60)}, n_test_classes=2),
    )
    fresh, in_sample = strongest_recalls(probes, "after")
    assert (fresh.attribute, fresh.probe, fresh.adversary) == ("g", "rbf", "fresh")
    assert fresh.classes == (ClassRecall("a", 60, 1.0, 0.9), ClassRecall("b", 40, 0.8, 0.5))
    assert in_sample.classes == (ClassRecall("a", 60, None, 0.8),)


def test_a_report_names_its_worst_and_has_recalls_by_class() -> None:
    report = Report(probes=(result(0.6, stage="before", recalls={"a": (0.6, 5)}, n_test_classes=2),))
    assert report.worst == Worst("g", "linear", "fresh", report.probes[0].leak)
    assert to_json(report)["recalls"] == [
        {
            "attribute": "g", "probe": "linear", "adversary": "fresh",
            "classes": [{"class": "a", "n": 5, "before": 0.6, "after": None}],
        }
    ]  # fmt: skip
    assert Report().worst is None
