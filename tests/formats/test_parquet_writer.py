"""`apply` replaces one column of a Parquet file; all else is, to pyarrow, what it was."""

import json
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from salcli.errors import FormatError, SalcliWarning, UsageError
from salcli.formats import parquet_writer, registry
from salcli.formats.beside import Beside
from salcli.formats.registry import open_source
from salcli.options import ReadOptions

from .tables import KINDS, lists, matrix

X = np.random.default_rng(4).standard_normal((40, 6)).astype(np.float32)


def table_of(x: np.ndarray, kind: str = "list") -> pa.Table:
    """Give a table with vectors, a key, and columns of many kinds, some of them null."""
    n = len(x)
    features = {"emb": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 6, "_type": "Sequence"}}
    features["label"] = {"names": ["a", "b"], "_type": "ClassLabel"}
    table = pa.table(
        {
            "docid": [f"k{i}" for i in range(n)],
            "emb": lists(x, kind),
            "label": pa.array([i % 2 for i in range(n)], pa.int8()),
            "topic": pa.array([None if i % 5 == 0 else f"t{i % 7}" for i in range(n)]).dictionary_encode(),
            "deep": pa.array([None if i % 3 == 0 else {"a": i, "b": ["x"] * (i % 4)} for i in range(n)]),
            "when": pa.array([i * 1_000_000_007 for i in range(n)], pa.timestamp("ns", "Europe/Berlin")),
            "more": lists(x.astype(np.float64) + 1),
            "a.b": pa.array([f"{i}".encode() for i in range(n)], pa.large_binary()),
        },
        metadata={b"huggingface": json.dumps({"info": {"features": features}}).encode(), b"own": b"\xff"},
    )
    return table.set_column(1, table.schema.field("emb").with_metadata({b"model": b"m"}), table.column("emb"))


def rewritten(
    path: Path, target: Path, d: int | None = None, dtype: Any = None, options: Any = None, beside: Any = None
) -> pa.Table:
    """Read a file and write it with other numbers, as `apply` does."""
    with closing(open_source(str(path), ReadOptions(**(options or {})))) as source, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(if they encode it|left behind)", SalcliWarning)
        name, kind = registry.output_format(str(target), source, None), np.dtype(dtype or source.dtype)
        with registry.create(
            str(target), source, d=d or source.d, dtype=kind, format_name=name, beside=beside or Beside()
        ) as writer:
            for chunk in source.chunks():
                batch = chunk.read()
                writer.write(writer.encode(batch.with_vectors((batch.vectors * 2)[:, :d].astype(kind))))
    return pq.ParquetFile(target).read()


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.sampled_from(KINDS), st.sampled_from(["none", "snappy", "zstd", "gzip"]), st.integers(1, 50),
    st.sampled_from([400, 3_000, 10**9]), st.integers(1, 60), st.sampled_from([None, "f2", "f8"]),
    st.sampled_from([None, 4]), st.booleans(),
)  # fmt: skip
def test_one_column_is_replaced_and_all_else_kept(
    tmp_path_factory: pytest.TempPathFactory, kind: str, codec: str, group: int, out: int, batch: int,
    dtype: str | None, d: int | None, is_old: bool,
) -> None:  # fmt: skip
    folder, table = tmp_path_factory.mktemp("t"), table_of(X, kind)
    pq.write_table(
        table, folder / "x.parquet", row_group_size=group, compression=codec, use_compliant_nested_type=not is_old
    )
    before = pq.ParquetFile(folder / "x.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_writer, "GROUP_BYTES", out)
        after = rewritten(folder / "x.parquet", folder / "y.parquet", d, dtype, {"batch_rows": batch})
    expected = before.read()
    kept = [name for name in table.column_names if name != "emb"]
    assert after.column_names == expected.column_names
    assert after.select(kept).equals(expected.select(kept))
    assert_array_equal(matrix(after.column("emb")), (X * 2)[:, :d].astype(dtype or "f4"))
    assert after.schema.field("emb").metadata == expected.schema.field("emb").metadata
    if dtype is None and d is None:
        assert after.schema.equals(expected.schema, check_metadata=True)
    else:
        assert type(after.schema.field("emb").type) is type(expected.schema.field("emb").type)
        (feature, other), (old, _) = (
            [json.loads(t.schema.metadata[b"huggingface"])["info"]["features"][c] for c in ("emb", "label")]
            for t in (after, expected)
        )
        assert feature["feature"]["dtype"] == {"f2": "float16", "f8": "float64", None: "float32"}[dtype]
        assert (feature["length"], other["names"]) == (d or 6, ["a", "b"])
        assert old["length"] == 6
        assert after.schema.metadata[b"own"] == b"\xff"
    written = pq.ParquetFile(folder / "y.parquet").metadata
    for column in (written.row_group(0).column(i) for i in range(written.num_columns)):
        like = next(
            each
            for each in (before.metadata.row_group(0).column(i) for i in range(before.metadata.num_columns))
            if each.path_in_schema == column.path_in_schema
        )
        assert column.compression == like.compression
        if column.path_in_schema.startswith("emb"):
            assert "RLE_DICTIONARY" not in column.encodings
            assert ("BYTE_STREAM_SPLIT" in column.encodings) == (codec != "none")
        else:
            assert set(column.encodings) == set(like.encodings)
    assert (written.num_row_groups == 1) == (out == 10**9)


@pytest.mark.parametrize("batch_rows", [3, 20, None])
def test_dropped_rows_are_dropped_from_all_columns(tmp_path: Path, batch_rows: int | None) -> None:
    x = X.copy()
    x[[0, 7, 8, 39], 2] = np.nan
    table = table_of(x)
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=9)
    with pytest.warns(SalcliWarning, match="4 rows with NaN or Inf are dropped") as caught:
        after = rewritten(
            tmp_path / "x.parquet", tmp_path / "y.parquet", options={"allow_nonfinite": True, "batch_rows": batch_rows}
        )
    assert not [each for each in caught if "are dropped from the matrix" in str(each.message)]
    kept = np.setdiff1d(np.arange(40), [0, 7, 8, 39])
    names = [name for name in table.column_names if name not in ("emb", "more", "when")]
    assert after.select(names).to_pylist() == table.take(pa.array(kept)).select(names).to_pylist()
    assert_array_equal(matrix(after.column("emb")), x[kept] * 2)


