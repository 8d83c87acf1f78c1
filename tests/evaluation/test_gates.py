from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation import gates
from salcli.evaluation.gates import Asked, Judge
from salcli.evaluation.main_task import Accuracy, Gap, GroupRates, Task
from salcli.evaluation.report import Gate, ProbeResult, to_json
from tests.render.reports import similarity

from .results import result

WANTED = Asked((("g", "fresh", "linear"), ("g", "fresh", "rbf")))
LINEAR = Asked(WANTED.attackers[:1])
SHARES = st.floats(0, 1)
POINT = Judge(None)
accuracy_gate, gain_gate, tpr_gap_gate, similarity_gate = (
    partial(gate, judge=POINT)
    for gate in (gates.accuracy_gate, gates.gain_gate, gates.tpr_gap_gate, gates.similarity_gate)
)


@given(SHARES, SHARES, SHARES, st.floats(0.25, 0.99), st.sampled_from([2, 4]))
def test_probe_gates_pass_exactly_if_the_worst_value_is_within_the_limit(
    one: float, other: float, limit: float, majority: float, n_classes: int
) -> None:
    results = (
        result(one, n_classes=n_classes, majority=majority),
        result(other, n_classes=n_classes, majority=majority, probe="rbf"),
        result(1.0, stage="before"),
    )
    read = [one, other, *([1 - one, 1 - other] if n_classes == 2 else [])]
    for make, worst in ((accuracy_gate, max(read)), (gain_gate, max(read) - majority)):
        gate = make(limit, None, WANTED, results, "after")
        assert gate.value == pytest.approx(worst, abs=1e-12)
        assert gate.value is not None
        assert gate.passed == (gate.value <= limit)


@pytest.mark.parametrize("make", [accuracy_gate, gain_gate])
def test_a_gate_on_one_probe_judges_no_other(make: Any) -> None:
    results = (result(0.9), result(0.6, probe="rbf", converged=True))
    gate = make(0.7, "rbf", WANTED, results, "after")
    assert gate.passed
    assert gate.name.endswith(" rbf")
    assert not make(0.3, "linear", WANTED, results, "after").passed


@pytest.mark.parametrize("make", [accuracy_gate, gain_gate])
@pytest.mark.parametrize(
    ("probe", "results"),
    [
        (None, ()),
        (None, (result(),)),
        (None, (result(), result(probe="rbf", adversary="in-sample"))),
        (None, (result(), result(probe="rbf", stage="before"))),
        (None, (result(), result(probe="rbf", attribute="other"))),
        (None, (result(), result(probe="rbf", converged=False))),
        ("poly", (result(), result(probe="rbf"), result(probe="poly"))),
    ],
)
def test_what_is_missing_unconverged_or_not_asked_for_fails_even_the_widest_limit(
    make: Any, probe: str | None, results: tuple[ProbeResult, ...]
) -> None:
    gate = make(1.0, probe, WANTED, results, "after")
    assert not gate.passed
    assert gate.reason


@given(st.integers(1, 2000), st.data())
def test_a_value_that_is_its_limit_is_within_it(n: int, data: st.DataObject) -> None:
    most = data.draw(st.integers(1, n))
    right = data.draw(st.integers(max(most, n - n // 2), n))
    of_shares = (result(right / n, majority=most / n, n_classes=4), result((n - right) / n, n_classes=2))
    limits = (right - most) / n, right / n  # as a user would write them
    for make, one, limit in zip((gain_gate, accuracy_gate), of_shares, limits, strict=True):
        if one.majority < 1:
            assert make(limit, None, LINEAR, (one,), "after").passed
            assert not limit or not make(float(np.nextafter(limit, 0)), None, LINEAR, (one,), "after").passed


@pytest.mark.parametrize("make", [accuracy_gate, gain_gate])
def test_test_rows_of_one_class_pass_no_gate(make: Any) -> None:
    gate = make(1.0, None, LINEAR, (result(1.0, majority=1.0),), "after")
    assert (gate.passed, gate.reason) == (False, "the test rows are all of one class of g")


def test_answers_that_count_turned_round_are_told() -> None:
    gate = accuracy_gate(0.6, None, LINEAR, (result(0.1),), "after")
    assert (gate.value, gate.passed) == (0.9, False)
    assert gate.reason == "linear, fresh: right in 0.1, so turned round in 0.9"
    assert not accuracy_gate(0.6, None, LINEAR, (result(0.9),), "after").reason


def test_an_unconverged_probe_does_not_fail_a_gate_on_another() -> None:
    results = (result(), result(probe="rbf", converged=False))
    assert accuracy_gate(1.0, "linear", WANTED, results, "after").passed


def gap(before: float, after: float | None) -> Gap:
    return Gap(before, after, None)


def task(*gaps: tuple[Gap | None, Gap | None], converged: bool = True) -> Task:
    """A task whose gap and root mean square between the groups of g0, g1… are given."""
    first, *others = (GroupRates(f"g{i}", (), (), one, rms, ()) for i, (one, rms) in enumerate(gaps))
    return Task("job", (), 0.5, 9, 9, Accuracy(0.5, 0.5, None), converged, first, tuple(others))


@given(SHARES, SHARES, SHARES)
def test_the_gap_gate_passes_exactly_if_the_gap_of_its_stage_is_within_the_limit(
    limit: float, before: float, after: float
) -> None:
    for of in (task((gap(before, after), None)), task((None, gap(before, after)))):
        for stage, value in (("before", before), ("after", after)):
            gate = tpr_gap_gate(limit, of, stage)
            assert gate.value == pytest.approx(value, abs=1e-12)
            assert gate.value is not None
            assert gate.passed == (gate.value <= limit)


def test_the_gap_of_a_task_that_did_not_converge_fails_the_widest_limit() -> None:
    gate = tpr_gap_gate(1.0, task((gap(0.1, 0.0), None), converged=False), "after")
    assert (gate.passed, gate.reason) == (False, "the main task did not converge")


def test_a_gap_of_zero_is_a_gap_and_an_undefined_one_is_not() -> None:
    assert tpr_gap_gate(0.0, task((gap(0.0, 0.0), gap(1.0, 1.0))), "after").passed
    for of in (None, task((None, None)), task((gap(0.0, None), None))):
        gate = tpr_gap_gate(1.0, of, "after")
        assert (gate.value, gate.passed) == (None, False)
        assert gate.reason


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(-1, 1)), min_size=1, max_size=4), SHARES)
def test_the_similarity_gate_passes_exactly_if_the_worst_set_keeps_its_share(
    scores: list[tuple[float, float]], limit: float
) -> None:
    gate = similarity_gate(limit, [similarity("s", b, a) for b, a in scores])
    worst = min(after / before for before, after in scores)
    assert gate.value == pytest.approx(worst, abs=1e-12)
    assert gate.value is not None
    assert gate.passed == (gate.value >= limit)


