"""A file, or object, that changes while it is read is an error, and nothing is written."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from salcli.commands.apply import apply
from salcli.commands.compare import compare
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.label import label
from salcli.commands.moments import moments
from salcli.errors import FormatError
from salcli.formats import remote
from salcli.formats.files import ByteFile
from salcli.formats.label_table import read_labels
from salcli.options import (
    ApplyOptions,
    CompareOptions,
    EvaluateOptions,
    FitOptions,
    LabelCommandOptions,
    MomentsOptions,
    ReadOptions,
)

from ..cli.helpers import planted, save_npy, write_csv

fsspec = pytest.importorskip("fsspec")
X, CLASSES = planted(4400, 4)
READ = ReadOptions(partition_elements=4096, batch_rows=256)
JUDGED = EvaluateOptions(probes=("linear",), quick=True, reports=("r.json",), read=READ)
COUNTS = LabelCommandOptions(counts=(("a", 0.5), ("b", 0.5)), read=READ)
COMMANDS: dict[str, Callable[[str], object]] = {
    "fit": lambda x: fit(x, "y.csv", "o.npz", FitOptions(read=READ)),
    "fit --hash none": lambda x: fit(x, "y.csv", "o.npz", FitOptions(read=READ, hash_algorithm="none")),
    "fit --checkpoint": lambda x: fit(x, "y.csv", "o.npz", FitOptions(read=READ, checkpoint="ck")),
    "moments": lambda x: moments(x, "y.csv", "o.npz", MomentsOptions(read=READ)),
    "apply": lambda x: apply("e.npz", x, "o.npy", ApplyOptions(read=READ)),
    "apply to text": lambda x: apply("e.npz", x, "o.npz", ApplyOptions(read=READ)),
    "apply to a folder": lambda x: apply("e.npz", os.path.dirname(x) + "/", "o", ApplyOptions(read=READ)),
    "kernel matrix": lambda x: apply("k.npz", x, "o.h5", ApplyOptions(read=READ, writes_kernel=True)),
    "label": lambda x: label(x, "o.csv", COUNTS),
    "evaluate": lambda x: evaluate(x, "y.csv", "e.npz", JUDGED),
    "compare": lambda x: compare(x, "y.csv", CompareOptions(erasers=("e.npz",), methods=("leace",), evaluation=JUDGED)),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("x").mkdir()
    save_npy(Path("x/x.npy"), X)
    write_csv(Path("y.csv"), ["g", "split"], [[c, "test" if i % 4 else "train"] for i, c in enumerate(CLASSES)])
    fit("x/x.npy", "y.csv", "e.npz", FitOptions())
    fit("x/x.npy", "y.csv", "k.npz", FitOptions(method="ksal"))
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.put_file("x/x.npy", "/x/x.npy")
    np.save("other.npy", -X)
    return tmp_path


def change_after(n: int, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change something after the `n`-th read of rows, or of an object of labels."""
    fill, read_range, reads = ByteFile.fill, remote.read_range, list[None]()

    def count(name: str) -> None:
        if name.endswith("x.npy") or "://l/" in name:
            reads.append(None)
        if len(reads) == n:
            reads.append(None)
            change()

    def counted_fill(self: ByteFile, view: memoryview, offset: int) -> int:
        found = fill(self, view, offset)
        count(self.name)
        return found

    def counted_range(*args: Any) -> bytes:
        found = read_range(*args)
        count(args[0])
        return found

    monkeypatch.setattr(ByteFile, "fill", counted_fill)
    monkeypatch.setattr(remote, "read_range", counted_range)


def write_over() -> None:
    """Write other rows into the file that is there."""
    with open("x/x.npy", "r+b") as file:
        file.write(Path("other.npy").read_bytes())


CHANGES: dict[str, tuple[str, Callable[[], object]]] = {
    "object": (
        "memory://x/x.npy",
        lambda: fsspec.filesystem("memory").pipe_file("/x/x.npy", Path("other.npy").read_bytes()),
    ),
    "file": ("x/x.npy", write_over),
    "renamed": ("x/x.npy", lambda: os.replace("other.npy", "x/x.npy")),
}


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
@pytest.mark.parametrize(
    ("command", "change"),
    [*((command, change) for command in COMMANDS for change in ("object", "file")), ("fit", "renamed")],
)
def test_an_input_that_changes_while_it_is_read_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, change: str
) -> None:
    path, changes = CHANGES[change]
    change_after(1 if change != "object" else 2, monkeypatch, changes)
    with pytest.raises(FormatError, match="x.npy: changed while it was read"):
        COMMANDS[command](path)
    assert not [*folder.glob("o.*"), *folder.glob("r.json"), *folder.glob("o/*.npy")]


@pytest.mark.parametrize("name", ["y.csv", "y.parquet"])
def test_labels_that_change_while_they_are_read_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    if name == "y.csv":
        write_csv(path, ["g"], [[each] for each in CLASSES * 6])  # longer than the beginning that is kept
    else:
        pq.write_table(pa.table({"g": CLASSES}), path)
    memory = fsspec.filesystem("memory")
    memory.put_file(str(path), f"/l/{name}")
    change_after(2 if name == "y.csv" else 1, monkeypatch, lambda: memory.pipe_file(f"/l/{name}", path.read_bytes()))
    with pytest.raises(FormatError, match=f"{name}: changed while it was read"):
        read_labels(f"memory://l/{name}")


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
@pytest.mark.parametrize("command", ["fit", "fit --hash none", "fit --checkpoint", "moments", "evaluate", "compare"])
@pytest.mark.parametrize("is_renamed", [True, False])
def test_labels_that_change_after_they_were_read_are_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, *, is_renamed: bool
) -> None:
    def change() -> None:
        text = Path("y.csv").read_text().replace("test", "train")
        Path("z.csv" if is_renamed else "y.csv").write_text(text)
        if is_renamed:
            os.replace("z.csv", "y.csv")

    change_after(1, monkeypatch, change)
    with pytest.raises(FormatError, match="y.csv: changed while it was read"):
        COMMANDS[command]("x/x.npy")
    assert not [*folder.glob("o.*"), *folder.glob("r.json")]


@pytest.mark.parametrize("place", ["y", "memory://m/y/"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_one_of_several_files_of_labels_that_changes_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, suffix: str
) -> None:
    Path("y").mkdir()
    save_npy(Path("x/0.npy"), X)
    for name in ("0", "x"):
        write_csv(Path(f"y/{name}.csv"), ["g"], [[each] for each in CLASSES])
        if suffix == ".parquet":
            Path(f"y/{name}.csv").unlink()
            pq.write_table(pa.table({"g": CLASSES}), f"y/{name}.parquet")
    memory, first = fsspec.filesystem("memory"), f"y/0{suffix}"
    for path in Path("y").iterdir():
        memory.put_file(str(path), f"/m/{path}")
    data = Path(f"y/x{suffix}").read_bytes() + b" "
    change = partial(memory.pipe_file, f"/m/{first}") if "://" in place else Path(first).write_bytes
    change_after(1, monkeypatch, lambda: change(data))
    with pytest.raises(FormatError, match=f"{first}: changed while it was read"):
        fit("x", place, "o.npz", FitOptions(read=READ))
    assert not Path("o.npz").exists()
