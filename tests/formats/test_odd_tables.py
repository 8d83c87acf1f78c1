"""Tables that are legal and odd: what is read of them is right, or one line says what stands in the way."""

import uuid
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.errors import SalcliWarning
from salcli.formats.label_table import read_labels

from .tables import lists

N = 40
X = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Write rows, labels and an eraser, and return what runs a command."""
    monkeypatch.chdir(tmp_path)

    def ran(*args: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, args)
        assert done.exit_code == code, done.output
        return done.output

    np.save("x.npy", X)
    Path("y.csv").write_text("g\n" + "a\nb\n" * (N // 2), "utf-8")
    ran("fit", "x.npy", "y.csv", "-o", "e.npz", "--quiet")
    return ran


def write(path: str, table: pa.Table) -> None:
    if path.endswith(".parquet"):
        pq.write_table(table, path)
        return
    with pyarrow.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_columns_of_one_name_are_not_copied(run: Run, suffix: str) -> None:
    keys = pa.array([f"w{i}" for i in range(N)])
    source, target = f"x.{suffix}", f"o.{suffix}"
    write(source, pa.Table.from_arrays([lists(X), keys, keys], names=["emb", "a", "a"]))
    done = run("apply", "e.npz", source, "-o", target, code=3)
    assert f"{source}: 2 columns are called 'a', expected one of each name in what is copied (--drop or --only" in done
    assert not Path(target).exists()
    run("apply", "e.npz", source, "-o", target, "--drop", "a", "--quiet")
    run("apply", "e.npz", source, "-o", "o.npy", "--quiet")


def test_the_warning_of_copied_columns_names_what_tables_take(run: Run) -> None:
    write("x.parquet", pa.table({"emb": lists(X), "other": lists(X)}))
    done = run("apply", "e.npz", "x.parquet", "-o", "o.parquet")
    assert "copied unchanged, with the attribute if they encode it: other (--drop or --only)" in done
    np.savez("x.npz", x=X, other=X)
    done = run("apply", "e.npz", "x.npz", "--dataset", "x", "-o", "o.npz")
    assert ": other (--erase-also, --drop or --only)" in done


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32())])
@pytest.mark.parametrize("empty", [1, N])
def test_an_empty_first_vector_is_named(run: Run, kind: pa.DataType, empty: int) -> None:
    write("x.parquet", pa.table({"emb": pa.array([[]] * empty + X.tolist()[empty:], kind)}))
    done = run("fit", "x.parquet", "y.csv", "-o", "o.npz", code=3)
    assert done == "error: x.parquet: column emb: row 0: the vector is empty, expected numbers; rows count from 0\n"


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pa.array([[1, 2]] * N), "list<"),
        (pa.array([{"g": "a"}] * N), "struct<g: string>"),
        (lists(X, "tensor"), "extension<arrow.fixed_shape_tensor"),
    ],
)
def test_an_attribute_that_is_nested_is_named_with_its_type(run: Run, column: pa.Array, found: str) -> None:
    write("y.parquet", pa.table({"g": column}))
    done = run("fit", "x.npy", "y.parquet", "-o", "o.npz", "--attribute", "g", code=3)
    assert done.startswith(f"error: y.parquet: column 'g' (--attribute) is {found}")
    assert done.endswith(", expected text, numbers or booleans\n")
    done = run("fit", "x.npy", "y.parquet", "-o", "o.npz", code=3)
    assert done == (
        "error: y.parquet: which column is the guarded attribute? none is left. It has no columns of labels: choose "
        "with --attribute\n"
    )


def test_a_label_of_bytes_is_no_text_of_a_csv(run: Run) -> None:
    write("y.parquet", pa.table({"g": [b"a", b"\xff"] * (N // 2)}))
    done = run("fit", "x.npy", "y.parquet", "-o", "o.npz", code=3)
    assert done == "error: y.parquet: row 1: label '\\udcff' is not UTF-8, expected text\n"
    Path("z.csv").write_bytes(b"g\n" + b"a\n\xff\n" * (N // 2))
    assert "line 3: label '\\udcff' is not UTF-8: save the CSV as UTF-8" in run(
        "fit", "x.npy", "z.csv", "-o", "o.npz", code=3
    )


@pytest.mark.parametrize(("end", "stray", "name"), [("\n", "\r", "CR"), ("\r\n", "\r", "CR"), ("\r", "\n", "LF")])
def test_a_stray_line_end_is_named_by_file_and_line(run: Run, end: str, stray: str, name: str) -> None:
    rows = ["g,h", *["a,1"] * 3, f"a{stray},1", *["b,1"] * (N - 4)]
    Path("z.csv").write_bytes("".join(row + end for row in rows).encode())
    done = run("fit", "x.npy", "z.csv", "-o", "o.npz", "--attribute", "g", code=3)
    assert done == (
        f"error: z.csv: line 5: broken CSV: a lone {name} within a cell, expected quotes around the cell, or one kind "
        "of line end\n"
    )


def test_rows_that_join_by_row_say_why(run: Run) -> None:
    short = "word,g\n" + "".join(f"w{i},{'ab'[i % 2]}\n" for i in range(N - 1))
    Path("k.csv").write_text(short, "utf-8")
    counts = f"{N - 1} labels, but x.npy has {N} rows"
    done = run("evaluate", "x.npy", "k.csv", "--eraser", "e.npz", code=3)
    assert done == f"error: k.csv joins by row (as e.npz was fitted; --key names a column): {counts}\n"
    done = run("fit", "x.npy", "k.csv", "-o", "o.npz", "--by-row", code=3)
    assert done == f"error: k.csv joins by row (--by-row): {counts}\n"
    Path("k.csv").write_text(short.replace("word", "name"), "utf-8")
    done = run("fit", "x.npy", "k.csv", "-o", "o.npz", "--attribute", "g", code=3)
    assert done == f"error: k.csv joins by row (no key column): {counts}\n"


@pytest.mark.parametrize(
    ("column", "classes"),
    [
        (pa.array([Decimal("1.50"), Decimal("2.25")] * (N // 2)), ["1.50", "2.25"]),
        (pa.array([1.0, 2.0] * (N // 2)), ["1.0", "2.0"]),
        (pa.array([date(2020, 1, 1), date(2021, 1, 1)] * (N // 2)), ["2020-01-01", "2021-01-01"]),
        (pa.array([True, False] * (N // 2)).dictionary_encode(), ["False", "True"]),
    ],
)
def test_labels_of_other_types_are_their_usual_text(tmp_path: Path, column: pa.Array, classes: list[str]) -> None:
    path = str(tmp_path / "y.parquet")
    write(path, pa.table({"g": column}))
    assert read_labels(path).attributes[0].classes == tuple(classes)


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="pyarrow before 18")
def test_labels_that_are_uuids_are_their_usual_text(tmp_path: Path) -> None:
    values = [uuid.UUID(int=1), None, uuid.UUID(int=2)]
    stored = pa.array([value and value.bytes for value in values], pa.binary(16))
    path = str(tmp_path / "y.parquet")
    write(path, pa.table({"g": pa.ExtensionArray.from_storage(pa.uuid(), stored)}))
    with pytest.warns(SalcliWarning, match="1 rows unlabelled"):
        found = read_labels(path).attributes[0]
    assert found.classes == (str(values[0]), str(values[2]))
    assert found.values.tolist() == [0, -1, 1]
