"""`evaluate` on rows as a consumer uses them, near the labelled ones, and with bias tests: whole commands."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.errors import SalcliWarning, UsageError
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.report import Report
from salcli.options import FORMS, EvaluateOptions, FitOptions, LabelOptions, Limit
from salcli.render.terminal import terminal

from ..cli.helpers import read_csv, save_npy, text_of, words, write_csv
from .conftest import Files

LINEAR = ("--probes", "linear")
ON_80 = {"file": io.StringIO(), "width": 80, "highlight": False, "markup": False, "emoji": False}


def invoked(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done.stdout


def printed_at_80(report: Report) -> str:
    """Return what a terminal of 80 columns shows, in which no line may be longer."""
    text = terminal(report, Console(**ON_80))
    assert max(map(len, text.splitlines())) <= 80
    return text


def signed(tmp_path: Path, n: int = 400) -> tuple[str, str]:
    """Rows whose class is the sign of a column, whose length differs from row to row and is mostly tiny."""
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 2
    x = rng.normal(size=(n, 6)).astype("f4")
    x[:, 0] = 1e-3 * np.abs(rng.normal(size=n)) ** 4 * np.where(codes == 1, 1, -1)
    parts = [("train", "train", "dev", "test")[i // 2 % 4] for i in range(n)]
    names = ["ab"[code] for code in codes]
    return str(save_npy(tmp_path / "x.npy", x)), str(
        write_csv(tmp_path / "y.csv", ["y", "split"], zip(names, parts, strict=True))
    )


def test_gates_judge_every_form_and_name_the_one_that_decides(tmp_path: Path) -> None:
    x, y = signed(tmp_path)
    options = EvaluateOptions(
        probes=("linear",), forms=("raw", "binary"), adversaries=("fresh",), judge="point", max_accuracy=(Limit(0.97),)
    )
    found = evaluate(x, y, None, options)
    accuracy = {r.form: r.accuracy for r in found.probes}
    assert accuracy["binary"] == 1.0
    assert accuracy["raw"] < 0.97
    (gate,) = found.gates
    assert (gate.status, gate.decided_by) == ("failed", "y, linear as binary, fresh")
    assert [r["as"] for r in to_json(found)["probes"]] == ["raw", "binary"]
    alone = EvaluateOptions(
        probes=("linear",), forms=("raw",), adversaries=("fresh",), judge="point", max_accuracy=(Limit(0.97),)
    )
    assert evaluate(x, y, None, alone).gates[0].status == "passed"


def test_the_scale_of_int8_is_that_of_the_fitted_rows_after_erasure(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    options = EvaluateOptions(
        probes=("linear",), forms=("int8",), adversaries=("fresh",), reports=(files.path("r.md"),)
    )
    found = evaluate(files.embeddings, files.labels, files.path("e.npz"), options)
    with np.load(files.path("e.npz")) as arrays:
        erased = files.x - (files.x - arrays["mean"]) @ (arrays["right"] @ arrays["left"].T)
    assert found.int8 is not None
    assert found.int8.scale == pytest.approx(np.abs(erased[files.rows("train")]).max(axis=0) / 127, rel=1e-4)
    assert found.int8.n_rows == len(files.rows("train"))
    assert {r.form for r in found.probes} == {"int8"}
    assert "over 120 fitted rows" in Path(files.path("r.md")).read_text("utf-8")
    assert all(curve.form == "int8" for curve in found.learning)


def test_rows_that_are_of_length_1_already_are_attacked_once_and_the_report_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    parts = [("train", "dev", "test", "test")[i // 2 % 4] for i in range(200)]
    y = write_csv(tmp_path / "y.csv", ["y", "split"], zip(["a", "b"] * 100, parts, strict=True))
    options = EvaluateOptions(probes=("linear",), max_leak=(Limit(1.0),))
    with pytest.warns(SalcliWarning, match="the rows are of length 1 already: raw stands for unit"):
        found = evaluate(str(save_npy(tmp_path / "x.npy", x)), str(y), None, options)
    assert {r.form for r in found.probes} == {"raw"}
    assert found.gates[0].status == "passed"  # unit is not missed


def test_inner_products_of_a_kernel_are_attacked_as_they_are(files: Files) -> None:
    invoked("kfit", files.embeddings, files.labels, "--landmarks", "20", "-o", files.path("k.npz"), "--quiet")
    options = EvaluateOptions(probes=("linear", "same-kernel"), adversaries=("fresh",), max_leak=(Limit(1.0),))
    found = evaluate(files.embeddings, files.labels, files.path("k.npz"), options)
    assert {(r.probe, r.form) for r in found.probes} == {("linear", "raw"), ("linear", "unit"), ("same-kernel", "raw")}
    assert found.gates[0].status == "passed"
    with pytest.raises(UsageError, match="`forms=unit,int8`: same-kernel reads inner products, which are raw"):
        options = EvaluateOptions(probes=("same-kernel",), forms=("unit", "int8"))
        evaluate(files.embeddings, files.labels, files.path("k.npz"), options)


@pytest.mark.slow
def test_a_sweep_and_repeats_attack_the_first_form(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    found = json.loads(
        invoked(
            *("evaluate", files.embeddings, files.labels, "--eraser", files.path("e.npz"), *LINEAR, "--as", "unit,raw"),
            *("--sweep", "k=0:1", "--repeats", "2", "--sample", "40", "--json", "--quiet", "--max-accuracy", "1"),
        )
    )
    assert found["gates"][0]["status"] == "passed"
    assert {p["as"] for step in found["sweep"] for p in step["probes"]} == {"unit"}
    assert {f["name"] for f in found["repeats"]["figures"] if "accuracy" in f["name"]} == {
        f"y, linear as unit, {adversary}: accuracy" for adversary in ("in-sample", "fresh")
    }


@pytest.mark.slow
def test_terminal_tables_fit_into_80_columns_and_reports_have_every_attacker(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    reports = tuple(files.path(f"r.{kind}") for kind in ("md", "html", "json"))
    options = EvaluateOptions(probes=("linear", "quadratic"), forms=FORMS, reports=reports)
    printed = printed_at_80(evaluate(files.embeddings, files.labels, files.path("e.npz"), options))
    found = json.loads(Path(files.path("r.json")).read_text("utf-8"))
    assert len(found["probes"]) == 5 * 2 * 2 * 2
    markdown = Path(files.path("r.md")).read_text("utf-8")
    for form in ("unit", "float16", "int8", "binary"):
        for probe in ("linear", "quadratic"):
            assert f"| {probe} as {form} |" in markdown
        assert f"{form} " in printed
    assert "The other attackers on rows in these forms" in Path(files.path("r.html")).read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--as", "raw,signs"), "--as raw,signs: expected one of raw, unit, float16, int8, binary"),
        (("--as", ","), "--as : expected some of raw, unit"),
    ],
)
def test_a_form_that_there_is_not_is_refused(files: Files, options: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(app, ["evaluate", files.embeddings, files.labels, *options])
    assert done.exit_code == 2
    assert says in done.output


def test_a_number_that_float16_does_not_hold_is_an_error_that_names_the_file(files: Files) -> None:
    save_npy(Path(files.embeddings), files.x * 1e5)
    done = CliRunner().invoke(app, ["evaluate", files.embeddings, files.labels, *LINEAR, "--as", "float16"])
    assert done.exit_code == 3
    assert "x.npy: --as float16: row 0 has" in done.output


# Bands


@pytest.fixture
def words_file(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6)) + np.linspace(-2, 2, 300)[:, None] * np.eye(6)[0]
    x[0], x[1] = np.eye(6)[0], -np.eye(6)[0]
    (tmp_path / "x.txt").write_bytes(text_of([word.encode() for word in words(300)], x, has_header=True))
    return str(tmp_path / "x.txt")


def test_bands_are_labelled_never_fitted_attacked_and_judged(words_file: str, tmp_path: Path) -> None:
    y, e = str(tmp_path / "y.csv"), str(tmp_path / "e.npz")
    options = ("--direction", "w0:w1", "--top", "60", "--scores", "--bands", "30,20")
    record = json.loads(invoked("label", words_file, *options, "-o", y, "--json", "--quiet"))
    assert record["bands"] == {"band1": 60, "band2": 40}
    assert record["classes"] == {"w0": 60, "w1": 60}
    _, rows = read_csv(Path(y))
    scores: dict[tuple[str, str], list[float]] = {}
    for _, name, part, score in rows:
        scores.setdefault((name, part if part.startswith("band") else "labelled"), []).append(float(score))
    assert {key: len(of) for key, of in scores.items()} == {
        ("w0", "labelled"): 60, ("w1", "labelled"): 60, ("w0", "band1"): 30, ("w1", "band1"): 30,
        ("w0", "band2"): 20, ("w1", "band2"): 20,
    }  # fmt: skip
    assert min(scores["w0", "labelled"]) >= max(scores["w0", "band1"])
    assert min(scores["w0", "band1"]) >= max(scores["w0", "band2"]) > max(scores["w1", "band2"])
    assert max(scores["w1", "band1"]) <= min(scores["w1", "band2"])
    fitted = json.loads(invoked("fit", words_file, y, "--attribute", "label", "-o", e, "--json", "--quiet"))
    assert fitted["rows"]["n_fitted"] == sum(part == "train" for _, _, part, _ in rows)
    files = ("evaluate", words_file, y, "--attribute", "label", *LINEAR, "--as", "raw", "--quiet")
    found = json.loads(invoked(*files, "--json", "--judge", "point", "--max-accuracy", "0.1", code=1))
    assert [(r["band"], r["n_test"], r["adversary"]) for r in found["bands"]] == [
        ("band1", 60, "fresh"),
        ("band2", 40, "fresh"),
    ]
    worst = max((*found["probes"], *found["bands"]), key=lambda r: r["leakage"])
    assert found["gates"][0]["value"] == worst["leakage"]
    assert not any("not used" in note for note in found["notes"])
    options = EvaluateOptions(probes=("linear",), forms=("raw",), reports=(str(tmp_path / "r.md"),))
    printed = printed_at_80(evaluate(words_file, y, e, options))
    assert "Rows near the labelled ones" in printed
    assert "| label | band1 |" in (tmp_path / "r.md").read_text("utf-8")


def test_a_gate_fails_for_a_band_that_reads_more_than_the_test_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 400
    parts = [("train", "dev", "test", "band1")[i // 2 % 4] for i in range(n)]
    codes, is_test = np.arange(n) % 2, np.array([part == "test" for part in parts])
    x = rng.normal(size=(n, 5)) + 5 * np.eye(5)[0] * (codes * ~is_test)[:, None]
    y = write_csv(tmp_path / "y.csv", ["y", "split"], zip(["ab"[code] for code in codes], parts, strict=True))
    options = EvaluateOptions(probes=("linear",), forms=("raw",), max_accuracy=(Limit(0.8),), learning_curve=False)
    found = evaluate(str(save_npy(tmp_path / "x.npy", x)), str(y), None, options)
    assert max(r.accuracy for r in found.probes) < 0.8
    assert found.gates[0].status == "failed"
    assert found.gates[0].decided_by == "y, linear, fresh, band1"


def test_bands_take_no_turn_in_folds(words_file: str, tmp_path: Path) -> None:
    y, e = str(tmp_path / "y.csv"), str(tmp_path / "e.npz")
    invoked("label", words_file, "--direction", "w0:w1", "--top", "60", "--bands", "30", "-o", y, "--quiet")
    fit(words_file, y, e, FitOptions())
    options = EvaluateOptions(probes=("linear",), forms=("raw",), folds=3, kept=False)
    found = evaluate(words_file, y, e, options)
    assert {r.n_test for r in found.probes} == {120}
    assert found.bands == ()


def test_bands_need_a_split_column_and_words(words_file: str, tmp_path: Path) -> None:
    label = ["label", words_file, "--direction", "w0:w1", "--top", "100", "-o", str(tmp_path / "y.csv")]
    for more, code, says in (
        (["--bands", "20", "--split", "none"], 2, "--bands are parts of the split column: leave --split none out"),
        (["--bands", "51"], 3, "300 words to choose from, --top 100 and --bands 51 needs 302"),
        (["--bands", "1,x"], 2, "--bands 1,x: expected whole numbers with commas between"),
        (["--bands", "0"], 2, "--bands 0: at least 1"),
    ):
        done = CliRunner().invoke(app, [*label, *more])
        assert (done.exit_code, says in done.output) == (code, True), done.output
    assert not (tmp_path / "y.csv").exists()


# Bias tests


@pytest.fixture
def biased(tmp_path: Path) -> dict[str, Any]:
    """Words on two sides of a direction that is erased, and a file of word sets."""
    rng = np.random.default_rng(0)
    names = [f"{side}{i}" for i in range(40) for side in ("he", "she")]
    sign = np.array([1.0 if name.startswith("he") else -1.0 for name in names])
    x = rng.normal(size=(80, 8)) * 0.3
    x[:, 0] += 2 * sign
    (tmp_path / "x.txt").write_bytes(text_of([name.encode() for name in names], x, has_header=True))
    write_csv(
        tmp_path / "y.csv", ["word", "y"], ((name, "m" if s > 0 else "f") for name, s in zip(names, sign, strict=True))
    )
    at = {"X": ("he", 0), "Y": ("she", 0), "A": ("he", 10), "B": ("she", 10)}
    sets = {role: [f"{side}{i}" for i in range(first, first + 5)] for role, (side, first) in at.items()}
    tests = {kind: {"test": kind, **sets} for kind in ("weat", "rnd", "ripa")}
    (tmp_path / "sets.json").write_text(json.dumps({"tests": tests}), "utf-8")
    fit(str(tmp_path / "x.txt"), str(tmp_path / "y.csv"), str(tmp_path / "e.npz"), FitOptions(labels=LabelOptions()))
    return {"folder": tmp_path, "x": str(tmp_path / "x.txt"), "eraser": str(tmp_path / "e.npz")}


def test_bias_needs_no_labels_and_falls_with_the_direction(biased: dict[str, Any]) -> None:
    folder = biased["folder"]
    files = ("evaluate", biased["x"], "--eraser", biased["eraser"], "--bias", f"{folder}/sets.json,weat6", "--quiet")
    found = json.loads(invoked(*files, "--json"))
    by_name = {each["name"]: each for each in found["bias"]}
    assert list(by_name) == ["weat", "rnd", "ripa", "weat6"]
    assert by_name["weat"]["before"]["value"] > 1.8
    assert by_name["weat"]["before"]["p_value"] == pytest.approx(1 / 252)
    assert abs(by_name["weat"]["after"]["value"]) < abs(by_name["weat"]["before"]["value"])
    assert by_name["rnd"]["before"]["value"] < -3 < 3 < 20 * by_name["ripa"]["before"]["value"]
    assert abs(by_name["ripa"]["after"]["value"]) < 0.5
    assert by_name["weat6"]["before"] is None
    assert "only 0 of 8 words of X (male names) have vectors" in by_name["weat6"]["undefined"]["after"]
    assert found["run"]["options"]["bias"] == ["sets.json", "weat6"]
    options = EvaluateOptions(bias=(f"{folder}/sets.json", "weat6"), reports=(f"{folder}/r.md",))
    printed = printed_at_80(evaluate(biased["x"], None, biased["eraser"], options))
    assert "weat6: undefined before and after" in printed
    assert "### Bias tests" in (folder / "r.md").read_text("utf-8")


def test_bias_that_cannot_be_read_is_one_line_and_no_report(biased: dict[str, Any]) -> None:
    folder = biased["folder"]
    (folder / "broken.json").write_text("{", "utf-8")
    files = ["evaluate", biased["x"], "--eraser", biased["eraser"], "--report", f"{folder}/r.md", "--bias"]
    for value, code, says in (
        (f"{folder}/broken.json", 3, "not JSON"),
        ("weat12", 3, "there is no such file or built-in bias test; did you mean weat"),
    ):
        done = CliRunner().invoke(app, [*files, value])
        assert (done.exit_code, says in done.output) == (code, True), done.output
    assert not (folder / "r.md").exists()
    keyless = save_npy(folder / "x.npy", np.ones((80, 8), "f4"))
    done = CliRunner().invoke(app, ["evaluate", str(keyless), "--bias", "weat1"])
    assert "--bias looks words up, but" in done.output
    over = CliRunner().invoke(
        app, ["evaluate", biased["x"], "--bias", f"{folder}/sets.json", "--report", f"{folder}/sets.json"]
    )
    assert over.exit_code != 0, "word sets are no output"
