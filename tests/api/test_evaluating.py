"""`salcli.evaluate` of arrays: what the command measures on files, and a report that can be judged and shown."""

import doctest
import sys
from dataclasses import fields, replace
from html import unescape
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import salcli
from salcli.api import evaluating
from salcli.api.report import GATES
from salcli.commands.evaluate import evaluate as evaluate_files
from salcli.data.embeddings import Embeddings
from salcli.errors import AlignmentError, ParameterError, UsageError
from salcli.evaluation.json_fields import to_json
from salcli.options import EvaluateOptions, LabelOptions, Limit
from salcli.render.html import html
from tests.api.test_estimators import Table, rows, write

pytestmark = pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
N = 240
PLAIN: dict[str, Any] = {"probes": ("quadratic",), "forms": ("raw",), "learning_curve": False}
FILES = ("inputs", "eraser", "run", "notes")


def data() -> tuple[np.ndarray, np.ndarray, Table]:
    x, table = rows(n=N)
    x = (x / x.std(axis=0)).astype(np.float32)
    table = table | {"split": np.array(["train", "dev", "test"])[np.arange(N) % 3]}
    part = table["split"] == "train"
    erased = salcli.SAL().fit(x[part], guarded=table["gender"][part]).transform(x)
    return x, erased, table


@pytest.fixture(scope="module")
def measured() -> Any:
    """A report on rows with a main task and neighbours."""
    x, erased, table = data()
    return salcli.evaluate(
        x, erased, table["gender"], task=table["job"], split=table["split"], min_neighbors_kept=0.0, **PLAIN
    )


def figures(report: Any) -> dict[str, Any]:
    return {name: value for name, value in to_json(report).items() if name not in FILES}


def test_arrays_are_evaluated_as_files_are(tmp_path: Path) -> None:
    x, erased, table = data()
    found = salcli.evaluate(
        x,
        erased,
        {"gender": table["gender"]},
        task={"job": table["job"]},
        split=table["split"],
        max_accuracy=0.6,
        **PLAIN,
    )
    embeddings, labels, _ = write(tmp_path, x, table)
    np.save(tmp_path / "after.npy", erased)
    limits = (Limit(0.6),)
    options = EvaluateOptions(
        against=str(tmp_path / "after.npy"),
        labels=LabelOptions(("gender",)),
        task="job",
        max_accuracy=limits,
        **PLAIN,
    )
    expected = evaluate_files(embeddings, labels, None, options)
    assert figures(found) == figures(expected)
    assert found.verdict == expected.verdict
    assert {result.adversary for result in found.probes} == {"in-sample", "fresh"}
    assert found.inputs["embeddings"].n == N


@pytest.mark.slow
def test_an_estimator_can_be_fitted_again(tmp_path: Path) -> None:
    x, _, table = data()
    sal = salcli.SAL().fit(x, guarded={"gender": table["gender"]})
    sal.to_artifact(str(tmp_path / "e.npz"))
    options: dict[str, Any] = PLAIN | {"folds": 3}
    found = salcli.evaluate(x, sal, {"gender": table["gender"]}, **options)
    embeddings, labels, _ = write(tmp_path, x, {"gender": table["gender"]})
    expected = evaluate_files(embeddings, labels, str(tmp_path / "e.npz"), EvaluateOptions(**options))
    assert figures(found) == figures(expected)
    assert not any("not known" in note for note in found.notes)
    with pytest.raises(AlignmentError, match="fitted"):
        salcli.evaluate(x[:90], sal, table["gender"][:90], **PLAIN)
    unnamed = salcli.SAL(guards="y").fit(x, table["gender"])
    assert salcli.evaluate(x, unnamed, table["gender"], **PLAIN).probes[0].attribute == "y"
    part = salcli.SAL(strength=0.2).fit(x, guarded=table["gender"])
    assert salcli.evaluate(x, part, table["gender"], **PLAIN).eraser.method == "against"


@pytest.mark.slow
def test_a_pipeline_erases_and_options_may_be_texts() -> None:
    x, erased, table = data()
    part = table["split"] == "train"
    erase = make_pipeline(salcli.SAL(guards="y")).fit(x[part], table["gender"][part])
    options = PLAIN | {"probes": "quadratic,linear", "forms": "raw,unit", "max_accuracy": "linear=0.9"}
    found = salcli.evaluate(x, erase, table["gender"], split=table["split"], **options)
    assert {(result.probe, result.form) for result in found.probes} == set(
        product(("quadratic", "linear"), ("raw", "unit"))
    )
    given = PLAIN | {"probes": ["quadratic", "linear"], "forms": ("raw", "unit"), "max_accuracy": ["linear=0.9"]}
    assert figures(found) == figures(salcli.evaluate(x, erased, table["gender"], split=table["split"], **given))
    sal = salcli.SAL().fit(x, guarded=table["gender"])
    swept = salcli.evaluate(x, sal, table["gender"], sweep="strength=0:1:0.5", **PLAIN)
    assert [step.value for step in swept.sweep] == [0, 0.5, 1]


def test_every_limit_of_the_command_is_a_gate() -> None:
    limits = {each.name for each in fields(EvaluateOptions) if each.name.startswith(("max_", "min_"))}
    assert limits == {*GATES, "max_leak_increase", "min_pairs"}


