"""What a file announces is held against the file before anything is allocated: one line, little memory, no output."""

import gzip
import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from .forked import MOST_MEMORY, Commands
from .seeds import artifact_members, npy, raw_npy, zipped

HEADER = "{{'descr': '{}', 'fortran_order': {}, 'shape': ({}, {})}}\n"
Make = Callable[[Path], Any]


def zeros(n_mib: int, *, before: bytes = b"", ends: bool = True) -> bytes:
    """Pack zeros with gzip, a thousandfold: the same member again and again."""
    packed = gzip.compress(bytes(1 << 20), 9) * n_mib
    return gzip.compress(before) + (packed if ends else packed[:-9])


def npy_header(n: int, d: int, dtype: str = "<f4", *, is_fortran: bool = False) -> bytes:
    return raw_npy(HEADER.format(dtype, is_fortran, n, d).encode())


def sparse(path: Path, size: int, before: bytes = b"") -> None:
    with open(path, "wb") as handle:
        handle.write(before)
        handle.truncate(size)


LYING: dict[str, tuple[str, Make, str]] = {
    "npy of 10^12 rows": ("x.npy", lambda p: p.write_bytes(npy_header(10**12, 300) + bytes(1200)), "truncated"),
    "npy of 10^12 dimensions": ("x.npy", lambda p: p.write_bytes(npy_header(1, 10**12) + bytes(8)), "dimensions"),
    "npy of 2^62 by 2^62": ("x.npy", lambda p: p.write_bytes(npy_header(2**62, 2**62)), "dimensions"),
    "npy.gz of 10^12 rows": ("x.npy.gz", lambda p: p.write_bytes(gzip.compress(npy_header(10**12, 3))), "can pack"),
    "npy.gz of 10^12 columns in Fortran's order": (
        "x.npy.gz",
        lambda p: p.write_bytes(gzip.compress(npy_header(3, 10**12, is_fortran=True))),
        "dimensions",
    ),
    "a header of 4 GB": (
        "x.npy",
        lambda p: p.write_bytes(raw_npy(b"{", version=(2, 0), length=2**32 - 1)),
        "expected 4294967295 bytes",
    ),
    "text of 2^31 by 2^31": ("x.txt", lambda p: p.write_bytes(b"2147483648 2147483648\na 1 2\n"), "dimensions"),
    "text of 2^31 rows": ("x.txt", lambda p: p.write_bytes(b"2147483648 2\na 1 2\n"), "announces 2,147,483,648 rows"),
    "text of 10^6 dimensions": ("x.txt", lambda p: p.write_bytes(b"1 1000000\na 1 2\n"), "1000000 expected"),
    "binary of 2^31 by 2^31": (
        "x.bin",
        lambda p: p.write_bytes(b"2147483648 2147483648\na " + bytes(400)),
        "2147483648 dimensions",
    ),
    "binary of 2^31 rows": ("x.bin", lambda p: p.write_bytes(b"2147483648 2\na " + bytes(400)), "truncated"),
    "binary.gz of 2^31 rows": (
        "x.bin.gz",
        lambda p: p.write_bytes(gzip.compress(b"2147483648 2\na " + bytes(400))),
        "truncated",
    ),
    "npz of 10^12 rows": ("x.npz", lambda p: p.write_bytes(zipped([("x.npy", npy_header(10**12, 3))])), "truncated"),
    "npz of 10^12 keys": (
        "x.npz",
        lambda p: p.write_bytes(zipped([("x.npy", npy(np.ones((4, 3)))), ("keys.npy", _strings(10**12))])),
        "1,000,000,000,000 keys",
    ),
    "npz of keys of 2^28 letters": (
        "x.npz",
        lambda p: p.write_bytes(zipped([("x.npy", npy(np.ones((4, 3)))), ("keys.npy", _strings(4, "<U268435455"))])),
        "do not take",
    ),
    "artifact of 10^12 directions": (
        "e.npz",
        lambda p: p.write_bytes(_artifact(left=npy_header(3, 10**12, "<f8"))),
        "do not take",
    ),
    "artifact with a header of 2^28 letters": (
        "e.npz",
        lambda p: p.write_bytes(_artifact(header=_strings(None, "<U268435455"))),
        "do not take",
    ),
}


