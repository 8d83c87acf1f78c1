"""`inspect`, called as a function."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from salcli.commands.fit import fit
from salcli.commands.inspect import inspect, write_projection
from salcli.erasers.linear import LinearEraser
from salcli.errors import SalcliWarning, UsageError
from salcli.options import FitOptions, InspectOptions, ReadOptions

from ..cli.helpers import save_npy
from .conftest import Files


def test_a_file_is_counted_as_numpy_counts_it(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    x[[4, 9]] = 0
    path = str(save_npy(tmp_path / "x.npy", x))
    with pytest.warns(SalcliWarning, match="2 zero rows, the first at row 4"):
        found = inspect(path, InspectOptions(read=ReadOptions(batch_rows=7), head=9))
    assert (found["n"], found["d"], found["zero_rows"]) == (50, 3, 2)
    assert_array_equal([row["vector"] for row in found["head"]], x[:9])
    assert [row["key"] for row in found["head"]] == list(range(9))
    assert len(found["warnings"]) == 1


def test_labels_are_counted_class_by_class(files: Files) -> None:
    about = inspect(files.embeddings, InspectOptions(labels=files.labels))["labels"]
    assert about["classes"] == {name: files.y.count(name) for name in sorted(set(files.y))}
    assert about["splits"] == {name: files.parts.count(name) for name in ("dev", "test", "train")}
    assert [row["label"] for row in about["head"]] == files.y[:5]


@pytest.mark.parametrize("block_rows", [1, 3, 8, 100])
def test_a_projection_is_the_same_file_in_blocks_of_any_size(tmp_path: Path, block_rows: int) -> None:
    rng = np.random.default_rng(0)
    u = np.linalg.qr(rng.normal(size=(8, 2)))[0]
    write_projection(str(tmp_path / "p.npy"), LinearEraser(rng.normal(size=8), u, u), block_rows)
    p = np.load(tmp_path / "p.npy")
    assert_allclose(p, np.eye(8) - u @ u.T, atol=1e-15)
    assert_allclose(p @ p, p, atol=1e-14)
    assert np.trace(p) == pytest.approx(6)


def test_an_artifact_is_told_with_its_projection_and_refuses_options_of_embeddings(files: Files) -> None:
    artifact = fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    found = inspect(files.path("e.npz"), InspectOptions(projection=files.path("p.npy")))
    assert (found["format"], found["k"], found["rank"]) == ("salcli eraser", 2, 2)
    assert found["singular_values"] == artifact.singular_values.tolist()
    x = files.x.astype(np.float64)
    mean = artifact.eraser.mean  # type: ignore[union-attr]
    erased = artifact.eraser(x)  # type: ignore[operator]
    assert_allclose((x - mean) @ np.load(files.path("p.npy")), erased - mean, atol=1e-12)
    with pytest.raises(UsageError, match="is an eraser"):
        inspect(files.path("e.npz"), InspectOptions(labels=files.labels))
    with pytest.raises(UsageError, match="is not one"):
        inspect(files.embeddings, InspectOptions(projection=files.path("q.npy")))
