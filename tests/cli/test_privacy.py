"""What an eraser gives away: a linear one means, directions and class counts; a kernel's one training vectors."""

import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from .helpers import HERE, header_of, planted, read_csv, save_npy, succeed, text_of, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 200, 6
KEYS = [f"secretkey{i}" for i in range(N)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hiddenfolder")
    x, labels = planted(N, D)
    save_npy(folder / "x.npy", x)
    (folder / "x.txt").write_bytes(text_of([key.encode() for key in KEYS], x, has_header=True))
    columns = ["word", "y", "amount", "unusedcolumn"]
    rows = [[KEYS[i], labels[i], 770_000.125 + 3 * i, f"secretnote{i}"] for i in range(N)]
    write_csv(folder / "y.csv", columns, rows)
    options = ["--attribute", "y", "--numeric", "amount", "--holdout", "0.2"]
    succeed("fit", folder / "x.txt", folder / "y.csv", "-o", folder / "e.npz", *options)
    for name, landmarks in (("k40", "40"), ("all", "all")):
        options = ["--attribute", "y", "--landmarks", landmarks]
        succeed("kfit", folder / "x.txt", folder / "y.csv", "-o", folder / f"{name}.npz", *options)
    return folder


def content(path: Path) -> bytes:
    """Give every byte of an artifact: the file, and its members unpacked; strings in one byte a letter too."""
    with zipfile.ZipFile(path) as archive:
        members = [archive.read(name) for name in archive.namelist()]
    return b"".join([path.read_bytes(), *members, json.dumps(header_of(path)).encode()])


def holds(data: bytes, text: str) -> bool:
    return any(text.encode(code) in data for code in ("utf-8", "utf-16-le", "utf-32-le"))


def test_a_linear_eraser_holds_no_row_key_or_label(folder: Path) -> None:
    data = content(folder / "e.npz")
    assert all(holds(data, text) for text in ("c0", "c1", "amount", "word", "x.txt", "y.csv"))  # the control
    for text in ("secretkey", "secretnote", "unusedcolumn", "hiddenfolder", str(folder), "770000", "770003"):
        assert not holds(data, text), text
    for value in np.load(folder / "x.npy").ravel().tolist():
        assert struct.pack("<f", value) not in data
        assert struct.pack("<d", value) not in data
    for i in range(N):
        assert struct.pack("<d", 770_000.125 + 3 * i) not in data


def test_the_arrays_of_a_linear_eraser_do_not_grow_with_the_rows(folder: Path) -> None:
    with np.load(folder / "e.npz") as arrays:
        assert {name: arrays[name].shape for name in arrays.files} == {
            "mean": (D,),
            "left": (D, 2),
            "right": (D, 2),
            "singular_values": (3,),
            "header": (),
        }


def test_a_header_holds_the_label_of_no_row(folder: Path, tmp_path: Path) -> None:
    """Labels in any order give one header but for the digest of their file, so none of them stands in it."""
    columns, rows = read_csv(folder / "y.csv")
    expected = header_of(folder / "e.npz")
    del expected["inputs"]["labels"]["sha256"]
    by_label = sorted(rows, key=lambda row: row[columns.index("y")])
    assert by_label[0][1] != by_label[-1][1]
    for given in (by_label, by_label[::-1]):
        write_csv(tmp_path / "y.csv", columns, given)
        options = ["--attribute", "y", "--numeric", "amount", "--holdout", "0.2"]
        succeed("fit", folder / "x.txt", tmp_path / "y.csv", "-o", tmp_path / "e.npz", *options)
        found = header_of(tmp_path / "e.npz")
        del found["inputs"]["labels"]["sha256"]
        assert found == expected


@pytest.mark.parametrize(("name", "n_landmarks"), [("k40", 40), ("all", N)])
def test_a_kernels_eraser_holds_training_vectors_but_no_key(folder: Path, name: str, n_landmarks: int) -> None:
    x = {row.tobytes() for row in np.load(folder / "x.npy")}
    with np.load(folder / f"{name}.npz") as arrays:
        assert len(arrays["landmarks"]) == n_landmarks
        assert {row.tobytes() for row in arrays["landmarks"]} <= x
    data = content(folder / f"{name}.npz")
    for text in ("secretkey", "secretnote", "hiddenfolder", "770000"):
        assert not holds(data, text), text


def test_the_documentation_says_so() -> None:
    page = (HERE.parents[1] / "docs" / "how-to" / "kernel.md").read_text("utf-8")
    assert "**A kernel eraser contains training vectors**" in page
