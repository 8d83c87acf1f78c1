"""Gates by bounds: how often they pass, fail and stay undecided, over files whose truth is known."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from salcli.evaluation.evidence import Estimate, Evidence, Share, rows_needed
from salcli.evaluation.gates import Expected, Judge, Measured, accuracy_gate, gain_gate
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Gate

from .results import result

NAMES = tuple(itertools.product(("g",), ("in-sample", "fresh"), ("linear", "poly", "rbf")))
ASKED = Expected(NAMES)
RUNS = 400
NOISE = 0.033
"""Three standard errors of a share of .05 over the runs."""


def attackers(truth: float, n: int, rng: np.random.Generator, n_classes: int = 2) -> tuple[ProbeResult, ...]:
    """Six attackers with the same true accuracy on the same test rows, half alike."""
    shared = rng.random(n)
    found = []
    for _, adversary, probe in NAMES:
        draws = np.where(rng.random(n) < 0.5, shared, rng.random(n))
        accuracy = float(np.mean(draws < truth))
        found.append(result(accuracy, adversary=adversary, probe=probe, n_test=n, n_classes=n_classes))
    return tuple(found)


def statuses(truth: float, limit: float, n: int, *, gain: bool = False) -> dict[str, float]:
    rng, judge, make = np.random.default_rng(0), Judge(), gain_gate if gain else accuracy_gate
    found = Counter(make(limit, None, ASKED, attackers(truth, n, rng), "after", judge).status for _ in range(RUNS))
    return {status: found[status] / RUNS for status in ("passed", "failed", "undecided")}


def test_a_file_at_its_limit_or_without_information_fails_by_chance_no_more_often_than_stated() -> None:
    assert statuses(0.55, 0.55, 600)["failed"] <= 0.05 + NOISE
    clean = statuses(0.5, 0.02, 600, gain=True)
    assert clean["failed"] <= 0.05 + NOISE
    assert clean["undecided"] > 0.5


@pytest.mark.parametrize(("truth", "n"), [(0.6, 100), (0.56, 1_000), (0.551, 5_000)])
def test_a_file_beyond_its_limit_passes_no_more_often_than_stated(truth: float, n: int) -> None:
    assert statuses(truth, 0.55, n)["passed"] <= 0.05 + NOISE


def test_with_rows_enough_clean_files_pass_and_leaking_ones_fail() -> None:
    assert statuses(0.5, 0.6, 1_000)["passed"] > 0.95
    assert statuses(0.7, 0.6, 1_000)["failed"] > 0.95
    assert statuses(0.5, 0.6, 50)["undecided"] > 0.5


@given(st.integers(1, 400), st.data())
def test_bounds_of_a_share_are_those_of_clopper_and_pearson(n: int, data: st.DataObject) -> None:
    k, level = data.draw(st.integers(0, n)), data.draw(st.floats(0.001, 0.2))
    lower, upper = Share(k, n).lower(level), Share(k, n).upper(level)
    assert lower == 0 if k == 0 else binom.sf(k - 1, n, lower) == pytest.approx(level, rel=1e-6)
    assert upper == 1 if k == n else binom.cdf(k, n, upper) == pytest.approx(level, rel=1e-6)
    assert Share(k, n, 0.25).upper(level) == pytest.approx(upper - 0.25)


@settings(max_examples=50)
@given(st.integers(15, 85), st.integers(15, 85))
def test_as_many_rows_as_are_said_to_decide_do(right: int, limit: int) -> None:
    n, at = 100, limit / 100
    needed = rows_needed(Share(right, n), at, n, 0.05, 0.01, is_upper=True)
    if right == limit:
        assert needed is None
        return
    assert needed is not None
    n_more = int(1.2 * needed)  # it says "about"
    assert _decided(Share(round(right / n * n_more), n_more), at)


def _decided(of: Evidence, limit: float) -> bool:
    return of.upper(0.05) <= limit or of.lower(0.01) > limit


def test_an_undecided_gate_says_how_many_rows_would_decide() -> None:
    gate = accuracy_gate(
        0.6, None, Expected(NAMES[:1]), (result(0.55, adversary="in-sample", n_test=100),), "after", Judge()
    )
    assert (gate.status, gate.value) == ("undecided", 0.55)
    assert gate.rows_needed == pytest.approx((1.645 / 0.05) ** 2 * 0.24 + 20, abs=1)
    assert f"about {gate.rows_needed:,} test rows would decide (100 here)" in gate.reason
    assert "95% bounds" in gate.reason


def test_rows_of_groups_decide_in_groups_and_as_many_more_as_they_are_alike() -> None:
    def gate(n_effective: float | None, unit: str) -> Gate:
        of = result(0.55, adversary="in-sample", n_test=400, n_effective=n_effective)
        return accuracy_gate(0.6, None, Expected(NAMES[:1], unit=unit), (of,), "after", Judge())

    apart, together = gate(200.0, "test rows"), gate(100.0, "test rows in groups of such sizes")
    assert together.rows_needed == pytest.approx(2 * (apart.rows_needed or 0), rel=0.01)
    assert (
        f"about {together.rows_needed:,} test rows in groups of such sizes would decide (400 here)" in together.reason
    )


def judged(value: float, error: float, limit: float, *, confidence: float | None = 0.95, name: str = "min-x") -> Gate:
    return Judge(confidence).gate(name, limit, [Measured(Estimate(value, error), value, 100)])


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("min-x", 0.9, "passed"), ("min-x", 0.81, "undecided"), ("min-x", 0.79, "undecided"), ("min-x", 0.7, "failed"),
        ("max-x", 0.7, "passed"), ("max-x", 0.79, "undecided"), ("max-x", 0.81, "undecided"), ("max-x", 0.9, "failed"),
    ],
)  # fmt: skip
def test_limits_from_below_and_above_are_judged_alike(name: str, value: float, status: str) -> None:
    assert judged(value, 0.02, 0.8, name=name).status == status
    is_kept = value >= 0.8 if name == "min-x" else value <= 0.8
    assert judged(value, 0.02, 0.8, confidence=None, name=name).status == ("passed" if is_kept else "failed")


def test_one_figure_beyond_its_limit_fails_whatever_the_others_say_and_an_open_one_keeps_a_gate_open() -> None:
    def gate(*values: float) -> Gate:
        return Judge().gate("max-x", 0.5, [Measured(Estimate(value, 0.02), value, 100) for value in values])

    assert gate(0.1, 0.2).status == "passed"
    assert gate(0.1, 0.49).status == "undecided"
    assert gate(0.1, 0.49, 0.7).status == "failed"
    assert judged(0.54, 0.02, 0.5, name="max-x").status == "failed"
    assert gate(0.54, 0.1, 0.1, 0.1).status == "undecided"  # one of four, by chance


def test_no_number_of_rows_decides_on_the_limit_itself() -> None:
    gate = judged(0.8, 0.02, 0.8)
    assert (gate.status, gate.rows_needed) == ("undecided", None)
    assert "no number of test rows would decide" in gate.reason
