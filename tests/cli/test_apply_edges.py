"""`salcli apply` where files, keys and streams are at the edge of what there is."""

import bz2
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from .helpers import MODULE, erased, planted, refuse, run, save_npy, succeed, text_of, words, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 120, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edges")
    x, labels = planted(N, D)
    save_npy(folder / "x.npy", x.astype(np.float32))
    write_csv(folder / "y.csv", ["y"], [[label] for label in labels])
    (folder / "keys.txt").write_text("\n".join(words(N)) + "\n")
    succeed("fit", folder / "x.npy", folder / "y.csv", "-o", folder / "e.npz")
    return folder


def test_every_stream_of_a_bz2_file_is_read_or_refused(folder: Path, tmp_path: Path) -> None:
    x = np.load(folder / "x.npy")
    text = text_of([word.encode() for word in words(N)], x, has_header=False)
    cut = text.index(b"\n", len(text) // 2) + 1
    one, other = bz2.compress(text[:cut]), bz2.compress(text[cut:])
    (tmp_path / "two.txt.bz2").write_bytes(one + other)
    succeed("apply", folder / "e.npz", tmp_path / "two.txt.bz2", "-o", tmp_path / "out.txt")
    assert len((tmp_path / "out.txt").read_bytes().splitlines()) == N
    for damaged in (one + b"X" + other[1:], one + other[:-9], one + b"rest"):
        (tmp_path / "bad.txt.bz2").write_bytes(damaged)
        refuse(3, "apply", folder / "e.npz", tmp_path / "bad.txt.bz2", "-o", tmp_path / "no.txt", says="bz2 stream")
    assert not (tmp_path / "no.txt").exists()


@pytest.mark.parametrize("name", ["o.h5", "o.npz"])
def test_a_key_that_a_format_cannot_hold_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    keys = [word.encode() for word in words(N)]
    keys[5] += b"\0"
    (tmp_path / "x.txt").write_bytes(text_of(keys, np.load(folder / "x.npy"), has_header=True))
    args = ["apply", folder / "e.npz", tmp_path / "x.txt", "-o", tmp_path / name]
    refuse(3, *args, says="would not read back the same")
    assert os.listdir(tmp_path) == ["x.txt"]


@pytest.mark.parametrize("name", ["x.h5", "x.npz"])
def test_keys_from_beside_a_file_are_kept_in_its_own_format(folder: Path, tmp_path: Path, name: str) -> None:
    bare, out = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    succeed("apply", folder / "e.npz", folder / "x.npy", "-o", bare)
    succeed("apply", folder / "e.npz", bare, "--keys", folder / "keys.txt", "-o", out)
    if name == "x.npz":
        found = np.load(out)["keys"].tolist()
    else:
        with h5py.File(out) as file:
            found = [key.decode() for key in file["keys"][:]]
    assert found == words(N)


def test_keys_do_not_take_the_place_of_another_dataset(folder: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["vectors"], file["keys"] = np.load(folder / "x.npy"), np.arange(3)
    args = ["--keys", folder / "keys.txt", "--dataset", "vectors", "-o", tmp_path / "o.h5"]
    refuse(3, "apply", folder / "e.npz", tmp_path / "x.h5", *args, says="of its own")


def test_attributes_named_class_are_copied(folder: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["vectors"] = np.load(folder / "x.npy")
        file.attrs["CLASS"], file["vectors"].attrs["CLASS"] = np.bytes_("GROUP"), np.bytes_("CARRAY")
    succeed("apply", folder / "e.npz", tmp_path / "x.h5", "-o", tmp_path / "o.h5")
    with h5py.File(tmp_path / "o.h5") as file:
        assert (file.attrs["CLASS"], file["vectors"].attrs["CLASS"]) == (b"GROUP", b"CARRAY")


@pytest.mark.parametrize("options", [[], ["--reduce"]])
def test_no_memory_of_ours_is_in_the_padding_of_long_doubles(folder: Path, tmp_path: Path, options: list[str]) -> None:
    x = np.zeros((N, D), np.longdouble)
    x[:] = np.load(folder / "x.npy")
    save_npy(tmp_path / "x.npy", x)
    succeed("apply", folder / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy", *options, "--batch-rows", "7")
    found = np.load(tmp_path / "o.npy")
    clean = np.zeros_like(found)
    clean[:] = found.astype(np.float64)  # which writes the ten bytes of each number alone
    assert found.tobytes() == clean.tobytes()


def test_where_float16_overflows_at_full_strength_a_wider_type_is_written(folder: Path, tmp_path: Path) -> None:
    x = np.load(folder / "x.npy").astype(np.float64)
    x *= 60_000 / np.abs(x).max()
    x16 = x.astype(np.float16)
    u = np.load(folder / "e.npz")["left"][:, 0]
    x16[3] = np.where(u > 0, 60_000, -60_000) * np.sign(u[np.argmax(np.abs(u))])
    x16[4] = np.where(np.arange(D) == np.argmin(np.abs(u)), 65_000 * -np.sign(u) * np.sign(x16[3, 0] * u[0]), x16[3])
    save_npy(tmp_path / "x.npy", x16)
    succeed("apply", folder / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "none.npy", "--strength", "0")
    np.testing.assert_array_equal(np.load(tmp_path / "none.npy"), x16)
    succeed("apply", folder / "e.npz", tmp_path / "x.npy", "-o", tmp_path / "o.npy")
    found = np.load(tmp_path / "o.npy")
    np.testing.assert_allclose(found, erased(x16, folder / "e.npz"), rtol=1e-3, atol=64)


@pytest.mark.parametrize("command", [["apply"], ["fit"]])
def test_an_output_name_that_is_too_long_is_told_before_any_work(
    folder: Path, tmp_path: Path, command: list[str]
) -> None:
    inputs = {"apply": ["nowhere.npz", "nothing.npy"], "fit": ["nothing.npy", "none.csv"]}[command[0]]
    refuse(4, *command, *inputs, "-o", tmp_path / ("a" * 300), says="name too long")
    refuse(4, *command, *inputs, "-o", f"{tmp_path}/new/", says="is a folder")


def test_a_name_of_long_letters_has_room_for_its_temporary_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / ("字" * 80 + ".npy")
    succeed("apply", folder / "e.npz", folder / "x.npy", "-o", out)
    assert os.listdir(tmp_path) == [out.name]


def test_vectors_and_json_do_not_meet_on_stdout(folder: Path) -> None:
    refuse(2, "apply", folder / "e.npz", folder / "x.npy", "-o", "/dev/stdout", "--json", says="both write to stdout")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("args", [["inspect", "x.npy"], ["inspect", "x.npy", "--json"], ["--help"], ["fit", "--help"]])
def test_a_full_stdout_is_one_line_and_no_bug_of_ours(folder: Path, args: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*MODULE, *args], cwd=folder, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 4
    assert done.stderr.count(b"\n") == 1
    assert b"<stdout>: could not be written" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams_do_not_matter(folder: Path, tmp_path: Path, closed: str) -> None:
    line = f'"$0" -m salcli apply e.npz x.npy -o "$1" {closed}'
    done = subprocess.run(["sh", "-c", line, MODULE[0], str(tmp_path / "o.npy")], cwd=folder, check=False)
    assert done.returncode == 0
    assert len(np.load(tmp_path / "o.npy")) == N


def test_labels_from_a_pipe_are_refused(folder: Path, tmp_path: Path) -> None:
    line = f'cat y.csv | "$0" -m salcli fit x.npy /dev/fd/0 -o "{tmp_path}/q.npz"'
    done = subprocess.run(["sh", "-c", line, MODULE[0]], cwd=folder, check=False, capture_output=True)
    assert done.returncode == 3
    assert b"they cannot be a pipe" in done.stderr


def test_a_full_folder_for_temporary_files_is_told(folder: Path, tmp_path: Path) -> None:
    data = (folder / "x.npy").read_bytes()
    line = f'ulimit -f 1; "$0" -m salcli apply e.npz - -o "{tmp_path}/o.npy"'
    done = subprocess.run(["sh", "-c", line, MODULE[0]], cwd=folder, check=False, capture_output=True, input=data)
    assert done.returncode == 3, done
    assert b"cannot be kept in a temporary file" in done.stderr
    assert run("inspect", "-", stdin=data).code == 0
    assert os.listdir(tmp_path) == []


def test_no_output_takes_the_place_of_any_input(folder: Path, tmp_path: Path) -> None:
    text = (folder / "keys.txt").read_bytes()
    gold = b"w1 w2 1\nw3 w4 2\nw5 w6 3\n"
    for name, content in (("k.txt", text), ("k.md", text), ("gold.md", gold)):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link.npz").symlink_to(tmp_path / "k.txt")
    x, y, eraser = folder / "x.npy", folder / "y.csv", folder / "e.npz"
    keyed = ["--keys", tmp_path / "k.txt"]
    for args in (
        ["fit", x, y, *keyed, "-o", tmp_path / "k.txt"],
        ["fit", x, y, *keyed, "-o", tmp_path / "link.npz"],
        ["kfit", x, y, *keyed, "-o", tmp_path / "k.txt"],
        ["apply", eraser, x, *keyed, "--output-format", "glove", "-o", tmp_path / "k.txt"],
        ["label", x, *keyed, "--direction", "w1:w2", "--top", "5", "-o", tmp_path / "k.txt"],
        ["evaluate", x, y, "--keys", tmp_path / "k.md", "--report", tmp_path / "k.md"],
        ["evaluate", x, y, *keyed, "--similarity", tmp_path / "gold.md", "--report", tmp_path / "gold.md"],
    ):
        done = refuse(2, *args, says="is the input")
        assert "--in-place" not in done.err
    assert (tmp_path / "k.txt").read_bytes() == (tmp_path / "k.md").read_bytes() == text
    assert (tmp_path / "gold.md").read_bytes() == gold
    refuse(2, "apply", eraser, x, "-o", x, says="or use --in-place")


@pytest.mark.parametrize("suffix", [".mat", ".kv", ".csv", ".PT", ".csv.gz"])
def test_a_name_that_promises_another_format_is_refused(folder: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"out{suffix}"
    refuse(2, "apply", folder / "e.npz", folder / "x.npy", "-o", target, says="is not written: expected .arrow, .bin")
    assert not target.exists()
    succeed("apply", folder / "e.npz", folder / "x.npy", "-o", target, "--output-format", "npy")


def test_keys_with_nul_are_refused_before_the_kernel_matrix_is_made(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes((folder / "keys.txt").read_bytes().replace(b"w7\n", b"w\0\n"))
    succeed("kfit", folder / "x.npy", folder / "y.csv", "--landmarks", "20", "-o", tmp_path / "k.npz")
    args = ["apply", tmp_path / "k.npz", folder / "x.npy", "--keys", tmp_path / "keys.txt", "--kernel-matrix"]
    refuse(3, *args, "-o", tmp_path / "K.h5", "--quiet", says="would not read back the same from HDF5")
    assert not (tmp_path / "K.h5").exists()


def test_a_suffix_means_the_same_in_capitals(folder: Path, tmp_path: Path) -> None:
    succeed("apply", folder / "e.npz", folder / "x.npy", "-o", tmp_path / "out.H5")
    assert (tmp_path / "out.H5").read_bytes().startswith(b"\x89HDF")


def test_in_place_takes_no_other_name_of_the_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes((folder / "x.npy").read_bytes())
    os.link(tmp_path / "a.npy", tmp_path / "b.npy")
    args = ["apply", folder / "e.npz", tmp_path / "a.npy", "--in-place", "-o"]
    refuse(2, *args, tmp_path / "b.npy", says="leave -o out")
    succeed(*args, tmp_path / "a.npy")
