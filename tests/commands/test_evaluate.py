"""`evaluate` as a function: paths in, a typed report out."""

import json
from pathlib import Path

import numpy as np
import pytest

from salcli.cli.app import app
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.errors import AlignmentError, ParameterError, RangeError, SalcliWarning, UsageError
from salcli.evaluation.geometry import GEOMETRY
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.kept import KEPT
from salcli.evaluation.neighbors import NEIGHBORS
from salcli.evaluation.report import ErasedFile, EraserSummary, InputFile
from salcli.evaluation.scatter import SCATTER
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.task import TASK
from salcli.options import EvaluateOptions, FitOptions, LabelOptions, Limit
from salcli.render.files import write_reports
from salcli.streaming.progress import Silent
from tests.cli.helpers import planted, save_npy, text_of, words, write_csv
from tests.commands.conftest import Files
from tests.render.reports import full_report

N = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    folder = tmp_path_factory.mktemp("evaluate")
    x, labels = planted(N)
    (folder / "x.txt").write_bytes(text_of([w.encode() for w in words(N)], x, has_header=True))
    is_first = np.array(labels) == labels[0]
    within = x[:, 1] - np.where(is_first, x[is_first, 1].mean(), x[~is_first, 1].mean())  # erasure leaves it
    jobs = np.where(within > np.median(within), "a", "b")
    parts = ["train", "train", "dev", "test"] * (N // 4)
    write_csv(folder / "y.csv", ["word", "y", "job", "split"], zip(words(N), labels, jobs, parts, strict=True))
    (folder / "gold.tsv").write_text("".join(f"w{i}\tw{i + 1}\t{i % 5}\n" for i in range(30)))
    files = [str(folder / name) for name in ("x.txt", "y.csv")]
    done = CliRunner().invoke(app, ["fit", *files, "--attribute", "y", "-o", str(folder / "e.npz")])
    assert done.exit_code == 0, done.output
    return folder


def options(folder: Path, **changes: object) -> EvaluateOptions:
    fields = {
        "labels": LabelOptions(("y",)),
        "probes": ("linear",),
        "task": "job",
        "similarity": (f"{folder}/gold.tsv",),
    }
    return EvaluateOptions(**fields | changes)  # type: ignore[arg-type]


def test_the_report_is_typed_throughout(folder: Path) -> None:
    limits = {"max_accuracy": (Limit(1.0), Limit(0.0, "linear")), "max_gain": (Limit(1.0),)}
    gates = {"max_tpr_gap": 1.0, "min_similarity_kept": 0.0}
    x, y, e = (f"{folder}/{name}" for name in ("x.txt", "y.csv", "e.npz"))
    report = evaluate(x, y, e, options(folder, **limits, **gates))
    assert isinstance(report.eraser, EraserSummary)
    assert (report.eraser.path, report.eraser.method, report.eraser.attributes) == ("e.npz", "sal", ("y",))
    assert {name: (file.path, file.n, file.d) for name, file in report.inputs.items()} == {
        "embeddings": ("x.txt", N, 8),
        "labels": ("y.csv", N, None),
    }
    assert {probe.stage for probe in report.probes} == {"before", "after"}
    task, changes, geometry, scatter = (report.of(m) for m in (TASK, SIMILARITY, GEOMETRY, SCATTER))
    assert task is not None
    assert changes is not None
    assert geometry is not None
    assert scatter is not None
    named = {gate.name: gate for gate in report.gates}
    assert list(named) == ["max-accuracy", "max-accuracy linear", "max-gain", "max-tpr-gap", "min-similarity-kept"]
    after = [probe for probe in report.probes if probe.stage == "after"]
    assert named["max-accuracy"].value == max(probe.leakage for probe in after)
    assert task.first.tpr_gap is not None
    assert named["max-tpr-gap"].value == task.first.tpr_gap.after
    assert named["min-similarity-kept"].value == pytest.approx((changes[0].after or 0) / (changes[0].before or 1))
    assert [gate.passed for gate in report.gates] == [True, False, True, True, named["min-similarity-kept"].passed]
    assert report.verdict == "fail"


def test_gates_judge_the_file_as_it_is_without_an_eraser(folder: Path) -> None:
    report = evaluate(f"{folder}/x.txt", f"{folder}/y.csv", None, options(folder, max_accuracy=(Limit(0.5),)))
    assert report.gates[0].value == max(probe.leakage for probe in report.probes)
    assert report.eraser is report.of(GEOMETRY) is report.of(SCATTER) is None


def test_a_file_erased_elsewhere_is_summarised_and_noted(folder: Path) -> None:
    with pytest.warns(SalcliWarning, match="are not known"):
        report = evaluate(f"{folder}/x.txt", f"{folder}/y.csv", None, options(folder, against=f"{folder}/x.txt"))
    assert report.eraser == ErasedFile("x.txt", report.inputs["embeddings"].hash, N, 8)
    assert any("was erased with are not known" in note for note in report.notes)


def test_other_files_than_those_of_the_fit_are_noted(folder: Path, tmp_path: Path) -> None:
    text = (folder / "x.txt").read_bytes()
    (tmp_path / "x.txt").write_bytes(text.replace(b"w7 ", b"w7  "))
    report = evaluate(f"{tmp_path}/x.txt", f"{folder}/y.csv", f"{folder}/e.npz", options(folder))
    assert report.notes[-1] == "the embeddings are not the file that the eraser was fitted on (another BLAKE3)"
    assert isinstance(report.inputs["embeddings"], InputFile)


def test_a_task_needs_groups(folder: Path) -> None:
    numeric = LabelOptions((), ("age",))
    ages = [[word, i, "ab"[i % 2], ["train", "dev", "test"][i % 3]] for i, word in enumerate(words(N))]
    write_csv(folder / "age.csv", ["word", "age", "job", "split"], ages)
    with pytest.raises(UsageError, match="a guarded attribute with classes is needed"):
        evaluate(f"{folder}/x.txt", f"{folder}/age.csv", None, options(folder, labels=numeric, probes=("ridge",)))


@pytest.mark.slow
def test_each_suffix_has_its_rendering(tmp_path: Path) -> None:
    report, names = full_report(1), ("r.json", "r.md", "r.HTML", "r.xml", "without", "of.a.run")
    paths = tuple(str(tmp_path / name) for name in names)
    messages: list[str] = []

    class Listening(Silent):
        def say(self, message: str) -> None:
            messages.append(message)

    write_reports(report, EvaluateOptions(reports=paths, report_format="md"), Listening())
    assert messages == [f"wrote {path}" for path in paths]
    of_json, *texts = (Path(path).read_text("utf-8") for path in paths)
    assert json.loads(of_json) == to_json(report)
    starts = ("## ", "<!DOCTYPE html>", "<?xml", "## ", "## ")
    assert [text.startswith(start) for text, start in zip(texts, starts, strict=True)] == [True] * len(starts)
    with pytest.raises(ParameterError, match=r"or `report_format`"):
        EvaluateOptions(reports=("without",))


def test_an_order_that_was_not_checked_is_said(files: Files) -> None:
    save_npy(files.folder / "erased.npy", files.x)
    options = EvaluateOptions(against=files.path("erased.npy"), probes=("linear",))
    with pytest.warns(SalcliWarning, match="whether the rows of .* are in the same order was not checked"):
        report = evaluate(files.embeddings, files.labels, None, options)
    assert any("was not checked" in note for note in report.notes)


def test_rows_in_another_order_pass_no_gate(files: Files) -> None:
    save_npy(files.folder / "shuffled.npy", files.x[np.random.default_rng(0).permutation(len(files.x))])
    options = EvaluateOptions(against=files.path("shuffled.npy"), quick=True, judge="point", max_leak=(Limit(1.0),))
    with pytest.warns(SalcliWarning, match=r"shuffled.npy and .*x.npy do not seem to be in the same order"):
        report = evaluate(files.embeddings, files.labels, None, options)
    assert "do not seem to be in the same order" in str(report.gates[0].reason)
    assert not any("was not checked" in note for note in report.notes)


def test_the_file_and_the_row_that_float16_does_not_hold_are_named(files: Files) -> None:
    x = files.x.copy()
    x[17, 2] = 1e5
    save_npy(files.folder / "big.npy", x)
    options = EvaluateOptions(against=files.path("big.npy"), forms=("float16",), quick=True)
    with pytest.raises(
        RangeError, match=r"^\S*big.npy: `forms=float16`: row 17 has 100000, but float16 ends at 65,504"
    ):
        evaluate(files.embeddings, files.labels, None, options)
    with pytest.raises(RangeError, match=r"^\S*big.npy: `forms=float16`: row 17 has 100000 before erasure"):
        evaluate(files.path("big.npy"), files.labels, None, EvaluateOptions(forms=("float16",), quick=True))


@pytest.mark.parametrize("n_others", [0, 900])
def test_the_gate_judges_the_share_of_neighbours_that_the_table_has(files: Files, n_others: int) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([files.x, rng.normal(size=(n_others, files.x.shape[1])).astype("f4")])
    save_npy(files.folder / "all.npy", x)
    save_npy(files.folder / "out.npy", x + rng.normal(size=x.shape).astype("f4"))
    labels = [*zip(files.y, files.parts, strict=True), *[("", "test")] * n_others]
    path = write_csv(files.folder / "all.csv", ["y", "split"], labels)
    options = EvaluateOptions(against=files.path("out.npy"), quick=True, min_neighbors_kept=0.5)
    report = evaluate(files.path("all.npy"), str(path), None, options)
    kept, neighbors = report.of(KEPT), report.of(NEIGHBORS)
    assert kept is not None
    assert neighbors is not None
    assert report.gates[0].value == kept.rows[0].overlap_at_10 == neighbors.mean_overlap_at_10
    assert neighbors.n_sampled == kept.rows[0].n_sampled == (740 if n_others else len(files.x))
    assert kept.n_among == len(x)


def test_a_wrong_width_comes_before_a_missing_column(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    save_npy(files.folder / "narrow.npy", files.x[:, :5])
    (files.folder / "other.csv").write_text("z,split\n" + "a,train\n" * len(files.y))
    with pytest.raises(AlignmentError, match="has 5 dimensions, but .* erases 8"):
        evaluate(files.path("narrow.npy"), files.path("other.csv"), files.path("e.npz"), EvaluateOptions())