@pytest.mark.parametrize(
    ("beside", "names"),
    [
        (Beside(dropped=("more", "label")), ["docid", "emb", "topic", "deep", "when", "a.b"]),
        (Beside(is_only=True), ["docid", "emb"]),
    ],
)
def test_columns_are_left_out_also_of_the_features(tmp_path: Path, beside: Beside, names: list[str]) -> None:
    pq.write_table(table_of(X), tmp_path / "x.parquet")
    after = rewritten(tmp_path / "x.parquet", tmp_path / "y.parquet", beside=beside)
    assert after.column_names == names
    assert [*json.loads(after.schema.metadata[b"huggingface"])["info"]["features"]] == ["emb"]


def test_columns_of_numbers_are_warned_of_and_others_are_not(tmp_path: Path) -> None:
    pq.write_table(table_of(X), tmp_path / "x.parquet")
    with closing(open_source(str(tmp_path / "x.parquet"))) as source:
        with pytest.warns(SalcliWarning, match=r"if they encode it: more \(") as caught:
            with registry.create(str(tmp_path / "y.parquet"), source, d=6, dtype=source.dtype, format_name="parquet"):
                pass
        assert len(caught) == 1


def test_another_column_cannot_be_erased_too(tmp_path: Path) -> None:
    pq.write_table(table_of(X), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="a table is erased one column at a time"):
        rewritten(tmp_path / "x.parquet", tmp_path / "y.parquet", beside=Beside(erased={"more": np.dtype(np.float32)}))
    assert not (tmp_path / "y.parquet").exists()


@pytest.mark.parametrize("has_keys", [True, False])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_other_formats_become_a_new_table(tmp_path: Path, has_keys: bool, dtype: str) -> None:
    np.save(tmp_path / "x.npy", X.astype(dtype))
    (tmp_path / "k.txt").write_text("".join(f"é{i}\n" for i in range(40)), "utf-8")
    options = {"keys_file": str(tmp_path / "k.txt")} if has_keys else None
    after = rewritten(tmp_path / "x.npy", tmp_path / "y.parquet", options=options)
    assert_array_equal(matrix(after.column("embedding")), X.astype(dtype) * 2)
    assert after.column_names == (["id", "embedding"] if has_keys else ["embedding"])
    with closing(open_source(str(tmp_path / "y.parquet"))) as source:
        assert [*source.kept_keys()] == ([f"é{i}" for i in range(40)] if has_keys else [])


def test_what_parquet_cannot_hold_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X[:1])
    (tmp_path / "k.txt").write_bytes(b"\xff\n")
    with pytest.raises(FormatError, match="of row 0 is not UTF-8, which text in tables must be"):
        rewritten(tmp_path / "x.npy", tmp_path / "y.parquet", options={"keys_file": str(tmp_path / "k.txt")})
    np.save(tmp_path / "x.npy", X[:1].astype(np.longdouble))
    with pytest.raises(UsageError, match="give `dtype=float64`"):
        rewritten(tmp_path / "x.npy", tmp_path / "y.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "k.txt"}


@pytest.mark.parametrize("row", [0, 39])
def test_a_damaged_column_beside_the_vectors_leaves_nothing(tmp_path: Path, row: int) -> None:
    table = pa.table({"emb": lists(X), "text": ["x" * 1000] * 40})
    pq.write_table(
        table,
        tmp_path / "x.parquet",
        row_group_size=20,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    at = data.index(b"x" * 1000) if row == 0 else data.rindex(b"x" * 1000)
    data[at - 4 : at] = b"\xff\xff\xff\x7f"  # the length of a text
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(
        FormatError, match="x.parquet: row 0: damaged" if row == 0 else "x.parquet: rows from 0: damaged"
    ):
        rewritten(tmp_path / "x.parquet", tmp_path / "y.parquet")
    assert not (tmp_path / "y.parquet").exists()


def test_the_metadata_of_pandas_follows_a_change_of_type(tmp_path: Path) -> None:
    about = {"columns": [{"name": "emb", "field_name": "emb", "pandas_type": "list[float]"}], "index_columns": []}
    table = pa.table({"emb": lists(X)}, metadata={b"pandas": json.dumps(about).encode()})
    pq.write_table(table, tmp_path / "x.parquet")
    after = rewritten(tmp_path / "x.parquet", tmp_path / "y.parquet", dtype="f8")
    assert json.loads(after.schema.metadata[b"pandas"])["columns"][0]["pandas_type"] == "list[double]"
    assert_allclose(matrix(after.column("emb")), X * 2)


@pytest.mark.parametrize("rows", [20, 40])
def test_row_groups_that_become_one_are_not_called_sorted(tmp_path: Path, rows: int) -> None:
    table = pa.table({"emb": lists(X), "i": [i % rows for i in range(40)]})
    source = tmp_path / "x.parquet"
    pq.write_table(table, source, row_group_size=rows, sorting_columns=[pq.SortingColumn(1)])
    rewritten(source, tmp_path / "o.parquet")
    written = pq.read_metadata(tmp_path / "o.parquet")
    assert written.num_row_groups == 1
    assert bool(written.row_group(0).sorting_columns) == (rows == 40)
