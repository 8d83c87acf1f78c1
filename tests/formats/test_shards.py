"""Folders and globs of files are read as one file, in natural order."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.errors import FormatError
from salcli.formats.registry import open_source
from salcli.formats.shards import RECORD, SCHEMA, natural_order
from salcli.options import ReadOptions

from ..cli.helpers import dense_directions, load_eraser, one_hot, planted, read_embeddings, write_csv, write_embeddings

X, CLASSES = planted(60, 4)
KEYS = [b"w%d" % i for i in range(len(X))]
CUTS = (0, 1, 20, 47, 60)
NUMBERS = (9, 10, 100, 101)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    return tmp_path


def write_shards(suffix: str, folder: str = "x") -> list[Path]:
    """Write the rows as four files whose order by letters is another one."""
    parts = zip(NUMBERS, CUTS[:-1], CUTS[1:], strict=True)
    return [write_embeddings(Path(f"{folder}/e_{i}{suffix}"), X[a:b], KEYS[a:b]) for i, a, b in parts]


def run(*args: object) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def refused(code: int, *args: object) -> str:
    """Run a command that must end with one error line, and return that line."""
    done = run(*args)
    lines = [line for line in done.output.splitlines() if line.startswith("error: ")]
    assert done.exit_code == code, done.output
    assert len(lines) == 1, done.output
    return lines[0].removeprefix("error: ")


@given(st.lists(st.integers(0, 10**20), unique=True), st.integers(0, 3))
def test_numbers_in_names_are_ordered_by_value(numbers: list[int], n_zeros: int) -> None:
    names = [f"a{'0' * n_zeros}{number}-b.npy" for number in sorted(numbers)]
    assert natural_order(random.Random(0).sample(names, len(names))) == names


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", ".txt", ".glove.txt", ".bin", ".bin.gz", ".txt.gz"])
@pytest.mark.parametrize("path", ["x", "x/", "x/e_*"])
def test_shards_are_one_file_in_natural_order(suffix: str, path: str) -> None:
    files = write_shards(suffix)
    with open_source(path) as source:
        batches = [chunk.read() for chunk in source.chunks()]
        assert [shard.reader.path for shard in source.shards] == [str(file) for file in files]
        assert source.path == path.rstrip("/")
        assert_array_equal(np.concatenate([batch.vectors for batch in batches]), X)
        assert_array_equal(np.concatenate([batch.rows for batch in batches]), np.arange(len(X)))
        if source.has_keys:
            assert [key.encode() for some in source.key_batches() for key in some] == KEYS


@pytest.mark.parametrize("suffix", [".npy", ".txt"])
def test_every_command_reads_shards(suffix: str) -> None:
    write_shards(suffix)
    by_row = ("--by-row",) if suffix == ".npy" else ()
    rows = [(key.decode(), CLASSES[i], "train" if i % 2 else "test") for i, key in enumerate(KEYS)]
    write_csv(Path("y.csv"), ["word", "g", "split"], rows)
    assert run("fit", "x", "y.csv", *by_row, "-o", "x/e.npz").exit_code == 0  # an eraser in the folder is no shard
    fitted = [i for i in range(len(X)) if i % 2]
    _, directions, _ = dense_directions(X[fitted], one_hot([CLASSES[i] for i in fitted]))
    left = load_eraser(Path("x/e.npz"))["left"]
    assert abs(abs(left[:, 0] @ directions[:, 0]) - 1) < 1e-6
    assert run("apply", "x/e.npz", "x", "-o", f"one{suffix}").exit_code == 0
    keys, erased = read_embeddings(Path(f"one{suffix}"), 4)
    np.testing.assert_allclose(erased, X - (X @ left) @ left.T, atol=1e-4)
    assert keys in (None, KEYS)
    judged = ("evaluate", "x/e_*", "y.csv", *by_row, "--against", f"one{suffix}", "--probes", "linear", "--json")
    done = run(*judged)
    assert done.exit_code == 0, done.output
    found = {probe["stage"]: probe["accuracy"] for probe in json.loads(done.stdout)["probes"]}
    assert found["before"] > 0.9 > 0.8 > found["after"]
    assert json.loads(run("inspect", "x", "--json").stdout)["shards"] == {
        f"x/e_{number}{suffix}": b - a for number, a, b in zip(NUMBERS, CUTS[:-1], CUTS[1:], strict=True)
    }
    assert "shards    4\n" in run("inspect", "x", "--head", "0").stdout
    if suffix == ".txt":
        assert run("label", "x", "--direction", "w1:w2", "--top", "5", "-o", "l.csv").exit_code == 0


Change = Callable[[], object]
DIFFERENT: dict[str, tuple[Change, str]] = {
    "width": (lambda: np.save("x/e_10.npy", X[:5, :3]), "x/e_10.npy: dimensions 3, but x/e_9.npy has 4"),
    "dtype": (lambda: np.save("x/e_101.npy", X.astype(float)), "x/e_101.npy: dtype float64, but x/e_9.npy has float32"),
    "damage": (lambda: Path("x/e_100.npy").write_bytes(b"\x93NUMPY"), "x/e_100.npy: "),
    "width without rows": (
        lambda: np.save("x/e_9.npy", X[:0, :3]),
        "x/e_9.npy: dimensions 3, but x/e_10.npy has 4: shards must be alike",
    ),
    "dtype without rows": (lambda: np.save("x/e_10.npy", X[:0].astype(float)), "x/e_10.npy: dtype float64, but"),
    "number": (lambda: np.save("x/e_10.npy", X[:5] * [[1], [1], [1], [np.nan], [1]]), "x/e_10.npy: dtype float64"),
    "nan": (
        lambda: np.save("x/e_10.npy", X[:5] * np.float32([[1], [1], [1], [np.nan], [1]])),
        "x/e_10.npy: row 3: nan, expected finite numbers",
    ),
}


@pytest.mark.parametrize("fault", DIFFERENT)
def test_the_shard_that_differs_is_named(fault: str) -> None:
    change, says = DIFFERENT[fault]
    write_shards(".npy")
    change()
    assert says in refused(3, "inspect", "x")


def test_files_of_two_formats_are_refused() -> None:
    write_shards(".npy")
    write_embeddings(Path("x/e_1.h5"), X, KEYS)
    assert "several formats (e_1.h5 and e_9.npy)" in refused(3, "inspect", "x")
    assert "x/e_9.npy: an npy file, but x/e_1.h5 is an HDF5 file" in refused(3, "inspect", "x/e_*")
    assert json.loads(run("inspect", "x", "--format", "npy", "--json").stdout)["n"] == len(X)


def test_keys_in_some_shards_only_are_refused() -> None:
    write_shards(".npz")
    np.savez("x/e_10.npz", vectors=X[:5])
    assert "x/e_10.npz: keys False, but x/e_9.npz has True" in refused(3, "inspect", "x")


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".txt"])
def test_what_lies_beside_shards_is_no_shard(suffix: str) -> None:
    if suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"id": ["a", "b"], "emb": X[:2].tolist()}), "x/e_9.parquet")
    else:
        write_shards(suffix)
    beside = ["_SUCCESS", "_metadata.npy", ".hidden.npy", "labels.csv", "config.json"]
    beside += {".npy": ["meta.parquet", "notes.txt"], ".parquet": ["README.txt"], ".txt": ["README.md"]}[suffix]
    for name in beside:
        Path("x", name).write_bytes(b"no vectors")
    Path("x/more.npy").mkdir()
    assert json.loads(run("inspect", "x", "--json").stdout)["n"] == (2 if suffix == ".parquet" else len(X))


def test_where_nothing_is_found_a_message_says_so() -> None:
    Path("x/labels.csv").write_text("a\nb\n")
    assert "x: is a folder without embedding files" in refused(3, "inspect", "x")
    assert "x/*.npy: no file matches" in refused(3, "inspect", "x/*.npy")


def test_a_file_whose_name_looks_like_a_glob_is_that_file() -> None:
    np.save("x[1].npy", X[:7])
    np.save("x1.npy", X)
    assert json.loads(run("inspect", "x[1].npy", "--json").stdout)["n"] == 7
    Path("x[1].npy").unlink()
    assert json.loads(run("inspect", "x[1].npy", "--json").stdout)["n"] == len(X)


def test_repeated_keys_in_two_shards_are_named_with_both_places() -> None:
    write_shards(".txt")
    write_embeddings(Path("x/e_102.txt"), X[:2], [KEYS[25], b"new"])
    warnings = json.loads(run("inspect", "x", "--json").stdout)["warnings"]
    assert warnings == [
        "x: 1 duplicate key, kept in place; labels join the first: 'w25' "
        "(line 7 of x/e_100.txt and line 2 of x/e_102.txt)"
    ]


def test_rows_that_are_dropped_are_counted_through_all_shards() -> None:
    write_shards(".npy")
    x = X[1:20].copy()
    x[4] = np.nan
    np.save("x/e_10.npy", x)
    with pytest.warns(match=r"x: 1 rows with NaN or Inf are dropped, the first at row 4 of x/e_10.npy"):
        source = open_source("x", ReadOptions(allow_nonfinite=True))
    with source:
        assert (source.n, source.dropped.tolist()) == (59, [5])


def record(is_complete: bool, *names: str) -> None:
    found = {"schema": SCHEMA, "complete": is_complete, "shards": [{"name": name} for name in names]}
    Path("x", RECORD).write_text(json.dumps(found))


def test_a_folder_that_is_not_whole_is_refused() -> None:
    names = [path.name for path in write_shards(".npy")]
    record(True, *names)
    assert run("inspect", "x").exit_code == 0
    np.save("x/other.npy", X)
    assert "x/other.npy: is no shard that _salcli.json" in refused(3, "inspect", "x")
    Path("x/other.npy").unlink()
    record(True, *names, "e_102.npy", "e_103.npy")
    for path in ("x", "x/e_*"):
        assert "x: is incomplete: 2 of 6 shards are missing" in refused(3, "inspect", path)
    record(False, *names)
    assert "x: is incomplete: its shards are being written" in refused(3, "inspect", "x")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"complete": true, "shards": 1}', '{"complete": 1, "shards": []}'])
def test_a_damaged_record_is_refused(text: str) -> None:
    write_shards(".npy")
    Path("x", RECORD).write_text(text)
    with pytest.raises(FormatError, match="is no record of shards"):
        open_source("x")


@pytest.mark.parametrize("given", ["x", "x/e_*"])
def test_a_shard_is_no_output(given: str) -> None:
    write_shards(".npy")
    write_csv(Path("y.csv"), ["g"], [[c] for c in CLASSES])
    before = Path("x/e_10.npy").read_bytes()
    assert "x/e_10.npy: is the input" in refused(2, "fit", given, "y.csv", "-o", "x/e_10.npy")
    assert Path("x/e_10.npy").read_bytes() == before
    for _ in range(2):  # what lies beside shards may be replaced
        assert run("fit", given, "y.csv", "-o", "x/e.npz").exit_code == 0
        assert run("label", given, "--counts", "a:0.5,b:0.5", "-o", "x/l.csv").exit_code == 0
    assert "x/l.csv: is the input" in refused(2, "fit", given, "x/l.csv", "--attribute", "label", "-o", "x/l.csv")
    report = ("evaluate", given, "y.csv", "--against", "x", "--probes", "linear", "--report", "x/e_9.npy")
    assert "x/e_9.npy: is the input" in refused(2, *report, "--report-format", "json")


@pytest.mark.parametrize("given", ["x", "x/*.npy"])
@pytest.mark.parametrize("target", ["nowhere.npy", "e_10.npy"])
def test_a_link_to_a_shard_that_is_not_there_is_an_error(given: str, target: str) -> None:
    write_shards(".npy")
    Path("x/e_10.npy").unlink()
    Path("x/e_10.npy").symlink_to(target)
    done = run("inspect", given)
    assert done.exit_code == 3
    assert done.stderr.startswith("error: x/e_10.npy: ")
    assert done.stderr.count("\n") == 1
