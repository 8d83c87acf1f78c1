"""Shards that are written at the same time are those of a run one by one, whatever fails."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128

from salcli.commands.apply import apply
from salcli.commands.apply_on_threads import one_thread_each
from salcli.commands.fit import fit
from salcli.errors import OutputError
from salcli.formats.shards import RECORD
from salcli.options import ApplyOptions, FitOptions, ReadOptions
from salcli.streaming.engine import Threads, running_on

from ..cli.helpers import planted, save_npy, write_csv


@pytest.fixture
def eraser(tmp_path: Path) -> str:
    x, classes = planted(60, 3)
    save_npy(tmp_path / "fitted.npy", x)
    write_csv(tmp_path / "y.csv", ["g"], [[c] for c in classes])
    fit(str(tmp_path / "fitted.npy"), str(tmp_path / "y.csv"), str(tmp_path / "e.npz"), FitOptions())
    return str(tmp_path / "e.npz")


def write_shards(folder: Path, sizes: list[int]) -> str:
    (folder / "x").mkdir()
    rng = np.random.default_rng(0)
    for i, n in enumerate(sizes):
        np.save(folder / "x" / f"{i}.npy", rng.standard_normal((n, 3), dtype=np.float32))
    return str(folder / "x")


def recorded(folder: Path) -> dict[str, Any]:
    return {shard["name"]: shard for shard in json.loads((folder / RECORD).read_text())["shards"]}


@given(rows=st.lists(st.integers(1, 9), min_size=1, max_size=12), n_threads=st.integers(1, 4))
def test_no_thread_is_left_without_a_shard(rows: list[int], n_threads: int) -> None:
    named = {str(i): n for i, n in enumerate(rows)}
    found = [*one_thread_each(named, n_threads)]
    assert [name for name, _ in found] == [*named]
    run = 0
    for name, is_alone in [*found, ("", False)]:
        assert not is_alone or named[name] * n_threads <= sum(rows)
        run = run + 1 if is_alone else run * (run % n_threads)
        assert is_alone or run == 0


@pytest.mark.parametrize("sizes", [[10] * 5, [200, 3, 3], [50], [7, 20, 1, 30, 8, 9]], ids=str)
@pytest.mark.parametrize("suffix", ["npy", "fbin", "safetensors", "h5"])
def test_files_and_hashes_are_those_of_each_shard_alone(
    tmp_path: Path, eraser: str, sizes: list[int], suffix: str
) -> None:
    options = ApplyOptions(output_format=suffix, read=ReadOptions(batch_rows=4))
    x, out = write_shards(tmp_path, sizes), tmp_path / "out"
    with running_on(Threads(2)):
        apply(eraser, x, str(out), options)
    for i in range(len(sizes)):
        name, source = f"{i}.{suffix}", Path(x, f"{i}.npy")
        apply(eraser, str(source), str(tmp_path / name), options)
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes()
        entry = recorded(out)[name]
        assert entry["source"]["hash"]["digest"] == xxh3_128(source.read_bytes()).hexdigest()
        assert entry["output"]["hash"]["digest"] == xxh3_128((out / name).read_bytes()).hexdigest()


def test_a_shard_that_does_not_reach_the_disk_ends_the_run_though_others_are_being_written(
    tmp_path: Path, eraser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, out = write_shards(tmp_path, [20] * 6), tmp_path / "out"
    sync, next_is_synced = os.fsync, threading.Event()

    def fsync(handle: int) -> None:
        path = os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))
        if path.startswith(".2.npy"):
            next_is_synced.set()
        if path.startswith(".1.npy"):
            assert next_is_synced.wait(10)
            raise OSError(errno.EIO, "Input/output error")
        sync(handle)

    with monkeypatch.context() as patched, running_on(Threads(2)):
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(OutputError, match=r"out/1\.npy: could not be written: Input/output error") as caught:
            apply(eraser, x, str(out), ApplyOptions())
    assert caught.value.exit_code == 4
    assert {path.name for path in out.iterdir()} == {RECORD, "0.npy"}
    assert [name for name, entry in recorded(out).items() if "output" in entry] == ["0.npy"]
    assert apply(eraser, x, str(out), ApplyOptions()).n_kept == 1


def test_an_input_that_changes_is_the_error_of_its_own_shard(
    tmp_path: Path, eraser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, out = write_shards(tmp_path, [20] * 4), tmp_path / "out"
    sync = os.fsync

    def fsync(handle: int) -> None:
        if os.path.basename(os.readlink(f"/proc/self/fd/{handle}")).startswith(".2.npy"):
            os.utime(f"{x}/2.npy", ns=(0, 0))
        sync(handle)

    with monkeypatch.context() as patched, running_on(Threads(2)):
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(Exception, match=r"x/2\.npy: changed while it was read"):
            apply(eraser, x, str(out), ApplyOptions())
    assert [name for name, entry in recorded(out).items() if "output" in entry] == ["0.npy", "1.npy"]
    assert not (out / "3.npy").exists()


FULL = """
import resource, signal, sys
from salcli.commands.apply import apply
from salcli.options import ApplyOptions
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
apply(*sys.argv[1:4], ApplyOptions(output_format=sys.argv[4]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "h5", "npy"])
def test_a_disk_that_is_full_ends_all_shards(tmp_path: Path, eraser: str, suffix: str) -> None:
    x, out = write_shards(tmp_path, [20_000] * 6), tmp_path / "out"
    command = [sys.executable, "-c", FULL, eraser, x, str(out), suffix]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "OutputError" in done.stderr
    assert not out.exists()
