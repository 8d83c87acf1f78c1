"""Peak memory does not depend on the file: what a command takes over `salcli --help`, for six gigabytes too."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .helpers import MODULE, succeed

pytestmark = pytest.mark.slow  # each test starts processes

MOST = 150_000_000
N_BYTES = 6_000_000_000
WRITTEN_BYTES = 400_000_000  # what apply writes takes its place on the disk
# A process starts with the peak memory of the one it was forked from: a small one in between keeps ours out of it.
MEASURED = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024, file=sys.stderr)
"""


def peak(*args: object) -> int:
    """Run salcli, and give the bytes that it held at most."""
    command = [sys.executable, "-S", "-E", "-c", MEASURED, *MODULE, *map(str, args)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    code, most = map(int, done.stderr.splitlines()[-1].split())
    assert code == 0, done.stderr
    return most


def sparse_npy(path: Path, n: int, d: int) -> None:
    """Write rows of which only the first few take place on the disk; the others are zeros."""
    with path.open("wb") as handle:
        np.lib.format.write_array_header_1_0(handle, {"descr": "<f4", "fortran_order": False, "shape": (n, d)})
        start = handle.tell()
        handle.write(np.random.default_rng(0).normal(size=(1000, d)).astype(np.float32).tobytes())
        handle.truncate(start + 4 * n * d)


def test_short_rows_take_no_more_memory_though_there_are_millions_in_a_piece(tmp_path: Path) -> None:
    n = 1 << 24
    sparse_npy(tmp_path / "x.npy", n, 4)
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * (n // 2), encoding="ascii")
    held = peak("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--hash", "none", "--quiet")
    assert held - peak("--help") < MOST


@pytest.mark.parametrize("d", [300, 768])
def test_fit_and_apply_hold_little_of_a_file_of_six_gigabytes(tmp_path: Path, d: int) -> None:
    n, n_written = N_BYTES // (4 * d), WRITTEN_BYTES // (4 * d)
    sparse_npy(tmp_path / "x.npy", n, d)
    if os.stat(tmp_path / "x.npy").st_blocks * 512 > N_BYTES // 2:
        pytest.skip("this file system keeps no sparse files")
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * (n // 2) + "a\n" * (n % 2), encoding="ascii")
    idle = peak("--help")
    held = peak("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--hash", "none", "--quiet")
    assert held - idle < MOST
    (tmp_path / "x.npy").unlink()
    sparse_npy(tmp_path / "x.npy", n_written, d)
    assert peak("apply", tmp_path / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy", "--quiet") - idle < MOST
    assert succeed("inspect", tmp_path / "o.npy", "--json").json()["n"] == n_written


def test_apply_holds_little_of_a_table_of_one_row_group(tmp_path: Path) -> None:
    n, d = 45_000, 768
    x = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * 500, encoding="ascii")
    np.save(tmp_path / "x.npy", x[:1000])
    table = pa.table({"id": [f"k{i}" for i in range(n)], "emb": pa.FixedSizeListArray.from_arrays(x.reshape(-1), d)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=n)
    succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    used = peak("apply", tmp_path / "e.npz", tmp_path / "x.parquet", "-o", tmp_path / "o.parquet", "--quiet")
    assert used - peak("--help") < MOST
    groups = pq.ParquetFile(tmp_path / "o.parquet").metadata
    assert [groups.row_group(i).num_rows * d * 4 >> 20 for i in range(2)] == [63, 63]
