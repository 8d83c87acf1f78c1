"""Whatever ends a command, at whatever moment: an output is absent, the old one, or whole and right."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.warm import warm

from .helpers import HERE, MODULE, Done, leftovers, planted, run, save_npy, succeed, text_of, words, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

OLD = b"what was there before"
FAULT = """
import os, signal, sys

folder, when, sent = {folder!r}, {at}, {sent}
seen = 0

def count(event, args):
    global seen
    if event in ("open", "os.rename", "os.chmod", "os.remove") and any(str(arg).startswith(folder) for arg in args):
        seen += 1
        if seen == when:
            os.kill(os.getpid(), sent)

sys.addaudithook(count)
"""

KILL = "import os, signal, threading; threading.Timer({seconds}, os.kill, (os.getpid(), signal.SIGKILL)).start()"


@dataclass(frozen=True)
class Command:
    """A command whose outputs, by name, go into a folder of their own."""

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]

    def into(self, folder: Path) -> list[str]:
        return [argument.replace("{out}", str(folder)) for argument in self.arguments]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    folder = tmp_path_factory.mktemp("inputs")
    x, labels = planted(400, 12)
    keys = words(400)
    (folder / "x.txt").write_bytes(text_of([key.encode() for key in keys], x, has_header=True))
    save_npy(folder / "x.npy", x)
    parts = [("train", "dev", "test", "test")[i % 4] for i in range(400)]
    write_csv(folder / "y.csv", ["word", "y", "split"], zip(keys, labels, parts, strict=True))
    succeed("fit", folder / "x.txt", folder / "y.csv", "-o", folder / "e.npz")
    text, labelled, eraser = (str(folder / name) for name in ("x.txt", "y.csv", "e.npz"))
    reports = ("r.json", "r.xml")
    quick = ("--probes", "linear", "--quick", "--no-kept")
    options = [part for name in reports for part in ("--report", f"{{out}}/{name}")]
    return {
        "fit": Command(("fit", text, labelled, "-o", "{out}/e.npz"), ("e.npz",)),
        "kfit": Command(("kfit", text, labelled, "--kernel", "poly", "-o", "{out}/k.npz"), ("k.npz",)),
        "apply": Command(("apply", eraser, str(folder / "x.npy"), "-o", "{out}/o.npy"), ("o.npy",)),
        "apply to text": Command(("apply", eraser, text, "-o", "{out}/o.txt"), ("o.txt",)),
        "apply to gzip": Command(("apply", eraser, text, "-o", "{out}/o.bin.gz"), ("o.bin.gz",)),
        "apply to HDF5": Command(("apply", eraser, text, "-o", "{out}/o.h5"), ("o.h5",)),
        "apply to Parquet": Command(("apply", eraser, text, "-o", "{out}/o.parquet"), ("o.parquet",)),
        "apply to Arrow": Command(("apply", eraser, text, "-o", "{out}/o.arrow"), ("o.arrow",)),
        "label": Command(("label", text, "--direction", "w1:w2", "--top", "90", "-o", "{out}/l.csv"), ("l.csv",)),
        "inspect": Command(("inspect", eraser, "--projection", "{out}/p.npy"), ("p.npy",)),
        "evaluate": Command(("evaluate", text, labelled, "--eraser", eraser, *quick, *options), reports),
    }


NAMES = (
    *("fit", "kfit", "apply", "apply to text", "apply to gzip", "apply to HDF5", "apply to Parquet", "apply to Arrow"),
    *("label", "inspect", "evaluate"),
)


@pytest.fixture(scope="module")
def whole(commands: dict[str, Command], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The outputs of commands that nothing disturbs."""
    found = {}
    for name, command in commands.items():
        folder = tmp_path_factory.mktemp("whole")
        succeed(*command.into(folder))
        found[name] = {output: (folder / output).read_bytes() for output in command.outputs}
    return found


