import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.attackers import ProbeResult
from salcli.evaluation.gates import Asked, accuracy_gate
from salcli.evaluation.report import Report

from .results import result

FRESH = Asked((("g", "fresh", "linear"),))
BOTH = Asked((("g", "in-sample", "linear"), *FRESH.attackers))


def results(in_sample: float, fresh: float) -> tuple[ProbeResult, ...]:
    return result(in_sample, adversary="in-sample"), result(fresh), result(1.0, stage="before")


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_gate_passes_exactly_if_the_worst_attacker_is_within_the_limit(
    one: float, other: float, limit: float
) -> None:
    gate = accuracy_gate(limit, None, BOTH, results(one, other), "after")
    worst = max(one, 1 - one, other, 1 - other)
    assert gate.value == worst
    assert gate.passed == (worst <= limit)
    assert Report({}, None, gates=(gate,)).verdict == ("pass" if worst <= limit else "fail")


def test_below_chance_is_not_safety_for_two_classes_but_is_for_more() -> None:
    assert not accuracy_gate(0.6, None, FRESH, (result(0.1),), "after").passed
    assert accuracy_gate(0.6, None, FRESH, (result(0.1, n_classes=4),), "after").passed


def test_a_gate_that_needs_fresh_rows_fails_without_them() -> None:
    gate = accuracy_gate(1.0, None, BOTH, (result(0.5, adversary="in-sample"),), "after")
    assert not gate.passed
    assert "no result for g: fresh" in gate.reason


def test_an_attribute_that_no_probe_reads_fails_the_gate() -> None:
    gate = accuracy_gate(1.0, None, Asked((*FRESH.attackers, ("age", "fresh", "linear"))), (result(0.5),), "after")
    assert not gate.passed
    assert "no result for age: fresh linear" in gate.reason


def test_an_unconverged_probe_never_passes() -> None:
    gate = accuracy_gate(1.0, None, FRESH, (result(0.5, converged=False),), "after")
    assert not gate.passed
    assert "converge" in gate.reason


def test_nothing_to_judge_fails() -> None:
    gate = accuracy_gate(1.0, "linear", FRESH, (), "after")
    assert (gate.passed, gate.value) == (False, None)


def test_one_failed_gate_fails_the_report_and_no_gate_gives_no_verdict() -> None:
    gates = tuple(accuracy_gate(limit, None, FRESH, (result(0.7),), "after") for limit in (0.8, 0.6))
    assert Report({}, None, gates=gates).verdict == "fail"
    assert Report({}, None, gates=gates[:1]).verdict == "pass"
    assert Report({}, None, ()).verdict == "none"


def test_the_json_has_the_fields_that_other_programs_rely_on() -> None:
    told = result().to_dict()
    assert set(told) >= {"probe", "adversary", "stage", "accuracy", "ci95", "balanced_accuracy", "majority"}
    assert set(told) >= {"n_train", "n_test", "converged", "capped"}
    assert set(Report({}, None, ()).to_dict()) >= {"schema", "inputs", "eraser", "probes", "gates", "verdict"}


@pytest.mark.parametrize("stage", ["before", "after"])
def test_only_the_judged_stage_counts(stage: str) -> None:
    gate = accuracy_gate(0.9, None, FRESH, (result(0.5, stage="after"), result(1.0, stage="before")), stage)
    assert gate.passed == (stage == "after")
