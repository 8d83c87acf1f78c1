"""Attackers at work on rows in memory: what is measured, in which order, and what is said about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.errors import AlignmentError
from salcli.evaluation.attack import attack
from salcli.evaluation.attack_jobs import jobs_of
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.attackers.base import Attacker, Axis
from salcli.evaluation.forms import Form
from salcli.evaluation.requested import chosen_probes, expected_of, needs_vectors
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Silent

N = 400  # the first half trains, the second is the test


class Recorder(Silent):
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.lines: list[str] = []

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Any]:
        self.stages.append((name, total))
        yield lambda _: None

    def say(self, message: str) -> None:
        self.lines.append(message)


def rows(shift: float = 4.0) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.arange(N) % 2).astype(np.int32)
    return rng.normal(size=(N, 3)) + shift * codes[:, None], codes


def labels(*codes: NDArray[Any]) -> GuardedLabels:
    return GuardedLabels(
        "l.csv", tuple(Attribute(f"g{i}", each, ("a", "b", "c")) for i, each in enumerate(codes)), None
    )


def split(n_train: int = N // 2) -> EvaluationSplit:
    train, test = np.arange(n_train), np.arange(N // 2, N)
    return EvaluationSplit.of(train, {"in-sample": train, "fresh": train[::2]}, test, has_held_out=True)


def stages(before: NDArray[Any], after: NDArray[Any] | None = None, **more: Any) -> Stages:
    return Stages(np.arange(len(before)), before, before, after, **more)


def measured(at: Stages, given: GuardedLabels, *probes: str, progress: Any = None, **more: Any) -> Any:
    part = more.pop("part", split())
    return attack(at, given, part, probes, EvaluateOptions(forms=("raw",)), progress or Silent(), **more)


@pytest.mark.slow
def test_results_come_in_the_order_asked_for_and_the_same_rows_have_the_same_figures() -> None:
    x, y = rows(1.0)
    results, notes = measured(stages(x, x), labels(y, 1 - y), "rbf", "linear")
    assert [(r.attribute, r.adversary, r.probe, r.stage) for r in results] == [
        (f"g{i}", adversary, probe, stage)
        for i in range(2)
        for adversary in ("in-sample", "fresh")
        for probe in ("rbf", "linear")
        for stage in ("before", "after")
    ]
    for before, after in zip(results[::2], results[1::2], strict=True):
        assert (before.accuracy, before.hyperparameters) == (after.accuracy, after.hyperparameters)
        assert before.ci95[0] <= before.accuracy <= before.ci95[1]
    assert notes == ()


def test_only_one_stage_is_measured_if_one_is_asked_for_and_with_the_same_figures() -> None:
    x, y = rows(1.0)
    whole, _ = measured(stages(x, x[::-1]), labels(y), "linear")
    only, _ = measured(stages(x, x[::-1]), labels(y), "linear", only="after")
    assert only == tuple(result for result in whole if result.stage == "after")


def test_a_foreign_stage_may_be_in_any_units_and_one_of_our_own_may_not_fly_away() -> None:
    x, y = rows()
    ours, _ = measured(stages(x, x), labels(y), "linear")
    foreign, _ = measured(stages(x, x * 1e9 + 5, is_foreign=True), labels(y), "linear")
    assert [r.accuracy for r in foreign] == [r.accuracy for r in ours]
    with pytest.raises(AlignmentError, match="rows of another size"):
        measured(stages(x, x * 1e9), labels(y), "linear")


def test_what_cannot_be_attacked_or_says_little_is_noted() -> None:
    x, y = rows()
    numeric = GuardedLabels("l.csv", (Attribute("n", x[:, 0], None),), None)
    assert measured(stages(x), numeric, "linear") == ((), ())
    one_class = np.where(np.arange(N) < N // 2, 0, y).astype(np.int32)
    _, notes = measured(stages(x), labels(one_class), "linear")
    assert notes == tuple(f"g0: the {a} attacker's training rows are all of one class" for a in ("in-sample", "fresh"))
    unseen = y.copy()
    unseen[-3:] = 2
    _, notes = measured(stages(x), labels(unseen), "linear")
    assert notes[0] == (
        "g0: 3 of 200 test rows are left out, of classes that the in-sample attacker was not trained on: c (3)"
    )
    _, notes = measured(stages(x), labels(np.where(np.arange(N) < N // 2, y, 0).astype(np.int32)), "linear")
    assert "the test rows are all of one class" in notes[0]


def test_a_job_has_the_test_rows_of_classes_that_are_trained_on() -> None:
    x, y = rows()
    y[-3:] = 2
    (given,), train, test = labels(y).attributes, np.arange(N // 2), np.arange(N // 2, N)
    (job,), doubts = jobs_of(given, "fresh", train, test, Form("raw", stages(x)), ("linear",))
    assert (job.untrained, len(job.y_test), len(doubts)) == ({"c": 3}, N // 2 - 3, 1)
    assert np.array_equal(job.y_test, y[job.at_test])
    assert (job.name("after"), job.name("after", form="unit")[2]) == (("g0", "fresh", "raw", "linear", "after"), "unit")


def test_progress_counts_every_attacker_at_every_stage() -> None:
    x, y = rows()
    recorder = Recorder()
    measured(stages(x, x), labels(y, 1 - y), "linear", "quadratic", progress=recorder)
    assert recorder.stages == [("attack", 2 * 2 * 2 * 2)]


class Guess(Attacker):
    """An attacker that always predicts 0."""

    converged = True

    def axes(self, d: int) -> dict[str, Axis]:
        return {}

    def fit(self, *_: Any) -> "Guess":
        return self

    def decision(self, x: NDArray[Any]) -> NDArray[Any]:
        return -np.ones(len(x))

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.zeros(len(x), np.int64)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        return 0


def test_an_attacker_that_is_registered_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTACKERS, "guess", Guess())
    x, y = rows()
    found, _ = measured(stages(x), labels(y), "guess")
    assert {(r.accuracy, r.auc, r.leak) for r in found} == {(float(np.mean(y[N // 2 :] == 0)), 0.5, 0.0)}


def test_where_classes_are_unequal_a_twin_whose_classes_weigh_the_same_reads_the_rare_one() -> None:
    x, y = rows(1.0)
    rare = (y * (np.arange(N) % 8 < 2)).astype(np.int32)
    x[(y == 1) & (rare == 0)] -= 1.0
    found, _ = measured(stages(x), labels(rare), "linear", "quadratic")
    names = ("linear", "linear-weighted", "quadratic", "quadratic-weighted")
    assert [r.probe for r in found] == [*names, *names]
    assert [r.weighted for r in found[:4]] == [False, True] * 2
    assert found[1].balanced_accuracy > found[0].balanced_accuracy + 0.05
    equal, _ = measured(stages(x), labels(y), "linear")
    assert {r.probe for r in equal} == {"linear"}


def test_untuned_attackers_have_their_usual_settings() -> None:
    x, y = rows(1.0)
    found, _ = attack(stages(x), labels(y), split(), ("rbf",), EvaluateOptions(quick=True, forms=("raw",)), Silent())
    assert [r.hyperparameters for r in found] == [{"gamma": 1 / 3, "C": 1.0}] * 2


def test_all_that_a_gate_expects_is_named() -> None:
    _, y = rows()
    mixed = GuardedLabels("l.csv", (*labels(y).attributes, Attribute("n", y.astype(float), None)), None)
    options = expected_of(mixed, EvaluateOptions(adversaries=("fresh",)), ("linear", "rbf"))
    assert options.attackers == (("g0", "fresh", "linear"), ("g0", "fresh", "rbf"))
    assert options.unjudged == ("n",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"probes": ("same-kernel",)}, False),
        ({"probes": ("same-kernel", "rbf")}, True),
        ({"probes": ("same-kernel",), "similarity": ("s",)}, True),
        ({"probes": ("same-kernel",), "task": "t"}, True),
    ],
)
def test_vectors_are_needed_unless_nothing_but_a_kernel_is_read(options: dict[str, Any], expected: bool) -> None:
    assert needs_vectors(EvaluateOptions(**options)) == expected


def test_without_a_kernel_the_attackers_are_those_that_read_vectors() -> None:
    assert chosen_probes(None, EvaluateOptions()) == ("linear", "poly", "rbf", "quadratic")
    assert chosen_probes(None, EvaluateOptions(probes=("rbf", "linear"))) == ("rbf", "linear")
    assert set(chosen_probes(None, EvaluateOptions(probes=("all",)))) == set(ATTACKERS) - {"same-kernel"}


def test_test_rows_of_classes_without_training_rows_change_no_figure_and_are_counted() -> None:
    x, y = rows(1.0)
    strange = y.copy()
    strange[-50:] = 2
    train, test = np.arange(N // 2), np.arange(N // 2, N - 50)
    without = EvaluationSplit.of(train, {"in-sample": train, "fresh": train[::2]}, test, has_held_out=True)
    found, _ = measured(stages(x), labels(strange), "linear")
    for one, other in zip(found, measured(stages(x), labels(y), "linear", part=without)[0], strict=True):
        assert one == replace(other, n_left_out=50, untrained_classes=("c",))
        assert one.usable == 0.75
    none, notes = measured(stages(x), labels(np.where(np.arange(N) < N // 2, y, 2).astype(np.int32)), "linear")
    assert none == ()
    assert "200 of 200 test rows are left out" in notes[0]
