"""`evaluate` as a function and through the command line: the attackers' seam, memory, limits, reports."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.erasers.ksal import KSALParameters
from salcli.errors import NotEnoughMemory, SalcliWarning, UsageError
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.attackers.base import Attacker, Axis, Reads
from salcli.evaluation.json_fields import to_json
from salcli.options import EvaluateOptions, FitOptions, LabelOptions, Limit, Sweep
from salcli.streaming.engine import N_THREADS
from salcli.streaming.memory import available_bytes

from .conftest import Files

Array = NDArray[Any]
LINEAR_KERNEL = FitOptions(method="ksal", parameters=KSALParameters(kernel="linear", landmarks=60))


@dataclass
class Means:
    """What `NearestMean` has learnt: which class each training row belongs to, and the rows or their products."""

    x: Array
    y: Array
    reads: str
    converged: bool = True

    def decision(self, x: Array) -> Array:
        members = (self.y[:, None] == np.unique(self.y)).astype(np.float64)
        members /= members.sum(axis=0)
        products = x if self.reads == "kernel" else x @ self.x.T
        among = self.x if self.reads == "kernel" else self.x @ self.x.T
        scores = 2 * products @ members - np.einsum("ic,ij,jc->c", members, among, members)
        return scores if scores.shape[1] > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, x: Array) -> Array:
        scores = self.decision(x)
        found: Array = np.unique(self.y)[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
        return found


@dataclass
class NearestMean(Attacker):
    """An attacker that answers with the class whose mean is nearest."""

    reads: Reads = "vectors"
    n_bytes: int = 0
    whitens = False

    def axes(self, d: int) -> dict[str, Axis]:
        return {}

    def fit(self, x: Array, y: Array, settings: dict[str, float], seed: int) -> Means:
        return Means(x, y, self.reads)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        return self.n_bytes


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda name, attacker: monkeypatch.setitem(ATTACKERS, name, attacker)


@pytest.fixture
def eraser(files: Files) -> str:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    return files.path("e.npz")


def share_right(files: Files, x: Array, part: str) -> float:
    train, test = files.rows(part), files.rows("test")
    y = np.array(files.y)
    means = np.array([x[train][y[train] == name].mean(axis=0) for name in np.unique(y)])
    answers = np.unique(y)[np.linalg.norm(x[test][:, None] - means, axis=2).argmin(axis=1)]
    return float(np.mean(answers == y[test]))


def test_an_attacker_that_is_registered_here_goes_through_the_whole_command(
    files: Files, eraser: str, register: Any
) -> None:
    register("nearest-mean", NearestMean())
    options = EvaluateOptions(
        probes=("nearest-mean",),
        forms=("raw",),
        sweep=Sweep.parse("k=0:2"),
        repeats=2,
        sample=30,
        max_gain=(Limit(0.5, "nearest-mean"),),
        reports=(files.path("r.html"), files.path("r.json")),
    )
    found = to_json(evaluate(files.embeddings, files.labels, eraser, options))
    before = {p["adversary"]: p["accuracy"] for p in found["probes"] if p["stage"] == "before"}
    assert before == {
        "in-sample": share_right(files, files.x.astype(float), "train"),
        "fresh": share_right(files, files.x.astype(float), "dev"),
    }
    assert before["fresh"] > 0.8
    assert {p["adversary"]: p["accuracy"] for p in found["sweep"][0]["probes"]} == before
    after = {p["adversary"]: p["accuracy"] for p in found["probes"] if p["stage"] == "after"}
    assert {p["adversary"]: p["accuracy"] for p in found["sweep"][2]["probes"]} == after
    assert after["fresh"] < before["fresh"] - 0.2
    names = {figure["name"] for figure in found["repeats"]["figures"]}
    assert names == {f"y, nearest-mean, {adversary}: accuracy" for adversary in before}
    assert found["verdict"] == "pass"
    assert json.loads(Path(files.path("r.json")).read_text("utf-8"))["probes"] == found["probes"]
    assert "nearest-mean" in Path(files.path("r.html")).read_text("utf-8")


def test_the_command_line_takes_its_name_and_gates_on_it(files: Files, eraser: str, register: Any) -> None:
    register("nearest-mean", NearestMean())
    arguments = ["evaluate", files.embeddings, files.labels, "--eraser", eraser, "--json", "--quiet"]
    arguments += ["--sweep", "strength=0:1:0.5", "--repeats", "2", "--sample", "30"]
    passed = CliRunner().invoke(app, [*arguments, "--probes", "nearest-mean", "--max-accuracy", "nearest-mean=0.99"])
    assert passed.exit_code == 0, passed.output
    found = json.loads(passed.stdout)
    assert {p["probe"] for p in found["probes"]} == {"nearest-mean"}
    assert [step["value"] for step in found["sweep"]] == [0, 0.5, 1]
    failed = CliRunner().invoke(app, [*arguments, "--probes", "nearest-mean", "--max-accuracy", "nearest-mean=0.01"])
    assert failed.exit_code == 1
    unknown = CliRunner().invoke(app, [*arguments, "--probes", "nearest-men"])
    assert unknown.exit_code == 2
    assert (
        "expected some of linear, poly, rbf, quadratic, knn, mlp, boosting, same-kernel, nearest-mean, ridge, "
        "kernel-ridge, or all" in unknown.output
    )


def test_unless_attackers_are_named_all_that_can_read_the_rows_take_part(
    files: Files, eraser: str, register: Any
) -> None:
    register("nearest-mean", NearestMean())
    found = evaluate(files.embeddings, files.labels, eraser, EvaluateOptions(adversaries=("fresh",), forms=("raw",)))
    assert [p.probe for p in found.probes[::2]] == ["linear", "poly", "rbf", "quadratic", "nearest-mean"]


def test_inner_products_of_a_linear_kernel_say_what_the_rows_say(files: Files, register: Any) -> None:
    """An attacker that reads a kernel, before erasure and after it, beside the same one on vectors."""
    register("by-rows", NearestMean())
    register("by-kernel", NearestMean("kernel"))
    fit(files.embeddings, files.labels, files.path("k.npz"), LINEAR_KERNEL)
    options = EvaluateOptions(probes=("by-rows", "by-kernel"), forms=("raw",))
    found = evaluate(files.embeddings, files.labels, files.path("k.npz"), options)
    accuracy = {(p.probe, p.adversary, p.stage): p.accuracy for p in found.probes}
    assert len(accuracy) == 8
    for (probe, adversary, stage), value in accuracy.items():
        if probe == "by-rows" and (adversary, stage) != ("in-sample", "after"):  # there all class means are one point
            assert accuracy["by-kernel", adversary, stage] == value
    assert accuracy["by-rows", "fresh", "before"] == share_right(files, files.x.astype(float), "dev")
    with pytest.raises(UsageError, match="`probes=by-kernel`: only an eraser that `salcli kfit` wrote has a kernel"):
        evaluate(files.embeddings, files.labels, None, EvaluateOptions(probes=("by-kernel",)))
    with pytest.raises(UsageError, match="request another probe than by-kernel alone"):
        sweep = EvaluateOptions(probes=("by-kernel",), sweep=Sweep.parse("k=0:1"))
        evaluate(files.embeddings, files.labels, files.path("k.npz"), sweep)


@pytest.mark.parametrize("name", ["by-rows", "by-kernel"])
def test_attackers_that_memory_cannot_hold_are_refused_before_any_is_trained(
    files: Files, register: Any, name: str
) -> None:
    attacker = NearestMean("kernel" if name == "by-kernel" else "vectors", 1 << 60)
    attacker.fit = lambda *_: pytest.fail("trained")  # type: ignore[method-assign]
    register(name, attacker)
    fit(files.embeddings, files.labels, files.path("k.npz"), LINEAR_KERNEL)
    with pytest.raises(NotEnoughMemory, match=r"training the attackers takes .* GiB, .* lower `attacker_rows`"):
        evaluate(files.embeddings, files.labels, files.path("k.npz"), EvaluateOptions(probes=(name,)))


@pytest.mark.skipif(N_THREADS < 2 or available_bytes() is None, reason="one attacker at a time")
def test_attackers_that_are_trained_side_by_side_need_room_together(files: Files, eraser: str, register: Any) -> None:
    register("large", NearestMean(n_bytes=int(0.6 * (available_bytes() or 0))))
    alone = EvaluateOptions(probes=("large",), adversaries=("fresh",), forms=("raw",))
    assert len(evaluate(files.embeddings, files.labels, eraser, alone).probes) == 2
    with pytest.raises(NotEnoughMemory, match="training the attackers"):
        evaluate(files.embeddings, files.labels, eraser, EvaluateOptions(probes=("large",)))


def test_test_rows_are_ten_times_the_training_rows_at_most(files: Files, eraser: str) -> None:
    options = EvaluateOptions(probes=("linear",), attacker_rows=4)
    with pytest.warns(SalcliWarning) as warned:
        found = evaluate(files.embeddings, files.labels, eraser, options)
    assert {(p.n_train, p.n_test, p.capped) for p in found.probes} == {(4, 40, True)}
    assert "40 of 60 test rows used (10 times `attacker_rows`)" in [str(each.message) for each in warned]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"probes": ()}, r"probes = \(\): expected some of linear"),
        (
            {"probes": ("linear", "svm")},
            r"probes = \('linear', 'svm'\): expected some of linear, poly, rbf, .*, ridge, kernel-ridge, or all",
        ),
        (
            {"max_accuracy": (Limit.parse("svm=0.5"),)},
            "max_accuracy = 'svm=0.5': no probe 'svm', expected one of linear",
        ),
        ({"max_gain": (Limit.parse("=0.5"),)}, "max_gain = '=0.5': no probe ''"),
        ({"max_gain": (Limit.parse("a=b=0.5"),)}, "max_gain = 'a=b=0.5': no probe 'a=b'"),
    ],
)
def test_an_attacker_that_is_not_there_is_refused_before_a_file_is_opened(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        evaluate("no-such-file.npy", "no-such-file.csv", None, EvaluateOptions(**options))


def test_labels_of_other_rows_than_were_fitted_are_refused(files: Files, eraser: str) -> None:
    with pytest.raises(UsageError, match="`no_split`"):
        evaluate(files.embeddings, files.labels, eraser, EvaluateOptions(labels=LabelOptions(no_split=True)))
