"""Every command takes tables: embeddings, labels, or both in one file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.erasers.artifact import read_artifact

from ..cli.helpers import planted
from .tables import lists, matrix

Run = Callable[..., Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Write a table of vectors and labels, the same as .npy and .csv, and return what runs a command."""
    monkeypatch.chdir(tmp_path)
    x, classes = planted(n=240)
    names = sorted(set(classes))
    features = {"y": {"names": names, "_type": "ClassLabel"}}
    keys, splits = [f"w{i}" for i in range(240)], ["train" if i % 2 else "test" for i in range(240)]
    table = pa.table(
        {"id": keys, "vec": lists(x), "y": [names.index(c) for c in classes], "split": splits},
        metadata={b"huggingface": json.dumps({"info": {"features": features}}).encode()},
    )
    pq.write_table(table, "x.parquet", row_group_size=50)
    np.save("x.npy", x)
    Path("keys.txt").write_text("".join(f"{key}\n" for key in keys), "utf-8")
    rows = [f"{k},{c},{s}\n" for k, c, s in zip(keys, classes, splits, strict=True)]
    Path("y.csv").write_text("word,y,split\n" + "".join(rows), "utf-8")

    def ran(*args: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, args)
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if "--json" in args else done.output

    return ran


def test_fit_to_a_table_and_its_own_labels_is_fit_to_npy_and_csv(run: Run) -> None:
    run("fit", "x.parquet", "x.parquet", "-o", "table.npz")
    run("fit", "x.parquet", "y.csv", "--vector", "vec", "-o", "csv.npz")
    run("fit", "x.npy", "y.csv", "--keys", "keys.txt", "-o", "npy.npz")
    with np.load("table.npz") as table, np.load("csv.npz") as csv, np.load("npy.npz") as npy:
        for name in ("left", "right", "mean"):
            assert_allclose(table[name], npy[name], atol=1e-12)
            assert_allclose(csv[name], npy[name], atol=1e-12)
    about, other = (read_artifact(f"{name}.npz").header for name in ("table", "npy"))
    assert about["inputs"]["embeddings"]["format"] == "parquet"
    assert about["attributes"] == other["attributes"]


@pytest.mark.slow
def test_all_commands_take_tables(run: Run) -> None:
    run("fit", "x.parquet", "x.parquet", "-o", "e.npz")
    applied = run("apply", "e.npz", "x.parquet", "-o", "o.parquet", "--json")
    assert (applied["format"], applied["n"]) == ("parquet", 240)
    run("apply", "e.npz", "x.npy", "-o", "o.npy")
    before, after = pq.read_table("x.parquet"), pq.read_table("o.parquet")
    assert_allclose(matrix(after.column("vec")), np.load("o.npy"), atol=1e-12)
    assert after.drop_columns(["vec"]).equals(before.drop_columns(["vec"]))
    common = ("evaluate", "x.parquet", "x.parquet", "--probes", "linear", "--json")
    for given in (("--against", "o.parquet"), ("--eraser", "e.npz")):
        accuracy = {probe["stage"]: probe["accuracy"] for probe in run(*common, *given)["probes"]}
        assert accuracy["before"] > 0.95 > 0.75 > accuracy["after"]
    looked = run("inspect", "o.parquet", "--labels", "o.parquet", "--head", "1", "--json")
    assert (looked["format"], looked["n"], looked["head"][0]["key"]) == ("parquet", 240, "w0")
    run("label", "x.parquet", "--direction", "w0:w1", "--top", "5", "-o", "l.csv")
    run("apply", "e.npz", "x.parquet", "--in-place")
    assert pq.read_table("x.parquet").equals(after)


def test_a_wrong_column_is_an_error_that_names_the_flag(run: Run) -> None:
    done = run("fit", "x.parquet", "y.csv", "--vector", "emb", "-o", "e.npz", code=3)
    assert "x.parquet: no column 'emb'; it holds id, vec, y, split" in done
    done = run("inspect", "x.npy", "--vector", "emb", code=2)
    assert "--dataset emb: x.npy is an npy file; only files of npz, h5, parquet" in done
