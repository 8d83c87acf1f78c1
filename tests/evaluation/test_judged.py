"""Gates on repeated fits and sweeps: the worst setting decides, and is named."""

from dataclasses import replace

import pytest

from salcli.evaluation.explained import NumericResult
from salcli.evaluation.gates import Expected, Judge, accuracy_gate, neighbors_gate, r2_gate, similarity_gate
from salcli.evaluation.judged import judged, worst_gates
from salcli.evaluation.report import EraserSummary, Gate, Measurement, Repeats, Report, SweepStep
from salcli.evaluation.similarity import SIMILARITY
from salcli.options import EvaluateOptions, Limit

from ..render.reports import similarity
from .results import result

ERASER = EraserSummary("e.npz", "0" * 64, "sal", 9, 2, 5, is_centred=True, k_rule={}, attributes=("g",))
ASKED = Expected((("g", "fresh", "linear"),))
LEVELS: list[int] = []


def gates_of(report: Report, n: int) -> list[Gate]:
    LEVELS.append(n)
    judge = Judge(n_settings=n)
    return [
        accuracy_gate(0.6, None, ASKED, report.probes, "after", judge),
        similarity_gate(0.9, report.of(SIMILARITY) or (), judge),
        neighbors_gate(0.5, None, judge),
    ]


def measured(accuracy: float, kept: float = 1.0) -> Measurement:
    change = replace(similarity("s", 0.5, 0.5 * kept), kept_error=0.001, pairs_used=100, pairs_total=100)
    return Measurement(probes=(result(accuracy, n_test=4_000),), measures={"similarity": (change,)})


def report(*runs: Measurement, **changes: object) -> Report:
    found = measured(0.5)
    repeats = Repeats(len(runs), 9, (), runs) if runs else None
    return Report(eraser=ERASER, probes=found.probes, measures=found.measures, repeats=repeats, **changes)  # type: ignore[arg-type]


def steps(parameter: str, *values: float, accuracy: float, kept: float = 1.0) -> tuple[SweepStep, ...]:
    found = measured(accuracy, kept)
    return tuple(SweepStep(probes=found.probes, measures=found.measures, parameter=parameter, value=v) for v in values)


def test_without_repeats_and_sweeps_gates_are_judged_as_they_are() -> None:
    assert worst_gates(report(), gates_of) == tuple(gates_of(report(), 1))


@pytest.mark.parametrize(("worst", "status"), [(0.919, "failed"), (0.605, "undecided"), (0.5, "passed")])
def test_the_worst_repeat_decides_and_is_named(worst: float, status: str) -> None:
    accuracy, kept, _ = worst_gates(report(measured(0.51), measured(worst), measured(0.52)), gates_of)
    assert accuracy.status == status
    assert accuracy.value == max(worst, 0.52)
    assert accuracy.decided_by == f"g, linear, fresh, repeat {2 if worst > 0.52 else 3} of 3"
    assert kept.status == "passed"
    assert kept.decided_by is None


def test_other_forms_of_the_rows_than_those_of_the_repeats_are_judged_with_them() -> None:
    unit = result(0.55, n_test=4_000, form="unit")
    expected = Expected(ASKED.attackers, forms={"linear": ("raw", "unit")})

    def gates_of(report: Report, n: int) -> list[Gate]:
        return [accuracy_gate(0.6, None, expected, report.probes, "after", Judge(n_settings=n))]

    found = report(measured(0.5))
    (gate,) = worst_gates(replace(found, probes=(*found.probes, unit)), gates_of)
    assert (gate.status, gate.decided_by) == ("passed", "g, linear as unit, fresh")


def test_what_repeats_keep_is_judged_too() -> None:
    accuracy, kept, _ = worst_gates(report(measured(0.5), measured(0.5, 0.7)), gates_of)
    assert (accuracy.status, kept.status, kept.decided_by) == ("passed", "failed", "repeat 2 of 2")
    assert kept.value == pytest.approx(0.7)


def test_the_level_of_failure_is_corrected_only_for_what_differs() -> None:
    LEVELS.clear()
    *_, nearest = worst_gates(report(measured(0.52), measured(0.53)), gates_of)
    assert LEVELS == [1, 3, 3, 3]
    assert nearest == gates_of(report(), 1)[2]