def test_rows_can_be_evaluated_as_they_are() -> None:
    x, _, table = data()
    found = salcli.evaluate(x, None, table["gender"], split=table["split"], **PLAIN)
    assert found.judged_stage == "before"
    assert found.worst.leak > 0.5


@pytest.mark.parametrize(
    "limits",
    [
        {"max_accuracy": 0.5},
        {"max_accuracy": ["quadratic=0.9", 0.99], "max_leak": 0.9, "judge": "point"},
        {"max_gain": "quadratic=.2", "allow_undecided": True, "confidence": 0.8},
        {"min_task_accuracy": 0.3, "max_tpr_gap": 0.9, "min_neighbors_kept": 0.1},
    ],
)
def test_what_was_measured_can_be_judged_later(measured: Any, limits: dict[str, Any]) -> None:
    x, erased, table = data()
    later = measured.gate(**limits)
    at_once = salcli.evaluate(x, erased, table["gender"], task=table["job"], split=table["split"], **PLAIN, **limits)
    assert later.gates == at_once.gates
    assert len(later.gates) >= 1
    assert (later.verdict, later.is_refused) == (at_once.verdict, at_once.is_refused)


def test_numbers_that_no_limit_judges_do_not_pass() -> None:
    x, _, table = data()
    guarded = {"age": x @ np.arange(12.0), "gender": table["gender"]}
    options = PLAIN | {"probes": ["quadratic", "ridge"], "numeric": ("age",), "split": table["split"]}
    found = salcli.evaluate(x, None, guarded, **options)
    assert found.gate(max_accuracy=1.0).verdict == "fail"
    assert "no limit judges age" in found.gate(max_accuracy=1.0).gates[0].reason
    assert found.gate(max_accuracy=1.0, max_r2=1.0).verdict == "pass"


def test_gates_that_cannot_be_judged_are_refused(measured: Any) -> None:
    plain = replace(measured, measures={}, options=replace(measured.options, task=None))
    assert replace(plain, gates=()).verdict == "none"
    for limits, message in (
        ({"max_acuracy": 0.5}, "no gate; expected some of"),
        ({"probes": ("linear",)}, "no gate"),
        ({"max_accuracy": 50}, "not a share"),
        ({"max_accuracy": "tox=0.5"}, "no probe 'tox'"),
        ({"max_tpr_gap": 0.1}, "judges a main task"),
        ({"min_neighbors_kept": 0.1}, "neighbours were not measured"),
        ({"judge": "point"}, "needs a limit"),
        ({}, "needs a limit"),
    ):
        with pytest.raises(UsageError, match=message):
            plain.gate(**limits)


@pytest.mark.slow
def test_a_report_is_shown_as_the_page_and_as_a_frame(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(tmp_path / "report.html")
    x, erased, table = data()
    found = salcli.evaluate(x, erased, table["gender"], split=table["split"], reports=path, **PLAIN)
    assert repr(found) == f"Report(verdict='none', probes={len(found.probes)}, gates=0)"
    shown = found._repr_html_()
    page = unescape(shown.split('srcdoc="')[1].split('"')[0])
    assert page == html(found) == Path(path).read_text("utf-8")
    assert 'sandbox=""' in shown
    records = found.to_records()
    assert len(records) == len(found.probes)
    assert records[0]["accuracy"] == found.probes[0].accuracy
    assert (records[0]["ci95_low"], records[0]["ci95_high"]) == found.probes[0].ci95
    assert not any(isinstance(value, (list, dict)) for record in records for value in record.values())
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="to_records"):
        found.to_frame()
    polars = ModuleType("polars")
    polars.DataFrame = list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", polars)
    assert found.to_frame() == records


def test_a_report_is_a_frame_of_pandas(measured: Any) -> None:
    pd = pytest.importorskip("pandas")
    frame = measured.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.leak.max() <= 1


def test_keys_bring_word_similarity(tmp_path: Path) -> None:
    x, erased, table = data()
    words = tuple(f"w{i}" for i in range(N))
    gold = tmp_path / "gold.csv"
    gold.write_text("".join(f"w{i},w{i + 1},{i % 10}\n" for i in range(100)))
    before = Embeddings.starting_at(0, x, words)
    found = salcli.evaluate(before, erased, table["gender"], split=table["split"], similarity=[str(gold)], **PLAIN)
    assert found.measures["similarity"][0].pairs_used == 100  # type: ignore[index]


def test_what_cannot_be_evaluated_is_refused() -> None:
    x, erased, table = data()
    y = table["gender"]
    with pytest.raises(ParameterError, match="no option of evaluate"):
        salcli.evaluate(x, erased, y, against="x.npy")
    with pytest.raises(ParameterError, match="expected some of"):
        salcli.evaluate(x, erased, y, probes="tox")
    with pytest.raises(AlignmentError, match="the same rows"):
        salcli.evaluate(x, erased[1:], y)
    with pytest.raises(ValueError, match="labels, but X has"):
        salcli.evaluate(x, erased, y[1:])
    with pytest.raises(ValueError, match="split: 239 names"):
        salcli.evaluate(x, erased, y, split=table["split"][1:])
    with pytest.raises(ValueError, match=r"expected rows \[n, d\]"):
        salcli.evaluate(x[0], None, y)
    with pytest.raises(ValueError, match="before: "):
        salcli.evaluate([["a"]], None, ["b"])


def test_the_examples_run() -> None:
    assert doctest.testmod(evaluating).failed == 0
