"""What is exported does what `apply` does, in the runtime that loads it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salcli.errors import FormatError, OutputError, ParameterError, UsageError
from salcli.formats.exports import TARGETS, DenseMap, find_target, npz, safetensors
from salcli.formats.exports import onnx as to_onnx
from salcli.formats.exports import sentence_transformers as to_model

Array = np.ndarray[Any, Any]


def a_map(d: int, *, bias: bool = True, normalizes: bool = False, seed: int = 0) -> DenseMap:
    rng = np.random.default_rng(seed)
    u = np.linalg.qr(rng.normal(size=(d, max(1, d // 4))))[0]
    weight = np.eye(d) - u @ u.T
    return DenseMap(weight, (rng.normal(size=d) if bias else np.zeros(d)), normalizes, {"made_by": "a test"})


def expected(dense: DenseMap, x: Array) -> Array:
    def unit(rows: Array) -> Array:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1)

    rows = x.astype(np.float64)
    if dense.normalizes:
        return unit(unit(rows) @ dense.weight.T + dense.bias)
    return rows @ dense.weight.T + dense.bias


@pytest.mark.parametrize("normalizes", [False, True])
@pytest.mark.parametrize("is_double", [False, True])
def test_a_runtime_computes_what_the_onnx_file_says(tmp_path: Path, is_double: bool, normalizes: bool) -> None:
    runtime = pytest.importorskip("onnxruntime")
    dense = a_map(24, bias=not normalizes, normalizes=normalizes)
    path = str(tmp_path / "e.onnx")
    assert to_onnx.write(path, dense, is_double) == [path]
    session = runtime.InferenceSession(path)
    x = np.random.default_rng(1).normal(size=(50, 24)).astype(np.float32) + 3
    x[7] = 0
    x[8] -= (x[8] @ dense.weight.T).astype(np.float32)  # rounding is left of it, in float64 that of x alone
    (found,) = session.run(None, {"embedding": x})
    assert found.dtype == np.float32
    assert found.shape == (50, 24)
    wanted = expected(dense, x)
    if normalizes and not is_double:
        assert np.linalg.norm(found[8]) < 0.1  # 1, if it were divided by its length
        found, wanted = np.delete(found, 8, axis=0), np.delete(wanted, 8, axis=0)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert session.get_modelmeta().custom_metadata_map == {"made_by": "a test"}
    if is_double:
        np.testing.assert_array_max_ulp(found, expected(dense, x).astype(np.float32), maxulp=2)


def test_double_precision_leaves_less_in_the_removed_directions(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(2)
    u = np.linalg.qr(rng.normal(size=(300, 1)))[0]
    dense = DenseMap(np.eye(300) - u @ u.T, np.zeros(300))
    x = (rng.normal(size=(400, 300)) + 40 * u.T).astype(np.float32)
    left = {}
    for is_double in (False, True):
        path = str(tmp_path / f"{is_double}.onnx")
        to_onnx.write(path, dense, is_double)
        (found,) = runtime.InferenceSession(path).run(None, {"embedding": x})
        left[is_double] = float(np.abs(found.astype(np.float64) @ u).max())
    assert left[True] < left[False]
    assert left[True] < 2e-6


@given(d=st.integers(1, 40), seed=st.integers(0, 99), is_double=st.booleans(), bias=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_safetensors_library_reads_the_tensors_and_metadata(
    tmp_path_factory: pytest.TempPathFactory, d: int, seed: int, is_double: bool, bias: bool
) -> None:
    library = pytest.importorskip("safetensors")
    path = str(tmp_path_factory.mktemp("s") / "e.safetensors")
    dense = a_map(d, seed=seed, bias=bias)
    safetensors.write(path, dense, is_double)
    dtype = np.float64 if is_double else np.float32
    with library.safe_open(path, framework="np") as found:
        assert found.metadata() == {"format": "pt", "made_by": "a test"}
        assert set(found.keys()) == {"weight", "bias"}
        np.testing.assert_array_equal(found.get_tensor("weight"), dense.weight.astype(dtype), strict=True)
        np.testing.assert_array_equal(found.get_tensor("bias"), dense.bias.astype(dtype), strict=True)


def test_numpy_reads_the_npz(tmp_path: Path) -> None:
    dense = a_map(6, normalizes=True)
    npz.write(str(tmp_path / "m.npz"), dense, False)
    with np.load(tmp_path / "m.npz") as found:
        np.testing.assert_array_equal(found["weight"], dense.weight)
        np.testing.assert_array_equal(found["bias"], dense.bias)
        assert found["normalizes"]
        assert str(found["made_by"]) == "a test"


def test_targets_go_by_name_or_suffix() -> None:
    assert [find_target(name, "x").name for name in TARGETS] == list(TARGETS)
    assert find_target(None, "a/E.ONNX").name == "onnx"
    with pytest.raises(UsageError, match=r"suffix '\.bin'"):
        find_target(None, "e.bin")
    with pytest.raises(ParameterError, match="expected onnx, safetensors"):
        find_target("faiss", "e")


def a_model(folder: Path, *, d: int = 8, normalizes: bool = False) -> Path:
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalizes else [])]
    names = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": names[i], "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "1_Pooling").mkdir(parents=True)
    pooling = {"word_embedding_dimension": d, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def modules_of(folder: Path) -> list[tuple[str, str]]:
    found = json.loads((folder / "modules.json").read_text())
    assert [each["idx"] for each in found] == list(range(len(found)))
    return [(each["path"], each["type"].rpartition(".")[2]) for each in found]


def test_a_dense_module_is_appended_as_sentence_transformers_writes_one(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors")
    model, dense = a_model(tmp_path / "m"), a_map(8)
    written = to_model.write(str(model), dense, False)
    assert [Path(name).relative_to(model).as_posix() for name in written] == [
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "modules.json",
    ]
    assert modules_of(model)[2:] == [("2_Dense", "Dense")]
    assert json.loads((model / "2_Dense" / "config.json").read_text()) == {
        "in_features": 8,
        "out_features": 8,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    with library.safe_open(str(model / "2_Dense" / "model.safetensors"), framework="np") as found:
        assert found.metadata()["format"] == "pt"
        np.testing.assert_array_equal(found.get_tensor("linear.weight"), dense.weight.astype(np.float32))
        np.testing.assert_array_equal(found.get_tensor("linear.bias"), dense.bias.astype(np.float32))


@pytest.mark.parametrize("model_normalizes", [False, True])
def test_an_eraser_of_unit_rows_stands_between_normalize_modules(tmp_path: Path, model_normalizes: bool) -> None:
    model = a_model(tmp_path / "m", normalizes=model_normalizes)
    to_model.write(str(model), a_map(8, bias=False, normalizes=True), False)
    assert [kind for _, kind in modules_of(model)] == ["Transformer", "Pooling", "Normalize", "Dense", "Normalize"]


def test_a_constant_that_a_normalized_model_would_show_is_refused(tmp_path: Path) -> None:
    model = a_model(tmp_path / "m", normalizes=True)
    before = (model / "modules.json").read_bytes()
    with pytest.raises(UsageError, match="keeps a constant.*fit with `unit`"):
        to_model.write(str(model), a_map(8), False)
    assert (model / "modules.json").read_bytes() == before
    assert not list(model.glob("*Dense*"))
    with pytest.warns(UserWarning, match="of length 1, the erased ones are not"):
        to_model.write(str(model), a_map(8, bias=False), False)


def test_folders_that_are_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is no folder"):
        to_model.write(str(tmp_path / "none"), a_map(8), False)
    with pytest.raises(FormatError, match="has no modules.json"):
        to_model.write(str(tmp_path), a_map(8), False)
    model = a_model(tmp_path / "m", d=16)
    with pytest.raises(FormatError, match="have 16 dimensions, the eraser takes 8"):
        to_model.write(str(model), a_map(8), False)
    for text in ("[]", "{}", "[1]", '[{"path": 1, "type": "x"}]', "nonsense", "\x00"):
        (model / "modules.json").write_text(text)
        with pytest.raises(FormatError, match="modules.json"):
            to_model.write(str(model), a_map(8), False)
    other = a_model(tmp_path / "o")
    (other / "2_Dense").mkdir()
    with pytest.raises(OutputError, match="2_Dense: exists, but modules.json does not name it"):
        to_model.write(str(other), a_map(8), False)
    assert len(modules_of(other)) == 2


def test_the_recipe_for_faiss_erases_what_is_searched(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    dense, x = a_map(16), np.random.default_rng(3).normal(size=(20, 16)).astype(np.float32)
    erase = faiss.LinearTransform(16, 16, True)
    faiss.copy_array_to_vector(dense.weight.astype("float32").ravel(), erase.A)
    faiss.copy_array_to_vector(dense.bias.astype("float32"), erase.b)
    erase.is_trained = True
    np.testing.assert_allclose(erase.apply(x), expected(dense, x), atol=1e-5)
