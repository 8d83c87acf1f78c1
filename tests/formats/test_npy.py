"""`.npy`: against numpy.save and numpy.load."""

import gzip
import hashlib
import io
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from salcli.data.embeddings import Embeddings
from salcli.errors import FormatError
from salcli.formats.npy import NpyWriter
from salcli.formats.registry import open_source

from .strategies import file_of, read_whole

DTYPES = ("<f2", "<f4", "<f8", ">f2", ">f4", ">f8", np.dtype(np.longdouble).str)


def saved(array: NDArray[Any]) -> bytes:
    handle = io.BytesIO()
    np.save(handle, array, allow_pickle=False)
    return handle.getvalue()


def written(array: NDArray[Any], *, is_fortran: bool, batch_rows: int) -> bytes:
    handle = io.BytesIO()
    writer = NpyWriter(handle, n=len(array), d=array.shape[1], dtype=array.dtype, is_fortran=is_fortran)
    for start in range(0, len(array), batch_rows):
        writer.write(writer.encode(Embeddings.starting_at(start, array[start : start + batch_rows])))
    writer.close()
    return handle.getvalue()


@st.composite
def matrices(draw: st.DrawFn) -> NDArray[Any]:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 5)))
    width = min(64, dtype.itemsize * 8)
    floats = st.floats(allow_nan=False, allow_infinity=False, width=width)  # type: ignore[call-overload]
    values = draw(hnp.arrays(np.dtype(f"f{width // 8}"), shape, elements=floats)).astype(dtype)
    return np.asfortranarray(values) if draw(st.booleans()) else values


@pytest.mark.slow
@settings(max_examples=300)
@given(matrices(), st.sampled_from([None, 1, 2, 4]), st.booleans())
def test_what_numpy_saves_is_read_to_the_same_bits(array: NDArray[Any], batch_rows: int | None, packs: bool) -> None:
    data = saved(array)
    with file_of(gzip.compress(data, 1) if packs else data, "v.npy.gz" if packs else "v.npy") as path:
        found = read_whole(path, batch_rows=batch_rows)
    assert found.format == "npy"
    assert found.keys is None
    assert found.dtype == array.dtype
    assert found.vectors.dtype == array.dtype
    np.testing.assert_array_equal(found.vectors, array)
    if array.dtype.itemsize <= 8:  # a long double has bytes that mean nothing
        assert found.vectors.tobytes() == array.tobytes()


@settings(max_examples=200)
@given(matrices(), st.integers(1, 10), st.booleans())
def test_what_is_written_equals_what_numpy_saves(array: NDArray[Any], batch_rows: int, is_fortran: bool) -> None:
    data = written(array, is_fortran=is_fortran, batch_rows=batch_rows)
    back = np.load(io.BytesIO(data), allow_pickle=False)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    assert np.isfortran(back) or not is_fortran or 1 in array.shape
    if 1 not in array.shape and array.dtype.itemsize <= 8:
        assert data == saved(np.asfortranarray(array) if is_fortran else np.ascontiguousarray(array))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 4), np.float32), "no rows to read: the matrix is empty, 0 rows of 4 dimensions"),
        (np.zeros((4, 0), np.float32), "no rows to read: the matrix is empty, 4 rows of 0 dimensions"),
        (np.zeros(4, np.float32), r"shape \(4,\) is not 2-D"),
        (np.float32(4), r"shape \(\) is not 2-D"),
        (np.zeros((2, 3, 4), np.float32), r"shape \(2, 3, 4\) is not 2-D: pool or squeeze it first"),
        (np.zeros((2, 3), np.int64), "dtype int64, expected floats"),
        (np.zeros((2, 3), np.bool_), "dtype bool, expected floats"),
        (np.zeros((2, 3), np.complex128), "dtype complex128, expected floats"),
        (np.zeros((2, 3), "U3"), "expected floats"),
        (np.zeros((2, 3), "V2"), "bfloat16"),
        (np.zeros((2, 3), [("x", "f4"), ("y", "f4")]), "a structured dtype with the fields x, y"),
        (np.zeros(3, [("é", "f4")]), "structured dtype"),
    ],
)
def test_an_array_that_is_no_matrix_of_floats_is_refused_saying_what_it_is(array: NDArray[Any], message: str) -> None:
    with file_of(saved(array), "v.npy") as path, pytest.raises(FormatError, match=message) as caught:
        read_whole(path)
    assert str(caught.value).startswith(f"{path}: ")


