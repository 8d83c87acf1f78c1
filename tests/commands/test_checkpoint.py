"""`fit --checkpoint`: the same bytes, and only shards that are missing or have changed are added up again."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from salcli.commands import header
from salcli.commands.checkpoint import Checkpoint
from salcli.commands.fit import fit
from salcli.commands.fit_moments import fit_moments
from salcli.erasers.sal import SALParameters
from salcli.errors import OutputError, UsageError
from salcli.options import FitOptions, LabelOptions, ReadOptions

from .test_moments import PARAMETERS, SMALL, Data

pytestmark = pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
LABELS = LabelOptions(("gender",), ("time",))


class Kept:
    """A fit with a checkpoint, and how many shards each run adds up."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, options: FitOptions, *, keyed: bool) -> None:
        self.columns = ["gender", "time", *(["job"] if options.method == "splince" else [])]
        self.data = Data(folder / "data", [30, 50, 90], np.float64, self.columns, seed=3, keyed=keyed)
        self.options = replace(options, labels=LABELS, read=SMALL, checkpoint=str(folder / "kept"))
        self.expected = self.data.fit(replace(self.options, checkpoint=None))
        self.added, self.folder, self.stops_after = 0, folder / "kept", -1
        original = Checkpoint.keep

        def keep(checkpoint: Checkpoint, *args: Any, **named: Any) -> None:
            if self.added == self.stops_after:
                raise KeyboardInterrupt
            self.added += 1
            original(checkpoint, *args, **named)

        monkeypatch.setattr(Checkpoint, "keep", keep)

    def run(self, **changes: Any) -> int:
        self.added = 0
        self.last = self.data.fit(replace(self.options, **changes))
        return self.added

    def shard(self, i: int) -> Path:
        (found,) = self.folder.glob(f"x_{i + 8}.npz.*.npz")
        return found


