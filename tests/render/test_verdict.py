import dataclasses

import pytest

from salcli.data.hashes import FileHash
from salcli.evaluation.group_rates import Gap, GroupRates
from salcli.evaluation.main_task import Accuracy, Task
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import ErasedFile, Gate, Report
from salcli.render.attackers import attackers_section
from salcli.render.verdict import facts, findings, tone_of, verdict_sentence
from tests.render.reports import ERASER, full_report, result

PASSED = Gate("max-accuracy", 0.6, 0.55, "passed")
FAILED = Gate("min-similarity-kept", 0.9, 0.8, "failed")
UNDECIDED = Gate("max-gain", 0.1, 0.09, "undecided", ("about 900 test rows would decide (90 here)",), 900)


@pytest.mark.parametrize(
    ("gates", "sentence"),
    [
        ((), "No limit was set, so nothing was judged."),
        ((PASSED,), "Passed: the limit that was set is kept."),
        ((PASSED,) * 3, "Passed: all 3 limits are kept."),
        (
            (FAILED,),
            "Failed: the limit that was set is broken (min-similarity-kept is 0.800, at least 0.9 is required).",
        ),
        (
            (UNDECIDED,),
            "Undecided: the limit that was set is neither kept nor broken for certain (max-gain is 0.090, at most 0.1 "
            "is allowed, about 900 test rows would decide (90 here)).",
        ),
        (
            (FAILED, UNDECIDED),
            "Failed: 1 of 2 limits is broken (min-similarity-kept is 0.800, at least 0.9 is required).",
        ),
    ],
)
def test_the_sentence_says_what_was_judged(gates: tuple[Gate, ...], sentence: str) -> None:
    assert verdict_sentence(Report(gates=gates)) == sentence


def test_many_broken_limits_are_counted() -> None:
    assert verdict_sentence(Report(gates=(PASSED, FAILED))).startswith("Failed: 1 of 2 limits is broken")
    text = verdict_sentence(Report(gates=(FAILED,) * 9))
    assert text.startswith("Failed: 9 of 9 limits are broken")
    assert text.endswith("; and 6 more).")


def readers(**leakages: float) -> tuple[ProbeResult, ...]:
    return tuple(result("g", "after", leakage, probe=probe) for probe, leakage in leakages.items())


@pytest.mark.parametrize(
    ("gates", "sentence", "tone"),
    [
        ((), "Still readable: rbf 87.5%, majority 50.0%.", "none"),
        (("max-accuracy linear",), "Passed for linear; rbf reads 87.5%.", "undecided"),
        (("max-gain linear", "max-gain rbf"), "Passed: all 2 limits are kept.", "pass"),
        (("max-accuracy rbf",), "Passed: the limit that was set is kept.", "pass"),
        (("max-accuracy", "max-gain linear"), "Passed: all 2 limits are kept.", "pass"),
        (("min-similarity-kept",), "Passed for min-similarity-kept; rbf reads 87.5%.", "undecided"),
    ],
)
def test_no_pass_is_green_while_an_attacker_without_limit_reads_more(
    gates: tuple[str, ...], sentence: str, tone: str
) -> None:
    found = Report(
        probes=readers(linear=0.55, rbf=0.875), eraser=ERASER, gates=tuple(Gate(g, 0.9, 0.5, "passed") for g in gates)
    )
    assert verdict_sentence(found) == sentence
    assert tone_of(found) == tone


def test_the_attacker_that_is_named_is_the_fresh_one() -> None:
    in_sample = result("g", "after", 0.9, probe="poly", adversary="in-sample")
    report = Report(probes=(in_sample, *readers(linear=0.6)), eraser=ERASER)
    assert facts(report)[0].name == "best attacker on g (linear, fresh)"
    assert facts(report)[0].after == "0.600"
    assert "(linear, fresh) reads it right in 60.0%" in findings(report)[0]
    assert findings(report)[0].endswith("Trained on the fitted rows, poly reads 90.0%.")


def test_findings_name_the_best_attacker_of_each_attribute() -> None:
    first, second, third = findings(full_report(0))
    assert first == (
        "gender, after erasure: the best attacker (rbf, fresh) reads it right in 66.4% of the test rows "
        "(before: 98.4%); guessing the most frequent class gives 54.0%. "
        "The largest leak is 0.270 (before: 0.965), by rbf, fresh. Near the labelled rows, in band1, rbf reads 67.1%."
    )
    assert second.startswith("dialect, after erasure: ")
    assert third.startswith("age, after erasure: ")


def test_a_file_without_eraser_is_judged_as_it_is() -> None:
    report = Report(probes=(result("a", "before", 0.9),))
    (told,) = findings(report)
    assert told.startswith(
        "a, as the file is: the best attacker (linear, fresh) reads it right in 90.0% of the test rows;"
    )
    fact = facts(report)[0]
    assert (fact.before, fact.after, fact.aside) == ("0.900", "–", "majority 0.500")


def test_the_best_attacker_is_the_one_that_reads_most_be_it_flipped() -> None:
    low, high = result("a", "after", 0.02), result("a", "after", 0.55, probe="rbf")
    earlier = result("a", "before", 0.01)
    assert "(before: 99.0%)" in findings(Report(probes=(earlier, low)))[0]
    report = Report(probes=(high, low))
    (told,) = findings(report)
    assert told.startswith(
        "a, after erasure: the best attacker (linear, fresh) reads it right, with flipped predictions, in 98.0%"
    )
    fact = facts(report)[0]
    assert fact.after == "0.980"
    assert "flipped 0.980" in str(attackers_section(report))


def test_the_gaps_of_every_guarded_attribute_are_facts() -> None:
    of_g = GroupRates("g", ("x", "y"), (), None, Gap(0.2, 0.1, None), ())
    of_h = dataclasses.replace(of_g, guarded="h", tpr_gap=Gap(0.3, None, None))
    task = Task("job", ("p", "q"), 0.5, 9, 9, Accuracy(0.8, 0.7, None), True, of_g, (of_h,))
    found = [(fact.name, fact.before, fact.after) for fact in facts(Report(measures={"task": task}))]
    assert found == [
        ("accuracy of job", "0.800", "0.700"),
        ("TPR gap (RMS), g, of job", "0.200", "0.100"),
        ("TPR gap, h, of job", "0.300", "–"),
        ("TPR gap (RMS), h, of job", "0.200", "0.100"),
    ]


def test_attackers_are_introduced_as_what_they_are() -> None:
    """Only of an eraser's own fit is it known which rows were seen, and so what a linear one cannot read."""
    for eraser, says in (
        (ERASER, "rows that the eraser was fitted on"),
        (ErasedFile("out.npy", FileHash("blake3", ""), 3, 3), "are not known"),
        (None, "an eraser would be fitted on"),
    ):
        section = attackers_section(Report(probes=(result("g", "before", 0.7),), eraser=eraser))
        assert section is not None
        assert says in section.paragraphs[0]
        assert ("by construction" in section.paragraphs[0]) == (eraser is ERASER)
