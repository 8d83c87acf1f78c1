"""`fit --unit`: class means of the unit rows that are written are equal, for every linear method."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import salcli
from salcli.commands.apply import apply
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.inspect import inspect
from salcli.erasers.artifact import read_artifact
from salcli.erasers.inlp import INLPParameters
from salcli.erasers.leace import LEACEParameters
from salcli.erasers.sal import SALParameters
from salcli.erasers.splince import SPLINCEParameters
from salcli.erasers.unit import EQUAL, UnitEraser
from salcli.errors import FormatError, ShapeError, UsageError
from salcli.evaluation.json_fields import to_json
from salcli.formats.artifact import write_file
from salcli.linalg.unit import normalize, row_lengths
from salcli.options import ApplyOptions, EvaluateOptions, FitOptions, InspectOptions, LabelOptions, ReadOptions, Sweep

from ..cli.helpers import header_of, refuse, save_npy, succeed, write_csv

Array = NDArray[Any]
Codes = NDArray[np.int64]


def unit(x: Array) -> Array:
    exact = x.astype(np.float64)
    return np.asarray(exact / np.linalg.norm(exact, axis=1, keepdims=True))


def leaking(n: int = 2000, d: int = 40, c: int = 2, seed: int = 0) -> tuple[Array, Codes]:
    """Draw unit rows far from the origin, whose lengths differ between classes once they are erased."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % c)
    x = rng.normal(size=(n, d)) * np.linspace(0.3, 1, d) + 0.5 * rng.normal(size=(c, d))[codes]
    return unit(x + rng.normal(size=d)), codes


def mean_gap(x: Array, codes: Codes) -> float:
    means = np.array([x[codes == c].astype(np.float64).mean(0) for c in np.unique(codes)])
    return float(np.abs(means - means[0]).max())


def linear_accuracy(x: Array, codes: Codes) -> float:
    """Return the share of rows that a linear classifier predicts right among those that it was trained on."""
    scaled = (x - x.mean(0)) / x.std()
    return max(
        float(machine.fit(scaled, codes).score(scaled, codes))
        for machine in (LinearSVC(dual=False, tol=1e-6), LogisticRegression(C=1e4, max_iter=2000))
    )


PARAMETERS: dict[str, Any] = {
    "sal": {"unit_rounds": 80},
    "leace": {"unit_rounds": 80},
    "splince": {"unit_rounds": 80, "task": np.arange(2000) % 3},
    "inlp": {"unit_rounds": 80},
}


def test_plain_sal_leaks_once_its_rows_are_divided_by_their_lengths() -> None:
    x, codes = leaking()
    kept = salcli.fit(x, codes, keep_mean=True).eraser(x)
    assert linear_accuracy(kept, codes) < 0.53
    assert linear_accuracy(unit(kept), codes) > 0.6
    assert mean_gap(unit(salcli.fit(x, codes).eraser(x)), codes) > 1e-3


@pytest.mark.parametrize("method", PARAMETERS)
def test_a_linear_classifier_is_at_chance_on_the_unit_rows_that_are_written(method: str) -> None:
    x, codes = leaking()
    found = salcli.fit(x, codes, method=method, unit=True, **PARAMETERS[method])
    written = found.eraser(x)
    assert_allclose(np.linalg.norm(written, axis=1), 1, rtol=1e-12)
    assert linear_accuracy(written, codes) <= 0.55
    assert found.header["unit"]["is_equal"]
    assert found.header["unit"]["n_rounds"] > 1
    assert found.header["unit"]["gaps"][1] > 1e-3 or method == "inlp"  # its normals come first
    assert mean_gap(written, codes) < 4 * EQUAL
    assert mean_gap(written.astype(np.float32), codes) < 5 * EQUAL


def test_inlp_removes_the_differences_of_means_that_its_classifiers_leave() -> None:
    x, codes = leaking()
    found = salcli.fit(x, codes, method="inlp", unit=True, unit_rounds=80)
    n = found.header["inlp"]["n_of_means"]
    normals = found.eraser.left[:, :-n]  # type: ignore[attr-defined]
    assert n == 1
    assert mean_gap(unit(x - x @ normals @ normals.T), codes) > 1e-3
    assert found.eraser.k == normals.shape[1] + 1 == found.rank


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["sal", "leace"]), st.integers(2, 4), st.sampled_from([1e-3, 1, 1e3]))
def test_class_means_are_equal_or_the_rounds_are_stated(seed: int, method: str, c: int, scale: float) -> None:
    x, codes = leaking(160, 30, c, seed)
    rows = x * np.random.default_rng(seed).uniform(0.5, 2, (len(x), 1)) * scale  # lengths do not matter
    found = salcli.fit(rows, codes, method=method, unit=True, unit_rounds=25)
    about, written = found.header["unit"], found.eraser(rows)
    gap = mean_gap(written, codes)
    assert gap < (6 * EQUAL if about["is_equal"] else 1e-3)
    assert about["is_equal"] or about["n_rounds"] == 25
    assert len(found.doubts) == (not about["is_equal"])
    eraser = found.eraser
    assert_allclose(eraser.left.T @ eraser.right, np.eye(eraser.k), atol=1e-9)  # type: ignore[attr-defined]
    assert_allclose(eraser(written), written, atol=1e-8)


