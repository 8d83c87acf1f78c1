"""`salcli apply`: outputs are whole or absent, whatever stands in the way or ends the process."""

import bz2
import gzip
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from .helpers import (
    HERE,
    MODULE,
    erased,
    leftovers,
    planted,
    refuse,
    run,
    save_npy,
    succeed,
    write_csv,
    write_embeddings,
)

pytestmark = pytest.mark.slow  # each test starts processes

LARGE_ROWS, LARGE_D = 1_000_000, 100  # 400 MB, without taking room on the disk


@pytest.fixture(scope="module")
def eraser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    x, labels = planted(300, LARGE_D)
    save_npy(folder / "x.npy", x)
    write_csv(folder / "y.csv", ["y"], [[label] for label in labels])
    succeed("fit", folder / "x.npy", folder / "y.csv", "-o", folder / "e.npz")
    return folder / "e.npz"


@pytest.fixture
def source(eraser: Path, tmp_path: Path) -> Path:
    path = tmp_path / "x.npy"
    path.write_bytes((eraser.parent / "x.npy").read_bytes())
    return path


def same(path: Path, link: Path) -> Path:
    return path


def symlink(path: Path, link: Path) -> Path:
    link.symlink_to(path)
    return link


def hard_link(path: Path, link: Path) -> Path:
    os.link(path, link)
    return link


@pytest.mark.parametrize("other_name", [same, symlink, hard_link])
def test_the_input_is_no_output(eraser: Path, source: Path, other_name: object) -> None:
    before = source.read_bytes()
    target = other_name(source, source.with_name("link.npy"))  # type: ignore[operator]
    refuse(2, "apply", eraser, source, "-o", target, says="--in-place")
    assert source.read_bytes() == target.read_bytes() == before
    assert leftovers(source.parent) == []


def test_the_eraser_is_no_output(eraser: Path, source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "e.npz"
    copy.write_bytes(eraser.read_bytes())
    refuse(2, "apply", copy, source, "-o", copy, says="is the input")
    assert copy.read_bytes() == eraser.read_bytes()


def test_in_place_replaces_the_input_and_follows_a_link(eraser: Path, source: Path) -> None:
    exact = erased(np.load(source), eraser)
    link = symlink(source, source.with_name("link.npy"))
    succeed("apply", eraser, link, "--in-place")
    assert link.is_symlink()
    np.testing.assert_allclose(np.load(source), exact, rtol=2**-23, atol=1e-12)
    assert sorted(path.name for path in source.parent.iterdir()) == ["link.npy", "x.npy"]


def test_in_place_keeps_gzip_and_refuses_what_is_only_read(eraser: Path, source: Path) -> None:
    packed, unwritable = source.with_name("x.npy.gz"), source.with_name("x.npy.bz2")
    packed.write_bytes(gzip.compress(source.read_bytes()))
    unwritable.write_bytes(bz2.compress(source.read_bytes()))
    succeed("apply", eraser, packed, "--in-place")
    succeed("apply", eraser, source, "--in-place")
    assert gzip.decompress(packed.read_bytes()) == source.read_bytes()
    refuse(2, "apply", eraser, unwritable, "--in-place", says="is read but not written")


def test_in_place_with_another_output_is_a_usage_error(eraser: Path, source: Path, tmp_path: Path) -> None:
    before = source.read_bytes()
    refuse(2, "apply", eraser, source, "--in-place", "-o", tmp_path / "o.npy", says="--in-place")
    refuse(2, "apply", eraser, "-", "--in-place", says="not stdin")
    refuse(2, "apply", eraser, source, says="-o")
    assert source.read_bytes() == before
    assert not (tmp_path / "o.npy").exists()


def test_a_missing_output_folder_is_told_before_any_input_is_opened(tmp_path: Path) -> None:
    target = tmp_path / "no" / "o.npy"
    done = refuse(4, "apply", tmp_path / "none.npz", tmp_path / "none.npy", "-o", target, says="does not exist")
    assert str(target) in done.err
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_folder_is_refused(eraser: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "o.npy").mkdir()
    refuse(4, "apply", eraser, source, "-o", tmp_path / "o.npy", says="is a folder")
    assert leftovers(tmp_path) == []


def test_an_input_in_a_read_only_file_is_read(eraser: Path, source: Path, tmp_path: Path) -> None:
    source.chmod(0o400)
    succeed("apply", eraser, source, "-o", tmp_path / "o.npy")
    assert np.load(tmp_path / "o.npy").shape == np.load(source).shape


def test_an_existing_output_is_replaced_by_a_new_file(eraser: Path, source: Path, tmp_path: Path) -> None:
    target, old = tmp_path / "o.npy", tmp_path / "old.npy"
    target.write_bytes(b"old")
    os.link(target, old)
    succeed("apply", eraser, source, "-o", target)
    assert old.read_bytes() == b"old"  # replaced by rename, not written over
    np.testing.assert_allclose(np.load(target), erased(np.load(source), eraser), rtol=2**-23, atol=1e-12)
    assert leftovers(tmp_path) == []


def test_a_new_output_has_the_permissions_of_the_umask(eraser: Path, source: Path, tmp_path: Path) -> None:
    command = ["sh", "-c", 'umask 027; exec "$@"', "sh", *MODULE]
    succeed("apply", eraser, source, "-o", tmp_path / "o.npy", command=command)
    assert (tmp_path / "o.npy").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["o.npy", "o.npz", "o.h5"])
