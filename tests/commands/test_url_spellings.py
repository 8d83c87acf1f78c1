"""How URLs are spelt: chains, caches, queries, cases and odd names; and what is wrong with one is one line."""

import functools
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from salcli.commands.apply import apply
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.errors import FormatError, LabelError, OutputError, UsageError
from salcli.evaluation.baseline import Baseline
from salcli.formats.atomic import check_distinct, check_output
from salcli.formats.label_files import label_files
from salcli.formats.registry import open_source
from salcli.formats.urls import is_url, name_in
from salcli.options import ApplyOptions, EvaluateOptions, FitOptions

from ..cli.helpers import planted, save_npy, write_csv
from ..stores import s3_store

fsspec = pytest.importorskip("fsspec")
X, CLASSES = planted(60, 4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    write_csv(Path("y.csv"), ["g"], [[each] for each in CLASSES])
    with zipfile.ZipFile("a.zip", "w") as packed:
        for i, rows in enumerate(np.split(X, 3)):
            packed.write(save_npy(Path(f"{i}.npy"), rows), f"emb/{i}.npy")
            memory.put_file(f"{i}.npy", f"/gl[1]/{i}.npy")
    fit(f"zip://emb/*.npy::file://{tmp_path}/a.zip", "y.csv", "e.npz", FitOptions())
    yield tmp_path
    memory.store.clear()


def n_rows(path: str) -> int:
    with open_source(path) as source:
        return source.n


def test_folders_globs_and_files_of_chains(folder: Path) -> None:
    archive = f"file://{folder}/a.zip"
    assert (
        n_rows(f"zip://emb/::{archive}") == n_rows(f"zip://emb::{archive}") == n_rows(f"ZIP://emb/*::{archive}") == 60
    )
    assert n_rows(f"simplecache::file://{folder}/0.npy") == n_rows(f"zip://emb/1.npy::{archive}") == 20
    assert n_rows(f"simplecache::zip://emb/1.npy::{archive}") == n_rows("filecache::memory://gl[1]/1.npy") == 20
    assert apply("e.npz", f"zip://emb/::{archive}", "out", ApplyOptions()).n_shards == 3
    assert sorted(path.name for path in Path("out").glob("*.npy")) == ["0.npy", "1.npy", "2.npy"]
    for url in ("simplecache::s3://b/x.npy", "filecache::blockcache::memory://x", "S3://b/x"):
        assert is_url(url)
    assert not is_url("a::b.npy")
    assert name_in("simplecache::zip://emb/x.npy::s3://b/a.zip") == "x.npy"


def test_names_like_globs_and_schemes_in_capitals(folder: Path) -> None:
    for url in ("memory://gl[1]", "memory://gl[1]/", "MEMORY://gl[1]/", "memory://gl*/*.npy"):
        assert n_rows(url) == 60
    fsspec.filesystem("memory").pipe_file("/odd/a::b.npy", b"")
    with pytest.raises(FormatError, match=r"memory://odd/a::b\.npy: has `::` in its name, which joins URLs: rename it"):
        open_source("memory://odd/")


def test_a_query_is_no_part_of_the_name(folder: Path) -> None:
    (folder / "x.fbin").write_bytes(np.array(X.shape, "<u4").tobytes() + X.tobytes())
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    pytest.importorskip("aiohttp")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert n_rows(f"{url}/x.fbin?sig=1") == 60
        with pytest.raises(FormatError, match=r"none\.npy: cannot be read: no such object"):
            open_source(f"{url}/none.npy")
        server.shutdown()
    with pytest.raises(FormatError, match=r"x\.npy: cannot be read: .*[Cc]onnect"):
        open_source(f"{url}/x.npy")


def test_two_spellings_of_a_report_are_one(folder: Path) -> None:
    options = EvaluateOptions(reports=("memory://r.json", "memory:///r.json"), probes=("linear",))
    with pytest.raises(UsageError, match=r"memory:///r\.json: is the output memory://r\.json too"):
        evaluate("0.npy", "y.csv", None, options)
    with pytest.raises(UsageError, match="is the output r.md too"):
        check_distinct(["r.md", f"file://{folder}/r.md"])
    check_distinct(["a.md", "b.md", "memory://a.md", "/dev/null", "/dev/null"])


def test_what_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(LabelError, match=r"a glob such as 'memory://nowhere/\*/\*\.csv'"):
        label_files("memory://nowhere/")
    with pytest.raises(FormatError, match=r"`baseline=memory://nope\.json`: no such object"):
        Baseline.read("memory://nope.json")


def test_buckets_are_looked_for_before_the_work(folder: Path) -> None:
    with s3_store("bkt") as (store, _):
        store.put_file("0.npy", "bkt/x/0.npy")
        assert n_rows("S3://bkt/x/") == 20
        for url in ("s3://nobucket/", "s3://nobucket/*.npy"):
            with pytest.raises(FormatError, match=r"cannot be listed: there is no bucket nobucket"):
                open_source(url)
        refused: dict[str, Any] = {"s3://nobucket/e.npz": "there is no bucket nobucket", "s3://bkt": "is a folder"}
        for url, why in refused.items():
            with pytest.raises(OutputError, match=why):
                check_output(url, [])
        with pytest.raises(OutputError, match="there is no bucket nobucket"):
            apply("e.npz", f"zip://emb/::file://{folder}/a.zip", "s3://nobucket/out/", ApplyOptions())
        check_output("s3://bkt/e.npz", [])
