"""The white-box adversary through `evaluate`: what it reads that others do not, and where it is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from salcli.commands.compare import compare
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.erasers.base import find_method
from salcli.errors import UsageError
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.report import Report
from salcli.options import CompareOptions, EvaluateOptions, FitOptions, LabelOptions, Limit, Sweep
from salcli.render.markdown import markdown

from ..cli.helpers import write_csv

N, D = 2400, 24
pytestmark = pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write rows of one class at the corners of a cube, and of another that is normal along oblique axes.

    Transport turns the cube, so that no coordinate of an erased row is one of its sides any longer.
    """
    folder = tmp_path_factory.mktemp("white")
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.arange(N) % 2)
    oblique = np.linalg.qr(rng.normal(size=(D, D)))[0] * np.where(np.arange(D) < 6, 10, 1)
    cube = rng.choice([-1.0, 1.0], (N, D)) + 0.1 * rng.normal(size=(N, D))
    x = np.where(codes[:, None] == 0, cube, rng.normal(size=(N, D)) @ oblique.T)
    x[:, 0] += 40 * codes
    np.save(folder / "x.npy", x.astype(np.float32))
    parts = [("train", "train", "dev", "test")[i % 4] for i in range(N)]
    rows = [("ab"[code], f"{x[i, 1]:.6g}", parts[i]) for i, code in enumerate(codes)]
    write_csv(folder / "y.csv", ["y", "number", "split"], rows)
    return folder


def fitted(folder: Path, method: str, **parameters: Any) -> str:
    path = folder / f"{method}.npz"
    options = FitOptions(LabelOptions(("y",)), method=method, parameters=find_method(method).Parameters(**parameters))
    fit(str(folder / "x.npy"), str(folder / "y.csv"), str(path), options)
    return str(path)


def transport(folder: Path) -> str:
    return fitted(folder, "transport", shrinkage=0.0)


def read_by(folder: Path, eraser: str | None, *adversaries: str, **options: Any) -> Report:
    arguments = {"learning_curve": False, "kept": False, "quick": True, "labels": LabelOptions(("y",)), **options}
    every = EvaluateOptions(adversaries=adversaries or ("fresh", "white-box"), **arguments)
    return evaluate(str(folder / "x.npy"), str(folder / "y.csv"), eraser, every)


def readable(report: Report) -> str:
    return next(line for line in markdown(report).split("\n") if "Still readable" in line)


def figures(report: Report, stage: str = "after") -> dict[tuple[str, str], float]:
    return {(r.adversary, r.probe): r.accuracy for r in report.probes if r.stage == stage}


@pytest.mark.slow
def test_whoever_holds_a_transport_reads_what_others_do_not(folder: Path) -> None:
    options = {"probes": ("linear", "quadratic", "boosting"), "quick": False, "forms": ("raw",)}
    report = read_by(folder, transport(folder), max_leak=(Limit(0.9),), **options)
    after, before = figures(report), figures(report, "before")
    assert after["white-box", "boosting"] > max(0.95, after["fresh", "boosting"] + 0.25)
    for probe in ("linear", "quadratic"):
        assert after["white-box", probe] > after["fresh", probe] - 0.06
        assert before["white-box", probe] == before["fresh", probe]
    assert report.gates[0].status == "failed"
    assert "boosting, white-box" in str(report.gates[0].decided_by)
    text = markdown(report)
    assert "holds the eraser" in text
    assert "boosting, white-box" in readable(replace(report, gates=()))
    assert {each["adversary"] for each in to_json(report)["probes"]} == {"fresh", "white-box"}


@pytest.mark.parametrize("method", ["sal", "leace"])
def test_of_a_projection_the_fresh_attackers_figures_are_those_of_its_holder_too(folder: Path, method: str) -> None:
    report = read_by(folder, fitted(folder, method), probes=("linear", "quadratic"))
    after = figures(report)
    assert [after["white-box", probe] for probe in ("linear", "quadratic")] == [
        after["fresh", probe] for probe in ("linear", "quadratic")
    ]
    assert sum("no trace of what the eraser removed" in note for note in report.notes) == 1
    alone = figures(read_by(folder, str(folder / f"{method}.npz"), "white-box", probes=("linear", "quadratic")))
    assert alone == {name: value for name, value in after.items() if name[0] == "white-box"}


