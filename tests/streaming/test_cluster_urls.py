"""Workers of a cluster read objects of a store: the same bytes as from local files."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.errors import FormatError, UsageError
from salcli.formats.shard_folder import FileState
from salcli.formats.shards import RECORD
from salcli.options import ApplyOptions, ClusterOptions, FitOptions, ReadOptions
from salcli.streaming.cluster.tasks import SeenFile

from ..stores import reconfigure, s3_store

distributed = pytest.importorskip("distributed")
fsspec = pytest.importorskip("fsspec")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
N, D, CUTS = 640, 5, (5, 300, 620)
READ = ReadOptions(partition_elements=32 * D, batch_rows=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write shards, in two formats, and labels by key and by row."""
    folder = tmp_path_factory.mktemp("cluster")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)).astype(np.float32)
    for name in ("npy", "parquet"):
        (folder / name).mkdir()
    for i, rows in enumerate(np.split(np.arange(N), CUTS)):
        np.save(folder / "npy" / f"{i}.npy", x[rows])
        table = {"id": [f"w{row}" for row in rows], "emb": list(x[rows])}
        pq.write_table(pa.table(table), folder / "parquet" / f"{i}.parquet", row_group_size=70)
    (folder / "y.csv").write_text("y\n" + "a\nb\n" * (N // 2))
    (folder / "keyed.csv").write_text("id,y\n" + "".join(f"w{i},{'ab'[i % 2]}\n" for i in rng.permutation(N)))
    np.save(folder / "x.npy", x)
    return folder


@pytest.fixture(scope="module")
def bucket(folder: Path, scheduler: str) -> Iterator[Any]:
    """Put all files into a store that this process and the workers see."""
    with s3_store("cluster") as (store, environment), distributed.Client(scheduler, set_as_default=False) as client:
        client.run(partial(reconfigure, environment))
        for path in (path for path in folder.rglob("*") if path.is_file()):
            store.put_file(str(path), f"cluster/{path.relative_to(folder)}")
        yield store


@pytest.mark.parametrize(("x", "y"), [("npy/", "y.csv"), ("parquet/*.parquet", "keyed.csv")])
def test_fit_and_apply_are_the_same_bytes(
    folder: Path, bucket: Any, tmp_path: Path, scheduler: str, x: str, y: str
) -> None:
    cluster, far = ClusterOptions(scheduler), "s3://cluster"
    fit(f"{folder}/{x}", f"{folder}/{y}", str(tmp_path / "e.npz"), FitOptions(read=READ))
    fit(f"{far}/{x}", f"{far}/{y}", f"{far}/e.npz", FitOptions(read=READ, cluster=cluster))
    assert bucket.cat_file("cluster/e.npz") == (tmp_path / "e.npz").read_bytes()
    out = f"out{Path(x).suffix or '.npy'}"
    apply(str(tmp_path / "e.npz"), f"{folder}/{x}", str(tmp_path / out), ApplyOptions(read=READ))
    apply(f"{far}/e.npz", f"{far}/{x}", f"{far}/{out}", ApplyOptions(read=READ, cluster=cluster))
    assert bucket.cat_file(f"cluster/{out}") == (tmp_path / out).read_bytes()


def test_apply_to_a_folder_is_the_same_shards(folder: Path, bucket: Any, tmp_path: Path, scheduler: str) -> None:
    fit(f"{folder}/npy", f"{folder}/y.csv", str(tmp_path / "e.npz"), FitOptions())
    apply(str(tmp_path / "e.npz"), f"{folder}/npy", str(tmp_path / "out"), ApplyOptions())
    options = ApplyOptions(cluster=ClusterOptions(scheduler))
    for n_kept in (0, 4):
        done = apply(str(tmp_path / "e.npz"), "s3://cluster/npy", "s3://cluster/out", options)
        assert (done.n_shards, done.n_kept) == (4, n_kept)
    found = {Path(name).name: bucket.cat_file(name) for name in bucket.find("cluster/out")}
    assert json.loads(found.pop(RECORD))["complete"] is True
    assert found == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.npy")}


def test_an_object_that_workers_do_not_see_or_that_changes_is_one_line(
    folder: Path, bucket: Any, tmp_path: Path, scheduler: str
) -> None:
    memory = fsspec.filesystem("memory")
    memory.put_file(str(folder / "x.npy"), "/x.npy")
    options = FitOptions(read=READ, cluster=ClusterOptions(scheduler))
    with pytest.raises(UsageError, match="memory://x.npy: is in the memory of this process"):
        fit("memory://x.npy", str(folder / "y.csv"), str(tmp_path / "e.npz"), options)
    seen = SeenFile.of("s3://cluster/x.npy")
    assert seen is not None
    seen.check()
    bucket.pipe_file("cluster/x.npy", b"another")
    with pytest.raises(FormatError, match=r"sees another object, of 7 bytes and ETag .*, expected 12,928 bytes"):
        seen.check()
    other = type(bucket)(skip_instance_cache=True)  # another process, of which this one's lists do not know
    bucket.ls("cluster")
    state = FileState.of("s3://cluster/x.npy")
    state.require("s3://cluster/x.npy")
    other.pipe_file("cluster/x.npy", b"a third")
    with pytest.raises(FormatError, match=r"s3://cluster/x.npy: changed while it was read"):
        state.require("s3://cluster/x.npy")
    bucket.rm_file("cluster/x.npy")
    with pytest.raises(FormatError, match=r"s3://cluster/x.npy: cannot be read: no such object"):
        seen.check()
