"""Artifacts of earlier schemas are read for ever: `tests/golden/schema-1-*.npz` were written by salcli 0.1.0."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import METHODS
from salcli.erasers.ksal import KSALParameters
from salcli.erasers.sal import SALParameters
from salcli.errors import FormatError, UsageError
from salcli.options import ApplyOptions, FitOptions, Record, option

GOLDEN = Path(__file__).parent.parent / "golden"
SAMPLE = Path(__file__).parent.parent.parent / "sample_data" / "glove-sample.txt"


@pytest.mark.parametrize(
    ("name", "kind", "parameters"),
    [
        ("sal", "linear", SALParameters(keep_mean=True)),
        ("features", "features", KSALParameters(keep_mean=True, kernel="rbf", gamma=0.1, landmarks=20)),
        ("exact", "inner products", KSALParameters(keep_mean=True, kernel="rbf", gamma=0.1, landmarks="all")),
    ],
)
def test_an_artifact_of_the_first_schema_is_read_with_its_method_and_parameters(
    name: str, kind: str, parameters: object
) -> None:
    found = read_artifact(str(GOLDEN / f"schema-1-{name}.npz"))
    assert found.eraser.kind == kind
    assert found.method.name == found.header["method"] == ("sal" if name == "sal" else "ksal")
    assert found.parameters == parameters
    assert found.header["is_orthogonal"]


def test_an_artifact_of_the_first_schema_erases_as_its_arrays_say(tmp_path: Path) -> None:
    path = GOLDEN / "schema-1-sal.npz"
    with np.load(path) as arrays:
        mean, u = arrays["mean"], arrays["left"]
    x = np.random.default_rng(0).normal(size=(30, len(mean)))
    np.save(tmp_path / "x.npy", x)
    apply(str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), ApplyOptions())
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x - (x - mean) @ u @ u.T, atol=1e-12)


def test_an_eraser_whose_options_cannot_be_read_back_is_not_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(40, 3)))
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * 20)
    with pytest.raises(UsageError, match="cannot be read back"):
        fit(*map(str, (tmp_path / "x.npy", tmp_path / "y.csv", tmp_path / "e.npz")), FitOptions(sample=1 << 60))
    assert not (tmp_path / "e.npz").exists()


@pytest.mark.parametrize("eraser", [["linear"], {"a": 1}, None, 3])
def test_a_kind_of_eraser_that_is_no_text_is_refused_in_either_schema(tmp_path: Path, eraser: object) -> None:
    with np.load(GOLDEN / "schema-1-sal.npz") as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header"))) | {"eraser": eraser}
    for schema in ("salcli.eraser/1", "salcli.eraser/2"):
        np.savez(tmp_path / "e.npz", **arrays, header=np.array(json.dumps(header | {"schema": schema})))
        with pytest.raises(FormatError, match=r"damaged artifact"):
            read_artifact(str(tmp_path / "e.npz"))


@dataclass(frozen=True)
class ListParameters(Record):
    columns: tuple[str, ...] = option((), repeatable=True, metavar="C", help="For the test.")


def test_parameters_that_json_has_as_lists_are_tuples_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read_artifact(str(GOLDEN / "schema-1-sal.npz"))
    monkeypatch.setitem(METHODS, "sal", SimpleNamespace(name="sal", Parameters=ListParameters))
    found.header["parameters"] = {"columns": ["a", "b"]}
    assert found.parameters == ListParameters(("a", "b"))
    found.header["parameters"] = {"columns": "a"}
    with pytest.raises(FormatError, match="not understood"):
        _ = found.parameters