@pytest.mark.parametrize(("before", "after"), [(None, 0.5), (0.5, None), (None, None), (0.0, 0.5), (-0.5, -0.5)])
def test_an_undefined_similarity_fails_the_gate_beside_a_defined_one(before: float | None, after: float | None) -> None:
    gate = similarity_gate(0.0, [similarity("good", 0.5, 0.5), similarity("bad", before, after)])
    assert (gate.value, gate.passed) == (None, False)
    assert "bad" in gate.reason
    assert not similarity_gate(0.0, []).passed


def test_the_json_has_a_reason_only_where_there_is_one() -> None:
    assert "reason" not in to_json(accuracy_gate(1.0, "linear", WANTED, (result(),), "after"))
    assert to_json(accuracy_gate(1.0, None, WANTED, (), "after"))["reason"]


def test_a_gate_without_a_value_cannot_have_passed() -> None:
    with pytest.raises(AssertionError, match="without a value"):
        Gate("max-accuracy", 0.5, None, "passed")


def test_an_attribute_that_no_attacker_reads_passes_no_gate() -> None:
    gate = accuracy_gate(1.0, None, Asked(LINEAR.attackers, ("age",)), (result(0.5),), "after")
    assert not gate.passed
    assert "no attacker reads age, which is numeric" in gate.reason


def test_what_is_missing_is_told_attribute_by_attribute() -> None:
    wanted = Asked((("a", "fresh", "linear"), ("a", "fresh", "rbf"), ("b", "fresh", "linear")))
    assert accuracy_gate(1.0, None, wanted, (), "after").reason == (
        "no result for a: fresh linear, fresh rbf; no result for b: fresh linear"
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.floats(0, 1))
def test_the_gap_gate_judges_the_widest_gap_of_all_attributes(gaps: list[float], limit: float) -> None:
    gate = tpr_gap_gate(limit, task(*((gap(0.0, after), None) for after in gaps)), "after")
    assert (gate.value, gate.passed) == (max(gaps), max(gaps) <= limit)
    assert (f"g{gaps.index(max(gaps))}" in gate.reason) == (len(gaps) > 1 and not gate.passed)


def test_one_undefined_gap_fails_the_gap_gate() -> None:
    gate = tpr_gap_gate(1.0, task((gap(0.0, 0.0), None), (None, None)), "after")
    assert (gate.passed, gate.value) == (False, None)
    assert "groups of g1" in gate.reason


@pytest.mark.parametrize(("n_left_out", "is_usable"), [(25, True), (26, False)])
def test_a_gate_needs_four_fifths_of_the_test_rows_in_classes_that_were_trained_on(
    n_left_out: int, is_usable: bool
) -> None:
    one = result(n_test=100, n_left_out=n_left_out, untrained_classes=("Clerk",))
    gate = accuracy_gate(1.0, None, LINEAR, (one,), "after")
    assert gate.passed == is_usable
    assert is_usable or "26 of 126 test rows" in gate.reason
    assert is_usable or "Clerk" in gate.reason
