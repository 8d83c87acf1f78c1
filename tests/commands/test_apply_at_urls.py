"""`apply` of a folder from a store, into one, or both: whole shards, a record, and runs that go on."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_128

from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.errors import FormatError, OutputError, SalcliWarning, UsageError
from salcli.formats import atomic
from salcli.formats.registry import open_source
from salcli.formats.shards import RECORD
from salcli.options import ApplyOptions, FitOptions

from ..cli.helpers import planted, save_npy, write_csv

fsspec = pytest.importorskip("fsspec")
X, CLASSES = planted(100, 4)
STORE = "memory://d"


class Files:
    """Three shards, here and in a store, and what `apply` makes of them here."""

    def __init__(self, folder: Path, store: Any) -> None:
        self.folder, self.store, self.read, self.put = folder, store, list[str](), list[str]()
        (folder / "x").mkdir()
        for i, rows in enumerate(np.split(X, [30, 55])):
            save_npy(folder / "x" / f"{i}.npy", rows)
            store.put_file(str(folder / "x" / f"{i}.npy"), f"/d/x/{i}.npy")
        labels = write_csv(folder / "y.csv", ["g"], [[each] for each in CLASSES])
        fit(str(folder / "x"), str(labels), str(folder / "e.npz"), FitOptions())
        self.apply(str(folder / "x"), str(folder / "expected"))

    def apply(self, x: str = f"{STORE}/x", out: str = f"{STORE}/out", **options: Any) -> Any:
        self.read.clear()
        self.put.clear()
        return apply(str(self.folder / "e.npz"), x, out, ApplyOptions(**options))

    def expected(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.folder / "expected").glob("*.npy")}

    def out(self) -> dict[str, bytes]:
        found = {Path(name).name: self.store.cat_file(name) for name in self.store.find("/d/out")}
        return {name: data for name, data in found.items() if name != RECORD}

    def record(self) -> Any:
        return json.loads(self.store.cat_file(f"/d/out/{RECORD}"))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    store = fsspec.filesystem("memory")
    store.store.clear()
    found = Files(tmp_path, store)
    cat, put = type(store).cat_file, type(store).put_file

    def cat_file(self: Any, path: str, **how: Any) -> bytes:
        found.read.append(path)
        return bytes(cat(self, path, **how))

    def put_file(self: Any, source: str, path: str) -> None:
        found.put.append(path)
        put(self, source, path)

    monkeypatch.setattr(type(store), "cat_file", cat_file)
    monkeypatch.setattr(type(store), "put_file", put_file)
    yield found
    store.store.clear()


@pytest.mark.parametrize("x", ["memory://d/x/*.npy", "local"])
@pytest.mark.parametrize("out", ["memory://d/out/", "local", "file"])
def test_shards_are_the_same_wherever_they_are(files: Files, x: str, out: str) -> None:
    target = {"local": f"{files.folder}/out", "file": f"file://{files.folder}/out"}.get(out, out)
    done = files.apply(str(files.folder / "x") if x == "local" else x, target)
    assert (done.n, done.n_shards, done.n_kept) == (100, 3, 0)
    if out in ("local", "file"):
        assert {path.name: path.read_bytes() for path in (files.folder / "out").glob("*.npy")} == files.expected()
        record = json.loads((files.folder / "out" / RECORD).read_bytes())
    else:
        assert files.out() == files.expected()
        record = files.record()
    local = json.loads((files.folder / "expected" / RECORD).read_bytes())
    assert record["complete"]
    assert "run" not in record
    for shard, other in zip(record["shards"], local["shards"], strict=True):
        assert (shard["source"]["hash"], shard["output"]["hash"]) == (other["source"]["hash"], other["output"]["hash"])
    with open_source(target) as source:
        assert source.n == 100


@pytest.mark.parametrize("suffix", ["npy", "h5"])
def test_what_is_uploaded_is_not_read_again(files: Files, suffix: str) -> None:
    files.apply(output_format=suffix)
    assert len([path for path in files.put if path.endswith(suffix)]) == 3
    assert not [path for path in files.read if path.startswith("/d/out/") and RECORD not in path]
    for shard in files.record()["shards"]:
        data = files.store.cat_file(f"/d/out/{shard['name']}")
        assert shard["output"]["hash"]["digest"] == xxh3_128(data).hexdigest()


def test_a_second_run_reads_and_writes_no_shard(files: Files) -> None:
    files.apply()
    before = dict(files.store.store)
    assert files.apply().n_kept == 3
    assert files.put == []
    assert not [path for path in files.read if path.startswith("/d/out/") and RECORD not in path]
    assert files.store.store == before


def remove(files: Files) -> None:
    files.store.rm_file("/d/out/1.npy")


def change_output(files: Files) -> None:
    data = bytearray(files.store.cat_file("/d/out/1.npy"))
    data[-1] ^= 1
    files.store.pipe_file("/d/out/1.npy", bytes(data))


def change_input(files: Files) -> None:
    np.save(files.folder / "x" / "1.npy", X[30:55] + 1)
    files.store.put_file(str(files.folder / "x" / "1.npy"), "/d/x/1.npy")
    apply(str(files.folder / "e.npz"), str(files.folder / "x"), str(files.folder / "expected"), ApplyOptions())


@pytest.mark.parametrize("change", [remove, change_output, change_input], ids=lambda one: one.__name__)
def test_what_is_missing_or_has_changed_is_written_again(files: Files, change: Callable[[Files], None]) -> None:
    files.apply()
    change(files)
    assert files.apply().n_kept == 2
    assert [path for path in files.put if RECORD not in path] == ["/d/out/1.npy"]
    assert files.out() == files.expected()


def test_an_object_that_was_only_written_again_is_the_same(files: Files) -> None:
    files.apply()
    files.store.put_file(str(files.folder / "x" / "0.npy"), "/d/x/0.npy")
    assert files.apply().n_kept == 3


def test_a_run_that_stops_leaves_whole_shards_and_goes_on(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = atomic.upload

    def stopping(source: str, url: str) -> None:
        if url.endswith("1.npy"):
            raise OutputError(f"{url}: could not be uploaded: denied")
        upload(source, url)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "upload", stopping)
        with pytest.raises(OutputError, match=r"out/1\.npy: could not be uploaded"):
            files.apply()
    assert files.out() == {"0.npy": files.expected()["0.npy"]}
    assert files.record()["complete"] is False
    with pytest.raises(FormatError, match=r"memory://d/out: is incomplete: 2 of 3 shards are missing"):
        open_source("memory://d/out")
    assert files.apply().n_kept == 1
    assert files.out() == files.expected()


def test_of_two_runs_at_once_the_later_goes_on(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    upload, runs = atomic.upload, list[Any]()

    def interrupted(source: str, url: str) -> None:
        upload(source, url)
        if not runs:
            runs.append(None)
            runs.append(files.apply())

    monkeypatch.setattr(atomic, "upload", interrupted)
    with pytest.raises(OutputError, match="another salcli apply, which began later, is writing this folder"):
        files.apply()
    assert runs[1].n == 100
    assert files.out() == files.expected()
    assert files.record()["complete"] is True


def test_places_that_are_refused(files: Files) -> None:
    for out in (f"{STORE}/x", f"{STORE}/x/in", STORE):
        with pytest.raises(UsageError, match="is in this folder, or it in the input"):
            files.apply(out=out)
    with pytest.raises(UsageError, match=r"hf upload me/words HERE out --repo-type dataset"):
        files.apply(out="hf://datasets/me/words/out")
    files.store.pipe_file("/d/out/notes.md", b"mine")
    with pytest.raises(OutputError, match=r"out: holds notes\.md and no _salcli\.json"):
        files.apply()
    assert files.put == []


def test_a_damaged_shard_is_named_and_nothing_of_it_is_written(files: Files) -> None:
    rows = X[30:55].copy()
    rows[3] = np.inf
    np.save(files.folder / "bad.npy", rows)
    files.store.put_file(str(files.folder / "bad.npy"), "/d/x/1.npy")
    with pytest.raises(FormatError, match=r"memory://d/x/1\.npy: row 3: inf"):
        files.apply()
    assert set(files.out()) == {"0.npy"}
    files.store.put_file(str(files.folder / "bad.npy"), "/d/x/0.npy")
    with pytest.raises(FormatError, match=r"memory://d/x/0\.npy: row 3: inf"):
        files.apply(out=f"{STORE}/new")
    assert not files.store.exists(f"/d/new/{RECORD}")


def test_a_warning_names_the_object_and_is_said_once(files: Files) -> None:
    (files.folder / "t").mkdir()
    for i, rows in enumerate(np.split(X, [50])):
        words = (f"w{j} {' '.join(map(str, row))}\n" for j, row in enumerate(rows.tolist()))
        (files.folder / "t" / f"{i}.txt").write_text("".join(words), "ascii")
        files.store.put_file(str(files.folder / "t" / f"{i}.txt"), f"/d/t/{i}.txt")
    with pytest.warns(SalcliWarning) as caught:
        files.apply(f"{STORE}/t", output_format="npy")
    (said,) = [str(each.message) for each in caught if "holds no keys" in str(each.message)]
    assert said.startswith("memory://d/out/0.npy: npy holds no keys: those of memory://d/t/0.txt are left behind")