def prepared(folder: Path, outputs: Sequence[str]) -> None:
    """Put old outputs in place."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name in outputs:
        (folder / name).write_bytes(OLD)


def require_old_or_whole(folder: Path, whole: dict[str, bytes], *, may_leave_temporary: bool) -> None:
    for name, content in whole.items():
        assert (folder / name).read_bytes() in (OLD, content), name
    left = {path.name for path in folder.iterdir()} - set(whole)
    assert all(name.startswith(".") and name.endswith(".tmp") for name in left), left
    assert may_leave_temporary or not left


@pytest.mark.parametrize(
    ("name", "sent"),
    [(name, signal.SIGKILL) for name in NAMES]
    + [(name, sent) for name in ("fit", "apply") for sent in (signal.SIGINT, signal.SIGTERM)],
)
def test_a_signal_at_every_step_of_writing_leaves_the_old_or_the_whole_output(
    name: str,
    sent: signal.Signals,
    commands: dict[str, Command],
    whole: dict[str, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    """The process is struck at its first, second, third … touch of the output's folder, until it gets through."""
    folder = tmp_path / "out"
    n_struck = 0
    for at in itertools.count(1):
        prepared(folder, commands[name].outputs)
        before = FAULT.format(folder=str(folder), at=at, sent=int(sent))
        done = Done(*warm().run(*commands[name].into(folder), cwd=HERE, before=before)[:3])
        require_old_or_whole(folder, whole[name], may_leave_temporary=sent == signal.SIGKILL)
        assert b"Traceback" not in done.stderr, done
        if done.code == 0:
            break
        assert done.code == (-sent if sent == signal.SIGKILL else 128 + sent), done
        n_struck += 1
    assert n_struck >= 2  # at least when the file is opened, and when it takes its place
    assert all((folder / output).read_bytes() == content for output, content in whole[name].items())


@pytest.mark.parametrize(("name", "times"), [("apply", 25), ("fit", 15), ("evaluate", 10)])
def test_a_kill_at_any_moment_leaves_the_old_or_the_whole_output(
    name: str, times: int, commands: dict[str, Command], whole: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    folder, chance = tmp_path / "out", random.Random(name)
    arguments = commands[name].into(folder)
    prepared(folder, commands[name].outputs)
    start = time.monotonic()
    succeed(*arguments)
    lasts = time.monotonic() - start
    for _ in range(times):
        prepared(folder, commands[name].outputs)
        warm().run(*arguments, cwd=HERE, before=KILL.format(seconds=chance.uniform(0, 1.1) * lasts))
        require_old_or_whole(folder, whole[name], may_leave_temporary=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_disk_that_fills_up_is_one_line_and_leaves_the_old_output(
    name: str, commands: dict[str, Command], tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    prepared(folder, commands[name].outputs)
    limited = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *MODULE]  # 512 bytes a file, or 1,024
    done = run(*commands[name].into(folder), command=limited)
    assert done.code == 4, done
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done
    assert str(folder) in errors[0]
    assert b"Traceback" not in done.stderr
    assert [(folder / output).read_bytes() for output in commands[name].outputs] == [OLD] * len(commands[name].outputs)
    assert leftovers(folder) == []


def as_somebody_who_may_not() -> None:
    """Take from root the right to write where permissions forbid it."""
    import ctypes

    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="drops a Linux capability, for tests that run as root")
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_may_not_be_written_is_told_before_any_work(
    name: str, commands: dict[str, Command], tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    folder.chmod(0o555)
    how = {"cwd": HERE, "capture_output": True, "preexec_fn": as_somebody_who_may_not, "check": False}
    if subprocess.run(["touch", str(folder / "probe")], **how).returncode == 0:  # type: ignore[call-overload]
        (folder / "probe").unlink()
        pytest.skip("this user may write anywhere")
    arguments = [a if not a.endswith(("x.txt", "x.npy")) else "/nowhere" for a in commands[name].into(folder)]
    done = subprocess.run([*MODULE, *arguments], **how)  # type: ignore[call-overload]
    assert done.returncode == 4, done
    assert b"not writable" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert list(folder.iterdir()) == []


def test_two_writers_of_one_output_leave_the_work_of_one(tmp_path: Path) -> None:
    x, labels = planted(3000, 40)
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    folder = tmp_path / "out"
    folder.mkdir()
    results = []
    for i, options in enumerate(([], ["--no-center"], ["--sample", "500"])):
        succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / f"e{i}.npz", *options)
        succeed("apply", tmp_path / f"e{i}.npz", tmp_path / "x.npy", "-o", tmp_path / f"o{i}.npy")
        results.append((tmp_path / f"o{i}.npy").read_bytes())
    assert len(set(results)) == 3
    running = [
        subprocess.Popen(
            [*MODULE, "apply", str(tmp_path / f"e{i}.npz"), str(tmp_path / "x.npy"), "-o", str(folder / "o.npy")],
            cwd=HERE,
            stdout=subprocess.DEVNULL,
        )
        for i in range(3)
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert (folder / "o.npy").read_bytes() in results
    assert [path.name for path in folder.iterdir()] == ["o.npy"]


def test_a_replaced_file_with_another_name_is_told(commands: dict[str, Command], tmp_path: Path) -> None:
    (tmp_path / "e.npz").write_bytes(OLD)
    os.link(tmp_path / "e.npz", tmp_path / "other")
    done = succeed(*commands["fit"].into(tmp_path))
    assert "hard links: 1" in done.err
    assert (tmp_path / "other").read_bytes() == OLD
    assert np.load(tmp_path / "e.npz")["left"].shape == (12, 1)
