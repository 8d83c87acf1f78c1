"""int8 with its scale is codes times scale in float16, in each format; bfloat16 of ml_dtypes is read from HDF5."""

from contextlib import closing
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file, save_file

from salcli.errors import FormatError, ParameterError, SalcliError, UsageError
from salcli.formats.registry import open_source
from salcli.options import ReadOptions
from tests.cli.helpers import succeed

RNG = np.random.default_rng(0)
N, D = 60, 5
CODES = RNG.integers(-128, 128, (N, D), dtype=np.int8)
SCALES = RNG.uniform(0.001, 0.1, N).astype(np.float32)
FORMATS = ("npy", "h5", "safetensors", "parquet", "arrow")


def written(folder: Path, suffix: str, codes: Any = CODES, scales: Any = SCALES) -> Path:
    """Write codes, and their scales where the format has a place for them."""
    path = folder / f"x.{suffix}"
    if suffix == "npy":
        np.save(path, codes)
    elif suffix == "h5":
        with h5py.File(path, "w") as file:
            file["v"] = codes
    elif suffix == "safetensors":
        save_file({"v": codes, "scale": scales.reshape(-1, 1)}, path)
    else:
        table = pa.table({"id": [f"k{i}" for i in range(len(codes))], "v": list(codes), "scale": scales})
        if suffix == "parquet":
            pq.write_table(table, path, row_group_size=7)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
    return path


def read(path: Path, rows: int | None = None, **options: Any) -> np.ndarray:
    with closing(open_source(str(path), ReadOptions(**options))) as source:
        assert source.dtype == np.float16
        chunks = [[chunk.read()] if rows is None else chunk.batches(rows) for chunk in source.chunks()]
        return np.concatenate([np.array(batch.vectors) for batches in chunks for batch in batches])


@pytest.mark.parametrize("suffix", FORMATS)
def test_codes_are_multiplied_by_a_number(tmp_path: Path, suffix: str) -> None:
    path, expected = written(tmp_path, suffix), (CODES.astype(np.float32) * np.float32(0.013)).astype(np.float16)
    assert_array_equal(read(path, dequantize="0.013"), expected)
    assert_array_equal(read(path, 4, dequantize="0.013", batch_rows=9), expected)


@pytest.mark.parametrize("suffix", ["safetensors", "parquet", "arrow"])
def test_each_row_is_multiplied_by_its_own_scale(tmp_path: Path, suffix: str) -> None:
    path, expected = written(tmp_path, suffix), (CODES * SCALES[:, None]).astype(np.float16)
    assert_array_equal(read(path, dequantize="scale"), expected)
    assert_array_equal(read(path, 4, dequantize="scale", batch_rows=9), expected)


@pytest.mark.parametrize("suffix", FORMATS)
def test_int8_without_a_scale_is_refused_and_other_numbers_with_one(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FormatError, match="int8|I8"):
        open_source(str(written(tmp_path, suffix)))
    path = written(tmp_path, suffix, CODES.astype(np.float32))
    with pytest.raises(SalcliError, match="int8"):
        open_source(str(path), ReadOptions(dequantize="0.5"))
    with pytest.raises(SalcliError, match="not int8|expected one list of int8" if suffix != "npy" else "not int8"):
        open_source(str(path), ReadOptions(dequantize="0.5", dataset=None if suffix == "npy" else "v"))


@pytest.mark.parametrize(
    ("scale", "found"), [("0", "expected"), ("nan", "expected"), ("1e9", "256"), ("-1", "6.1e-05")]
)
def test_a_number_that_float16_cannot_hold_is_refused(tmp_path: Path, scale: str, found: str) -> None:
    with pytest.raises(ParameterError, match=found):
        open_source(str(written(tmp_path, "npy")), ReadOptions(dequantize=scale))


