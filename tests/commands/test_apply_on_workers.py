"""`apply` to a folder on a cluster: the files and the record of a local run, whoever is killed."""

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather
from pyarrow import parquet as pq

from salcli.commands.apply import apply
from salcli.commands.apply_on_workers import PARTS
from salcli.commands.fit import fit
from salcli.errors import FormatError, SalcliWarning
from salcli.formats.shards import RECORD
from salcli.options import ApplyOptions, ClusterOptions, FitOptions
from salcli.streaming.cluster.client import cluster
from salcli.streaming.cluster.engine import Cluster
from salcli.streaming.engine import running_on

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
N, D, N_SHARDS = 90, 4, 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write five shards with keys, an eraser for them, and what it makes of them in this process."""
    (tmp_path / "x").mkdir()
    rng = np.random.default_rng(0)
    for i in range(N_SHARDS):
        x, keys = rng.normal(size=(N, D)).astype(np.float32), [f"w{i}-{j % 80}" for j in range(N)]
        lines = (f"{key} {' '.join(map(str, row.tolist()))}" for key, row in zip(keys, x, strict=True))
        (tmp_path / "x" / f"{i}.txt").write_text("\n".join(lines) + "\n")
    labels = "\n".join("ab"[i % 2] for i in range(N * N_SHARDS))
    (tmp_path / "y.csv").write_text(f"y\n{labels}\n")
    fit(str(tmp_path / "x"), str(tmp_path / "y.csv"), str(tmp_path / "e.npz"), FitOptions())
    with pytest.warns(SalcliWarning):
        apply(str(tmp_path / "e.npz"), str(tmp_path / "x"), str(tmp_path / "expected"), ApplyOptions())
    return tmp_path


def applied(folder: Path, name: str = "found", **options: Any) -> Any:
    return apply(str(folder / "e.npz"), str(folder / "x"), str(folder / name), ApplyOptions(**options))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_files_record_and_warnings_are_those_of_a_local_run(folder: Path, scheduler: str) -> None:
    with pytest.warns(SalcliWarning) as local:
        expected = applied(folder, "expected-2")
    with pytest.warns(SalcliWarning) as caught:
        found = applied(folder, cluster=ClusterOptions(scheduler))
    assert content(folder / "found") == content(folder / "expected")
    assert (found.n, found.n_shards, found.n_kept) == (expected.n, N_SHARDS, 0)
    assert [str(each.message) for each in caught] == [str(each.message) for each in local]
    (folder / "found" / "3.txt").unlink()
    with pytest.warns(SalcliWarning):
        assert applied(folder, cluster=ClusterOptions(scheduler)).n_kept == N_SHARDS - 1
    assert content(folder / "found") == content(folder / "expected")


def write_table(path: Path, vectors: pa.Array, n: int) -> None:
    """Write a table with columns of kinds that change where a schema is pickled."""
    kinds = {
        "when": (pa.timestamp("us", "Europe/Berlin"), 1),
        "price": (pa.decimal128(9, 2), Decimal("1.5")),
        "counts": (pa.map_(pa.string(), pa.int32()), [("a", 1)]),
        "nested": (pa.struct([("a", pa.list_(pa.int8()))]), {"a": [1]}),
    }
    columns = {name: pa.array([value] * n, kind) for name, (kind, value) in kinds.items()}
    kind = pa.array(["u", "v"] * (n // 2)).dictionary_encode()
    table = pa.table({"v": vectors, **columns, "kind": kind}).replace_schema_metadata({"a": "b"})
    pq.write_table(table, path, compression="zstd") if path.suffix == ".parquet" else feather.write_feather(table, path)


@pytest.mark.parametrize("suffix", ["npy", "npz", "h5", "safetensors", "fbin", "fvecs", "parquet", "arrow"])
def test_shards_of_every_format_are_those_of_a_local_run(folder: Path, scheduler: str, suffix: str) -> None:
    x, eraser = folder / suffix, str(folder / "e.npz")
    if suffix in ("parquet", "arrow"):
        x.mkdir()
        for i in range(N_SHARDS):
            rows = np.random.default_rng(i).normal(size=(N, D))
            write_table(x / f"{i}.{suffix}", pa.array([*rows], pa.list_(pa.float32())), N)
    else:
        with pytest.warns(SalcliWarning):
            apply(eraser, str(folder / "x"), str(x), ApplyOptions(output_format=suffix, strength=0.5))
    found = []
    for name, where in (("here", None), ("there", ClusterOptions(scheduler))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SalcliWarning)  # of keys that occur twice
            apply(eraser, str(x), str(folder / name), ApplyOptions(cluster=where))
        found.append(content(folder / name))
    assert found[0] == found[1]
    assert len(found[0]) == N_SHARDS + 1


class Interrupting(Cluster):
    """Does something on the worker before it writes the third shard."""

    def __init__(self, engine: Cluster, act: Callable[[], None]) -> None:
        super().__init__(engine._client, engine._address)
        self.act = act

    def map(self, work: Any, items: Any) -> Iterator[Any]:
        return super().map(partial(_acting, work, self.act), items)


def _acting(work: Any, act: Callable[[], None], item: Any) -> Any:
    if item.name == "2.txt":
        act()
    return work(item)


def _die_once(flag: str) -> None:
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*duplicate keys")
def test_a_killed_worker_changes_no_file(folder: Path, scheduler: str) -> None:
    with cluster(scheduler) as engine, running_on(Interrupting(engine, partial(_die_once, str(folder / "flag")))):
        applied(folder)
    assert (folder / "flag").exists()
    assert content(folder / "found") == content(folder / "expected")


def test_a_damaged_shard_is_one_line_and_the_others_are_kept(folder: Path, scheduler: str) -> None:
    whole = (folder / "x" / "2.txt").read_bytes()
    (folder / "x" / "2.txt").write_bytes(whole.replace(b" -", b" nan", 1))
    with pytest.raises(FormatError, match=r"2\.txt: line \d+: .* expected a number") as caught:
        applied(folder, cluster=ClusterOptions(scheduler))
    assert "\n" not in str(caught.value)
    record = json.loads((folder / "found" / RECORD).read_text())
    assert not record["complete"]
    assert sorted(content(folder / "found")) == ["0.txt", "1.txt", RECORD]


@pytest.mark.filterwarnings("ignore:.*duplicate keys")
def test_a_killed_client_leaves_no_half_shard_and_the_run_is_completed(folder: Path, scheduler: str) -> None:
    code = f"""
import os, sys
from salcli.commands.apply import apply
from salcli.options import ApplyOptions, ClusterOptions
rename = os.replace
def replace(source, target):
    rename(source, target)
    if {PARTS!r} in str(source) and str(target).endswith("1.txt"):
        os.kill(os.getpid(), 9)
os.replace = replace
apply(*sys.argv[1:4], ApplyOptions(cluster=ClusterOptions(sys.argv[4])))
"""
    paths = [str(folder / name) for name in ("e.npz", "x", "found")]
    done = subprocess.run([sys.executable, "-c", code, *paths, scheduler], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    names = sorted(os.listdir(folder / "found"))
    assert [name for name in names if not name.startswith(".")] == ["0.txt", "1.txt", RECORD]
    assert any(name.startswith(PARTS) for name in names)
    assert applied(folder, cluster=ClusterOptions(scheduler)).n_shards == N_SHARDS
    assert content(folder / "found") == content(folder / "expected")