def test_of_a_sweep_the_steps_that_erase_more_are_judged_by_what_they_leak() -> None:
    few = report(sweep=steps("k", 0, 1, 2, accuracy=0.99))
    assert worst_gates(few, gates_of) == tuple(gates_of(few, 1))  # they leak by design, or are the report itself
    more = report(sweep=(*steps("k", 0, 2, accuracy=0.99), *steps("k", 3, 4, accuracy=0.9, kept=0.1)))
    accuracy, kept, _ = worst_gates(more, gates_of)
    assert (accuracy.status, accuracy.decided_by) == ("failed", "g, linear, fresh, k = 3")
    assert kept.status == "passed"
    weak = report(sweep=steps("strength", 0, 0.5, 1, accuracy=0.99))
    assert worst_gates(weak, gates_of) == tuple(gates_of(weak, 1))


def test_a_repeat_without_the_attacker_fails() -> None:
    (accuracy, *_) = worst_gates(report(measured(0.5), Measurement()), gates_of)
    assert (accuracy.status, accuracy.value) == ("failed", None)
    assert accuracy.decided_by == "repeat 2 of 2"


def test_a_kernels_own_products_are_those_of_the_report() -> None:
    same = result(0.5, probe="same-kernel", n_test=4_000)
    found = report(measured(0.5), measured(0.52))
    found = replace(found, probes=(*found.probes, same))
    expected = Expected((*ASKED.attackers, ("g", "fresh", "same-kernel")))
    (gate,) = worst_gates(
        found, lambda each, n: [accuracy_gate(0.6, None, expected, each.probes, "after", Judge(n_settings=n))]
    )
    assert gate.status == "passed"


def test_forms_that_are_not_attacked_again_are_those_of_the_report() -> None:
    unit = result(0.5, form="unit", n_test=4_000)
    found = report(measured(0.5), measured(0.52))
    found = replace(found, probes=(*found.probes, unit))
    expected = Expected(ASKED.attackers, forms={"linear": ("raw", "unit")})
    (gate,) = worst_gates(
        found, lambda each, n: [accuracy_gate(0.6, None, expected, each.probes, "after", Judge(n_settings=n))]
    )
    assert (gate.status, gate.decided_by) == ("passed", "g, linear, fresh, repeat 2 of 2")


def test_attackers_of_numbers_are_judged_in_every_repeat() -> None:
    def numeric(r2: float) -> NumericResult:
        return NumericResult("age", "ridge", "fresh", "after", r2, 0.01, 99.0, 10, 4_000, converged=True, capped=False)

    runs = tuple(Measurement(numeric=(numeric(r2),)) for r2 in (0.02, 0.4))
    found = Report(eraser=ERASER, numeric=(numeric(0.01),), repeats=Repeats(2, 9, (), runs))
    expected = Expected(of_numbers=(("age", "fresh", "ridge"),))
    (gate,) = worst_gates(
        found, lambda each, n: [r2_gate(0.2, None, expected, each.numeric, "after", Judge(n_settings=n))]
    )
    assert (gate.status, gate.value) == ("failed", 0.4)
    assert str(gate.decided_by).endswith("repeat 2 of 2")


def test_every_limit_of_the_options_has_a_gate_which_fails_where_nothing_was_measured() -> None:
    attackers = {name: (Limit(0.5),) for name in ("max_accuracy", "max_gain", "max_leak", "max_r2")}
    task = {"task": "job", "max_tpr_gap": 1.0, "min_task_accuracy": 0.0, "min_task_kept": 0.0}
    others = {"similarity": ("s",), "min_similarity_kept": 0.0, "min_neighbors_kept": 0.0}
    limits = attackers | task | others
    found = judged(Report(eraser=ERASER), ASKED, EvaluateOptions(**limits))  # type: ignore[arg-type]
    wanted = [name.replace("_", "-") for name in limits if name.startswith(("max", "min"))]
    assert [gate.name for gate in found.gates] == wanted
    assert {gate.status for gate in found.gates} == {"failed"}
    assert judged(report(), ASKED, EvaluateOptions()).gates == ()
