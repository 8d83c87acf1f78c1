import pytest

from salcli.render.attackers import attackers_section
from salcli.render.verdict import facts, findings, outcome, verdict_sentence
from tests.render.reports import full_report

PASSED = {"name": "max-accuracy", "limit": 0.6, "value": 0.55, "passed": True}
FAILED = {"name": "min-similarity-kept", "limit": 0.9, "value": 0.8, "passed": False}


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        ({}, "No limit was set, so nothing was judged."),
        ({"gates": [PASSED], "verdict": "pass"}, "Passed: the limit that was set is kept."),
        ({"gates": [PASSED] * 3, "verdict": "pass"}, "Passed: all 3 limits are kept."),
        (
            {"gates": [FAILED], "verdict": "fail"},
            "Failed: the limit that was set is broken (min-similarity-kept is 0.800, at least 0.9 is asked for).",
        ),
        ({"gates": [PASSED], "verdict": "fail"}, "Failed: the report says so, though none of its limits is broken."),
    ],
)
def test_the_sentence_says_what_was_judged(report: dict, sentence: str) -> None:
    assert verdict_sentence(report) == sentence


def test_a_failed_gate_is_not_outvoted() -> None:
    assert outcome({"gates": [PASSED, FAILED], "verdict": "pass"}) == "fail"


def test_the_gates_decide_where_the_report_does_not_say() -> None:
    assert [outcome(report) for report in ({"gates": [PASSED]}, {"gates": [PASSED], "verdict": "none"})] == ["pass"] * 2
    assert outcome({"verdict": "pass"}) == "none"


def test_many_broken_limits_are_counted() -> None:
    assert verdict_sentence({"gates": [PASSED, FAILED]}).startswith("Failed: 1 of 2 limits is broken")
    told = verdict_sentence({"gates": [FAILED] * 9})
    assert told.startswith("Failed: 9 of 9 limits are broken")
    assert told.endswith("; and 6 more).")


def test_findings_name_the_best_attacker_of_each_attribute() -> None:
    first, second = findings(full_report())
    assert first == (
        "gender, after erasure: the best attacker (rbf, fresh) reads it right in 66.4% of the test rows "
        "(before: 98.4%); guessing the most frequent class gives 54.0%."
    )
    assert second.startswith("dialect, after erasure: ")


def test_a_file_without_eraser_is_judged_as_it_is() -> None:
    probe = {
        "attribute": "a",
        "probe": "linear",
        "adversary": "fresh",
        "stage": "before",
        "accuracy": 0.9,
        "majority": 0.5,
    }
    (told,) = findings({"probes": [probe]})
    assert told.startswith(
        "a, as the file is: the best attacker (linear, fresh) reads it right in 90.0% of the test rows;"
    )
    (fact,) = facts({"probes": [probe]})
    assert (fact.before, fact.after, fact.aside) == ("0.900", "–", "majority 0.500")


def test_the_best_attacker_is_the_one_that_reads_most_be_it_turned_round() -> None:
    shared = {"attribute": "a", "adversary": "fresh", "stage": "after", "majority": 0.5}
    low = {**shared, "probe": "linear", "accuracy": 0.02, "leakage": 0.98}
    high = {**shared, "probe": "rbf", "accuracy": 0.55, "leakage": 0.55}
    earlier = {**low, "stage": "before", "accuracy": 0.01, "leakage": 0.99}
    assert "(before: 99.0%)" in findings({"probes": [earlier, low]})[0]
    (told,) = findings({"probes": [high, low]})
    assert told.startswith(
        "a, after erasure: the best attacker (linear, fresh) reads it right, its answers turned round, in 98.0%"
    )
    (fact,) = facts({"probes": [high, low]})
    assert fact.after == "0.980"
    assert "turned round 0.980" in str(attackers_section({"probes": [high, low]}))


def test_the_gaps_of_every_guarded_attribute_are_facts() -> None:
    gap = {"before": 0.2, "after": 0.1}
    task = {"column": "job", "guarded": "g", "tpr_gap_rms": gap, "others": [{"guarded": "h", "tpr_gap_rms": gap}]}
    assert [fact.name for fact in facts({"task": task})] == ["TPR gap (RMS), g, of job", "TPR gap (RMS), h, of job"]


def test_attackers_are_introduced_as_what_they_are() -> None:
    """Only of an eraser's own fit is it known which rows were seen, and so what a linear one cannot read."""
    probe = {"attribute": "g", "probe": "linear", "adversary": "fresh", "stage": "before", "accuracy": 0.7}
    for eraser, says in (
        ({"method": "sal"}, "rows that the eraser was fitted on"),
        ({"d": 3}, "rows that the eraser was fitted on"),
        ({"method": "against"}, "is not known"),
        (None, "an eraser would be fitted on"),
    ):
        section = attackers_section({"probes": [probe], "eraser": eraser})
        assert section is not None
        assert says in section.paragraphs[0]
        assert ("by construction" in section.paragraphs[0]) == (
            eraser is not None and eraser.get("method") != "against"
        )