def test_the_fixed_point_is_that_of_a_plain_loop() -> None:
    x, codes = leaking(600, 20)
    found = salcli.fit(x, codes, unit=True, unit_rounds=80)
    direction = np.zeros(20)
    for _ in range(80):
        lengths = np.linalg.norm(x - np.outer(x @ direction, direction), axis=1, keepdims=True)
        gap = (x / lengths)[codes == 1].mean(0) - (x / lengths)[codes == 0].mean(0)
        direction = gap / np.linalg.norm(gap)
    assert_allclose(found.eraser(x), unit(x - np.outer(x @ direction, direction)), atol=3e-5)
    assert found.eraser.k == 1


def test_rows_of_zeros_and_rows_that_are_erased_whole_become_zeros() -> None:
    x, codes = leaking()
    eraser = salcli.fit(x, codes, unit=True).eraser
    rows = np.vstack([np.zeros(40), eraser.left[:, 0] * 7, x[0]])  # type: ignore[attr-defined]
    for dtype in (np.float64, np.float32):
        written = eraser(rows.astype(np.float64), dtype=dtype)
        assert not written[:2].any()
        assert_allclose(np.linalg.norm(written[2]), 1, rtol=1e-6)
    for strength in (0.0, 0.5):
        partly = eraser(rows, strength=strength)
        assert not partly[0].any()
        assert_allclose(np.linalg.norm(partly[1:], axis=1), 1)
    assert_allclose(eraser(x, strength=0.0), x)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_rows_of_any_size_have_a_length(scale: float) -> None:
    x = np.random.default_rng(0).normal(size=(50, 4))
    assert_allclose(row_lengths(x * scale), np.linalg.norm(x, axis=1) * scale, rtol=1e-12)
    assert_allclose(normalize(x * scale), unit(x), rtol=1e-12)


def test_what_is_not_finite_stays_so() -> None:
    x = np.array([[np.nan, 1], [np.inf, 1], [3, 4]])
    found = normalize(x.copy())
    assert not np.isfinite(found[:2]).all(axis=1).any()
    assert_allclose(found[2], [0.6, 0.8])


def test_the_coordinates_that_are_left_are_unit_rows_with_the_same_cosines() -> None:
    x, codes = leaking(300)
    eraser = salcli.fit(x, codes, unit=True).eraser
    whole, reduced = eraser(x), eraser.reduce(x)
    assert reduced.shape == (300, 40 - eraser.k)
    assert_allclose(reduced @ reduced.T, whole @ whole.T, atol=1e-10)


@pytest.mark.parametrize(
    ("record", "options"),
    [
        (SALParameters, {"k": 1}),
        (SALParameters, {"alpha": 2.0}),
        (SALParameters, {"center": False}),
        (SALParameters, {"keep_mean": True}),
        (LEACEParameters, {"k": 1}),
        (SPLINCEParameters, {"alpha": 2.0, "task": "job"}),
        (INLPParameters, {"keep_mean": True}),
    ],
)
def test_options_that_contradict_it_are_refused(record: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="`unit`"):
        record(unit=True, **options)
    record(**options)


def test_an_eraser_of_unit_rows_subtracts_no_mean() -> None:
    with pytest.raises(ShapeError, match="no mean"):
        UnitEraser(np.ones(3), np.eye(3)[:, :1], np.eye(3)[:, :1])


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str, Path]:
    x, codes = leaking(480)
    lengths = np.random.default_rng(1).uniform(0.5, 5, (480, 1))
    parts = np.array(["train", "train", "dev", "test"])[np.arange(480) % 4]
    rows = zip(np.array(["f", "m"])[codes], np.array(["u", "v", "w"])[np.arange(480) % 3], parts, strict=True)
    write_csv(tmp_path / "y.csv", ["g", "job", "split"], rows)
    return str(save_npy(tmp_path / "x.npy", (x * lengths).astype(np.float32))), str(tmp_path / "y.csv"), tmp_path


