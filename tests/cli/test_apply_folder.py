"""`salcli apply` of shards: a folder whose shards are whole or absent, which the same command completes."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from salcli.formats.shard_folder import LOCK
from salcli.formats.shards import RECORD

from ..formats.test_shards import CLASSES, CUTS, KEYS, X, here, refused, run, write_shards
from .helpers import erased, leftovers, read_embeddings, write_csv, write_embeddings

__all__ = ["here"]
NAMES = ("e_9", "e_10", "e_100", "e_101")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    write_csv(folder / "y.csv", ["g"], [[c] for c in CLASSES])
    np.save(folder / "whole.npy", X)
    assert run("fit", folder / "whole.npy", folder / "y.csv", "-o", folder / "e.npz").exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def eraser(here: Path, fitted: Path) -> None:
    shutil.copytree(fitted, here, dirs_exist_ok=True)


def applied(*args: object) -> Any:
    """Run apply, which must do its work, and return what it prints with --json."""
    done = run("apply", *args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def contents(folder: str = "out") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def recorded(folder: str = "out") -> Any:
    return json.loads(Path(folder, RECORD).read_bytes())


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", ".txt", ".bin", ".txt.gz"])
def test_each_shard_is_erased_into_a_file_of_its_name(suffix: str) -> None:
    given = "x/e_*" if suffix == ".npy" else "x"
    write_shards(suffix)
    done = applied("e.npz", given, "-o", "out/")
    assert (done["output"], done["n"], done["shards"], done["kept"]) == ("out", len(X), 4, 0)
    assert set(contents()) == {RECORD, *(name + suffix for name in NAMES)}
    for name, a, b in zip(NAMES, CUTS[:-1], CUTS[1:], strict=True):
        keys, rows = read_embeddings(Path("out", name + suffix), 4)
        assert_allclose(rows, erased(X[a:b], Path("e.npz")), atol=1e-5)
        assert keys in (None, KEYS[a:b])
    if suffix == ".npy":
        judged = run("evaluate", given, "y.csv", "--by-row", "--against", "out", "--probes", "linear", "--json")
        accuracy = {probe["stage"]: probe["accuracy"] for probe in json.loads(judged.stdout)["probes"]}
        assert accuracy["before"] > 0.9 > 0.8 > accuracy["after"]


@pytest.mark.parametrize("place", ["x/e_10.npy", "e.npz", "missing"])
def test_a_link_in_the_place_of_a_shard_is_not_written_through(place: str) -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    inputs = {path: path.read_bytes() for path in (*Path("x").iterdir(), Path("e.npz"))}
    Path("out/e_9.npy").unlink()
    Path("out/e_9.npy").symlink_to(Path(place).absolute())
    done = run("apply", "e.npz", "x", "-o", "out")
    assert done.exit_code == 4
    assert "out/e_9.npy: is a link to another file" in done.stderr
    assert {path: path.read_bytes() for path in inputs} == inputs
    assert not Path("missing").exists()


def test_a_shard_that_was_shortened_is_no_shard_of_the_folder() -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    np.save("out/e_10.npy", np.load("out/e_10.npy")[:-1])
    assert "out/e_10.npy: has " in refused(3, "inspect", "out")
    assert applied("e.npz", "x", "-o", "out")["kept"] == 3
    assert run("inspect", "out").exit_code == 0


def test_a_record_of_another_schema_is_refused() -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    record = Path("out", RECORD)
    record.write_text(record.read_text().replace("salcli.shards/1", "salcli.shards/9"))
    for done in (run("apply", "e.npz", "x", "-o", "out"), run("inspect", "out")):
        assert done.exit_code == 3
        assert "its schema is 'salcli.shards/9', this salcli reads 'salcli.shards/1'" in done.stderr


def test_the_record_says_how_the_folder_was_written() -> None:
    from xxhash import xxh3_128

    files = write_shards(".npy")
    applied("e.npz", "x", "-o", "out", "--dtype", "float64")
    found = recorded()
    assert (found["schema"], found["complete"], found["n"], found["d"]) == ("salcli.shards/1", True, len(X), 4)
    assert (found["format"], found["dtype"], found["options"]["strength"]) == ("npy", "float64", 1.0)
    for shard, path in zip(found["shards"], files, strict=True):
        status, target = path.stat(), Path("out", path.name)
        known = shard["source"]
        assert (known["name"], known["size"], known["mtime_ns"]) == (path.name, status.st_size, status.st_mtime_ns)
        assert known["hash"] == {"algorithm": "xxh3_128", "digest": xxh3_128(path.read_bytes()).hexdigest()}
        digest = xxh3_128(target.read_bytes()).hexdigest()
        assert shard["output"] == {
            "size": target.stat().st_size,
            "hash": {"algorithm": "xxh3_128", "digest": digest},
        }


def test_a_second_run_writes_nothing() -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in Path("out").iterdir()}
    assert applied("e.npz", "x", "-o", "out")["kept"] == 4
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in Path("out").iterdir()} == before


def remove() -> None:
    Path("out/e_10.npy").unlink()


def change_output() -> None:
    data = bytearray(Path("out/e_10.npy").read_bytes())
    data[-1] ^= 1
    Path("out/e_10.npy").write_bytes(data)


def cut_output() -> None:
    os.truncate("out/e_10.npy", 150)


def change_input() -> None:
    status = os.stat("x/e_10.npy")
    np.save("x/e_10.npy", 1 + X[1:20])
    os.utime("x/e_10.npy", ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def forget() -> None:
    record = recorded()
    record["shards"][1] = {"name": "e_10.npy"}
    Path("out", RECORD).write_text(json.dumps(record | {"complete": False}))


def damage_record() -> None:
    record = recorded()
    record["shards"][1]["output"] = {"size": None}
    Path("out", RECORD).write_text(json.dumps(record))


@pytest.mark.parametrize(
    "change", [remove, change_output, cut_output, change_input, forget, damage_record], ids=lambda one: one.__name__
)
def test_what_is_missing_or_does_not_match_is_written_again(change: Callable[[], None]) -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    change()
    kept = {path: path.stat().st_ino for path in Path("out").glob("*.npy") if path.name != "e_10.npy"}
    assert applied("e.npz", "x", "-o", "out")["kept"] == 3
    assert {path: path.stat().st_ino for path in kept} == kept
    assert_allclose(np.load("out/e_10.npy"), erased(np.load("x/e_10.npy"), Path("e.npz")), atol=1e-5)
    assert recorded()["complete"] is True
    assert applied("e.npz", "x", "-o", "out")["kept"] == 4


def test_an_input_that_was_only_touched_is_the_same() -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    os.utime("x/e_9.npy", ns=(0, 0))
    assert applied("e.npz", "x", "-o", "out")["kept"] == 4
    assert recorded()["shards"][0]["source"]["mtime_ns"] == 0


@pytest.mark.parametrize("options", [("--strength", "0.5"), ("--dtype", "float64"), ("--reduce",)])
def test_other_options_or_another_eraser_write_all_again(options: tuple[str, ...]) -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    first = contents()
    assert applied("e.npz", "x", "-o", "out", *options)["kept"] == 0
    assert all(data != first[name] for name, data in contents().items())
    assert run("fit", "whole.npy", "y.csv", "--keep-mean", "-o", "e.npz").exit_code == 0
    assert applied("e.npz", "x", "-o", "out", *options)["kept"] == 0


def test_shards_that_are_added_are_written_and_those_that_are_gone_are_refused() -> None:
    write_shards(".npy")
    applied("e.npz", "x", "-o", "out")
    np.save("x/e_102.npy", X[:3])
    assert applied("e.npz", "x", "-o", "out")["kept"] == 4
    Path("x/e_102.npy").unlink()
    before = contents()
    assert "out/e_102.npy: is of a shard that x no longer has" in refused(4, "apply", "e.npz", "x", "-o", "out")
    assert contents() == before
    Path("out/e_102.npy").unlink()
    assert applied("e.npz", "x", "-o", "out")["kept"] == 4


def test_an_error_in_one_shard_leaves_the_others_and_says_which() -> None:
    write_shards(".npy")
    bad = X[20:47].copy()
    bad[3] = np.inf
    np.save("x/e_100.npy", bad)
    assert "x/e_100.npy: row 3: inf" in refused(3, "apply", "e.npz", "x", "-o", "out")
    assert set(contents()) == {RECORD, "e_9.npy", "e_10.npy"}
    assert "out: is incomplete" in refused(3, "inspect", "out")
    np.save("x/e_100.npy", X[20:47])
    assert applied("e.npz", "x", "-o", "out")["kept"] >= 1
    np.save("x/e_100.npy", bad)
    assert "x/e_100.npy: row 3: inf" in refused(3, "apply", "e.npz", "x", "-o", "out", "--strength", "0.5")
    assert "out: is incomplete: its shards are being written" in refused(3, "inspect", "out/e_*")  # by both options
    np.save("x/e_9.npy", bad)
    assert "x/e_9.npy: row 3: inf" in refused(3, "apply", "e.npz", "x", "-o", "new")
    assert not Path("new").exists()


def test_rows_that_are_dropped_are_left_out_of_their_shard() -> None:
    write_shards(".npy")
    rows = X[1:20].copy()
    rows[[2, 5]] = np.nan
    np.save("x/e_10.npy", rows)
    assert applied("e.npz", "x", "-o", "out", "--allow-nonfinite")["n"] == len(X) - 2
    assert len(np.load("out/e_10.npy")) == 17


def test_keys_of_a_file_beside_the_only_shard_count_as_its_input() -> None:
    np.save("x/e_9.npy", X)
    for words, n_kept in (("w", 0), ("w", 1), ("v", 0)):
        Path("keys.txt").write_text("".join(f"{words}{i}\n" for i in range(len(X))))
        done = applied("e.npz", "x", "-o", "out", "--keys", "keys.txt", "--output-format", "npz")
        assert done["kept"] == n_kept
    with np.load("out/e_9.npz") as arrays:
        assert arrays["keys"][0] == "v0"


# Places that are refused


def test_the_folder_of_the_input_is_no_output() -> None:
    files = write_shards(".npy")
    Path("link").symlink_to("x")
    Path("x/in").mkdir()
    before = {path: path.read_bytes() for path in files}
    for output in ("x", "x/", "link", "x/in", "x/new", "."):
        assert "name another" in refused(2, "apply", "e.npz", "x", "-o", output), output
    for output in ("x/", "."):
        assert "name another" in refused(2, "apply", "e.npz", "x/e_*", "-o", output), output
    assert {path: path.read_bytes() for path in files} == before
    assert not Path("x/new").exists()


def test_files_of_others_are_neither_deleted_nor_mixed_with_shards() -> None:
    write_shards(".npy")
    Path("out").mkdir()
    Path("out/notes.md").write_text("mine")
    assert "out: holds notes.md and no _salcli.json" in refused(4, "apply", "e.npz", "x", "-o", "out")
    Path("out/notes.md").unlink()
    applied("e.npz", "x", "-o", "out")
    Path("out/notes.md").write_text("mine")
    Path("out/labels.csv").write_text("g\nc\n")
    assert applied("e.npz", "x", "-o", "out")["kept"] == 4
    assert json.loads(run("inspect", "out", "--json").stdout)["n"] == len(X)
    for name in ("other.npy", "e_102.npy"):
        np.save(f"out/{name}", X)
        np.save("x/e_102.npy", X)
        assert f"out/{name}: was not written by apply" in refused(4, "apply", "e.npz", "x", "-o", "out")
        Path("out", name).unlink()
    assert {"notes.md", "labels.csv"} < set(contents())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("x", "--in-place"), 2, "--in-place: x names several files"),
        (("x", "-o", "no/folder"), 4, "does not exist"),
        (("x", "-o", "y"), 4, "y: is a file, expected a folder"),
        (("x", "-o", "out.csv"), 2, ".csv is not written"),
        (("x", "-o", "out", "--output-format", "nope"), 2, "expected one of"),
        (("**/*.npy", "-o", "out"), 2, "would both be written to e_9.npy"),
    ],
)
def test_outputs_that_cannot_be_are_refused_before_anything_is_written(
    arguments: tuple[str, ...], code: int, says: str
) -> None:
    write_shards(".npy")
    Path("y").write_text("")
    if "**/*.npy" in arguments:
        shutil.copytree("x", "x/copy")
    before = sorted(Path().rglob("*"))
    assert says in refused(code, "apply", "e.npz", *arguments)
    assert sorted(Path().rglob("*")) == before


def test_a_shard_of_another_width_is_found_before_anything_is_written() -> None:
    write_shards(".npy")
    np.save("x/e_101.npy", X[:, :3])
    assert "x/e_101.npy: dimensions 3" in refused(3, "apply", "e.npz", "x", "-o", "out")
    assert not Path("out").exists()


def test_an_output_with_the_suffix_of_a_file_is_one_file() -> None:
    write_shards(".npy")
    assert "shards" not in applied("e.npz", "x", "-o", "out.npy")
    assert_allclose(np.load("out.npy"), erased(X, Path("e.npz")), atol=1e-5)
    assert applied("e.npz", "x", "-o", "out.parquet/")["shards"] == 4


def test_another_format_has_its_suffix() -> None:
    write_shards(".txt")
    applied("e.npz", "x", "-o", "out", "--output-format", "npz")
    assert set(contents()) == {RECORD, *(f"{name}.npz" for name in NAMES)}


def test_a_warning_is_said_once_for_all_shards() -> None:
    write_shards(".npz")
    for path in Path("x").iterdir():
        with np.load(path) as stored:
            arrays = dict(stored)
        np.savez(path, **arrays, unit=arrays["vectors"])
    write_embeddings(Path("x/e_102.npz"), X[:1], KEYS[30:31])
    with np.load("x/e_102.npz") as stored:
        arrays = dict(stored)
    np.savez("x/e_102.npz", **arrays, unit=arrays["vectors"])
    done = run("apply", "e.npz", "x", "-o", "out", "--dataset", "vectors")
    assert done.exit_code == 0, done.output
    assert done.output.count("copied unchanged") == 1
    assert done.output.count("1 duplicate key, kept in place") == 1
    assert "row 10 of x/e_100.npz and row 0 of x/e_102.npz" in done.output
    assert run("apply", "e.npz", "x", "-o", "out", "--dataset", "vectors", "--erase-also", "unit").exit_code == 0
    for name in NAMES:
        with np.load(f"out/{name}.npz") as stored:
            assert_allclose(stored["unit"], stored["vectors"])


# Other processes


def test_two_runs_at_once_are_one(here: Path) -> None:
    write_shards(".npy")
    Path("out").mkdir()
    with open(Path("out", LOCK), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "out: another salcli apply is writing this folder" in refused(4, "apply", "e.npz", "x", "-o", "out")
    assert applied("e.npz", "x", "-o", "out")["shards"] == 4
    assert LOCK not in contents()


KILLED = """
import os, signal, sys
from salcli.commands.apply import apply
from salcli.formats import shard_folder
from salcli.options import ApplyOptions
shard_folder.REST = 0
apply("e.npz", "x", "whole", ApplyOptions())

