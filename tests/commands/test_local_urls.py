"""URLs of local files are their paths: inputs are never replaced by them, and outputs are whole or absent."""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from salcli.commands.apply import apply
from salcli.commands.compare import compare
from salcli.commands.evaluate import evaluate
from salcli.commands.export import export
from salcli.commands.fit import fit
from salcli.commands.fit_moments import fit_moments
from salcli.commands.inspect import inspect
from salcli.commands.label import label
from salcli.commands.moments import moments
from salcli.errors import OutputError, UsageError
from salcli.formats import local_urls
from salcli.formats.shard_folder import LOCK
from salcli.formats.shards import RECORD
from salcli.options import (
    ApplyOptions,
    CompareOptions,
    EvaluateOptions,
    ExportOptions,
    FitOptions,
    InspectOptions,
    LabelCommandOptions,
    MomentsOptions,
)

from ..cli.helpers import planted, refuse, save_npy, succeed, write_csv

pytest.importorskip("fsspec")
X, CLASSES = planted(60, 4)
Spelling = Callable[[Path], str]
SPELLINGS: dict[str, Spelling] = {
    "path": str,
    "url": lambda path: f"file://{path}",
    "upper": lambda path: f"FILE://{path}",
    "local": lambda path: f"local://{path}",
    "slashes": lambda path: f"file:///{path}",
    "dots": lambda path: f"file://{path.parent}/../{path.parent.name}/{path.name}",
    "relative": lambda path: f"file://{os.path.relpath(path)}",
    "link": lambda path: f"file://{path}".replace("/in/", "/link/"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "in"
    (found / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(found)
    save_npy(found / "x.npy", X)
    save_npy(found / "x" / "0.npy", X)
    write_csv(found / "y.csv", ["g"], [[each] for each in CLASSES])
    fit(str(found / "x.npy"), str(found / "y.csv"), str(found / "e.npz"), FitOptions())
    moments(str(found / "x.npy"), str(found / "y.csv"), str(found / "m.npz"), MomentsOptions())
    return found


def test_no_spelling_of_an_input_replaces_it(folder: Path) -> None:
    for x, out in itertools.product(SPELLINGS.values(), SPELLINGS.values()):
        with pytest.raises(UsageError, match="is the input"):
            apply("in/e.npz", x(folder / "x.npy"), out(folder / "x.npy"), ApplyOptions())
        for place in (out(folder / "x"), out(folder / "x" / "out") + "/"):
            with pytest.raises(UsageError, match="is in this folder, or it in the input"):
                apply("in/e.npz", x(folder / "x"), place, ApplyOptions())
    assert [path.name for path in (folder / "x").iterdir()] == ["0.npy"]
    assert np.array_equal(np.load(folder / "x.npy"), X)


QUICK = {"probes": ("linear",), "quick": True}
COMMANDS: dict[str, Callable[[str, str], object]] = {
    "fit": lambda x, out: fit(x, "in/y.csv", out, FitOptions()),
    "moments": lambda x, out: moments(x, "in/y.csv", out, MomentsOptions()),
    "fit_moments": lambda x, out: fit_moments(
        [x.replace("x.npy", "m.npz")], out.replace("x.npy", "m.npz"), FitOptions()
    ),
    "label": lambda x, out: label(x, out, LabelCommandOptions(counts=(("a", 0.5), ("b", 0.5)))),
    "evaluate": lambda x, out: evaluate(
        x,
        "in/y.csv",
        None,
        EvaluateOptions(reports=(out,), report_format="json", **QUICK),  # type: ignore[arg-type]
    ),
    "compare": lambda x, out: compare(
        x,
        "in/y.csv",
        CompareOptions(
            erasers=("in/e.npz",),
            methods=("sal",),
            evaluation=EvaluateOptions(reports=(out,), report_format="json", **QUICK),  # type: ignore[arg-type]
        ),
    ),
    "export": lambda x, out: export(
        x.replace("x.npy", "e.npz"), out.replace("x.npy", "e.npz"), ExportOptions(to="npz")
    ),
    "inspect": lambda x, out: inspect(
        x.replace("x.npy", "e.npz"), InspectOptions(projection=out.replace("x.npy", "e.npz"))
    ),
    "chain": lambda x, out: apply("in/e.npz", f"simplecache::file://{os.path.abspath(x)}", out, ApplyOptions()),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_replaces_its_input(folder: Path, command: str) -> None:
    before = {path: path.read_bytes() for path in folder.glob("*.*")}
    with pytest.raises(UsageError, match="is the input"):
        COMMANDS[command]("in/x.npy", f"file://{folder}/x.npy")
    assert {path: path.read_bytes() for path in folder.glob("*.*")} == before


def test_outputs_are_whole_or_absent_and_locked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = f"file://{folder}/out/"
    assert apply("in/e.npz", f"file://{folder}/x/", out, ApplyOptions()).n == 60
    assert json.loads((folder / "out" / RECORD).read_bytes())["complete"]
    assert "mtime_ns" in json.loads((folder / "out" / RECORD).read_bytes())["shards"][0]["source"]
    locked: list[bool] = []
    replace = os.replace

    def watched(source: str, target: str) -> None:
        locked.append((folder / "out" / LOCK).exists())
        replace(source, target)

    (folder / "out" / "0.npy").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", watched)
        apply("in/e.npz", f"file://{folder}/x/", out, ApplyOptions())
    assert all(locked)
    assert locked
    with pytest.raises(OutputError, match="the folder .*missing does not exist"):
        apply("in/e.npz", "in/x.npy", f"file://{folder}/missing/o.npy", ApplyOptions())
    with pytest.raises(OutputError, match="the folder .*missing does not exist"):
        apply("in/e.npz", "in/x", f"file://{folder}/missing/o/", ApplyOptions())
    (folder / "e2.npz").write_bytes(b"old")
    (folder / "e2.npz").chmod(0o640)
    fit("in/x.npy", "in/y.csv", f"local://{folder}/e2.npz", FitOptions())
    assert (folder / "e2.npz").stat().st_mode & 0o777 == 0o640
    assert (folder / "e2.npz").read_bytes() == (folder / "e.npz").read_bytes()
    assert not (folder / "missing").exists()


def test_the_command_line_takes_them_everywhere(folder: Path) -> None:
    url = f"file://{folder}"
    succeed("fit", f"{url}/x.npy", f"{url}/y.csv", "-o", f"{url}/f.npz", "--checkpoint", f"{url}/ck")
    succeed("inspect", f"{url}/*.npy", "--labels", f"{url}/y.csv")
    succeed("apply", f"{url}/f.npz", f"{url}/x.npy", "-o", f"FILE://{folder}/o.npy")
    assert np.load(folder / "o.npy").shape == X.shape
    assert [path.suffix for path in (folder / "ck").iterdir()] == [".npz"]
    refuse(
        2, "apply", f"{url}/f.npz", f"{url}/x.npy", "-o", f"simplecache::{url}/p.npy", says="a chain of URLs is read"
    )
    refuse(
        2, "apply", f"{url}/f.npz", "memory://x.npy", "-o", f"zip://p.npy::{url}/p.zip", says="a chain of URLs is read"
    )


def test_other_urls_are_as_they_were() -> None:
    for other in ("memory://file://x", "zip://x.npy::file:///a.zip", "file.npy", "file:x", "-"):
        assert local_urls.plain(other) == other
    assert local_urls.base_of("zip://x.npy::file:///a.zip") == "/a.zip"
    assert local_urls.base_of("simplecache::memory://b/x.npy") == "memory://b/x.npy"
