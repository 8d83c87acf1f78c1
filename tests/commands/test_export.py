"""From an artifact to the matrix that is exported: against the eraser itself."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salcli.commands.export import dense_map, export
from salcli.commands.fit import fit
from salcli.erasers.artifact import read_artifact
from salcli.errors import UsageError
from salcli.options import ExportOptions, FitOptions


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
    dense = dense_map(artifact, path)
    x = np.random.default_rng(seed + 1).normal(size=(30, d)) * 10
    np.testing.assert_allclose(x @ dense.weight.T + dense.bias, artifact.eraser(x), atol=1e-12)
    assert dense.bias.any() == keep_mean
    assert dense.metadata["salcli_eraser_sha256"] == artifact.sha256


def test_what_was_written_is_told(tmp_path: Path) -> None:
    eraser = fitted(tmp_path)
    found = export(eraser, str(tmp_path / "m.safetensors"), ExportOptions(double=True)).to_dict()
    files = [str(tmp_path / "m.safetensors")]
    wanted = {"eraser": eraser, "output": files[0], "to": "safetensors", "d": 12, "dtype": "float64", "files": files}
    assert found == wanted
    with pytest.raises(UsageError, match="modules of sentence-transformers are float32"):
        export(eraser, str(tmp_path), ExportOptions(to="sentence-transformers", double=True))