class Trap:
    """Says so if it is ever unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was opened",)


def test_an_object_array_is_refused_and_never_unpickled() -> None:
    handle = io.BytesIO()
    np.save(handle, np.array([[Trap(), 1.0]], dtype=object), allow_pickle=True)
    with (
        file_of(handle.getvalue(), "v.npy") as path,
        pytest.raises(FormatError, match="an object array .a Python pickle"),
    ):
        read_whole(path)


@settings(max_examples=80)
@given(st.integers(1, 127 + 48), st.booleans())
def test_a_file_cut_anywhere_is_refused(cut: int, is_fortran: bool) -> None:
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    data = saved(np.asfortranarray(array) if is_fortran else array)
    for content in (data[:cut], gzip.compress(data[:cut], 1)):
        with file_of(content, "v.npy") as path, pytest.raises(FormatError, match=str(path)):
            read_whole(path)


@pytest.mark.parametrize("is_fortran", [False, True])
def test_a_file_longer_than_its_header_says_is_refused(is_fortran: bool) -> None:
    array = np.ones((4, 3), order="F" if is_fortran else "C")
    with file_of(saved(array) + b"\0", "v.npy") as path:
        with pytest.raises(FormatError, match="too long: 4 x 3 float64 take 96 bytes, 97 bytes follow the header"):
            read_whole(path)


def test_a_compressed_file_longer_than_its_header_says_is_refused() -> None:
    with file_of(gzip.compress(saved(np.ones((4, 3))) + b"\0" * 24), "v.npy.gz") as path:
        with pytest.raises(FormatError, match="too long"):
            read_whole(path)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 3, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}",
        "{'descr': '<q9', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999, 3)}",
        "{'descr': 'f4,f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': ('<f4', (3,)), 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)}",
        "{'descr': 3, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': ((), '<f4'), 'fortran_order': False, 'shape': (2, 3)}",
        "-" * 3000 + "1",
        "__import__('os')",
        "{" * 3000,
        "\x00",
    ],
)
def test_a_damaged_header_is_refused(header: str) -> None:
    text = header.ljust(117).encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(24)
    with (
        file_of(data, "v.npy") as path,
        pytest.raises(FormatError, match=f"{path}: (damaged npy header|a structured dtype|dtype)"),
    ):
        read_whole(path)


@pytest.mark.parametrize("is_fortran", [False, True])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_hash_is_that_of_the_file_as_it_lies_on_disk(is_fortran: bool, pack: Any) -> None:
    data = pack(saved(np.ones((4, 3), order="F" if is_fortran else "C")))
    with file_of(data, "v.npy") as path, closing(open_source(str(path))) as source:
        # fails for Fortran order in gzip: the unpacked copy is hashed, and the file itself is left open
        assert source.digest("sha256") == hashlib.sha256(data).hexdigest()


def test_nan_is_refused_naming_its_row(tmp_path: Path) -> None:
    array = np.ones((5, 2), np.float16)
    array[3, 1] = np.inf
    np.save(tmp_path / "v.npy", array)
    with pytest.raises(FormatError, match=r"v\.npy: row 3: inf, expected finite numbers .*rows count from 0"):
        read_whole(tmp_path / "v.npy", batch_rows=2)


def test_great_half_precision_numbers_are_not_taken_for_infinite(tmp_path: Path) -> None:
    array = np.full((300, 20), 65504, np.float16)
    np.save(tmp_path / "v.npy", array)
    np.testing.assert_array_equal(read_whole(tmp_path / "v.npy").vectors, array)


def test_great_double_precision_numbers_are_not_taken_for_infinite(tmp_path: Path) -> None:
    array = np.full((30, 20), np.finfo(np.float64).max)
    np.save(tmp_path / "v.npy", array)
    np.testing.assert_array_equal(read_whole(tmp_path / "v.npy").vectors, array)
