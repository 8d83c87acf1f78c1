"""Labels in a Parquet file are the labels of a CSV with the same cells."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.labels import GuardedLabels
from salcli.errors import FormatError, LabelError, SalcliWarning
from salcli.formats import table_labels
from salcli.formats.label_table import read_labels
from salcli.options import LabelOptions

from .strategies import file_of
from .tables import lists
from .tables import parquet as written

NAMES = ("no", "yes", "perhaps")


def about(**features: Any) -> dict[bytes, bytes]:
    return {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


NAMED = about(y={"names": NAMES, "_type": "ClassLabel"})


def read(table: pa.Table, **options: Any) -> GuardedLabels:
    with file_of(written(table, row_group_size=7), "y.parquet") as path:
        return read_labels(str(path), LabelOptions(**options))


def same(one: GuardedLabels, other: GuardedLabels) -> None:
    assert (one.keys, one.splits, one.key_column) == (other.keys, other.splits, other.key_column)
    for a, b in zip(one.attributes, other.attributes, strict=True):
        assert (a.name, a.classes) == (b.name, b.classes)
        assert_array_equal(a.values, b.values)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "é", ""]), st.sampled_from([None, 0, 1, 2]), st.sampled_from(["train", "test"]),
            st.sampled_from([None, 0.1, -2.5e300, 7.0]), st.sampled_from([None, True, False]),
        ),
        min_size=1, max_size=40,
    ),
    st.sampled_from(["plain", "large", "dictionary", "view"]), st.integers(1, 9),
)  # fmt: skip
def test_cells_mean_what_they_mean_in_a_csv(rows: list[Any], kind: str, at_once: int) -> None:
    words, numbers, splits, floats, truths = (list(column) for column in zip(*rows, strict=True))
    words[0], numbers[0], truths[0] = "a", 1, True  # no column is empty
    text = {"plain": pa.string(), "large": pa.large_string(), "view": pa.string_view()}
    column = pa.array(words).dictionary_encode() if kind == "dictionary" else pa.array(words, text[kind])
    columns = {
        "docid": [f"k{i}" for i in range(len(rows))], "vec": lists(np.eye(len(rows))), "w": column,
        "n": pa.array(numbers, pa.int32()), "split": splits, "x": floats, "t": pa.array(truths),
    }  # fmt: skip
    lines = ["key,w,n,split,x,t"]
    for i, (w, n, s, x, t) in enumerate(zip(words, numbers, splits, floats, truths, strict=True)):
        cells = [f"k{i}", w, *("" if c is None else str(c) for c in (n, s, x, t))]
        lines.append(",".join(cells))
    options = LabelOptions(attributes=("w", "n", "t"), numeric=("x",))
    with pytest.MonkeyPatch.context() as patch, file_of("\n".join(lines).encode(), "y.csv") as csv:
        patch.setattr(table_labels, "ROWS", at_once)
        with file_of(written(pa.table(columns), row_group_size=5), "y.parquet") as path:
            with (
                pytest.warns() if None in (*numbers, *truths, *floats) or "" in words else pytest.MonkeyPatch.context()
            ):
                found, expected = read_labels(str(path), options), read_labels(str(csv), options)
    assert found.key_column == "docid"
    same(found, GuardedLabels(**{**expected.__dict__, "key_column": "docid"}))


def test_class_numbers_are_shown_by_their_names() -> None:
    table = pa.table(
        {"y": pa.array([0, 2, -1, None, 1], pa.int64())}, metadata=about(y={"names": NAMES, "_type": "ClassLabel"})
    )
    with pytest.warns(SalcliWarning, match="2 rows unlabelled in column 'y' .*the first on row 2"):
        labels = read(table)
    assert labels.attributes[0].classes == ("no", "perhaps", "yes")
    assert labels.attributes[0].values.tolist() == [0, 1, -1, -1, 2]


@pytest.mark.parametrize(
    ("columns", "metadata", "options", "says"),
    [
        ({"y": [0, 3]}, NAMED, {}, "row 1: 3 in column 'y', whose classes are 0…2"),
        ({"x": ["1", "z"]}, None, {"numeric": ("x",)}, "row 1: 'z' in numeric column 'x', expected a finite number"),
        ({"id": ["a", None], "y": ["a", "b"]}, None, {}, "row 1: an empty key"),
        ({"id": ["a", "a"], "y": ["u", "v"]}, None, {}, "key 'a' is 'u' on row 0 and 'v' on row 1"),
        ({"a": ["a"], "b": ["b"]}, None, {}, "which column is the guarded attribute? one of a, b?"),
        ({"y": [[1.0]]}, None, {"attributes": ("y",)}, "column 'y' (`attributes`) is list<"),
        ({"y": pa.array([], pa.string())}, None, {}, "no rows below the header"),
        ({"y": [None, None]}, None, {}, "column 'y' is empty on all 2 rows"),
        ({"y": [b"\xff", b"a"]}, None, {}, "row 0: label '\\udcff' is not UTF-8"),
    ],
)  # fmt: skip
def test_faults_name_the_row(columns: Any, metadata: Any, options: Any, says: str) -> None:
    with pytest.raises((FormatError, LabelError)) as caught:
        read(pa.table(columns, metadata=metadata), **options)
    assert says in str(caught.value)


def test_the_key_is_the_one_that_embeddings_have() -> None:
    table = pa.table({"word": ["a", "b"], "_id": [1, 2], "id": [0.5, 1.5], "y": ["u", "v"]})
    assert read(table, attributes=("y",)).keys == ("1", "2")
    assert read(table, attributes=("y",), key="word").keys == ("a", "b")
    assert read(table, attributes=("y",), by_row=True).keys is None
    assert read(table.drop_columns(["id"])).attributes[0].name == "y"


@pytest.mark.parametrize("names", ["x", 7, [1, 2], None])
def test_strange_features_are_ignored(names: Any) -> None:
    for metadata in (about(y={"names": names, "_type": "ClassLabel"}), {b"huggingface": b"[]"}, {b"huggingface": b"{"}):
        assert read(pa.table({"y": [0, 1]}, metadata=metadata)).attributes[0].classes == ("0", "1")


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path) -> None:
    table = pa.table({"y": ["a", "b"], "text": ["q" * 500] * 2})
    pq.write_table(table, tmp_path / "y.parquet", use_dictionary=False, compression="none", write_statistics=False)
    data = bytearray((tmp_path / "y.parquet").read_bytes())
    at = data.index(b"q" * 500)
    data[at - 4 : at] = b"\xff\xff\xff\x7f"
    (tmp_path / "y.parquet").write_bytes(data)
    assert read_labels(str(tmp_path / "y.parquet"), LabelOptions(attributes=("y",))).attributes[0].classes == ("a", "b")
    with pytest.raises(FormatError, match="rows from 0: damaged"):
        read_labels(str(tmp_path / "y.parquet"), LabelOptions(attributes=("text",)))


def test_two_classes_of_one_name_are_not_one_class() -> None:
    table = pa.table(
        {"y": [0, 1, 2], "z": [0, 1, 1]}, metadata=about(y={"names": ["a", "a", "b"], "_type": "ClassLabel"})
    )
    with file_of(written(table), "y.parquet") as path:
        with pytest.raises(LabelError, match="column 'y': two of its classes have one name, 'a'"):
            read_labels(str(path), LabelOptions(attributes=("y",)))
        assert read_labels(str(path), LabelOptions(attributes=("z",))).attributes[0].classes == ("0", "1")