@pytest.fixture(params=[True, False], ids=["keys", "rows"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    return Kept(tmp_path, monkeypatch, FitOptions(), keyed=request.param)


def test_a_run_that_starts_again_adds_up_what_is_missing(kept: Kept) -> None:
    kept.stops_after = 2
    with pytest.raises(KeyboardInterrupt):
        kept.run()
    assert len(list(kept.folder.iterdir())) == 2
    kept.stops_after = -1
    assert (kept.run(), kept.run()) == (2, 0)
    assert kept.last == kept.expected
    kept.shard(1).unlink()
    kept.shard(3).write_bytes(kept.shard(3).read_bytes()[:-50])
    assert kept.run() == 2
    assert kept.last == kept.expected


KILLED = """
import os, sys
from salcli.commands.fit import fit
from salcli.options import FitOptions, LabelOptions
rename, folder = os.replace, sys.argv[4]
def replace(source, target):
    if str(target).startswith(folder + "/x_10"):
        os.kill(os.getpid(), 9)  # the moments of the third shard are written, and not in their place yet
    rename(source, target)
os.replace = replace
fit(*sys.argv[1:4], FitOptions(LabelOptions(("gender",), ("time",)), checkpoint=folder))
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_changed", [False, True], ids=["as it was", "a shard changed"])
def test_a_run_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_changed: bool) -> None:
    kept = Kept(tmp_path, monkeypatch, FitOptions(), keyed=True)
    kept.options = replace(kept.options, read=ReadOptions())
    data = kept.data
    paths = [str(path) for path in (data.folder / "shards", data.labels, data.folder / "killed.npz", kept.folder)]
    done = subprocess.run([sys.executable, "-c", KILLED, *paths], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (data.folder / "killed.npz").exists()
    names = sorted(path.name for path in kept.folder.iterdir())
    assert [name for name in names if not name.startswith(".")] == [kept.shard(i).name for i in (0, 1)]
    assert len(names) == 3  # and the file that was not renamed
    if is_changed:
        rewrite(data.shards[0][0], keeps_time=True)
    expected = data.fit(replace(kept.options, checkpoint=None))
    assert kept.run() == (3 if is_changed else 2)
    assert kept.last == expected
    assert kept.run() == 0


@pytest.mark.parametrize("method", ["leace", "splince"])
def test_methods_of_second_moments_start_again_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    kept = Kept(tmp_path, monkeypatch, FitOptions(method=method, parameters=PARAMETERS[method]), keyed=True)
    assert (kept.run(), kept.last == kept.expected) == (4, True)
    assert (kept.run(), kept.last == kept.expected) == (0, True)


def test_sums_that_were_kept_are_used(kept: Kept) -> None:
    kept.run()
    with np.load(kept.shard(0)) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(kept.shard(0), **{**arrays, "comoment": arrays["comoment"][::-1]})
    assert kept.run() == 0
    assert kept.last != kept.expected


def rewrite(path: Path, *, keeps_time: bool) -> None:
    before = path.stat()
    with np.load(path) as file:
        np.savez(path, vectors=file["vectors"] * 1.5, keys=file["keys"])
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + (not keeps_time)))


@pytest.mark.parametrize(
    ("change", "n"),
    [
        (lambda data: rewrite(data.shards[2][0], keeps_time=False), 1),
        (lambda data: rewrite(data.shards[2][0], keeps_time=True), 1),  # found by the digest
        (lambda data: os.utime(data.shards[2][0], (1, 1)), 1),
    ],
    ids=["rows", "rows of the same time", "time"],
)
def test_a_shard_that_has_changed_is_added_up_again(kept: Kept, change: Callable[[Data], Any], n: int) -> None:
    kept.run()
    change(kept.data)
    assert kept.run() == n
    assert kept.last == kept.data.fit(replace(kept.options, checkpoint=None))


def test_labels_that_have_changed_count_for_their_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path, monkeypatch, FitOptions(), keyed=False)
    kept.run()
    path = kept.data.shards[1][1]
    lines = path.read_text().splitlines()
    lines[1:] = lines[:0:-1]
    path.write_text("\n".join(lines) + "\n")
    assert kept.run() == 1
    assert kept.last == kept.data.fit(replace(kept.options, checkpoint=None))


def test_other_options_are_another_design(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.run()
    assert kept.run(parameters=SALParameters(k=1)) == 0
    assert kept.run(parameters=SALParameters(center=False)) == 4
    assert kept.run(hash_algorithm="sha256") == 4
    assert kept.run(hash_algorithm="none") == 4
    assert kept.run(hash_algorithm="none") == 0
    monkeypatch.setattr(header.salcli, "__version__", "9.9")
    assert kept.run() == 4


def test_a_checkpoint_is_a_folder_of_moments(kept: Kept) -> None:
    kept.run()
    out = kept.folder / "e"
    fit_moments([str(kept.folder / "*.npz")], str(out), FitOptions())
    assert out.read_bytes() == kept.expected
    with np.load(kept.shard(0)) as file:
        assert json.loads(str(file["header"]))["schema"] == "salcli.moments/1"


@pytest.mark.parametrize("name", ["labels", "labels/all.csv"])
def test_rows_may_have_their_labels_in_one_file_of_all_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kept = Kept(tmp_path, monkeypatch, FitOptions(), keyed=False)
    lines = [path.read_text().splitlines(keepends=True) for _, path in kept.data.shards]
    rows = [row for _, *own in lines for row in own]
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "all.csv").write_text(lines[0][0] + "".join(rows))
    kept.data.labels = tmp_path / name
    kept.run()
    assert kept.run() == 0
    fit_moments([str(kept.folder / "*.npz")], str(tmp_path / "e"), FitOptions())
    assert (tmp_path / "e").read_bytes() == kept.last
    with np.load(tmp_path / "e") as file:
        assert json.loads(str(file["header"]))["inputs"]["labels"]["n"] == len(rows)


def test_what_cannot_be_kept_is_refused(kept: Kept, tmp_path: Path) -> None:
    shutil.rmtree(kept.folder, ignore_errors=True)
    for options in (FitOptions(method="ksal"), FitOptions(parameters=SALParameters(unit=True))):
        with pytest.raises(UsageError, match="more than sums"):
            fit("nowhere", "nowhere", str(tmp_path / "e.npz"), replace(options, checkpoint=str(kept.folder)))
    assert not kept.folder.exists()
    kept.folder.write_text("a file")
    with pytest.raises(OutputError, match="cannot create this folder"):
        kept.run()
