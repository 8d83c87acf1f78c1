"""Parquet is read as pyarrow reads it, in any pieces, and refused by row where a vector is missing."""

import gzip
import pickle
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from salcli.data.source import Source
from salcli.errors import FormatError
from salcli.formats import arrow_table, parquet
from salcli.formats.registry import open_source
from salcli.options import ReadOptions

from .strategies import file_of
from .tables import KINDS, lists
from .tables import parquet as written

KEYS: dict[str, Callable[[int], Any]] = {
    "text": lambda n: [f"k{i}" for i in range(n)],
    "numbers": lambda n: pa.array(range(n), pa.uint16()),
    "dictionary": lambda n: pa.array([f"é{i % 3}" for i in range(n)]).dictionary_encode(),
    "bytes": lambda n: [b"\xff%d" % i for i in range(n)],
}


def rows_of(source: Source, rows: int | None = None) -> tuple[NDArray[Any], list[str] | None]:
    """Read all chunks, whole or (`rows`) in batches."""
    found, keys = list[NDArray[Any]](), list[str]()
    for chunk in source.chunks():
        for batch in [chunk.read()] if rows is None else chunk.batches(rows):
            assert rows is None or len(batch) <= rows
            found.append(np.array(batch.vectors))
            keys.extend(batch.keys or ())
    return np.concatenate(found), keys if source.has_keys and rows is None else None


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.integers(1, 90), st.integers(1, 5), st.sampled_from(["f2", "f4", "f8"]), st.sampled_from(KINDS),
    st.sampled_from(["none", "snappy", "zstd"]), st.booleans(), st.integers(1, 100), st.integers(1, 40),
    st.sampled_from([None, *KEYS]), st.integers(0, 20), st.sampled_from(["1.0", "2.0"]), st.integers(1, 64),
)  # fmt: skip
def test_values_and_keys_are_those_of_pyarrow(
    n: int, d: int, dtype: str, kind: str, codec: str, has_dictionary: bool, group: int, batch: int,
    keys: str | None, first: int, page: str, partition: int,
) -> None:  # fmt: skip
    x = np.random.default_rng(n).standard_normal((n + first, d)).astype(dtype)
    columns: dict[str, Any] = {"note": pa.array(range(n + first)), "emb": lists(x, kind)}
    if keys is not None:
        columns["docid"] = KEYS[keys](n + first)
    table = pa.table(columns).slice(first)
    data = written(
        table, compression=codec, use_dictionary=has_dictionary, row_group_size=group, data_page_version=page
    )
    with pytest.MonkeyPatch.context() as patch, file_of(data, "x.parquet") as path:
        patch.setattr(arrow_table, "DECODED_ROWS", 7)
        options = ReadOptions(batch_rows=batch, partition_elements=partition)
        with closing(open_source(str(path), options)) as source:
            assert (source.n, source.d, source.dtype) == (n, d, np.dtype(dtype))
            for rows in (None, 1, 3, 50):
                found, found_keys = rows_of(source, rows)
                assert_array_equal(found, x[first:])
                if keys is not None and rows is None:
                    raw = table.column("docid").to_pylist()
                    expected = [k.decode("utf-8", "surrogateescape") if isinstance(k, bytes) else str(k) for k in raw]
                    assert found_keys == expected
                    assert [key for batch in source.key_batches() for key in batch] == expected


@settings(max_examples=30)
@given(st.integers(2, 60), st.integers(1, 60), st.data())
def test_rows_are_read_in_any_order(n: int, group: int, data: st.DataObject) -> None:
    x = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
    with file_of(written(pa.table({"v": lists(x)}), row_group_size=group), "x.parquet") as path:
        with closing(open_source(str(path))) as source:
            shard = pickle.loads(pickle.dumps(source.shards[0]))
            assert_array_equal(shard.reader.read(0, n).vectors, x)
            shard.reader.close()
            reader = source.shards[0].reader
            for _ in range(8):
                start = data.draw(st.integers(0, n - 1))
                stop = data.draw(st.integers(start + 1, n))
                assert_array_equal(reader.read(start, stop).vectors, x[start:stop])
                half = reader.batches(start, stop, 2)
                assert_array_equal(next(half).vectors, x[start : min(start + 2, stop)])