def test_names_are_those_of_floats_for_each_row(tmp_path: Path) -> None:
    for suffix, name, found in [
        ("npy", "scale", "expected a number"), ("h5", "v", "expected a number"), ("safetensors", "v", "expected 60"),
        ("safetensors", "none", "no such tensor"), ("parquet", "id", "is string"), ("arrow", "none", "not there"),
    ]:  # fmt: skip
        with pytest.raises(ParameterError, match=found):
            open_source(str(written(tmp_path, suffix)), ReadOptions(dequantize=name))
    (tmp_path / "x.txt").write_text("a 1 2\nb 3 4\n", encoding="ascii")
    with pytest.raises(ParameterError, match="int8 is read from npy, h5, parquet, arrow, safetensors"):
        open_source(str(tmp_path / "x.txt"), ReadOptions(dequantize="1"))


@pytest.mark.parametrize(("suffix", "value"), [("parquet", np.inf), ("safetensors", 1e-9), ("arrow", -1.0)])
def test_a_scale_that_is_none_is_named_with_its_row(tmp_path: Path, suffix: str, value: float) -> None:
    scales = SCALES.copy()
    scales[3], scales[13] = 0, value
    with pytest.raises(FormatError, match="scale: row 13: the scale is"):
        read(written(tmp_path, suffix, scales=scales), dequantize="scale")


def test_damaged_arrays_of_int8_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "npy")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="truncated"):
        open_source(str(path), ReadOptions(dequantize="1"))
    np.save(path, np.asfortranarray(CODES))
    with pytest.raises(FormatError, match="Fortran order"):
        open_source(str(path), ReadOptions(dequantize="1"))
    np.save(path, CODES.astype(np.float32))
    with pytest.raises(UsageError, match="float32, not int8"):
        open_source(str(path), ReadOptions(dequantize="1"))


@pytest.mark.parametrize("suffix", ["safetensors", "parquet"])
def test_apply_writes_float16_and_leaves_the_scale_out(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, suffix)
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * (N // 2), encoding="ascii")
    how = ("--dequantize", "scale")
    succeed("fit", path, tmp_path / "y.csv", "-o", tmp_path / "e.npz", "--by-row", *how)
    succeed("apply", tmp_path / "e.npz", path, "-o", tmp_path / f"o.{suffix}", *how)
    if suffix == "parquet":
        table = pq.read_table(tmp_path / "o.parquet")
        assert table.column_names == ["id", "v"]
        assert table.schema.field("v").type.value_type == pa.float16()
        x = np.array(table["v"].to_pylist(), np.float64)
    else:
        tensors = load_file(tmp_path / "o.safetensors")
        assert [*tensors] == ["v"]
        assert tensors["v"].dtype == np.float16
        x = tensors["v"].astype(np.float64)
    before = CODES * SCALES[:, None].astype(np.float64)
    y = np.arange(N) % 2
    gap, old = (np.linalg.norm(m[y == 0].mean(0) - m[y == 1].mean(0)) for m in (x, before))
    assert gap < 1e-3 < old / 100


@pytest.mark.parametrize("chunks", [None, (7, 3)])
def test_bfloat16_of_ml_dtypes_is_widened(tmp_path: Path, chunks: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = RNG.standard_normal((N, D)).astype(ml_dtypes.bfloat16)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("v", data=x, chunks=chunks)
        file["w"] = np.arange(N)
    for options in (ReadOptions(), ReadOptions(dataset="v", batch_rows=9)):
        with closing(open_source(str(tmp_path / "x.h5"), options)) as source:
            assert source.dtype == np.float32
            found = np.concatenate([chunk.read().vectors for chunk in source.chunks()])
            assert_array_equal(found, x.astype(np.float32))
    (tmp_path / "y.csv").write_text("y\n" + "a\nb\n" * (N // 2), encoding="ascii")
    succeed("fit", tmp_path / "x.h5", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    done = succeed("apply", tmp_path / "e.npz", tmp_path / "x.h5", "-o", tmp_path / "o.h5")
    assert b"bfloat16 becomes float32" in done.stderr
    with h5py.File(tmp_path / "o.h5") as file:
        assert file["v"].dtype == np.float32
        assert_array_equal(file["w"][:], np.arange(N))


def test_a_column_of_floats_beside_codes_is_not_taken_for_the_matrix(tmp_path: Path) -> None:
    save_file({"v": CODES, "scale": SCALES.reshape(-1, 1)}, tmp_path / "x.safetensors")
    with pytest.raises(FormatError, match="`dequantize` names one"):
        open_source(str(tmp_path / "x.safetensors"))
