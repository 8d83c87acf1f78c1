"""Labels in several files: one for each shard, paired by name, or joined by key."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.formats.label_table import read_labels
from salcli.options import LabelOptions

from ..cli.helpers import header_of, load_eraser, write_csv
from .test_shards import CLASSES, CUTS, KEYS, NUMBERS, X, here, refused, run, write_shards

__all__ = ["here"]
Rows = Sequence[Sequence[object]]


def write_labels(suffix: str = ".csv", name: str = "y/meta_{}", *, columns: Sequence[str] = ("g", "n")) -> list[Path]:
    """Write the labels, and a number, as a file for each shard."""
    Path("y").mkdir(exist_ok=True)
    cells = {"g": CLASSES, "n": [f"{i / 7}" for i in range(len(X))], "word": [key.decode() for key in KEYS]}
    paths = []
    for i, a, b in zip(NUMBERS, CUTS[:-1], CUTS[1:], strict=True):
        paths.append(Path(name.format(i) + suffix))
        if suffix == ".parquet":
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            pq.write_table(pa.table({column: cells[column][a:b] for column in columns}), paths[-1])
        else:
            write_csv(paths[-1], columns, list(zip(*(cells[column][a:b] for column in columns), strict=True)))
    return paths


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("labels", ["y", "y/meta_*"])
def test_one_file_of_labels_for_each_shard_is_as_one_for_all(suffix: str, labels: str) -> None:
    write_shards(".npy")
    files = write_labels(suffix)
    numbers = [i / 7 for i in range(len(X))]
    write_csv(Path("all.csv"), ["g", "n"], list(zip(CLASSES, numbers, strict=True)))
    for name, path in (("one", "all.csv"), ("several", labels)):
        done = run("fit", "x", path, "--attribute", "g", "--numeric", "n", "-o", f"{name}.npz")
        assert done.exit_code == 0, done.output
    assert_array_equal(load_eraser(Path("several.npz"))["left"], load_eraser(Path("one.npz"))["left"])
    one, several = (header_of(Path(f"{name}.npz")) for name in ("one", "several"))
    assert several["inputs"].pop("labels") == {
        "n": len(X),
        "name": f"{files[0].name} … {files[-1].name} (4 files)",
        "sha256": sha256(
            b"".join(sha256(file.read_bytes()).hexdigest().encode() + b"\n" for file in files)
        ).hexdigest(),
    }
    one["inputs"].pop("labels")
    assert several == one
    judged = run("evaluate", "x", labels, "--attribute", "g", "--probes", "linear", "--json")
    assert json.loads(judged.stdout)["inputs"]["labels"]["n"] == len(X)


def test_labels_join_by_key_over_all_shards() -> None:
    write_shards(".txt")
    write_labels(columns=("word", "g"))
    write_csv(Path("y/meta_11.csv"), ["word", "g"], [["w3", CLASSES[3]], ["other", "c0"]])
    found = json.loads(run("inspect", "x", "--labels", "y", "--json", "--head", "0").stdout)
    assert (found["labels"]["n_labelled"], found["labels"]["unmatched_labels"]) == (len(X), 1)
    assert (
        "y: 1 keys occur twice with the same label ('w3' on line 4 of y/meta_10.csv and line 2 of y/meta_11.csv)"
        in (" ".join(found["warnings"]))
    )
    write_csv(Path("y/meta_11.csv"), ["word", "g"], [["w3", "c0" if CLASSES[3] == "c1" else "c1"]])
    assert "on line 4 of y/meta_10.csv" in (said := refused(3, "inspect", "x", "--labels", "y"))
    assert said.endswith("on line 2 of y/meta_11.csv")


@pytest.mark.parametrize(
    ("names", "is_paired"),
    [
        ("y/e_{}", True),
        ("y/meta-v2-{}", True),
        ("y/0000{}", True),
        ("y/part-{}-of-4", True),
        ("y/meta_{}0", False),
    ],
)
def test_files_are_paired_by_the_numbers_in_their_names(names: str, is_paired: bool) -> None:
    write_shards(".npy")
    write_labels(name=names)
    if is_paired:
        assert run("fit", "x", "y", "--attribute", "g", "-o", "e.npz").exit_code == 0
    else:
        said = refused(3, "fit", "x", "y", "--attribute", "g", "-o", "e.npz")
        assert said.startswith("y/meta_90.csv would be the labels of x/e_9.npy by order")


def test_names_without_numbers_must_be_the_same() -> None:
    for names in (("a", "b"), ("a.train", "a.valid")):
        for path in (*Path("x").iterdir(), *(Path("y").iterdir() if Path("y").exists() else ())):
            path.unlink()
        Path("y").mkdir(exist_ok=True)
        for i, name in enumerate(names):
            np.save(f"x/{name}.npy", X[i * 30 : i * 30 + 30])
            write_csv(Path(f"y/{name}.csv"), ["g"], [[c] for c in CLASSES[i * 30 : i * 30 + 30]])
        assert run("fit", "x", "y", "-o", "e.npz").exit_code == 0
        Path(f"y/{names[0]}.csv").rename("y/a.before.csv")
        assert "y/a.before.csv would be the labels of" in refused(3, "fit", "x", "y", "-o", "e.npz")


def without_a_file(files: list[Path]) -> str:
    files[1].unlink()
    return "y: 3 files of labels, but x has 4 shards"


def without_a_row(files: list[Path]) -> str:
    lines = files[2].read_text().splitlines(keepends=True)
    files[2].write_text("".join(lines[:-1]))
    files[3].write_text(files[3].read_text() + lines[-1])
    return "y/meta_100.csv joins by row (no key column): 26 labels, but x/e_100.npy has 27 rows"


def with_other_columns(files: list[Path]) -> str:
    write_csv(files[1], ["g", "h"], [["a", "b"]] * 19)
    return "y/meta_10.csv: no column 'n' (--numeric)"


def with_a_split(files: list[Path]) -> str:
    write_csv(files[1], ["g", "n", "split"], [["a", 1, "train"]] * 19)
    return (
        "y/meta_10.csv: the columns of row numbers, keys, split and labels are 'none', 'none', 'split', 'g', 'n', but"
    )


def with_a_bad_number(files: list[Path]) -> str:
    files[3].write_text(files[3].read_text().replace("c0,", "c0,x", 1))
    return "y/meta_101.csv: line "


def without_rows(files: list[Path]) -> str:
    files[1].write_text("g,n\n")
    return "y/meta_10.csv joins by row (no key column): 0 labels, but x/e_10.npy has 19 rows"


FAULTS = (without_a_file, without_a_row, with_other_columns, with_a_split, with_a_bad_number, without_rows)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_first_pair_or_file_that_differs_is_named(fault: Any) -> None:
    write_shards(".npy")
    says = fault(write_labels())
    assert refused(3, "fit", "x", "y", "--attribute", "g", "--numeric", "n", "-o", "e.npz").startswith(says)


def test_labels_may_be_the_shards_themselves_or_lie_beside_them() -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for i, a, b in zip(NUMBERS, CUTS[:-1], CUTS[1:], strict=True):
        pq.write_table(pa.table({"emb": X[a:b].tolist(), "g": CLASSES[a:b]}), f"x/e_{i}.parquet")
    assert run("fit", "x", "x", "--attribute", "g", "-o", "e.npz").exit_code == 0
    write_labels(name="x/e_{}")
    assert run("fit", "x", "x", "--attribute", "g", "-o", "f.npz").exit_code == 0  # the CSVs
    assert_array_equal(load_eraser(Path("e.npz"))["left"], load_eraser(Path("f.npz"))["left"])
    assert read_labels("x", LabelOptions(attributes=("g",))).parts[1] == ("x/e_10.csv", 19)


@pytest.mark.parametrize("start", [0, 1])
def test_row_numbers_that_start_again_in_each_file_are_no_labels(start: int) -> None:
    write_shards(".npy")
    for path in write_labels(columns=("g",)):
        rows = path.read_text().splitlines()[1:]
        path.write_text(",g\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows, start)))
    assert run("fit", "x", "y", "-o", "e.npz").exit_code == 0
    Path("y/meta_10.csv").write_text(Path("y/meta_10.csv").read_text().replace(f"\n{start},", "\n7,"))
    assert "y/meta_10.csv: the first column has no name" in refused(3, "fit", "x", "y", "-o", "e.npz")


def test_a_folder_without_labels_is_refused() -> None:
    write_shards(".npy")
    assert "x: is a folder without label tables" in refused(3, "fit", "x", "x", "-o", "e.npz")
    write_labels()
    Path("y/meta_1.tsv").write_text("g\na\n")
    assert "5 files of labels, but x has 4 shards" in refused(3, "fit", "x", "y", "--attribute", "g", "-o", "e.npz")


def test_a_file_of_labels_is_no_output() -> None:
    write_shards(".npy")
    write_labels()
    assert "is the input y/meta_9.csv itself" in refused(2, "fit", "x", "y", "--attribute", "g", "-o", "y/meta_9.csv")
