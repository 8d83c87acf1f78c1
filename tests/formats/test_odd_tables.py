"""Tables that are legal and odd: what is read of them is right, or one line says what stands in the way."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from salcli.cli.app import app

from .tables import lists

N = 40
X = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Write rows, labels and an eraser, and return what runs a command."""
    monkeypatch.chdir(tmp_path)

    def ran(*args: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, args)
        assert done.exit_code == code, done.output
        return done.output

    np.save("x.npy", X)
    Path("y.csv").write_text("g\n" + "a\nb\n" * (N // 2), "utf-8")
    ran("fit", "x.npy", "y.csv", "-o", "e.npz", "--quiet")
    return ran


def write(path: str, table: pa.Table) -> None:
    if path.endswith(".parquet"):
        pq.write_table(table, path)
        return
    with pyarrow.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_columns_of_one_name_are_not_copied(run: Run, suffix: str) -> None:
    keys = pa.array([f"w{i}" for i in range(N)])
    source, target = f"x.{suffix}", f"o.{suffix}"
    write(source, pa.Table.from_arrays([lists(X), keys, keys], names=["emb", "a", "a"]))
    done = run("apply", "e.npz", source, "-o", target, code=3)
    assert f"{source}: 2 columns are called 'a', expected one of each name in what is copied (--drop or --only" in done
    assert not Path(target).exists()
    run("apply", "e.npz", source, "-o", target, "--drop", "a", "--quiet")
    run("apply", "e.npz", source, "-o", "o.npy", "--quiet")