def test_rows_that_follow_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(300, dtype=np.float32).reshape(100, 3)
    with file_of(written(pa.table({"v": lists(x)}), row_group_size=50), "x.parquet") as path:
        with closing(open_source(str(path), ReadOptions(batch_rows=7))) as source:
            reader, begun = source.shards[0].reader, list[int]()
            decode = reader.decode
            monkeypatch.setattr(reader, "decode", lambda groups, *how: (begun.extend(groups), decode(groups, *how))[1])
            for how in (lambda chunk: [chunk.read()], lambda chunk: [*chunk.batches(4)]):
                begun.clear()
                for chunk in source.chunks():
                    how(chunk)
                assert begun == [0, 1]


BAD: dict[str, tuple[Any, str]] = {
    "null": (None, "the vector is null, expected 2"),
    "inner": ([1.0, None], "number 1 of the vector is null, expected 2"),
    "short": ([1.0], "a vector of 1 numbers, expected 2"),
    "long": ([1.0, 2.0, 3.0], "a vector of 3 numbers, expected 2"),
    "empty": ([], "a vector of 0 numbers, expected 2"),
}


@settings(max_examples=80)
@given(
    st.integers(2, 40), st.sampled_from([*BAD]), st.sampled_from(["list", "large_list", "fixed"]), st.integers(1, 50),
    st.integers(0, 10), st.data(),
)  # fmt: skip
def test_a_missing_or_ragged_vector_is_refused_with_its_row(
    n: int, fault: str, kind: str, group: int, first: int, data: st.DataObject
) -> None:
    bad = data.draw(st.integers(1, n - 1))
    rows: list[Any] = [[1.0, 2.0]] * (n + first)
    rows[bad + first], says = BAD[fault]
    if kind == "fixed" and fault not in ("null", "inner"):
        return
    types = {
        "list": pa.list_(pa.float32()),
        "large_list": pa.large_list(pa.float32()),
        "fixed": pa.list_(pa.float32(), 2),
    }
    table = pa.table({"emb": pa.array(rows, types[kind])}).slice(first)
    with file_of(written(table, row_group_size=group), "x.parquet") as path:
        with pytest.raises(FormatError) as caught, closing(open_source(str(path))) as source:
            rows_of(source)
        assert str(caught.value) == f"{path}: column emb: row {bad}: {says}; rows count from 0"


@pytest.mark.parametrize("row", [None, []])
def test_a_first_vector_that_is_missing_is_refused_too(row: Any) -> None:
    table = pa.table({"emb": pa.array([row, [1.0]], pa.list_(pa.float32()))})
    with file_of(written(table), "x.parquet") as path, pytest.raises(FormatError, match="row 0: the vector|no rows"):
        open_source(str(path))


def test_faults_that_cancel_out_in_the_footer_are_found_as_rows_are_read() -> None:
    table = pa.table({"emb": pa.array([[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]], pa.list_(pa.float32()))})
    with file_of(written(table), "x.parquet") as path, closing(open_source(str(path))) as source:
        with pytest.raises(FormatError, match="row 1: a vector of 1 numbers, expected 2"):
            rows_of(source)


