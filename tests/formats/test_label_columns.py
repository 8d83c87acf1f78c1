import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.errors import FormatError
from salcli.formats.csv_records import ArrowColumn, csv_batches
from salcli.formats.label_columns import ClassColumn, Lines

from .strategies import file_of

RUNS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5), st.booleans()), min_size=1, max_size=8)


@given(RUNS)
def test_lines_are_given_back_as_they_came(runs: list[tuple[int, int, bool]]) -> None:
    lines, plain = Lines(), []
    for start, n, is_range in runs:
        run = range(start, start + n)
        lines.extend(run if is_range else list(run))
        plain += run
    assert [lines[i] for i in range(len(lines))] == plain


@given(st.lists(st.lists(st.integers(0, 200).map(str), max_size=300), min_size=1, max_size=4))
def test_cells_are_numbered_in_the_order_in_which_they_came(parts: list[list[str]]) -> None:
    column = ClassColumn()
    for part in parts:
        column.add(part)
    cells = list(column.cells)
    assert [cells[code] for code in column.codes] == [cell for part in parts for cell in part]
    assert cells == list(dict.fromkeys(cell for part in parts for cell in part))


CELL = st.one_of(
    st.sampled_from([b"", b"F", b"M", b" F", b"\xff" * 8, b"\xc3\xa9", b"a\0b", b"\xef\xbb\xbfx"]),
    st.binary(max_size=10).map(lambda cell: bytes(set(cell) - set(b'\n\r",;\t'))),
)
ROWS = st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=20)


@given(ROWS, st.booleans(), st.sampled_from([(), (1,), (0, 1)]))
def test_pyarrow_and_the_csv_module_cut_the_same_cells_with_the_same_lines(
    rows: list[list[bytes]], ends: bool, encoded: tuple[int, ...]
) -> None:
    content = b"\n".join([b"a,b", *map(b",".join, rows)]) + b"\n" * ends
    with file_of(content, "l.csv") as path:
        fast, slow = (list(csv_batches(str(path), least, encoded=encoded)) for least in (0, 1 << 30))
    assert isinstance(fast[0].columns[0], ArrowColumn)
    assert not isinstance(slow[0].columns[0], ArrowColumn)
    for found in (fast, slow):
        lines = [line for batch in found for line in batch.lines]
        assert lines == list(range(1, len(rows) + 2))
        for column in (0, 1):
            cells = [cell for batch in found for cell in batch.columns[column]]
            assert cells[1:] == [row[column].decode("utf-8", "surrogateescape") for row in rows]
    one, other = ClassColumn(), ClassColumn()
    one.add(fast[-1].columns[1])
    other.add(list(fast[-1].columns[1]))
    assert list(one.cells) == list(other.cells)
    assert one.codes.tolist() == other.codes.tolist()


GOOD = b"word,g\n" + b"".join(b"w%d,%d\n" % (i, i % 3) for i in range(200_000))


@pytest.mark.slow
@pytest.mark.parametrize("line", [b'x,"y"', b"x,y\r", b"x", b"x,y,z", b""])
def test_from_the_first_line_of_another_kind_the_csv_module_reads_on(line: bytes) -> None:
    with file_of(GOOD + line + b"\nlast,1\n", "l.csv") as path:
        batches = csv_batches(str(path), 0)
        first, second = next(batches), next(batches)
        assert len(first.columns[0]) == 1  # the header alone
        assert isinstance(second.columns[0], ArrowColumn)  # the control: most of it is cut by pyarrow
        if b"y" in line and b"z" not in line:
            assert list(list(batches)[-1].columns[0])[-2:] == ["x", "last"]
        else:
            with pytest.raises(FormatError, match="line 200002:"):
                list(batches)


@pytest.mark.parametrize("text", [b"g\nF\n\nM\n", b"\nF\n"])
def test_a_blank_line_of_one_column_is_an_empty_cell_to_both(text: bytes) -> None:
    with file_of(text, "l.csv") as path:
        fast, slow = (
            [cell for batch in csv_batches(str(path), least) for cell in batch.columns[0]] for least in (0, 1 << 30)
        )
    assert fast == slow == text.decode().split("\n")[:-1]


@given(st.lists(st.lists(st.integers(0, 300).map(str), max_size=300), min_size=1, max_size=4), st.data())
def test_codes_are_changed_by_a_table_where_they_are(parts: list[list[str]], data: st.DataObject) -> None:
    column = ClassColumn()
    for part in parts:
        column.add(part)
    plain = column.codes.tolist()
    n = len(column.cells)
    orders = st.permutations(range(n)) | st.just(list(range(n))) | st.just([-1] * n)
    table = data.draw(orders)
    assert column.recoded(table, at_once=7).tolist() == [table[code] for code in plain]


@pytest.mark.slow
def test_large_files_are_read_without_functions_of_arrow_and_pandas(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes(GOOD)
    code = (
        "import sys; from salcli.formats.label_table import read_labels; "
        f"assert len(read_labels({str(tmp_path / 'l.csv')!r})) == 200_000; assert 'pyarrow' in sys.modules; "
        "assert not {'pyarrow.compute', 'pandas'} & set(sys.modules)"  # 0.1 s and 10 MB, 0.5 s and 50 MB
    )
    subprocess.run([sys.executable, "-c", code], check=True)