def _strings(n: int | None, dtype: str = "<U4") -> bytes:
    shape = "()" if n is None else f"({n},)"
    return raw_npy(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n".encode())


def _artifact(**members: bytes) -> bytes:
    return zipped((f"{name}.npy", data) for name, data in (artifact_members() | members).items())


@pytest.mark.parametrize("case", LYING)
def test_a_size_that_the_file_cannot_hold_is_refused(commands: Commands, tmp_path: Path, case: str) -> None:
    name, make, says = LYING[case]
    make(tmp_path / name)
    commands.refuse("inspect", tmp_path / name, says=says)


def _xz_of_a_huge_dictionary(path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 256 << 20}]
    path.write_bytes(lzma.compress(b"a 1 2\n", filters=filters))


def _h5(build: Callable[[h5py.File], Any]) -> Make:
    def make(path: Path) -> None:
        with h5py.File(path, "w", libver="latest") as file:
            build(file)

    return make


def _whole_chunk(file: h5py.File) -> None:
    """Write one packed chunk of 160 MiB that holds zeros, as half a megabyte."""
    file.create_dataset("x", (1 << 20, 40), "f4", chunks=(1 << 20, 40), compression="gzip")
    file["x"].id.write_direct_chunk((0, 0), b"".join(_zlib_zeros(160)))


def _zlib_zeros(n: int) -> Iterator[bytes]:
    packer = zlib.compressobj(1)
    yield from (packer.compress(bytes(1 << 20)) for _ in range(n))
    yield packer.flush()


ROW = npy_header(10 << 20, 256)  # 10 GiB
BOMBS: dict[str, tuple[str, Make, str]] = {
    "zeros as npy.gz": ("x.npy.gz", lambda p: p.write_bytes(zeros(10, before=ROW, ends=False)), "can pack"),
    "zeros as npy.gz, cut": (
        "x.npy.gz",
        lambda p: p.write_bytes(zeros(350, before=npy_header(350 << 10, 256), ends=False)),
        "truncated gzip stream",
    ),
    "zeros as text.gz": ("x.txt.gz", lambda p: p.write_bytes(zeros(350)), "is binary, not text"),
    "a word and zeros as text.gz": ("x.txt.gz", lambda p: p.write_bytes(zeros(350, before=b"a 1 2\n")), "line"),
    "zeros as binary.gz": (
        "x.bin.gz",
        lambda p: p.write_bytes(zeros(350, before=b"1 1000000\n")),
        "no space within 65536 bytes",
    ),
    "an xz with a dictionary of 256 MiB": ("x.txt.xz", _xz_of_a_huge_dictionary, "damaged xz stream"),
    "a text line of 100 MB": ("x.txt", lambda p: sparse(p, 100_000_000, b"a 1 2\nb 1"), "a line of more than 16 MiB"),
    "hdf5 of 10^12 rows, none written": (
        "x.h5",
        _h5(lambda f: f.create_dataset("x", (10**12, 300), "f4")),
        "0 were ever written",
    ),
    "hdf5 of 10^12 rows in chunks, none written": (
        "x.h5",
        _h5(lambda f: f.create_dataset("x", (10**12, 300), "f4", chunks=(1000, 300))),
        "of which 0 were ever written",
    ),
    "hdf5 of one chunk of almost 4 GiB, not written": (
        "x.h5",
        _h5(lambda f: f.create_dataset("x", (1 << 20, 1023), "f4", chunks=(1 << 20, 1023), compression="gzip")),
        "of which 0 were ever written",
    ),
    "hdf5 of one packed chunk of 160 MiB": ("x.h5", _h5(_whole_chunk), "chunks of 160 MiB"),
    "hdf5 of 10^12 dimensions": (
        "x.h5",
        _h5(lambda f: f.create_dataset("x", (2, 10**12), "f4", chunks=(1, 1000))),
        "ever written",
    ),
    "an artifact that unpacks a thousandfold": (
        "e.npz",
        lambda p: p.write_bytes(_packed_artifact(30)),
        "would unpack to",
    ),
    "keys that unpack a thousandfold": ("x.npz", lambda p: p.write_bytes(_packed_keys(80)), "would unpack to"),
}


def _packed_artifact(n_mib: int) -> bytes:
    left = npy_header(3, n_mib << 17, "<f8")
    members = artifact_members() | {"left": left + bytes(3 * (n_mib << 20))}
    return zipped(((f"{name}.npy", data) for name, data in members.items()), zipfile.ZIP_DEFLATED)


def _packed_keys(n_mib: int) -> bytes:
    n = n_mib << 8
    keys = _strings(n, "<U1024") + bytes(n_mib << 20)
    return zipped([("x.npy", npy(np.ones((n, 1), "f2"))), ("keys.npy", keys)], zipfile.ZIP_DEFLATED)