X = np.eye(3, dtype=np.float32)
TEXT = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ({"a": lists(X), "embeddings": lists(X)}, {}, ("embeddings", None)),
        ({"vector": lists(X), "emb": lists(X), "word": TEXT, "_id": TEXT}, {}, ("emb", "_id")),
        ({"emb": TEXT, "x": lists(X), "id": lists(X.astype(np.float64))}, {"dataset": "x"}, ("x", None)),
        ({"x": lists(X), "ids": [[1], [2], [3]], "id": [1.5, 2, 3], "key": TEXT}, {}, ("x", "key")),
        ({"x": lists(X), "key": TEXT}, {"keyed": False}, ("x", None)),
        ({"x": lists(X), "key": TEXT, "title": TEXT}, {"keys_dataset": "title"}, ("x", "title")),
        ({"a.b": lists(X), "a": [{"b": 1}] * 3}, {}, ("a.b", None)),
        ({"x": lists(X), "y": lists(X)}, {}, "several columns of vectors, x, y: choose one with `dataset`"),
        ({"x": lists(X)}, {"dataset": "y"}, "no column 'y'; it holds x"),
        ({"x": lists(X), "t": TEXT}, {"dataset": "t"}, "column 't' is string, expected one list of floats a row"),
        ({"t": TEXT, "i": [[1], [2], [3]]}, {}, "no column of float vectors among t string, i list<element: int64>"),
        ({"x": lists(X)}, {"keys_dataset": "x"}, "expected text or whole numbers"),
        ({"x": lists(X), "id": ["a", None, "b"]}, {}, "column id: row 1: the key is null"),
    ],
)  # fmt: skip
def test_columns_are_chosen_by_name_then_by_type(columns: Any, options: Any, expected: Any) -> None:
    with file_of(written(pa.table(columns)), "x.parquet") as path:
        if isinstance(expected, str):
            with (
                pytest.raises(FormatError) as caught,
                closing(open_source(str(path), ReadOptions(**options))) as source,
            ):
                rows_of(source)
            assert expected in str(caught.value)
            return
        with closing(open_source(str(path), ReadOptions(**options))) as source:
            reader = source.shards[0].reader
            assert (reader.vector, reader.key) == expected
            assert_array_equal(rows_of(source)[0], X)


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([lists(X), lists(X)], ["emb", "emb"])
    with file_of(written(table), "x.parquet") as path, pytest.raises(FormatError, match="2 columns are called 'emb'"):
        open_source(str(path))


def test_a_small_file_that_announces_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(pa.table({"emb": lists(np.zeros((50_000, 20), np.float32))}), compression="zstd")
    monkeypatch.setattr(parquet, "LEAST_LIMIT", 1 << 20)
    monkeypatch.setattr(parquet, "GREATEST_GROWTH", 100)
    with file_of(data, "x.parquet") as path, pytest.raises(FormatError, match="3 MiB, are announced in a file of"):
        open_source(str(path))


def test_a_row_group_too_large_to_be_searched_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MOST_SCANNED", 1)
    table = pa.table({"emb": pa.array([[1.0], [2.0], [3.0, 4.0]], pa.list_(pa.float32()))})
    with file_of(written(table, row_group_size=2), "x.parquet") as path:
        with pytest.raises(FormatError, match=r"rows 2 to 2 have 2 numbers, expected 1 each: a vector is null"):
            open_source(str(path))


GOOD = written(pa.table({"id": TEXT, "emb": lists(X, "fixed")}), row_group_size=2)


@settings(max_examples=150)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.booleans())
@example(len(GOOD) - 9, 255, False)
def test_a_damaged_file_is_refused_in_one_line_or_read(at: int, byte: int, is_cut: bool) -> None:
    data = GOOD[:at] if is_cut else GOOD[:at] + bytes([byte]) + GOOD[at + 1 :]
    with file_of(data, "x.parquet") as path:
        text = None
        try:
            with closing(open_source(str(path), ReadOptions(allow_nonfinite=True))) as source:
                rows_of(source)
        except FormatError as error:
            text = str(error)
        assert text is None or (text.startswith(str(path)) and "\n" not in text)


def test_a_packed_file_is_unpacked_first() -> None:
    with file_of(gzip.compress(GOOD), "x.parquet.gz") as path, closing(open_source(str(path))) as source:
        assert_array_equal(rows_of(source)[0], X)


def test_pages_are_compared_with_their_checksums(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    data = bytearray(
        written(pa.table({"v": lists(x)}), write_page_checksum=True, use_dictionary=False, compression="none")
    )
    data[data.find(x[100].tobytes()) + 1] ^= 1
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(FormatError, match="damaged"), closing(open_source(str(tmp_path / "x.parquet"))) as source:
        rows_of(source, None)
