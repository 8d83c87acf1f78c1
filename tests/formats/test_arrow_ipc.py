"""Arrow files and streams are read, and written back, as pyarrow reads them."""

import pickle
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.errors import FormatError, SalcliWarning
from salcli.formats import arrow_ipc, arrow_table, registry
from salcli.formats.label_table import read_labels
from salcli.formats.registry import open_source
from salcli.options import LabelOptions, ReadOptions

from .strategies import file_of
from .tables import KINDS, lists, matrix
from .test_parquet import BAD, rows_of
from .test_parquet_writer import X, table_of


def written(table: pa.Table, *, is_file: bool = True, codec: str | None = None, rows: int | None = None) -> bytes:
    buffer = pa.BufferOutputStream()
    start = pa.ipc.new_file if is_file else pa.ipc.new_stream
    with start(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return bytes(buffer.getvalue())


def read_table(path: Path) -> pa.Table:
    data = path.read_bytes()
    return (pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream)(data).read_all()


CODECS = st.sampled_from([None, "lz4", "zstd"])


@settings(max_examples=40)
@given(
    st.integers(1, 60), st.integers(1, 4), st.sampled_from(["f2", "f4", "f8"]), st.sampled_from(KINDS), CODECS,
    st.booleans(), st.integers(1, 70), st.integers(1, 40), st.integers(0, 9), st.integers(1, 64),
)  # fmt: skip
def test_values_and_keys_are_those_of_pyarrow(
    n: int, d: int, dtype: str, kind: str, codec: str | None, is_file: bool, group: int, batch: int, first: int,
    partition: int,
) -> None:  # fmt: skip
    x = np.random.default_rng(n).standard_normal((n + first, d)).astype(dtype)
    keys = pa.array([f"k{i % 4}" for i in range(n + first)]).dictionary_encode()
    table = pa.table({"docid": keys, "emb": lists(x, kind)}).slice(first)
    data = written(table, is_file=is_file, codec=codec, rows=group)
    with pytest.MonkeyPatch.context() as patch, file_of(data, "x.arrow") as path:
        patch.setattr(arrow_table, "DECODED_ROWS", 7)
        options = ReadOptions(batch_rows=batch, partition_elements=partition)
        with closing(open_source(str(path), options)) as source:
            for rows in (None, 1, 50):
                found, found_keys = rows_of(source, rows)
                assert_array_equal(found, x[first:])
                assert found_keys == (table.column("docid").to_pylist() if rows is None else None)
            copy = pickle.loads(pickle.dumps(source.shards[0])).reader
            assert_array_equal(copy.read(n - 1, n).vectors, x[-1:])
            copy.close()


@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("fault", [*BAD])
def test_a_missing_or_ragged_vector_is_refused_with_its_row(is_file: bool, fault: str) -> None:
    rows: list[Any] = [[1.0, 2.0]] * 20
    rows[13], says = BAD[fault]
    column, places = pa.array(rows, pa.list_(pa.float32())), pa.array(range(20))
    back, turned = pa.array(rows[::-1], pa.list_view(pa.float32())), pa.array(range(19, -1, -1))
    offsets, sizes, is_null = (part.take(turned) for part in (back.offsets, back.sizes, back.is_null()))
    scattered = pa.ListViewArray.from_arrays(offsets, sizes, back.values, mask=is_null)
    for each in (column, pa.array(rows, pa.large_list_view(pa.float32())), scattered):
        table = pa.table({"emb": each, "place": places}).slice(2)
        with file_of(written(table, is_file=is_file, rows=5), "x.arrow") as path:
            with pytest.raises(FormatError) as caught, closing(open_source(str(path))) as source:
                rows_of(source)
            assert str(caught.value) == f"{path}: column emb: row 11: {says}; rows count from 0"


@settings(max_examples=25)
@given(
    st.sampled_from(KINDS), CODECS, st.booleans(), st.integers(1, 50), st.sampled_from([300, 10**8]),
    st.sampled_from([None, "f2"]), st.integers(1, 50),
)  # fmt: skip
def test_one_column_is_replaced_and_all_else_kept(
    tmp_path_factory: pytest.TempPathFactory, kind: str, codec: str | None, is_file: bool, group: int, out: int,
    dtype: str | None, batch: int,
) -> None:  # fmt: skip
    folder, table = tmp_path_factory.mktemp("t"), table_of(X, kind)
    (folder / "x.arrow").write_bytes(written(table, is_file=is_file, codec=codec, rows=group))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", SalcliWarning)
        patch.setattr(arrow_ipc, "GROUP_BYTES", out)
        with closing(open_source(str(folder / "x.arrow"), ReadOptions(batch_rows=batch))) as source:
            target, to = str(folder / "y.arrow"), np.dtype(dtype or "f4")
            with registry.create(target, source, d=6, dtype=to, format_name=source.format) as writer:
                for chunk in source.chunks():
                    rows = chunk.read()
                    writer.write(writer.encode(rows.with_vectors(rows.vectors * 2)))
    after = read_table(folder / "y.arrow")
    assert (folder / "y.arrow").read_bytes().startswith(b"ARROW1") == is_file
    kept = [name for name in table.column_names if name != "emb"]
    assert after.select(kept).equals(table.select(kept))
    assert_array_equal(matrix(after.column("emb")), (X * 2).astype(dtype or "f4"))
    if dtype is None:
        assert after.schema.equals(table.schema, check_metadata=True)


@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_labels_are_columns_of_an_arrow_file(is_file: bool, codec: str | None) -> None:
    with file_of(written(table_of(X), is_file=is_file, codec=codec, rows=7), "y.arrow") as path:
        labels = read_labels(str(path), LabelOptions(attributes=("label",)))
    assert labels.attributes[0].classes == ("a", "b")
    assert labels.keys == tuple(f"k{i}" for i in range(40))


def test_a_large_compressed_stream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_ipc, "MOST_UNPACKED", 1000)
    for is_file in (True, False):
        with file_of(written(table_of(X), is_file=is_file, codec="zstd", rows=9), "x.arrow") as path:
            if is_file:
                open_source(str(path)).close()
            else:
                with pytest.raises(FormatError, match="a compressed Arrow stream of more than"):
                    open_source(str(path))


