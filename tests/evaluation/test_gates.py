from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation import gates
from salcli.evaluation.attackers.scores import Areas
from salcli.evaluation.gaps import GapTest, mean
from salcli.evaluation.gates import Expected, Judge
from salcli.evaluation.group_rates import Cell, Gap, GroupRates, Rate
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.main_task import Accuracy, Task
from salcli.evaluation.neighbors import Neighbors
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Gate
from tests.render.reports import similarity

from .results import result

WANTED = Expected((("g", "fresh", "linear"), ("g", "fresh", "rbf")))
LINEAR = Expected(WANTED.attackers[:1])
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
    assert gate.reason == "linear, fresh: right in 0.1, flipped in 0.9"
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


def test_a_numeric_attribute_that_no_limit_judges_passes_no_gate() -> None:
    gate = accuracy_gate(1.0, None, Expected(LINEAR.attackers, ("age",)), (result(0.5),), "after")
    assert not gate.passed
    assert "no limit judges age, which is numeric" in gate.reason


def test_what_is_missing_is_told_attribute_by_attribute() -> None:
    wanted = Expected((("a", "fresh", "linear"), ("a", "fresh", "rbf"), ("b", "fresh", "linear")))
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


def kept_task(before: Any, after: Any, **changes: Any) -> Task:
    """A task of two classes, half and half, whose answers before and after are right or not."""
    accuracy = Accuracy(float(np.mean(before)), float(np.mean(after)), None)
    fields = dict.fromkeys(("tpr_gap", "tpr_gap_rms"))
    both = float(np.mean(before & after))
    of = Task("job", (), 0.5, 9, len(before), accuracy, True, GroupRates("g", (), (), **fields, excluded=()), ())
    return replace(of, both_right=both, **changes)


def test_what_is_kept_of_the_task_has_the_error_of_a_bootstrap() -> None:
    rng = np.random.default_rng(0)
    before = rng.random(2_000) < 0.85
    after = np.where(rng.random(2_000) < 0.9, before, rng.random(2_000) < 0.5)
    gate = gates.task_kept_gate(0.8, kept_task(before, after), POINT)
    assert gate.value == pytest.approx((after.mean() - 0.5) / (before.mean() - 0.5))
    drawn = rng.integers(0, 2_000, (4_000, 2_000))
    shares = np.sort((after[drawn].mean(axis=1) - 0.5) / (before[drawn].mean(axis=1) - 0.5))
    low, high = shares[200], shares[-200]
    for limit, status in (
        (low - 0.003, "passed"),
        (low + 0.003, "undecided"),
        (high - 0.003, "undecided"),
        (high + 0.003, "failed"),
    ):
        assert gates.task_kept_gate(limit, kept_task(before, after), Judge()).status == status


def test_the_task_gates_judge_accuracy_from_below_and_need_a_task_that_was_measured() -> None:
    right = np.arange(400) < 320
    good = kept_task(right, right)
    assert [gates.task_accuracy_gate(x, good, "after", Judge()).status for x in (0.75, 0.79, 0.81, 0.85)] == [
        "passed", "undecided", "undecided", "failed",
    ]  # fmt: skip
    assert gates.task_kept_gate(0.97, good, Judge()).passed  # every answer is the same
    assert not gates.task_kept_gate(0.97, kept_task(right[200:], right[200:]), Judge()).passed
    for bad, why in (
        (None, "was not measured"),
        (replace(good, converged=False), "did not converge"),
        (replace(good, untrained={"Clerk": 101}), "101 of 501 test rows are of classes of job that the main task"),
    ):
        for gate in (gates.task_accuracy_gate(0.0, bad, "after", Judge()), gates.task_kept_gate(0.0, bad, Judge())):
            assert gate.status == "failed"
            assert why in gate.reason
    nothing = gates.task_kept_gate(0.0, replace(good, undefined={"before": "at the majority"}), Judge())
    assert (nothing.status, nothing.reason) == ("failed", "there is nothing to keep: at the majority")
    copied = gates.task_accuracy_gate(0.0, good, "after", Judge(), Expected(doubts=("copies",)))
    assert (copied.status, copied.reason) == ("failed", "copies")


def test_a_gap_where_the_task_is_at_its_majority_fails_the_gap_gate() -> None:
    of = replace(task((gap(0.1, 0.0), None)), undefined={"after": "the task is lost"})
    assert tpr_gap_gate(1.0, of, "after").reason == "the TPR gap is undefined: the task is lost"
    assert tpr_gap_gate(1.0, of, "before").passed


def test_the_gap_gate_asks_the_bounds_of_the_gap() -> None:
    test = GapTest(np.array([[60, 45], [50, 62]]), np.array([[80, 80], [80, 80]]), mean, 0)
    of = task((replace(gap(test.value, None), tests={"before": test}), None))
    low, high = test.lower(0.05), test.upper(0.05)
    for limit, status in (
        (low - 0.01, "failed"),
        (low + 0.01, "undecided"),
        (high - 0.01, "undecided"),
        (high + 0.01, "passed"),
    ):
        assert gates.tpr_gap_gate(limit, of, "before", Judge()).status == status


