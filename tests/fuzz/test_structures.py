"""Any npy, npz, HDF5 and word2vec binary file is refused in one line, or read as a plain reader reads it."""

import io
import re
import struct
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from salcli.errors import FormatError

from ..formats.strategies import file_of
from .readers import NPZ_MEMBERS, read_source, refused, strictly, survive
from .seeds import BINARY, KEYS, PART, X, hdf5, npy, raw_npy, zipped
from .strategies import MATRICES, hdf5_structures, mutated, npy_files

Read = tuple[tuple[str, ...] | None, NDArray[Any]]


def read_or_refused(data: bytes, name: str, **options: Any) -> Read | None:
    found: list[Read] = []
    with file_of(data, name) as path, strictly():
        text = refused(lambda: found.append(read_source(str(path), **options)))
        assert text is None or text.startswith(str(path)), text
        assert text is None or "\n" not in text.replace(str(path), "")
    return found[0] if found else None


# --- npy ----------------------------------------------------------------------------------------------------------


def numpys(data: bytes) -> NDArray[Any] | None:
    """Read as numpy does, what salcli must read: a finite matrix that is just as long as its header says."""
    buffer = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(buffer)
            assert version in ((1, 0), (2, 0), (3, 0))
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, order, dtype = read(buffer)
            if version == (3, 0):  # as version 2, but for its letters
                data[12 : buffer.tell()].decode("utf-8")
    except Exception:  # noqa: BLE001 (whatever numpy makes of it)
        return None
    if dtype.kind != "f" or len(shape) != 2 or min(shape) < 1 or any(type(size) is bool for size in shape):
        return None
    values = data[buffer.tell() :]
    if shape[0] * shape[1] * dtype.itemsize != len(values):
        return None
    array = np.frombuffer(values, dtype).reshape(shape, order="F" if order else "C")
    return array if np.isfinite(array).all() else None


GOOD = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)}"


@pytest.mark.slow
@settings(max_examples=400)
@given(npy_files() | mutated([npy(X), npy(X.T, (2, 0)), npy(X.astype(">f8"), (3, 0))]))
@example(raw_npy(GOOD.replace(b"4, 3)", b"4L, 3L)"), X.tobytes()))
@example(raw_npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), " + b"\n" * 90, X.tobytes()))
@example(raw_npy(b"-" * 9_000 + b"1"))
@example(raw_npy(GOOD.replace(b"False", b"'\\d'")))
def test_any_npy_is_read_as_numpy_reads_it_or_refused(data: bytes) -> None:
    expected, found = numpys(data), read_or_refused(data, "x.npy")
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found[0] is None
        assert found[1].dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found[1], expected)


def test_the_reference_reads_what_it_should() -> None:
    for array in (X, X.T, X.astype(">f2")):
        np.testing.assert_array_equal(numpys(npy(array)), array)  # type: ignore[arg-type]
    assert numpys(npy(X) + b"\0") is None
    assert numpys(npy(X * np.nan)) is None


# --- npz ----------------------------------------------------------------------------------------------------------

PARTS = (npy(X), npy(np.array(KEYS)), npy(np.array([b"a", b"\xff", b"c", b"d"])), npy(np.arange(4)), npy(X[:3]), b"?")
WHOLE_NPZ = [zipped(zip(("x.npy", "keys.npy"), PARTS, strict=False), method) for method in (0, 8, 12)]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3), st.data())
def test_any_members_of_an_npz_give_its_only_matrix_and_its_keys(parts: list[bytes], data: st.DataObject) -> None:
    archive = zipped((f"{name}.npy", part) for name, part in zip(NPZ_MEMBERS, parts, strict=False))
    found = read_or_refused(archive, "x.npz")
    n_rows = [len(array) for part in parts if (array := numpys(part)) is not None]
    if len(n_rows) != 1:
        assert found is None
        return
    if parts[1:2] == [b"?"]:  # what is called keys must be some
        assert found is None
        return
    lists = [part for part in parts if part in PARTS[1:3] and n_rows == [4]]
    if len(lists) == 1:
        keys = KEYS if lists[0] == PARTS[1] else ("a", "\udcff", "c", "d")
        assert found is not None
        assert found[0] == keys
    elif not lists:
        assert (found is None) == (parts[1:2] in [[PARTS[1]], [PARTS[2]]])


@settings(max_examples=250)
@given(mutated(WHOLE_NPZ))
def test_a_changed_npz_is_refused_or_read_unchanged(data: bytes) -> None:
    found = read_or_refused(data, "x.npz")
    if found is not None:  # checksums hold for what was read: the change was to names, or to what means nothing
        assert found[1].tobytes() == X.tobytes()
        assert found[0] in (KEYS, None)


