"""From an artifact to the matrix that is exported: against the eraser itself."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import salcli
from salcli.commands.export import export, map_of
from salcli.commands.fit import fit
from salcli.erasers.artifact import read_artifact
from salcli.erasers.transport.readers import readings
from salcli.errors import UsageError
from salcli.formats.exports import DenseMap, find_target
from salcli.options import ExportOptions, FitOptions
from salcli.streaming.engine import one_blas_thread

SAMPLE = Path(__file__).parents[2] / "sample_data"


def fitted(folder: Path, *, seed: int = 0, d: int = 12, keep_mean: bool = False) -> str:
    from salcli.erasers.base import find_method

    rng = np.random.default_rng(seed)
    codes = np.arange(60) % 3
    x = rng.normal(size=(60, d)) + 2 + rng.normal(size=(3, d))[codes]
    np.save(folder / "x.npy", x)
    (folder / "y.csv").write_text("g\n" + "".join(f"{'abc'[code]}\n" for code in codes))
    path = str(folder / "e.npz")
    parameters = find_method("sal").Parameters(keep_mean=keep_mean)
    fit(str(folder / "x.npy"), str(folder / "y.csv"), path, FitOptions(parameters=parameters))
    return path


@given(seed=st.integers(0, 50), d=st.integers(2, 20), keep_mean=st.booleans())
@settings(max_examples=15, deadline=None)
def test_the_matrix_and_the_constant_are_the_eraser(
    tmp_path_factory: pytest.TempPathFactory, seed: int, d: int, keep_mean: bool
) -> None:
    artifact = read_artifact(path := fitted(tmp_path_factory.mktemp("e"), seed=seed, d=d, keep_mean=keep_mean))
    dense = map_of(artifact, path)
    assert isinstance(dense, DenseMap)
    x = np.random.default_rng(seed + 1).normal(size=(30, d)) * 10
    np.testing.assert_allclose(x @ dense.weight.T + dense.bias, artifact.eraser(x), atol=1e-12)
    assert dense.bias.any() == keep_mean
    assert dense.metadata["salcli_eraser_sha256"] == artifact.sha256


@given(
    seed=st.integers(0, 50),
    d=st.integers(2, 9),
    c=st.integers(2, 4),
    certain=st.sampled_from([0.0, 0.5, 30.0]),
    keep_mean=st.booleans(),
    is_double=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_a_transport_as_a_graph_moves_rows_as_the_eraser_does(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    d: int,
    c: int,
    certain: float,
    keep_mean: bool,
    is_double: bool,
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(60 * c) % c)
    roots, shift = np.eye(d) + 0.5 * rng.normal(size=(c, d, d)), rng.normal(size=(c, d))
    x = (np.einsum("nd,nde->ne", rng.normal(size=(60 * c, d)), roots[codes]) + shift[codes] + 3).astype(np.float32)
    fitted = salcli.Transport(shrinkage=0.2, keep_mean=keep_mean).fit(x, guarded=codes)
    posterior = replace(fitted.eraser_.posterior, certain=certain)  # all rows, most and few are moved the whole way
    eraser = replace(fitted.eraser_, posterior=posterior)
    path = str(tmp_path_factory.mktemp("t") / "t.onnx")
    with pytest.raises(UsageError, match=r"moves each row by the class.*write it as `.onnx`"):
        fitted.to_artifact(other := path.replace(".onnx", ".npz"))
        export(other, path.replace(".onnx", ".safetensors"), ExportOptions())
    found = map_of(replace(fitted.artifact_, eraser=eraser), path)
    find_target(None, path).write(path, found, is_double)
    (served,) = runtime.InferenceSession(path).run(None, {"embedding": x})
    expected = eraser(x, dtype=np.float64)
    np.testing.assert_allclose(served, expected, atol=2e-6 * np.abs(x).max() if is_double else 2e-4)
    moved = np.abs(expected - x).max(axis=1)
    assert (moved > 1e-3).mean() > 0.2  # not the identity


def test_a_transport_that_is_served_leaves_as_little_of_real_rows_as_apply(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    x = np.load(SAMPLE / "bios-sample.npy")[:1000, :48].astype(np.float32)
    with open(SAMPLE / "bios-sample.csv", encoding="utf-8") as file:
        gender = np.array([row["gender"] for row in csv.DictReader(file)][:1000])
    found = salcli.Transport(shrinkage=0.1).fit(x, guarded=gender)
    found.to_artifact(str(tmp_path / "t.npz"))
    export(str(tmp_path / "t.npz"), str(tmp_path / "t.onnx"), ExportOptions())
    (served,) = runtime.InferenceSession(str(tmp_path / "t.onnx")).run(None, {"embedding": x})
    order, codes = np.random.default_rng(0).permutation(len(x)), (gender == "female").astype(np.int64)
    with one_blas_thread():
        of_x, applied, left = (readings(rows[order], codes[order], 2) for rows in (x, found.transform(x), served))
    assert applied["quadratic"] < of_x["quadratic"] - 0.2
    assert left == pytest.approx(applied, abs=0.005)


@pytest.mark.parametrize(
    "parameters",
    [
        {"landmarks": 60, "gamma": 2.0},
        {"landmarks": "all", "kernel": "poly", "degree": 3, "gamma": 0.3, "coef0": 2.0, "keep_mean": True},
        {"kernel": "linear", "landmarks": 30},
    ],
)
def test_a_kernels_graph_returns_the_features_of_the_eraser(tmp_path: Path, parameters: dict[str, Any]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    codes = np.arange(90) % 3
    x = (rng.normal(size=(90, 6)) + rng.normal(size=(3, 6))[codes]).astype(np.float32)
    salcli.KernelSAL(**parameters).fit(x, guarded=codes).to_artifact(str(tmp_path / "k.npz"))
    for is_double in (False, True):
        found = export(str(tmp_path / "k.npz"), str(tmp_path / "k.onnx"), ExportOptions(double=is_double))
        (served,) = runtime.InferenceSession(str(tmp_path / "k.onnx")).run(None, {"embedding": x})
        expected = read_artifact(str(tmp_path / "k.npz")).eraser(x, dtype=np.float64)
        np.testing.assert_allclose(served, expected, atol=1e-6 * np.abs(expected).max())
        assert (found.d, found.d_out, found.is_double) == (6, expected.shape[1], True)
    with pytest.raises(UsageError, match=r"kernel features.*write it as `.onnx`, or use `apply`"):
        export(str(tmp_path / "k.npz"), str(tmp_path / "k.safetensors"), ExportOptions())


def test_what_was_written_is_told(tmp_path: Path) -> None:
    eraser = fitted(tmp_path)
    found = export(eraser, str(tmp_path / "m.safetensors"), ExportOptions(double=True)).to_dict()
    files = [str(tmp_path / "m.safetensors")]
    sizes = {"d": 12, "d_out": 12, "dtype": "float64"}
    assert found == {"eraser": eraser, "output": files[0], "to": "safetensors", **sizes, "files": files}
    with pytest.raises(UsageError, match="modules of sentence-transformers are float32"):
        export(eraser, str(tmp_path), ExportOptions(to="sentence-transformers", double=True))