@pytest.mark.slow
@pytest.mark.parametrize("case", BOMBS)
def test_what_would_grow_without_end_is_refused_in_bounded_memory(
    commands: Commands, tmp_path: Path, case: str
) -> None:
    name, make, says = BOMBS[case]
    make(tmp_path / name)
    commands.refuse("inspect", tmp_path / name, says=says)


@pytest.mark.slow
def test_an_npy_that_unpacks_a_thousandfold_streams(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "x.npy.gz").write_bytes(zeros(350, before=npy_header(350 << 10, 256)))
    done = commands.run("inspect", tmp_path / "x.npy.gz", "--json")
    assert done.code == 0, done
    assert json.loads(done.out)["zero_rows"] == 350 << 10
    assert done.peak < MOST_MEMORY


@pytest.mark.slow
def test_an_npz_that_unpacks_a_thousandfold_streams(commands: Commands, tmp_path: Path) -> None:
    x = npy_header(350 << 10, 256) + bytes(350 << 20)
    (tmp_path / "x.npz").write_bytes(zipped([("x.npy", x)], zipfile.ZIP_DEFLATED, level=1))
    done = commands.run("inspect", tmp_path / "x.npz", "--json")
    assert done.code == 0, done
    assert json.loads(done.out)["zero_rows"] == 350 << 10
    assert done.peak < MOST_MEMORY


@pytest.mark.parametrize("quote", [b"", b'"'])
@pytest.mark.parametrize("command", ["fit", "inspect"])
def test_a_csv_of_one_field_of_a_gigabyte_is_refused(
    commands: Commands, tmp_path: Path, command: str, quote: bytes
) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    sparse(tmp_path / "y.csv", 10**9, b"word,label\na," + quote)
    if command == "fit":
        args: list[object] = ["fit", tmp_path / "x.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--quiet"]
    else:
        args = ["inspect", tmp_path / "x.npy", "--labels", tmp_path / "y.csv"]
    commands.refuse(*args, says="y.csv: line 2: more than 1 MiB without a line feed")
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.csv"]


def test_a_csv_of_a_field_of_many_lines_without_end_is_refused(commands: Commands, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "y.csv").write_bytes(b'word,label\na,"' + b"x\n" * (8 << 20))
    commands.refuse(
        "inspect", tmp_path / "x.npy", "--labels", tmp_path / "y.csv", says="line 2: broken CSV: a quote opens here"
    )


def test_a_csv_of_half_a_million_columns_is_refused_at_once(commands: Commands, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "y.csv").write_text(",".join(f"{i:x}" for i in range(180_000)) + "\n", encoding="utf-8")
    commands.refuse(
        "inspect", tmp_path / "x.npy", "--labels", tmp_path / "y.csv", says="which column is the guarded attribute?"
    )


@pytest.mark.parametrize(
    ("size", "before", "says"),
    [(10**9, b"a b 1\n", "not a similarity set"), (8 << 20, b"a\tb\t1\n", "expected two words and a score")],
)
def test_a_similarity_set_without_end_is_refused(
    commands: Commands, tmp_path: Path, size: int, before: bytes, says: str
) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    sparse(tmp_path / "s.tsv", size, before)
    commands.refuse("inspect", tmp_path / "x.npy", "--similarity", tmp_path / "s.tsv", says=says)


@pytest.mark.slow
def test_a_file_of_keys_without_end_is_refused(commands: Commands, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    sparse(tmp_path / "k.txt", 10**9, b"a\nb\n")
    commands.refuse("inspect", tmp_path / "x.npy", "--keys", tmp_path / "k.txt", says="k.txt: line 3: ")


@pytest.mark.slow
def test_an_output_is_not_begun_for_a_bomb(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "e.npz").write_bytes(_artifact())
    (tmp_path / "x.npy.gz").write_bytes(zeros(64, before=npy_header(64 << 18, 1), ends=False))
    commands.refuse(
        "apply", tmp_path / "e.npz", tmp_path / "x.npy.gz", "-o", tmp_path / "o.npy", "--quiet", says="has 1 dimensions"
    )
    (tmp_path / "x.npy.gz").write_bytes(zeros(60, before=npy_header(20 << 18, 3), ends=False))
    commands.refuse(
        "apply",
        tmp_path / "e.npz",
        tmp_path / "x.npy.gz",
        "-o",
        tmp_path / "o.npy",
        "--quiet",
        says="truncated gzip stream",
    )
    assert sorted(os.listdir(tmp_path)) == ["e.npz", "x.npy.gz"]