@pytest.mark.parametrize(
    ("used", "total", "least", "is_enough"),
    [(30, 60, 30, True), (29, 58, 30, False), (30, 61, 30, False), (29, 40, 20, True), (100, 199, 101, False)],
)
def test_a_similarity_set_needs_half_of_its_pairs_and_a_number_of_them(
    used: int, total: int, least: int, is_enough: bool
) -> None:
    change = replace(similarity("gold", 0.5, 0.5), pairs_used=used, pairs_total=total, kept_error=0.01)
    gate = gates.similarity_gate(0.9, [change], Judge(min_pairs=least))
    assert gate.passed == is_enough
    assert is_enough or f"gold: only {used} of {total} pairs" in gate.reason
    assert gates.similarity_gate(0.99, [change], Judge(min_pairs=2)).status == (
        "undecided" if 2 * used >= total else "failed"
    )


def test_the_neighbours_that_are_kept_are_judged_by_their_mean() -> None:
    found = Neighbors((), 0.8, 400, 0.01)
    assert [gates.neighbors_gate(x, found, Judge()).status for x in (0.7, 0.79, 0.9)] == [
        "passed",
        "undecided",
        "failed",
    ]
    reasons = [str(gates.neighbors_gate(0.79, found, Judge(), n).reason) for n in (None, 900, 400)]
    assert [reason.rpartition("(")[2] for reason in reasons] == ["400 here)", "400 here)", "all 400 were taken)"]
    assert gates.neighbors_gate(0.0, Neighbors((), None, 0), Judge()).status == "failed"


def biased(accuracy: float, balanced: float, auc: float, n: int = 1_000, **more: Any) -> ProbeResult:
    areas = Areas(auc, 0.005, abs(2 * auc - 1), 0.01, 0.0)
    return result(
        accuracy, majority=0.95, balanced_accuracy=balanced, balanced_error=0.01, areas=areas, n_test=n,
        accuracy_error=0.002, n_test_classes=2, **more,
    )  # fmt: skip


def test_a_rare_class_that_is_read_shows_in_gain_and_leak() -> None:
    hidden, read = biased(0.95, 0.5, 0.5), biased(0.95, 0.8, 0.9)
    for make, limit in ((gates.gain_gate, 0.1), (gates.leak_gate, 0.1)):
        assert make(limit, None, LINEAR, (hidden,), "after", Judge()).passed
        assert make(limit, None, LINEAR, (read,), "after", Judge()).status == "failed"
    assert gates.leak_gate(0.1, None, LINEAR, (read,), "after", POINT).value == pytest.approx(0.8)
    turned = biased(0.95, 0.2, 0.1)
    assert gates.leak_gate(0.1, None, LINEAR, (turned,), "after", POINT).value == pytest.approx(0.8)
    assert gates.leak_gate(0.9, None, LINEAR, (biased(0.4, 0.5, 0.5),), "after", POINT).value == 0.0


def test_a_gate_on_a_probe_judges_its_weighted_twin_too() -> None:
    twin = biased(0.8, 0.8, 0.9, probe="linear-weighted")
    assert gates.leak_gate(0.1, "linear", LINEAR, (biased(0.95, 0.5, 0.5), twin), "after", Judge()).status == "failed"


def test_a_gate_misses_a_form_that_was_asked_for_and_not_measured() -> None:
    expected = Expected((("g", "fresh", "linear"),), forms={"linear": ("raw", "binary")})
    raw, binary = result(0.5, n_test=10_000), result(0.5, n_test=10_000, form="binary")
    assert gates.accuracy_gate(0.6, None, expected, (raw, binary), "after", Judge()).status == "passed"
    gate = gates.accuracy_gate(0.6, None, expected, (raw,), "after", Judge())
    assert (gate.status, gate.reason) == ("failed", "no result for g: fresh linear as binary")


@pytest.mark.parametrize(("zero", "is_enough"), [(20, True), (21, False)])
def test_pairs_that_erasure_makes_zero_are_no_pairs_that_are_kept(zero: int, is_enough: bool) -> None:
    change = replace(similarity("gold", 0.5, 0.5), pairs_used=80, pairs_total=120, zero_pairs=zero, kept_error=0.001)
    gate = gates.similarity_gate(0.9, [change], Judge())
    assert gate.passed == is_enough
    assert is_enough or "gold: 21 of 101 pairs have a zero vector before or after: at most 20% may" in gate.reason


@pytest.mark.parametrize(("n_left_out", "is_enough"), [(20, True), (21, False)])
def test_a_gap_over_few_of_the_classes_passes_no_gate(n_left_out: int, is_enough: bool) -> None:
    test = GapTest(np.array([[20, 20]]), np.array([[40, 40]]), mean, 0)
    found = replace(gap(0.0, 0.0), tests={"after": test})
    counts = (("clerk", "x", 40), ("clerk", "y", 40), ("nurse", "x", n_left_out))
    rates = tuple(Rate(stage, name, group, 0.5, n) for stage in ("before", "after") for name, group, n in counts)
    of = task((found, None))
    of = replace(of, first=replace(of.first, tpr=rates, excluded=(Cell("nurse", "y"),)))
    gate = gates.tpr_gap_gate(0.9, of, "after", Judge())
    assert gate.passed == is_enough
    assert is_enough or gate.reason == (
        "only 80 of 101 test rows are of classes that every group of g0 has (nurse left out): at least 80% must be"
    )
