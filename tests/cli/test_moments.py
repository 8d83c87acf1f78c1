"""`salcli moments`, `fit --moments` and `inspect` of moments on the command line."""

from pathlib import Path

import numpy as np
import pytest

from .helpers import planted, refuse, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    x, labels = planted(80, 6)
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    for i, part in enumerate(np.split(np.arange(80), [30])):
        save_npy(tmp_path / "x" / f"{i}.npy", x[part])
        write_csv(tmp_path / "y" / f"{i}.csv", ["label"], [[labels[row]] for row in part])
    return tmp_path


def test_moments_of_all_shards_are_the_fit(shards: Path) -> None:
    succeed("fit", "x", "y", "-o", "fit.npz", "--quiet", cwd=shards)
    shown = succeed("moments", "x/0.npy", "y/0.csv", "-o", "m-0.npz", cwd=shards)
    assert "0.npy, 30 rows of 6 dimensions, float32" in shown.out
    found = succeed("moments", "x/1.npy", "y/1.csv", "-o", "m-1.npz", "--json", cwd=shards).json()
    assert (found["schema"], found["output"], found["rows"]["n_fitted"]) == ("salcli.moments/1", "m-1.npz", 50)
    succeed("fit", "--moments", "m-*.npz", "-o", "moments.npz", cwd=shards)
    assert (shards / "moments.npz").read_bytes() == (shards / "fit.npz").read_bytes()
    described = succeed("inspect", "m-0.npz", cwd=shards)
    assert described.out.splitlines()[1:] == shown.out.splitlines()[1:]
    assert succeed("inspect", "m-0.npz", "--json", cwd=shards).json()["format"] == "salcli moments"


def test_what_is_given_wrongly_is_a_usage_error(shards: Path) -> None:
    missing = "Missing argument 'LABELS' (or --moments GLOB)"
    refuse(2, "fit", "x", "-o", "e.npz", cwd=shards, says=missing)
    refuse(2, "fit", "x", "--moments", "m.npz", "-o", "e.npz", cwd=shards, says="but x is given (quote a glob)")
    refuse(2, "moments", "x", "y", "-o", "m.npz", cwd=shards, says="x is 2 files: moments are of one")
    refuse(
        2, "moments", "x/0.npy", "y/0.csv", "-o", "m.npz", "--method", "inlp", cwd=shards, says="inlp needs more than"
    )
    refuse(2, "moments", "x/0.npy", "y/0.csv", "-o", "m.npz", "--sample", 9, cwd=shards, says="mark rows in a split")
    refuse(3, "fit", "--moments", "m-*.npz", "-o", "e.npz", cwd=shards, says="m-*.npz: no such file of moments")
    refuse(
        2, "fit", "--moments", "m.npz", "-o", "e.npz", "--sample", 5, cwd=shards, says="--sample is about embeddings"
    )
    assert sorted(path.name for path in shards.iterdir()) == ["x", "y"]