@settings(max_examples=250)
@given(mutated([PART.join(PARTS[:3])]))
def test_changed_members_whose_checksums_hold_are_refused_or_read(data: bytes) -> None:
    survive("npz", data)


@pytest.mark.parametrize("code", [0xD800, 0x110000, 0xFFFFFFFF])
def test_keys_with_characters_that_do_not_exist_are_refused(code: int, tmp_path: Path) -> None:
    keys = npy(np.array(KEYS, "<U3"))
    (tmp_path / "x.npz").write_bytes(zipped([("x.npy", npy(X)), ("keys.npy", keys[:-4] + struct.pack("<I", code))]))
    with pytest.raises(FormatError, match=r"x.npz\[keys\]: a string with .*" + f"{code:#x}"):
        read_source(str(tmp_path / "x.npz"))


def test_damaged_keys_are_no_file_without_keys(tmp_path: Path) -> None:
    for keys in (b"?", npy(np.array(KEYS))[:20], npy(np.array(KEYS))[:-1]):
        (tmp_path / "x.npz").write_bytes(zipped([("x.npy", npy(X)), ("keys.npy", keys)]))
        with pytest.raises(FormatError, match=r"x.npz\[keys\]"):
            read_source(str(tmp_path / "x.npz"))


# --- word2vec binary ----------------------------------------------------------------------------------------------


def plainly_read_binary(data: bytes) -> tuple[list[bytes], list[tuple[float, ...]]] | None:
    """Read records one by one; None where they must be refused."""
    first = re.match(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?(\n|\Z)", data)
    if first is None or int(first[1]) * int(first[2]) == 0 or int(first[2]) > 1 << 20:
        return None
    n, d, at = int(first[1]), int(first[2]), first.end()
    words, rows = [], []
    for _ in range(n):
        while data[at : at + 1] == b"\n":
            at += 1
        end = data.find(b" ", at)
        if end <= at or b"\n" in data[at:end] or len(data) < end + 1 + 4 * d:
            return None
        words.append(data[at:end])
        rows.append(struct.unpack(f"<{d}f", data[end + 1 : end + 1 + 4 * d]))
        at = end + 1 + 4 * d
    return (words, rows) if not data[at:].strip(b"\n") and np.isfinite(rows).all() else None


@settings(max_examples=250)
@given(mutated(BINARY[:2]), st.sampled_from([None, 1, 3]))
@example(b"2147483648 2147483648\na " + bytes(8), None)
@example(b"1 999999999999999999\na " + bytes(8), None)
@example(b"999999999999999999 1\na " + bytes(8), None)
def test_any_binary_is_read_as_the_plain_reader_reads_it_or_refused(data: bytes, batch_rows: int | None) -> None:
    expected = plainly_read_binary(data)
    found = read_or_refused(data, "x.bin", format="word2vec-bin", batch_rows=batch_rows)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert [key.encode("utf-8", "surrogateescape") for key in found[0] or ()] == expected[0]
        assert found[1].tobytes() == np.array(expected[1], "<f4").tobytes()


# --- HDF5 ---------------------------------------------------------------------------------------------------------


def built(libver: str, **storage: Any) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=libver) as file:
        file.create_dataset("g/x", data=X, **storage)
        file["keys"] = KEYS
        file["soft"] = h5py.SoftLink("/g/x")
    return buffer.getvalue()


FILES = [built(v, **s) for v in ("earliest", "latest") for s in ({}, {"chunks": (2, 3), "compression": "gzip"})]


@settings(max_examples=200)
@given(mutated([*FILES, hdf5(x=X)], most=6))
def test_a_changed_hdf5_file_is_refused_or_read(data: bytes) -> None:
    read_or_refused(data, "x.h5")


@pytest.mark.slow
@settings(max_examples=250)
@given(hdf5_structures())
def test_any_structure_of_an_hdf5_file_gives_its_only_matrix_or_is_refused(made: tuple[bytes, list[str]]) -> None:
    data, kinds = made
    found = read_or_refused(data, "x.h5")
    n_matrices = sum(kind in (*MATRICES, "unwritten", "unwritten chunks", "empty", "odd floats") for kind in kinds)
    if found is not None:
        assert n_matrices == 1
        np.testing.assert_array_equal(found[1].astype("f4"), X)
        assert found[0] in (KEYS, ("a", "\udcff", "c", "d"), None)
    elif n_matrices == 1 and not {"keys", "bytes", "own view"} & set(kinds):
        assert not set(kinds) & set(MATRICES)


def test_the_seeds_are_read() -> None:
    for data in FILES:
        found = read_or_refused(data, "x.h5")
        assert found is not None
        assert found[0] == KEYS
    assert all(read_or_refused(data, "x.npz") is not None for data in WHOLE_NPZ)
    assert all(plainly_read_binary(data) is not None for data in BINARY[:2])
