"""Shards without rows, as Spark writes them: commands read them, and each has its output and its moments."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from safetensors.numpy import save_file

from salcli.formats.shards import RECORD

from ..formats.test_shards import CLASSES, KEYS, X, here, refused, run
from .helpers import write_csv, write_embeddings

__all__ = ["here"]
CUTS = [(0, 0), (0, 25), (25, 25), (25, 60), (60, 60)]
"""Rows of the shards: the first, one amid and the last have none."""
Rows = NDArray[np.float32]
LISTS: dict[str, Callable[[Rows], Any]] = {
    "list": lambda x: pa.array([*x], pa.list_(pa.float32())),
    "large_list": lambda x: pa.array([*x], pa.large_list(pa.float32())),
    "fixed": lambda x: pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1]),
}


def table_of(x: Rows, keys: list[bytes], kind: str) -> pa.Table:
    more = pa.array(range(len(x)), pa.int64())
    names = pa.array([key.decode() for key in keys], pa.string())
    return pa.table({"emb": LISTS[kind](x), "id": names, "more": more}, metadata={"made": "by a test"})


def write_shard(path: Path, x: Rows, keys: list[bytes]) -> None:
    kind = path.name.split(".", 1)[1]
    if kind.endswith("parquet"):
        pq.write_table(table_of(x, keys, kind.removesuffix(".parquet")), path)
    elif kind.endswith("arrow"):
        table = table_of(x, keys, kind.removesuffix(".arrow"))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    elif kind == "safetensors":
        save_file({"vectors": x}, path)
    elif kind == "npz":
        np.savez(path, vectors=x, keys=np.array([key.decode() for key in keys], str))
    elif kind in ("fbin", "f16bin"):
        path.write_bytes(np.array(x.shape, "<u4").tobytes() + x.astype("<f4" if kind == "fbin" else "<f2").tobytes())
    else:
        write_embeddings(path, x, keys)


TABLES = [f"{kind}.{suffix}" for suffix in ("parquet", "arrow") for kind in LISTS]
KINDS = [*TABLES, "safetensors", "fbin", "f16bin", "npy", "npz", "h5", "txt", "bin", "txt.gz"]


def write_shards(kind: str, folder: str = "x") -> list[Path]:
    Path(folder).mkdir(exist_ok=True)
    paths = [Path(folder, f"e_{i}.{kind}") for i in range(len(CUTS))]
    for path, (a, b) in zip(paths, CUTS, strict=True):
        write_shard(path, X[a:b], KEYS[a:b])
    return paths


def write_labels(folder: str = "y") -> list[Path]:
    """Write a label file for each shard, which joins by row."""
    Path(folder).mkdir()
    paths = [Path(folder, f"g_{i}.csv") for i in range(len(CUTS))]
    return [write_csv(path, ["g"], [[c] for c in CLASSES[a:b]]) for path, (a, b) in zip(paths, CUTS, strict=True)]


def done(*args: object) -> Any:
    """Run a command, which must do its work, and return what it prints with --json."""
    found = run(*args, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def fitted(embeddings: str, labels: str, *args: object, output: str = "e.npz") -> bytes:
    assert run("fit", embeddings, labels, "-o", output, *args).exit_code == 0
    return Path(output).read_bytes()


def arrays_of(path: str) -> dict[str, Any]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "header"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_that_of_its_shards_with_rows(kind: str) -> None:
    write_csv(Path("y.csv"), ["g"], [[c] for c in CLASSES])
    paths = write_shards(kind)
    found = done("inspect", "x")
    assert (found["n"], found["d"], found["shards"]) == (
        60,
        4,
        dict(zip(map(str, paths), (0, 25, 0, 35, 0), strict=True)),
    )
    fitted("x", "y.csv", "--by-row")
    applied = done("apply", "e.npz", "x", "-o", "out")
    assert (applied["n"], applied["shards"]) == (60, 5)
    record = json.loads(Path("out", RECORD).read_bytes())
    assert [shard["n"] for shard in record["shards"]] == [0, 25, 0, 35, 0]
    assert record["complete"]
    assert done("inspect", "out")["n"] == 60
    assert done("apply", "e.npz", "x", "-o", "out")["kept"] == 5
    assert run("apply", "e.npz", "out", "-o", f"one.{kind}").exit_code == 0

    plain = write_shards(kind, "plain")
    for i in (0, 2, 4):
        plain[i].unlink()
    fitted("plain", "y.csv", "--by-row", output="p.npz")
    for name, array in arrays_of("p.npz").items():
        assert_array_equal(arrays_of("e.npz")[name], array)
    done("apply", "e.npz", "plain", "-o", "erased")
    for i in (1, 3):
        name = f"e_{i}.{kind}"
        assert Path("out", name).read_bytes() == Path("erased", name).read_bytes()


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_without_rows_keeps_its_schema(kind: str) -> None:
    write_csv(Path("y.csv"), ["g"], [[c] for c in CLASSES])
    write_shards(kind)
    fitted("x", "y.csv", "--by-row")

    def read(path: Path) -> pa.Table:
        return pq.read_table(path) if kind.endswith("parquet") else pa.ipc.open_file(path.read_bytes()).read_all()

    for options in ([], ["--dtype", "float64"], ["--reduce"]):
        done("apply", "e.npz", "x", "-o", "out", *options)
        tables = [read(Path("out", f"e_{i}.{kind}")) for i in range(len(CUTS))]
        assert [len(table) for table in tables] == [0, 25, 0, 35, 0]
        assert all(table.schema.equals(tables[1].schema, check_metadata=True) for table in tables)


@pytest.mark.parametrize("kind", ["list.parquet", "fixed.arrow", "npy", "txt"])
def test_other_commands_take_them(kind: str) -> None:
    write_shards(kind)
    parts = ("train", "dev", "test")
    write_csv(Path("y.csv"), ["g", "split"], [[c, parts[i % 3]] for i, c in enumerate(CLASSES)])
    by_row = ("y.csv", "--by-row")
    fitted("x", "y.csv", "--by-row")
    done("apply", "e.npz", "x", "-o", "out")
    judged = done("evaluate", "x", *by_row, "--against", "out", "--quick", "--probes", "linear")
    accuracy = {(probe["stage"], probe["adversary"]): probe["accuracy"] for probe in judged["probes"]}
    assert accuracy["before", "fresh"] > 0.9 > 0.8 > accuracy["after", "fresh"]
    assert (
        run("compare", "x", *by_row, "--eraser", "e.npz", "--against", "out", "--quick", "--probes", "linear").exit_code
        == 0
    )
    assert run("kfit", "x", *by_row, "-o", "k.npz", "--landmarks", "20").exit_code == 0
    done("apply", "k.npz", "x", "-o", "features")
    assert run("export", "e.npz", "-o", "m.npz").exit_code == 0
    if kind != "npy":
        assert run("label", "x", "--direction", "w1:w2", "--top", "5", "-o", "l.csv").exit_code == 0


@pytest.mark.parametrize("kind", ["npy", "list.parquet", "h5"])
def test_they_are_written_in_other_formats(kind: str) -> None:
    write_shards(kind)
    write_csv(Path("y.csv"), ["g"], [[c] for c in CLASSES])
    fitted("x", "y.csv", "--by-row")
    for name in ("npy", "npz", "h5", "parquet", "arrow", "safetensors", "word2vec-text", "word2vec-bin", "fbin"):
        if kind == "npy" and name.startswith("word2vec"):
            continue
        done("apply", "e.npz", "x", "-o", name, "--output-format", name)
        assert list(done("inspect", name)["shards"].values()) == [0, 25, 0, 35, 0]
    for name in ("glove", "fvecs"):
        fault = f"--output-format {name}: x/e_0.{kind} has no rows, and {name} has no files without any"
        assert refused(2, "apply", "e.npz", "x", "-o", "o", "--output-format", name) == fault
        assert not Path("o").exists()


OWN = [("npy", True), ("list.parquet", True), ("list.parquet", False), ("fixed.arrow", False), ("txt", False)]


@pytest.mark.parametrize(("kind", "has_own_labels"), OWN)
def test_their_moments_are_nothing_in_the_sum(kind: str, *, has_own_labels: bool) -> None:
    paths, by_key = write_shards(kind), []
    labels = write_labels()
    if not has_own_labels:
        by_key = [write_csv(Path("y.csv"), ["id", "g"], zip((k.decode() for k in KEYS), CLASSES, strict=True))] * 5
    for i, (path, table) in enumerate(zip(paths, by_key or labels, strict=True)):
        shown = run("moments", path, table, "-o", f"m_{i}.npz", "--json")
        assert shown.exit_code == 0, shown.output
        found = json.loads(shown.stdout)
        n = CUTS[i][1] - CUTS[i][0]
        assert (found["rows"]["n_shard"], found["rows"]["n_fitted"]) == (n, n)
        assert (f"warning: {path}: has no rows, so these moments are zero\n" in shown.output) == (n == 0)
        assert run("inspect", f"m_{i}.npz").exit_code == 0
    expected = fitted("x", str(by_key[0]) if by_key else "y")
    assert run("fit", "--moments", "m_*.npz", "-o", "m.npz").exit_code == 0
    assert Path("m.npz").read_bytes() == expected
    assert fitted("x", str(by_key[0]) if by_key else "y", "--checkpoint", "c") == expected
    assert fitted("x", str(by_key[0]) if by_key else "y", "--checkpoint", "c") == expected
    Path("only").mkdir()
    for i in (0, 2, 4):
        shutil.copy(f"m_{i}.npz", "only")
    assert "moments of no row" in refused(3, "fit", "--moments", "only/*", "-o", "n.npz")


def test_moments_of_labels_of_every_kind_are_zero_without_rows() -> None:
    write_shards("npy")
    for i in (0, 1):
        a, b = CUTS[i]
        rows = [[c, j % 7, c, j] for j, c in enumerate(CLASSES[a:b])]
        write_csv(Path(f"y_{i}.csv"), ["g", "n", "t", "writer"], rows)
        options = ("--attribute", "g", "--numeric", "n", "--groups", "writer")
        options += ("--method", "splince", "--task", "t") if i else ()
        done("moments", f"x/e_{i}.npy", f"y_{i}.csv", "-o", f"m_{i}.npz", *options)
    options = ("--attribute", "g", "--numeric", "n", "--groups", "writer")
    done("moments", "x/e_1.npy", "y_1.csv", "-o", "m_1.npz", *options)
    assert run("fit", "--moments", "m_*.npz", "-o", "e.npz").exit_code == 0


def test_where_no_shard_has_rows_a_message_says_so() -> None:
    for kind in ("npy", "list.parquet"):
        paths = write_shards(kind, kind)
        for i in (1, 3):
            shutil.copy(paths[0], paths[i])
        assert refused(3, "inspect", kind) == f"{kind}: no rows to read: all 5 shards are empty"
        assert "no rows to read: the matrix is empty, 0 rows of" in refused(3, "inspect", paths[0])
    labels = write_labels()
    for i in (1, 3):
        shutil.copy(labels[0], labels[i])
    write_shards("npy")
    assert refused(3, "fit", "x", "y", "-o", "e.npz") == "y: no rows below the headers of its 5 files"
    assert refused(3, "fit", "x", labels[0], "-o", "e.npz") == f"{labels[0]}: no rows below the header"


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_width_that_is_known_must_match(suffix: str) -> None:
    write_shards(f"fixed.{suffix}")
    other = pa.FixedSizeListArray.from_arrays(pa.array([], pa.float32()), 3)
    table = table_of(X[:0], [], "fixed").set_column(0, "emb", other)
    path = Path(f"x/e_2.fixed.{suffix}")
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    says = f"{path}: dimensions 3, but x/e_1.fixed.{suffix} has 4: shards must be alike"
    assert refused(3, "inspect", "x") == says


@pytest.mark.parametrize("kind", ["list.parquet", "npy", "txt"])
def test_stores_have_them_too(kind: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    write_shards(kind)
    labels = write_labels()
    for path in (*Path("x").iterdir(), *labels):
        memory.pipe_file(f"/empty-{kind}/{path}", path.read_bytes())
    try:
        url = f"memory://empty-{kind}"
        fitted(f"{url}/x/", f"{url}/y/", output="u.npz")
        assert fitted("x", "y") == Path("u.npz").read_bytes()
        done("apply", "e.npz", "x", "-o", "out")
        done("apply", "e.npz", f"{url}/x/", "-o", f"{url}/out/")
        assert done("apply", "e.npz", f"{url}/x/", "-o", f"{url}/out/")["kept"] == 5
        for i in range(len(CUTS)):
            assert memory.cat_file(f"/empty-{kind}/out/e_{i}.{kind}") == Path(f"out/e_{i}.{kind}").read_bytes()
    finally:
        memory.rm(f"/empty-{kind}", recursive=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["list.parquet", "npy", "txt"])
def test_a_cluster_does_the_same(kind: str, scheduler: str) -> None:
    write_shards(kind)
    write_labels()
    on_cluster = ("--scheduler", scheduler)
    expected = fitted("x", "y")
    assert fitted("x", "y", *on_cluster, output="c.npz") == expected
    done("apply", "e.npz", "x", "-o", "out")
    done("apply", "e.npz", "x", "-o", "found", *on_cluster)
    names = sorted(path.name for path in Path("out").iterdir())
    assert [(n, Path("found", n).read_bytes()) for n in names] == [(n, Path("out", n).read_bytes()) for n in names]
    Path("found", f"e_2.{kind}").unlink()
    assert done("apply", "e.npz", "x", "-o", "found", *on_cluster)["kept"] == 4
    done("moments", f"x/e_2.{kind}", "y/g_2.csv", "-o", "m.npz")
    zero = Path("m.npz").read_bytes()
    done("moments", f"x/e_2.{kind}", "y/g_2.csv", "-o", "m.npz", *on_cluster)
    assert Path("m.npz").read_bytes() == zero
    judged = ("evaluate", "x", "y", "--eraser", "e.npz", "--quick", "--probes", "linear")
    assert done(*judged)["probes"] == done(*judged, *on_cluster)["probes"]


def test_tables_without_rows_are_their_own_labels() -> None:
    Path("x").mkdir(exist_ok=True)
    for i, (a, b) in enumerate(CUTS):
        table = table_of(X[a:b], KEYS[a:b], "list").drop_columns(["id", "more"])
        pq.write_table(table.append_column("g", pa.array(CLASSES[a:b], pa.string())), f"x/e_{i}.parquet")
    assert fitted("x", "x")
    assert done("moments", "x/e_0.parquet", "x/e_0.parquet", "-o", "m.npz")["rows"]["n_fitted"] == 0
