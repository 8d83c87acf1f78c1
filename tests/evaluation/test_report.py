import dataclasses
import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salcli.data.hashes import FileHash
from salcli.evaluation import gates
from salcli.evaluation.gates import Expected, Judge
from salcli.evaluation.json_fields import INLINE, OPTIONAL, UNWRITTEN, named, to_json
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import ErasedFile, EraserSummary, Gate, Report
from tests.render.reports import ERASER, reports

from .results import result

accuracy_gate = partial(gates.accuracy_gate, judge=Judge(None))
FRESH = Expected((("g", "fresh", "linear"),))
BOTH = Expected((("g", "in-sample", "linear"), *FRESH.attackers))


def results(in_sample: float, fresh: float) -> tuple[ProbeResult, ...]:
    return result(in_sample, adversary="in-sample"), result(fresh), result(1.0, stage="before")


@given(st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 1) | st.integers(0, 1000).map(lambda n: n / 1000))
def test_a_gate_passes_exactly_if_the_worst_attacker_is_within_the_limit(one: int, other: int, limit: float) -> None:
    gate = accuracy_gate(limit, None, BOTH, results(one / 1000, other / 1000), "after")
    worst = max(one, 1000 - one, other, 1000 - other) / 1000
    assert gate.value == worst
    assert gate.passed == (worst <= limit)
    assert Report(gates=(gate,)).verdict == ("pass" if worst <= limit else "fail")


def test_below_chance_is_not_safety_for_two_classes_but_is_for_more() -> None:
    assert not accuracy_gate(0.6, None, FRESH, (result(0.1),), "after").passed
    assert accuracy_gate(0.6, None, FRESH, (result(0.1, n_classes=4),), "after").passed


def test_a_gate_that_needs_fresh_rows_fails_without_them() -> None:
    gate = accuracy_gate(1.0, None, BOTH, (result(0.5, adversary="in-sample"),), "after")
    assert not gate.passed
    assert "no result for g: fresh" in gate.reason


def test_an_attribute_that_no_probe_reads_fails_the_gate() -> None:
    gate = accuracy_gate(1.0, None, Expected((*FRESH.attackers, ("age", "fresh", "linear"))), (result(0.5),), "after")
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
    found = tuple(accuracy_gate(limit, None, FRESH, (result(0.7),), "after") for limit in (0.8, 0.6))
    assert Report(gates=found).verdict == "fail"
    assert Report(gates=found[:1]).verdict == "pass"
    assert Report().verdict == "none"


@pytest.mark.parametrize("allowed", [False, True])
def test_an_undecided_gate_keeps_a_release_back_unless_that_is_allowed(allowed: bool) -> None:
    open_, bad = Gate("max-gain", 0.1, 0.09, "undecided"), Gate("max-gain", 0.1, 0.3, "failed")
    report = Report(gates=(open_, Gate("max-gain", 0.2, 0.09, "passed")), allows_undecided=allowed)
    assert (report.verdict, report.is_refused) == ("undecided", not allowed)
    worse = Report(gates=(open_, bad), allows_undecided=allowed)
    assert (worse.verdict, worse.is_refused) == ("fail", True)
    assert [gate["status"] for gate in to_json(worse)["gates"]] == ["undecided", "failed"]


def test_the_json_has_the_fields_that_other_programs_rely_on() -> None:
    record = to_json(result())
    assert set(record) >= {"probe", "adversary", "stage", "accuracy", "ci95", "balanced_accuracy", "majority"}
    assert set(record) >= {"n_train", "n_test", "converged", "capped"}
    assert set(to_json(Report())) >= {"schema", "inputs", "eraser", "probes", "gates", "verdict"}


@pytest.mark.parametrize("stage", ["before", "after"])
def test_only_the_judged_stage_counts(stage: str) -> None:
    gate = accuracy_gate(0.9, None, FRESH, (result(0.5, stage="after"), result(1.0, stage="before")), stage)
    assert gate.passed == (stage == "after")


@dataclass(frozen=True)
class Inner:
    a: int
    b: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outer:
    kept: Inner
    inlined: Inner = field(metadata=INLINE)
    class_name: str = field(metadata=named("class"))
    missing: str | None = field(default=None, metadata=OPTIONAL)
    hidden: int = field(default=3, metadata=UNWRITTEN)
    null: None = None


def test_one_function_writes_every_record() -> None:
    assert to_json(Outer(Inner(1, (0.5,)), Inner(2), "c")) == {
        "kept": {"a": 1, "b": [0.5]}, "a": 2, "b": [], "class": "c", "null": None
    }  # fmt: skip
    assert to_json(Outer(Inner(1), Inner(2), "c", missing="there"))["missing"] == "there"
    assert to_json({"x": (True, None, "s")}) == {"x": [True, None, "s"]}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", Inner])
def test_what_has_no_json_is_our_bug(value: Any) -> None:
    with pytest.raises(TypeError, match="no JSON for a"):
        to_json([value])


def test_zero_and_false_are_written_even_where_a_field_is_optional() -> None:
    assert to_json(Outer(Inner(1), Inner(2), "c", missing=0))["missing"] == 0  # type: ignore[arg-type]


@pytest.mark.slow
@given(reports())
@settings(max_examples=50)
def test_the_json_of_any_report_is_plain_and_can_be_read_again(report: Report) -> None:
    record = to_json(report)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert {"similarity", "task", "neighbors", "geometry", "deviation", "scatter"} <= set(record)
    assert "measures" not in record


def test_the_verdict_follows_the_gates_when_they_are_replaced() -> None:
    gate = accuracy_gate(0.1, None, FRESH, (result(0.5),), "after")
    assert dataclasses.replace(Report(), gates=(gate,)).verdict == "fail"


def test_gates_judge_the_file_as_it_is_where_nothing_was_erased() -> None:
    assert [
        Report(eraser=eraser).judged_stage for eraser in (None, ERASER, ErasedFile("o", FileHash("blake3", ""), 1, 1))
    ] == [
        "before",
        "after",
        "after",
    ]


def test_the_summary_of_an_eraser_has_no_kernel_where_it_has_none() -> None:
    assert {"kernel", "landmarks"}.isdisjoint(to_json(ERASER))
    kernel: EraserSummary = dataclasses.replace(ERASER, kernel={"name": "rbf"}, landmarks={"n": 3})
    assert to_json(kernel)["kernel"] == {"name": "rbf"}
