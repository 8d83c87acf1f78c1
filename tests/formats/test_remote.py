"""Files at URLs are read by range and give the bytes that local ones give; outputs are uploaded whole, or not."""

import errno
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.errors import FormatError, OutputError, UsageError
from salcli.formats.label_table import read_labels
from salcli.formats.registry import open_source
from salcli.formats.secret import read_secret
from salcli.options import ApplyOptions, FitOptions, ReadOptions

from ..stores import s3_store

fsspec = pytest.importorskip("fsspec")
N, D = 60, 4
X = np.random.default_rng(1).standard_normal((N, D)).astype(np.float32)
LABELS = "y\n" + "a\nb\n" * (N // 2)


@pytest.fixture
def memory() -> Iterator[Any]:
    found = fsspec.filesystem("memory")
    found.store.clear()
    yield found
    found.store.clear()


def write(path: Path) -> None:
    """Write X in the format of the path's suffix."""
    kind = path.suffix
    if kind == ".npy":
        np.save(path, X)
    elif kind == ".parquet":
        pq.write_table(pa.table({"emb": list(X), "topic": ["t"] * N}), path, row_group_size=9)
    elif kind == ".safetensors":
        save_file({"emb": X}, path)
    elif kind == ".fbin":
        path.write_bytes(np.array(X.shape, "<u4").tobytes() + X.tobytes())
    elif kind == ".h5":
        with h5py.File(path, "w") as file:
            file["emb"] = X
    elif kind == ".feather":
        table = pa.table({"emb": list(X)})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("".join(f"w{i} {' '.join(map(repr, row.tolist()))}\n" for i, row in enumerate(X)), "ascii")


@pytest.mark.parametrize("kind", ["npy", "parquet", "safetensors", "fbin", "h5", "feather", "txt"])
def test_commands_give_the_same_bytes_as_with_local_files(tmp_path: Path, memory: Any, kind: str) -> None:
    write(tmp_path / f"x.{kind}")
    (tmp_path / "y.csv").write_text(LABELS, "ascii")
    for name in (f"x.{kind}", "y.csv"):
        memory.put_file(str(tmp_path / name), f"/b/{name}")
    results = []
    for folder in (str(tmp_path), "memory://b"):
        fit(f"{folder}/x.{kind}", f"{folder}/y.csv", f"{folder}/e.npz", FitOptions())
        local = str(tmp_path / "e.npz")
        if folder != str(tmp_path):
            memory.get_file("/b/e.npz", local + ".far")
            local += ".far"
        apply(local, f"{folder}/x.{kind}", f"{folder}/o.{kind}", ApplyOptions())
        out = f"{folder}/o.{kind}"
        results.append(
            (
                Path(local).read_bytes(),
                Path(out).read_bytes() if folder == str(tmp_path) else memory.cat_file("/b/o." + kind),
            )
        )
    assert results[0][0] == results[1][0]
    if kind != "h5":  # holds its time
        assert results[0][1] == results[1][1]


def test_only_the_ranges_that_are_needed_are_read(tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(200_000, dtype=np.float32).reshape(-1, 2)
    np.save(tmp_path / "x.npy", x)
    memory.put_file(str(tmp_path / "x.npy"), "/x.npy")
    read, whole = [], type(memory).cat_file

    def counted(self: Any, path: str, start: int, end: int) -> bytes:
        read.append(end - start)
        return bytes(whole(self, path, start=start, end=end))

    monkeypatch.setattr(type(memory), "cat_file", counted)
    with open_source("memory://x.npy", ReadOptions(batch_rows=10)) as source:
        batch = source.shards[0].reader.read(90_000, 90_010)
    assert np.array_equal(batch.vectors, x[90_000:90_010])
    assert sum(read) < 200_000


def test_what_readers_look_at_first_is_transferred_once(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe_file("/y.csv", LABELS.encode("ascii"))
    read, whole = [], type(memory).cat_file

    def counted(self: Any, path: str, start: int, end: int) -> bytes:
        read.append(end - start)
        return bytes(whole(self, path, start=start, end=end))

    monkeypatch.setattr(type(memory), "cat_file", counted)
    for _ in range(2):
        assert len(read_labels("memory://y.csv")) == N
    assert read == [len(LABELS)]
    memory.pipe_file("/y.csv", b"y\na\nb\n")  # another version
    assert len(read_labels("memory://y.csv")) == 2


def test_objects_are_read_where_folders_may_not_be_listed(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.pipe_file("/y.csv", LABELS.encode("ascii"))

    def denied(*_: Any) -> bool:
        raise PermissionError("denied")

    monkeypatch.setattr(type(memory), "isdir", denied)
    assert len(read_labels("memory://y.csv")) == N


def test_a_full_disk_is_one_line(tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", X)
    memory.put_file(str(tmp_path / "x.npz"), "/x.npz")

    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(FormatError, match=r"^memory://x.npz: cannot be copied into .*: No space left on device$"):
        open_source("memory://x.npz")


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.csv").write_text(LABELS, "ascii")
    memory.put_file(str(tmp_path / "x.npy"), "/x.npy")
    fit("memory://x.npy", str(tmp_path / "y.csv"), str(tmp_path / "e.npz"), FitOptions())
    eraser = str(tmp_path / "e.npz")
    with pytest.raises(FormatError, match="memory://none.npy: cannot be read: no such object"):
        open_source("memory://none.npy")
    with pytest.raises(UsageError, match="Protocol not known"):
        open_source("nosuch://x.npy")
    with pytest.raises(UsageError, match="`in_place` needs a local file"):
        apply(eraser, "memory://x.npy", None, ApplyOptions(in_place=True))
    with pytest.raises(UsageError, match="memory://key: the secret of `noise_key` is a local file"):
        read_secret("memory://key")
    with pytest.raises(UsageError, match="is the input itself"):
        apply(eraser, "memory://x.npy", "memory:///x.npy", ApplyOptions())
    with pytest.raises(UsageError, match="hf upload"):
        apply(eraser, "memory://x.npy", "hf://datasets/a/b/x.npy", ApplyOptions())

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError("denied")

    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "put_file", refused)
        with pytest.raises(OutputError, match="could not be uploaded: denied"):
            apply(eraser, "memory://x.npy", "memory://o.npy", ApplyOptions())
    assert not memory.exists("/o.npy")
    bad = X.copy()
    bad[50] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    memory.put_file(str(tmp_path / "bad.npy"), "/bad.npy")
    with pytest.raises(FormatError, match="row 50"):
        apply(eraser, "memory://bad.npy", "memory://o.npy", ApplyOptions())
    assert not memory.exists("/o.npy")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fsspec.core", None)
        with pytest.raises(UsageError, match=r"pip install 'salcli\[remote\]'"):
            open_source("memory://x.npy")


def test_fsspec_is_imported_for_urls_alone() -> None:
    code = (
        "import sys, salcli.cli.app, salcli.formats.registry, salcli.commands.apply; sys.exit('fsspec' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_s3_store_is_read_and_written(tmp_path: Path) -> None:
    with s3_store("bucket") as (store, _):
        for name in ("x.parquet", "y.csv"):
            write(tmp_path / name) if name != "y.csv" else (tmp_path / name).write_text(LABELS, "ascii")
            store.put_file(str(tmp_path / name), f"bucket/{name}")
        fit("s3://bucket/x.parquet", "s3://bucket/y.csv", str(tmp_path / "e.npz"), FitOptions())
        apply(str(tmp_path / "e.npz"), "s3://bucket/x.parquet", "s3://bucket/o.parquet", ApplyOptions())
        apply(str(tmp_path / "e.npz"), str(tmp_path / "x.parquet"), str(tmp_path / "o.parquet"), ApplyOptions())
        assert store.cat_file("bucket/o.parquet") == (tmp_path / "o.parquet").read_bytes()
        with pytest.raises(FormatError, match="no such object"):
            open_source("s3://bucket/none.npy")
