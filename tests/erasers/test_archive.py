"""Artifacts of earlier schemas are read for ever: `tests/golden/schema-1-*.npz` were written by salcli 0.1.0."""

from pathlib import Path

import numpy as np
import pytest

from salcli.commands.apply import apply
from salcli.erasers.artifact import read_artifact
from salcli.erasers.ksal import KSALParameters
from salcli.erasers.sal import SALParameters
from salcli.options import ApplyOptions

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
    with np.load(path) as held:
        mean, u = held["mean"], held["left"]
    x = np.random.default_rng(0).normal(size=(30, len(mean)))
    np.save(tmp_path / "x.npy", x)
    apply(str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), ApplyOptions())
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x - (x - mean) @ u @ u.T, atol=1e-12)