def killing(moment):
    seen = 0
    def counted(function):
        def call(*args, **kwargs):
            nonlocal seen
            seen += 1
            if seen == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return call
    for name in ("fsync", "replace", "chmod", "pwrite", "pwritev", "unlink", "makedirs", "open"):
        setattr(os, name, counted(getattr(os, name)))

moment = 1
while True:
    child = os.fork()
    if not child:
        killing(moment)
        apply("e.npz", "x", f"out-{moment}", ApplyOptions())
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        break
    moment += 3
print(moment)
"""


def test_a_run_that_is_killed_at_any_moment_leaves_no_half_shard_and_is_completed() -> None:
    write_shards(".npy")
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, timeout=120, check=True)
    moments, whole = int(done.stdout), contents("whole")
    assert moments > 30
    shards = {name: data for name, data in whole.items() if name != RECORD}
    n_kept = set()
    for moment in range(1, moments, 3):
        out = Path(f"out-{moment}")
        if out.exists():
            for name in shards.keys() & set(contents(str(out))):
                assert (out / name).read_bytes() == shards[name], (moment, name)
            if not (out / RECORD).exists() or not recorded(str(out))["complete"]:
                assert run("inspect", out).exit_code == 3
        n_kept.add(applied("e.npz", "x", "-o", out)["kept"])
        assert contents(str(out)) == whole
        assert leftovers(out) == []
    assert {0, 4} < n_kept


def test_a_checkpoint_among_the_shards_is_refused() -> None:
    write_shards(".npy")
    before = contents("x")
    said = refused(2, "fit", "x", "y.csv", "--by-row", "-o", "e2.npz", "--checkpoint", "x")
    assert "--checkpoint x: is the folder of x/e_9.npy" in said
    assert contents("x") == before