def test_a_failure_in_the_last_row_leaves_the_old_output(eraser: Path, source: Path, tmp_path: Path, name: str) -> None:
    x = np.load(source)
    x[-1, 3] = np.nan
    save_npy(source, x)
    (tmp_path / name).write_bytes(b"old")
    done = refuse(3, "apply", eraser, source, "-o", tmp_path / name, "--batch-rows", 10, says="row 299")
    assert "nan, expected finite numbers" in done.err
    assert (tmp_path / name).read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "x.npy"])


@pytest.mark.parametrize("name", ["x.npy", "x.txt"])
def test_the_row_whose_result_does_not_fit_is_named(eraser: Path, source: Path, tmp_path: Path, name: str) -> None:
    x = np.load(source)
    x[280] = 1e5
    path = write_embeddings(tmp_path / f"big-{name}", x, [b"w%d" % i for i in range(len(x))])
    where = "row 280" if name == "x.npy" else "line 282"
    done = refuse(3, "apply", eraser, path, "-o", tmp_path / "o.npy", "--dtype", "float16", "--batch-rows", 100,
                  says=f"{path}: {where}, dimension")  # fmt: skip
    assert "does not fit float16: choose a wider --dtype" in done.err
    assert not (tmp_path / "o.npy").exists()


def test_a_full_disk_is_an_error_of_the_output(eraser: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "o.npy").write_bytes(b"old")
    command = ["sh", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$@"', "sh", *MODULE]  # 4 KiB a file
    done = run("apply", eraser, source, "-o", tmp_path / "o.npy", command=command)
    assert done.code == 4, done
    assert done.stdout == b""
    assert "could not be written" in done.err
    assert "what was there before is unchanged" in done.err
    assert (tmp_path / "o.npy").read_bytes() == b"old"
    assert leftovers(tmp_path) == []


# Signals


def heed_interrupts() -> None:
    """Restore SIGINT, which is ignored in a child where the tests run in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start_large(eraser: Path, tmp_path: Path, *options: str) -> tuple[subprocess.Popen[bytes], Path, Path]:
    """Start erasing a large file into a folder of its own; give process, output and the folder's temporary file."""
    with open(tmp_path / "large.npy", "wb") as handle:
        header = {"descr": "<f4", "fortran_order": False, "shape": (LARGE_ROWS, LARGE_D)}
        np.lib.format.write_array_header_1_0(handle, header)
        handle.truncate(handle.tell() + 4 * LARGE_ROWS * LARGE_D)
    folder = tmp_path / "out"
    folder.mkdir(exist_ok=True)
    command = [*MODULE, "apply", str(eraser), str(tmp_path / "large.npy"), "-o", str(folder / "o.npy"), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=HERE, preexec_fn=heed_interrupts, **pipes)
    until = time.monotonic() + 60
    while not (found := [path for path in folder.iterdir() if path.name.endswith(".tmp")]):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.001)
    return process, folder / "o.npy", found[0]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"])
def test_a_signal_in_the_middle_leaves_neither_output_nor_temporary_file(
    eraser: Path, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    process, target, temporary = start_large(eraser, tmp_path)
    process.send_signal(sent)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert stdout == b""
    assert b"Traceback" not in stderr
    assert not target.exists()
    assert not temporary.exists()
    assert list(target.parent.iterdir()) == []


def test_a_kill_leaves_the_old_output_whole(eraser: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "o.npy").write_bytes(b"old")
    process, target, _ = start_large(eraser, tmp_path)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
