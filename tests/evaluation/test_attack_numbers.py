"""Attacks on numeric attributes of rows in memory."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.errors import UsageError
from salcli.evaluation.attack_numbers import attack_numbers, chosen_regressors, expected_of_numbers
from salcli.evaluation.attackers import REGRESSORS
from salcli.evaluation.attackers.base import Attacker, Axis
from salcli.evaluation.gates import Expected, Judge, r2_gate
from salcli.evaluation.requested import require_attackers
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions, Limit
from salcli.streaming.progress import Silent

N = 400  # the first half trains, the second is the test
PROBES = ("ridge", "kernel-ridge", "boosting")
STAGES = ("before", "after")


class Known(Attacker):
    """An attacker that predicts the first coordinate."""

    predicts = "numbers"
    whitens = False
    converged = True

    def axes(self, d: int) -> dict[str, Axis]:
        return {}

    def fit(self, *_: Any) -> "Known":
        return self

    def decision(self, x: NDArray[Any]) -> NDArray[Any]:
        return x[:, 0]

    predict = decision

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        return 0


def rows() -> tuple[NDArray[np.float64], GuardedLabels]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3))
    age = 40 + 12 * (x[:, 0] + 0.5 * rng.normal(size=N))
    codes = rng.integers(0, 2, N).astype(np.int8)
    return x, GuardedLabels("l.csv", (Attribute("g", codes, ("a", "b")), Attribute("age", age, None)), None)


def measured(x: NDArray[Any], labels: GuardedLabels, *probes: str, **more: Any) -> Any:
    after, only = more.pop("after", None), more.pop("only", None)
    more.setdefault("forms", ("raw",))
    train, test = np.arange(N // 2), np.arange(N // 2, N)
    split = EvaluationSplit.of(train, {"in-sample": train, "fresh": train[::2]}, test, has_held_out=True)
    stages = Stages(np.arange(N), x, x, after)
    return attack_numbers(stages, labels, split, probes, EvaluateOptions(**more), Silent(), only)


def test_an_attacker_that_is_registered_takes_part_in_the_order_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGRESSORS, "known", Known())
    x, labels = rows()
    found, notes = measured(x, labels, "known", "ridge", after=x * 0)
    assert [(r.attribute, r.adversary, r.probe, r.stage) for r in found] == [
        ("age", adversary, probe, stage)
        for adversary in ("in-sample", "fresh")
        for probe in ("known", "ridge")
        for stage in ("before", "after")
    ]
    assert notes == ()
    true = labels.attributes[1].values
    scaled = (true - true.mean()) / true.std()
    at = x[: N // 2]
    factor = 1 / np.sqrt(np.mean((at - at.mean(axis=0)) ** 2))
    expected = r2_score(scaled[N // 2 :], (x[N // 2 :, 0] - at[:, 0].mean()) * factor)
    assert found[0].r2 == pytest.approx(expected)
    only, _ = measured(x, labels, "known", "ridge", after=x * 0, only="after")
    assert only == found[1::2]


def test_numbers_are_attacked_in_every_form_of_the_rows_and_gates_expect_them_all() -> None:
    x, labels = rows()
    found, _ = measured(x, labels, "ridge", forms=("raw", "unit"))
    raw, _ = measured(x, labels, "ridge")
    unit, _ = measured(x / np.linalg.norm(x, axis=1, keepdims=True), labels, "ridge")
    assert [r for r in found if r.form == "raw"] == list(raw)
    assert [r.r2 for r in found if r.form == "unit"] == pytest.approx([r.r2 for r in unit])
    same, _ = measured(x, labels, "ridge", forms=("raw", "float16", "unit"), after=x.astype(np.float16))
    assert [(r.form, r.stage) for r in same[:6]] == [(f, s) for f in ("raw", "float16", "unit") for s in STAGES]
    assert (same[3].r2, same[3].form) == (same[1].r2, "float16")  # after, the rows are float16 already
    options = expected_of_numbers(labels, EvaluateOptions(), ("ridge", "same-kernel"), ("raw", "unit"))
    assert [name for _, adversary, name in options if adversary == "fresh"] == ["ridge", "same-kernel", "ridge as unit"]
    wanted = Expected(of_numbers=expected_of_numbers(labels, EvaluateOptions(), ("ridge",), ("raw", "unit")))
    gate = r2_gate(1.0, "ridge", wanted, raw, "before", Judge())
    assert gate.reason == "no result for age: in-sample ridge as unit, fresh ridge as unit"
    assert r2_gate(1.0, "ridge", wanted, found, "before", Judge()).status == "passed"


@pytest.mark.slow
def test_a_number_is_read_before_and_not_after_it_is_gone() -> None:
    x, labels = rows()
    gone = x.copy()
    gone[:, 0] = 0
    found, _ = measured(x, labels, *PROBES, after=gone)
    assert all(r.r2 > 0.5 for r in found if r.stage == "before")
    assert all(r.r2 < 0.05 for r in found if r.stage == "after")
    assert {(r.n_train, r.n_test, r.converged) for r in found} == {(200, 200, True), (100, 200, True)}
    quick, _ = measured(x, labels, "kernel-ridge", quick=True)
    assert [r.hyperparameters for r in quick] == [{"gamma": 1 / 3, "alpha": 1.0}] * 2


def test_rows_without_a_number_do_not_count_and_what_cannot_be_attacked_is_said() -> None:
    x, labels = rows()
    ages = labels.attributes[1].values.copy()
    ages[::4] = np.nan
    found, _ = measured(x, GuardedLabels("l.csv", (Attribute("age", ages, None),), None), "ridge")
    assert {(r.n_train, r.n_test) for r in found} == {(150, 150), (50, 150)}
    assert found[0].r2 > 0.6
    for constant, said in ((slice(0, N // 2), "all of one value"), (slice(N // 2, N), "test rows")):
        same = labels.attributes[1].values.copy()
        same[constant] = 3.0
        none, notes = measured(x, GuardedLabels("l.csv", (Attribute("age", same, None),), None), "ridge")
        assert none == ()
        assert said in notes[0]


def test_huge_and_tiny_numbers_are_read_alike() -> None:
    x, labels = rows()
    usual, _ = measured(x, labels, "ridge")
    for unit in (1e250, 1e-250):
        other = GuardedLabels("l.csv", (Attribute("age", labels.attributes[1].values * unit, None),), None)
        assert [r.r2 for r in measured(x, other, "ridge")[0]] == pytest.approx([r.r2 for r in usual], abs=1e-6)


def test_attackers_of_numbers_run_unless_others_of_them_are_named() -> None:
    _, labels = rows()
    classes = GuardedLabels("l.csv", labels.attributes[:1], None)
    assert chosen_regressors(None, labels, EvaluateOptions()) == PROBES
    assert chosen_regressors(None, labels, EvaluateOptions(probes=("all",))) == PROBES
    assert chosen_regressors(None, labels, EvaluateOptions(probes=("rbf",))) == PROBES
    assert chosen_regressors(None, labels, EvaluateOptions(probes=("rbf", "ridge"))) == ("ridge",)
    assert chosen_regressors(None, classes, EvaluateOptions(probes=("rbf", "ridge"))) == ()
    with pytest.raises(UsageError, match="`probes=ridge` reads numbers, and no guarded attribute is numeric"):
        chosen_regressors(None, classes, EvaluateOptions(probes=("ridge",)))
    with pytest.raises(UsageError, match="no probe 'linear', expected one of ridge, kernel-ridge, boosting"):
        require_attackers(EvaluateOptions(max_r2=(Limit(0.1, "linear"),)))
    require_attackers(EvaluateOptions(probes=("ridge", "linear"), max_r2=(Limit(0.1, "ridge"),)))


def test_the_gate_judges_every_attacker_and_lets_nothing_pass_that_was_not_measured() -> None:
    x, labels = rows()
    results, _ = measured(x, labels, "ridge")
    options = EvaluateOptions(probes=("ridge",))
    asked = Expected(of_numbers=expected_of_numbers(labels, options, ("ridge",), ("raw",)))

    def gate(limit: float, of: Any = results, expected: Expected = asked, probe: str | None = None) -> Any:
        return r2_gate(limit, probe, expected, of, "before", Judge())

    worst = max(results, key=lambda r: r.r2)
    assert gate(0.95).status == "passed"
    assert gate(0.2).status == "failed"
    assert gate(worst.r2 + 0.005).status == "undecided"
    assert gate(0.2).value == worst.r2
    assert gate(0.2).decided_by == f"age, ridge, {worst.adversary}"
    assert gate(0.95, results[:1]).reason == "no result for age: fresh ridge"
    assert gate(0.95, probe="boosting").reason == "the boosting probe was not requested"
    assert gate(0.95, (), Expected()).reason == "no attribute is numeric"
    assert gate(0.95, expected=Expected(of_numbers=asked.of_numbers, doubts=("why",))).status == "failed"
