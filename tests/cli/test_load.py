"""Many at once: twenty processes over one eraser, and `make -j` over a folder, again and again."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from .helpers import HERE, MODULE, erased, planted, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

MAKEFILE = """\
ERASED := $(patsubst in/%.npy,out/%.npy,$(wildcard in/*.npy))

all: $(ERASED)

out/%.npy: in/%.npy e.npz
\t$(SALCLI) apply e.npz $< -o $@ --quiet

e.npz: in/a0.npy y.csv
\t$(SALCLI) fit $^ -o $@ --quiet

gate: in/a0.npy y.csv e.npz
\t$(SALCLI) evaluate in/a0.npy y.csv --eraser e.npz --probes linear --max-accuracy 0.1 \\
\t\t--report gate.json --report gate.xml --quiet
\ttouch released
"""


def test_twenty_processes_share_one_eraser(tmp_path: Path) -> None:
    x, labels = planted(400, 12)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    rows = [np.roll(x, i, axis=0) * (i + 1) for i in range(20)]
    for i, part in enumerate(rows):
        save_npy(tmp_path / f"x{i}.npy", part)
    succeed("fit", tmp_path / "x0.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    running = [
        subprocess.Popen(
            [*MODULE, "apply", "e.npz", f"x{i}.npy", "-o", f"o{i}.npy", "--dtype", "float64", "--quiet"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
        )
        for i in range(20)
    ]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in running]
    assert ended == [(b"", 0)] * 20
    for i, part in enumerate(rows):
        np.testing.assert_allclose(np.load(tmp_path / f"o{i}.npy"), erased(part, tmp_path / "e.npz"), atol=1e-11)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    for i in range(10):
        x, labels = planted(120, 6)
        save_npy(tmp_path / "in" / f"a{i}.npy", x + np.float32(i))
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    (tmp_path / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    return tmp_path


def make(project: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    command = ["make", f"SALCLI={' '.join(MODULE)}", *args]
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    env = inherited | {"PYTHONPATH": str(HERE.parents[1])}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, timeout=120, check=False)


def times(project: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in [*(project / "out").iterdir(), project / "e.npz"]}


def test_make_runs_what_is_due_and_nothing_else(project: Path) -> None:
    done = make(project, "-j4")
    assert done.returncode == 0, done
    first = times(project)
    assert len(first) == 11
    assert make(project, "-q").returncode == 0
    assert make(project, "-j4").returncode == 0
    assert times(project) == first

    later = max(first.values()) + 5_000_000_000
    os.utime(project / "in" / "a7.npy", ns=(later, later))
    assert make(project, "-q").returncode == 1
    assert make(project, "-j4").returncode == 0
    second = times(project)
    assert {name for name in first if first[name] != second[name]} == {"a7.npy"}


def test_a_failing_gate_stops_make_and_leaves_its_reports(project: Path) -> None:
    done = make(project, "gate")
    assert done.returncode == 2, done  # make's own status; that of the gate is in what it says
    assert b"Error 1" in done.stderr
    assert b'"passed": false' in (project / "gate.json").read_bytes()
    assert b"<failure" in (project / "gate.xml").read_bytes()
    assert not (project / "released").exists()