GOOD = [written(table_of(X[:4]), is_file=is_file, rows=2) for is_file in (True, False)]
GOOD += [written(pa.table({"emb": lists(X[:4], kind)}), rows=2) for kind in ("large_view", "scattered_view")]


@pytest.mark.slow
@settings(max_examples=300)
@given(st.sampled_from(GOOD), st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())
def test_a_damaged_file_is_refused_in_one_line_or_read(good: bytes, where: float, byte: int, is_cut: bool) -> None:
    at = int(where * len(good))
    data = good[:at] if is_cut else good[:at] + bytes([byte]) + good[at + 1 :]
    with file_of(data, "x.arrow") as path:
        text = None
        try:
            with closing(open_source(str(path), ReadOptions(allow_nonfinite=True))) as source:
                rows_of(source)
        except FormatError as error:
            text = str(error)
        assert text is None or (text.startswith(str(path)) and "\n" not in text)


def test_a_stream_that_was_cut_between_two_batches_is_told(tmp_path: Path) -> None:
    path, table = tmp_path / "x.arrow", pa.table({"v": lists(X)})
    data, first = written(table, is_file=False), table.slice(0, 20).combine_chunks().to_batches()[0]
    path.write_bytes(table.schema.serialize().to_pybytes() + first.serialize().to_pybytes())
    with pytest.warns(SalcliWarning, match="an Arrow stream without its end marker"):
        with closing(open_source(str(path))) as source:
            assert source.n == 20
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_source(str(path)).close()