@pytest.mark.parametrize("method", ["sal", "leace", "transport"])
def test_a_strength_below_one_is_undone(folder: Path, method: str) -> None:
    eraser = transport(folder) if method == "transport" else fitted(folder, method)
    report = read_by(folder, eraser, probes=("linear",), sweep=Sweep("strength", (0.0, 0.999, 1.0)))
    (whole, most, none) = (
        {probe.adversary: probe.accuracy for probe in step.probes if probe.probe == "linear"} for step in report.sweep
    )
    assert whole["white-box"] == whole["fresh"] == 1
    assert most["white-box"] > 0.99
    assert none["white-box"] < 0.7


def test_raw_rows_alone_are_inverted_and_gates_expect_no_more(folder: Path) -> None:
    report = read_by(folder, transport(folder), probes=("linear",), quick=False, max_leak=(Limit(1.0),))
    assert {(r.adversary, r.form) for r in report.probes} == {
        ("fresh", "raw"),
        ("fresh", "unit"),
        ("white-box", "raw"),
    }
    assert report.gates[0].status == "passed"
    with pytest.raises(UsageError, match="leave raw among `forms`"):
        EvaluateOptions(adversaries=("white-box",), forms=("unit",))


@pytest.mark.slow
def test_a_gate_fails_where_no_white_box_attacker_could_be_trained(folder: Path) -> None:
    rows = [("ab"[i % 2],) for i in range(N)]
    labels = write_csv(folder / "whole.csv", ["y"], rows)
    path = str(folder / "whole.npz")
    fit(str(folder / "x.npy"), str(labels), path, FitOptions())
    options = EvaluateOptions(
        adversaries=("in-sample", "white-box"), kept=False, learning_curve=False, quick=True, max_leak=(Limit(1.0),)
    )
    report = evaluate(str(folder / "x.npy"), str(labels), path, options)
    assert report.gates[0].status == "failed"
    assert "white-box" in report.gates[0].reasons[0]


@pytest.mark.slow
def test_numbers_are_read_from_preimages_too(folder: Path) -> None:
    labels = LabelOptions((), numeric=("number",))
    path = str(folder / "number.npz")
    fit(str(folder / "x.npy"), str(folder / "y.csv"), path, FitOptions(labels))
    report = read_by(folder, path, labels=labels, sweep=Sweep("strength", (0.9, 1.0)))
    most, none = ({(r.adversary, r.probe): r.r2 for r in step.numeric} for step in report.sweep)
    assert most["white-box", "ridge"] > 0.95 > none["white-box", "ridge"] == none["fresh", "ridge"]
    assert {r.adversary for r in report.numeric} == {"fresh", "white-box"}


def test_refused_where_there_is_nothing_to_invert(folder: Path) -> None:
    with pytest.raises(UsageError, match="give `eraser`"):
        read_by(folder, None)
    with pytest.raises(UsageError, match="give `eraser`"):
        read_by(folder, None, against=str(folder / "x.npy"))
    kernel = fitted(folder, "ksal", landmarks=50)
    with pytest.raises(UsageError, match="'features'"):
        read_by(folder, kernel)
    options = CompareOptions(
        erasers=(kernel, fitted(folder, "sal")), evaluation=EvaluateOptions(adversaries=("white-box",))
    )
    with pytest.raises(UsageError, match="ksal"):
        compare(str(folder / "x.npy"), str(folder / "y.csv"), options)


def test_candidates_are_compared_by_it(folder: Path) -> None:
    evaluation = EvaluateOptions(
        adversaries=("fresh", "white-box"), kept=False, learning_curve=False, quick=True, probes=("quadratic",),
        labels=LabelOptions(("y",)),
    )  # fmt: skip
    options = CompareOptions(erasers=(fitted(folder, "sal"), transport(folder)), evaluation=evaluation)
    found = compare(str(folder / "x.npy"), str(folder / "y.csv"), options)
    for candidate in found.candidates:
        assert set(candidate.leaks) == {"fresh", "white-box"}
