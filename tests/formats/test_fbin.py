"""fbin, f16bin and fvecs are what numpy writes with `tofile`; sizes must be exact."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from salcli.errors import FormatError, UsageError
from salcli.formats import registry
from salcli.formats.registry import open_source
from salcli.options import ReadOptions

from .strategies import file_of

X = np.random.default_rng(6).standard_normal((9, 3)).astype(np.float32)
DTYPES = {"fbin": "<f4", "f16bin": "<f2", "fvecs": "<f4"}


def built(x: NDArray[Any], kind: str) -> bytes:
    x = x.astype(DTYPES[kind])
    if kind == "fvecs":
        return b"".join(np.int32(len(row)).tobytes() + row.tobytes() for row in x)
    return np.array(x.shape, "<u4").tobytes() + x.tobytes()


def read(path: Path, rows: int | None = None, **options: Any) -> NDArray[Any]:
    with closing(open_source(str(path), ReadOptions(**options))) as source:
        found = []
        for chunk in source.chunks():
            found += [np.array(batch.vectors) for batch in ([chunk.read()] if rows is None else chunk.batches(rows))]
        return np.concatenate(found)


@settings(max_examples=40)
@given(st.sampled_from([*DTYPES]), st.integers(1, 40), st.integers(1, 5), st.integers(1, 50), st.integers(1, 9))
def test_rows_are_those_of_numpy(kind: str, n: int, d: int, batch: int, rows: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, d)).astype(DTYPES[kind])
    with file_of(built(x, kind), f"x.{kind}") as path:
        for found in (read(path, batch_rows=batch), read(path, rows, batch_rows=batch)):
            assert found.dtype == x.dtype
            assert_array_equal(found, x)


@pytest.mark.parametrize("kind", [*DTYPES])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_what_is_written_is_read_again(tmp_path: Path, kind: str, suffix: str) -> None:
    (tmp_path / f"x.{kind}").write_bytes(built(X, kind))
    target = tmp_path / f"y.{kind.upper()}{suffix}"
    with closing(open_source(str(tmp_path / f"x.{kind}"))) as source:
        name = registry.output_format(str(target), source, None)
        assert (name, source.format) == (kind, kind)
        with registry.create(str(target), source, d=2, dtype=source.dtype, format_name=name) as writer:
            for chunk in source.chunks():
                batch = chunk.read()
                writer.write(writer.encode(batch.with_vectors(batch.vectors[:, :2])))
    assert_array_equal(read(target), X.astype(DTYPES[kind])[:, :2])
    if not suffix:
        assert target.read_bytes() == built(X[:, :2], kind)


@pytest.mark.parametrize(
    ("kind", "data", "says"),
    [
        ("fbin", built(X, "fbin")[:-1], "truncated, or not fbin: 9 x 3 float32 take 108 bytes, 107 bytes follow"),
        ("fbin", built(X, "fbin") + b"\0", "too long, or not fbin"),
        ("fbin", built(X, "f16bin"), "truncated, or not fbin"),
        ("fbin", b"\xff" * 8, "truncated, or not fbin: 4,294,967,295 x 4294967295"),
        ("fbin", b"\1\0\0", "3 bytes, expected a header of 8"),
        ("fbin", bytes(8), "no rows to read"),
        ("f16bin", built(X, "fbin"), "too long, or not f16bin"),
        ("fvecs", built(X, "fvecs")[:-1], "no number of rows of 3 dimensions"),
        ("fvecs", b"\1", "no number of rows of 1 dimensions"),
        ("fvecs", b"\xff" * 16, "no number of rows of -1 dimensions"),
        ("fvecs", built(X[:2], "fvecs") + b"\4" + bytes(15), "row 2: 4 dimensions, expected 3; rows count from 0"),
        ("fvecs", b"\0\0\0\x7f" + bytes(12), "no number of rows of 2130706432 dimensions"),
    ],
)
def test_other_sizes_are_refused(kind: str, data: bytes, says: str) -> None:
    with file_of(data, f"x.{kind}") as path:
        with pytest.raises(FormatError) as caught:
            read(path)
        assert says in str(caught.value)
        assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(("kind", "dtype", "says"), [
    ("fbin", "f2", r"fbin holds float32, not float16: give `dtype=float32` \(or name the output .f16bin\)"),
    ("f16bin", "f4", r"give `dtype=float16` \(or name the output .fbin\)"),
    ("fvecs", "f8", "fvecs holds float32, not float64: give `dtype=float32`$"),
])  # fmt: skip
def test_other_numbers_are_refused_and_nothing_is_written(tmp_path: Path, kind: str, dtype: str, says: str) -> None:
    np.save(tmp_path / "x.npy", X)
    target = tmp_path / f"y.{kind}"
    with closing(open_source(str(tmp_path / "x.npy"))) as source, pytest.raises(UsageError, match=says):
        with registry.create(str(target), source, d=3, dtype=np.dtype(dtype), format_name=kind):
            pass
    assert not target.exists()


def test_a_file_of_another_kind_is_what_its_content_says(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.fbin").write_bytes((tmp_path / "x.npy").read_bytes())
    assert_array_equal(read(tmp_path / "x.fbin"), X)
    (tmp_path / "x.bin").write_bytes(built(X, "fbin"))
    assert_array_equal(read(tmp_path / "x.bin", format="fbin"), X)