OPTIONS: dict[str, Any] = {
    "sal": SALParameters(unit=True),
    "leace": LEACEParameters(unit=True),
    "splince": SPLINCEParameters(unit=True, task="job"),
    "inlp": INLPParameters(unit=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", OPTIONS)
def test_apply_writes_unit_rows_and_evaluate_compares_unit_rows(method: str, paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    labels = LabelOptions(("g",))
    fit(x, y, str(folder / "e.npz"), FitOptions(method=method, parameters=OPTIONS[method], labels=labels))
    apply(str(folder / "e.npz"), x, str(folder / "o.npy"), ApplyOptions())
    written = np.load(folder / "o.npy")
    assert written.dtype == np.float32
    assert_allclose(np.linalg.norm(written, axis=1), 1, rtol=1e-6)
    apply(str(folder / "e.npz"), x, str(folder / "b.npy"), ApplyOptions(read=ReadOptions(batch_rows=7)))
    assert_array_equal(np.load(folder / "b.npy"), written)
    table = np.array([line.split(",") for line in Path(y).read_text().splitlines()[1:]])
    train, codes = table[:, 2] == "train", (table[:, 0] == "m").astype(np.int64)
    if method != "inlp":
        assert mean_gap(written[train], codes[train]) < 5 * EQUAL
    artifact = read_artifact(str(folder / "e.npz"))
    assert artifact.header["eraser"] == "unit"
    assert artifact.parameters == OPTIONS[method]
    assert not artifact.eraser.arrays()["mean"].any()


def test_in_place_and_reduced_rows_are_unit_rows_too(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    fit(x, y, str(folder / "e.npz"), FitOptions(parameters=SALParameters(unit=True), labels=LabelOptions(("g",))))
    apply(str(folder / "e.npz"), x, str(folder / "o.npy"), ApplyOptions())
    apply(str(folder / "e.npz"), x, str(folder / "r.npy"), ApplyOptions(reduces=True))
    apply(str(folder / "e.npz"), x, None, ApplyOptions(in_place=True))
    assert_array_equal(np.load(x), np.load(folder / "o.npy"))
    assert_allclose(np.linalg.norm(np.load(folder / "r.npy"), axis=1), 1, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sal", "splince"])
def test_sweeps_and_repeats_fit_unit_rows_again(method: str, paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    labels = LabelOptions(("g",))
    fit(x, y, str(folder / "e.npz"), FitOptions(method=method, parameters=OPTIONS[method], labels=labels))
    k = read_artifact(str(folder / "e.npz")).eraser.k
    options = EvaluateOptions(probes=("linear",), sweep=Sweep.parse(f"k=0:{k + 1}"), repeats=2, sample=100)
    report = evaluate(x, y, str(folder / "e.npz"), options)
    assert [step.value for step in report.sweep] == list(range(k + 1))
    before, after = (
        next(p.accuracy for p in report.probes if (p.stage, p.adversary) == (stage, "in-sample"))
        for stage in ("before", "after")
    )
    first, *_, last = (step.probes[0].accuracy for step in report.sweep)
    assert (first, last) == (before, after)  # k = 0: unit rows, nothing erased
    assert report.repeats is not None


@pytest.mark.slow
def test_the_command_line_says_how_many_fits_it_took(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    how = ("fit", x, y, "--attribute", "g", "-o", folder / "e.npz")
    done = succeed(*how, "--unit")
    assert "unit rows" in done.out
    assert header_of(folder / "e.npz")["unit"]["is_equal"]
    assert "unit rows" in succeed("inspect", folder / "e.npz").out
    assert (
        "all of length 1, the erased ones are not"
        not in succeed("apply", folder / "e.npz", x, "-o", folder / "o.npy").err
    )
    done = succeed(*how, "--unit", "--unit-rounds", "1")
    assert "after 1 fits the class means of unit rows still differ" in done.err
    assert "--unit-rounds" in done.err
    refuse(2, *how, "--unit", "--keep-mean", says="--unit")
    refuse(2, *how, "--unit", "-k", "1", says="--unit")


def test_a_damaged_artifact_is_refused(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    fit(x, y, str(folder / "e.npz"), FitOptions(parameters=SALParameters(unit=True), labels=LabelOptions(("g",))))
    artifact = read_artifact(str(folder / "e.npz"))
    arrays = {**artifact.eraser.arrays(), "singular_values": artifact.singular_values}
    header = {**artifact.header, "eraser": "unit"}
    write_file(str(folder / "m.npz"), header, {**arrays, "mean": np.ones(40)})
    with pytest.raises(FormatError, match="subtracts no mean"):
        read_artifact(str(folder / "m.npz"))
    damaged = {**header, "unit": {**header["unit"], "gaps": "none"}}
    write_path = str(folder / "g.npz")
    with pytest.raises((FormatError, UsageError), match="gaps"):
        write_file(write_path, damaged, arrays)
    assert inspect(str(folder / "e.npz"), InspectOptions())["unit"] == header["unit"]


@pytest.mark.slow
@pytest.mark.parametrize("method", OPTIONS)
def test_the_artifact_is_the_same_for_any_batches(method: str, paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    for name, rows in (("one", None), ("other", 7)):
        read, labels = ReadOptions(batch_rows=rows), LabelOptions(("g",))
        options = FitOptions(method=method, parameters=OPTIONS[method], labels=labels, read=read)
        fit(x, y, str(folder / f"{name}.npz"), options)
    assert (folder / "one.npz").read_bytes() == (folder / "other.npz").read_bytes()


def test_the_report_says_that_rows_of_length_1_are_written_and_which_task_is_kept(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    options = FitOptions(method="splince", parameters=OPTIONS["splince"], labels=LabelOptions(("g",)))
    fit(x, y, str(folder / "e.npz"), options)
    report = str(folder / "r.md")
    found = evaluate(x, y, str(folder / "e.npz"), EvaluateOptions(probes=("linear",), reports=(report,)))
    text = Path(report).read_text()
    assert "and writes rows of length 1. Guarded: g. Task whose covariance is kept: job." in text.replace("\n", " ")
    about = to_json(found)["eraser"]
    assert (about["unit_rows"], about["kept_task"]) == (True, "job")
