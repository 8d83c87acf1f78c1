"""What is said of erasers that are of little use, and what no gate passes for."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import salcli
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.erasers.base import METHODS
from salcli.erasers.ksal import KSALParameters
from salcli.erasers.sal import SALParameters
from salcli.errors import SalcliWarning, UsageError
from salcli.options import EvaluateOptions, FitOptions, LabelOptions, Limit, Sweep

from ..cli.helpers import save_npy, write_csv
from .conftest import Files

LINEAR = EvaluateOptions(probes=("linear",))


def said(work: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(warning.message) for warning in found if issubclass(warning.category, SalcliWarning)]


def kfit(files: Files, **parameters: Any) -> list[str]:
    options = FitOptions(method="ksal", parameters=KSALParameters(**parameters))
    return said(lambda: fit(files.embeddings, files.labels, files.path("k.npz"), options))


@pytest.mark.parametrize("landmarks", [2048, "all"])
@pytest.mark.parametrize(("gamma", "fault"), [(100.0, "too large"), (1e-7, "too small"), (None, "")])
def test_a_kernel_that_does_not_fit_the_rows_is_said_once(
    files: Files, landmarks: int | str, gamma: float | None, fault: str
) -> None:
    told = kfit(files, gamma=gamma, landmarks=landmarks)
    assert len(told) == bool(fault)
    fitting = 1 / np.median(pdist(files.x[files.rows("train")].astype(float)) ** 2)
    for line in told:
        assert fault in line
        assert f"`gamma={fitting:.3g}` fits" in line
    if fault:  # what is fitted again does not say it again
        again = replace(LINEAR, repeats=2, sample=40)
        run = said(lambda: evaluate(files.embeddings, files.labels, files.path("k.npz"), again))
        assert not [line for line in run if fault in line]


@pytest.mark.parametrize("landmarks", [2048, "all"])
def test_gamma_scale_is_recorded_as_a_number_and_says_nothing(files: Files, landmarks: int | str) -> None:
    assert kfit(files, gamma="scale", landmarks=landmarks) == []
    eraser = salcli.load_eraser(files.path("k.npz"))
    parameters = KSALParameters(gamma="scale", landmarks=landmarks)
    header = fit(
        files.embeddings, files.labels, files.path("k.npz"), FitOptions(method="ksal", parameters=parameters)
    ).header
    fitting = 1 / np.median(pdist(files.x[files.rows("train")].astype(float)) ** 2)
    assert header["kernel"]["gamma"] == pytest.approx(fitting, rel=1e-6)
    assert header["parameters"]["gamma"] == header["kernel"]["gamma"]
    train = files.rows("train")
    by_arrays = salcli.fit(
        files.x[train], [files.y[i] for i in train], method="ksal", gamma="scale", landmarks=landmarks
    )
    for name, array in eraser.arrays().items():
        np.testing.assert_array_equal(by_arrays.eraser.arrays()[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("landmarks", [2048, "all"])
def test_no_gate_passes_where_test_rows_are_dissimilar_to_the_fitted_rows(files: Files, landmarks: int | str) -> None:
    kfit(files, gamma=100.0, landmarks=landmarks)
    limits = {"max_gain": (Limit(1.0),), "max_accuracy": (Limit(1.0),)}
    asked = replace(LINEAR, **limits)
    report = evaluate(files.embeddings, files.labels, files.path("k.npz"), asked)
    assert [gate.passed for gate in report.gates] == [False, False]
    assert all("are dissimilar" in gate.reason for gate in report.gates)
    assert sum("are dissimilar" in note for note in report.notes) == 1
    kfit(files, gamma="scale", landmarks=landmarks)
    report = evaluate(files.embeddings, files.labels, files.path("k.npz"), asked)
    assert all(gate.passed for gate in report.gates)
    assert not any("are dissimilar" in note for note in report.notes)


@pytest.mark.parametrize(("n_classes", "is_told"), [(3, False), (4, True)])
def test_an_eraser_of_all_directions_is_told_of(tmp_path: Any, n_classes: int, is_told: bool) -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(120) % n_classes
    x = (rng.normal(size=(120, 3)) + 5 * rng.normal(size=(n_classes, 3))[codes]).astype(np.float32)
    files = str(save_npy(tmp_path / "x.npy", x)), str(write_csv(tmp_path / "y.csv", ["y"], [[f"c{i}"] for i in codes]))
    for work in (
        lambda: fit(*files, str(tmp_path / "e.npz"), FitOptions(labels=LabelOptions())),
        lambda: salcli.fit(x, codes.astype(str)),
    ):
        told = said(work)
        assert len(told) == is_told
        assert all("all 3 directions are removed" in line for line in told)


@pytest.mark.slow
@pytest.mark.parametrize("keep_mean", [False, True])
def test_erasers_are_fitted_again_with_the_mean_as_the_artifact_has_it(
    files: Files, keep_mean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = SALParameters(k=1, keep_mean=keep_mean)
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions(parameters=parameters))
    found, usual = [], METHODS["sal"]

    class Recording:
        name, summary, Parameters = usual.name, usual.summary, usual.Parameters

        def fit(self, *args: Any, **how: Any) -> Any:
            found.append(usual.fit(*args, **how))
            return found[-1]

    monkeypatch.setitem(METHODS, "sal", Recording())
    asked = replace(LINEAR, sweep=Sweep.parse("k=1:2"), repeats=2, sample=40)
    evaluate(files.embeddings, files.labels, files.path("e.npz"), asked)
    assert len(found) == 3
    assert all(each.eraser.arrays()["mean"].any() == keep_mean for each in found)


@pytest.mark.parametrize("method", ["sal", "ksal", "leace"])
def test_the_python_face_keeps_the_mean_as_the_command_does(files: Files, method: str) -> None:
    name = "feature_mean" if method == "ksal" else "mean"
    assert salcli.fit(files.x, files.y, method=method).eraser.arrays()[name].any() == (method == "leace")
    if method == "leace":
        with pytest.raises(UsageError, match="has no `keep_mean`"):
            salcli.fit(files.x, files.y, method=method, keep_mean=True)
    else:
        assert salcli.fit(files.x, files.y, method=method, keep_mean=True).eraser.arrays()[name].any()
