import csv
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.formats import label_columns
from salcli.formats.csv_cells import Cells, PlainLines
from salcli.formats.label_columns import ClassColumn, Lines

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
    st.sampled_from(
        [b"", b"F", b"M", b" F", b"\xff" * 8, b"\xff" * 7, b"\xc3\xa9", b"sevenby", b"eight by", b"nine byte"]
    ),
    st.binary(max_size=10).map(lambda cell: bytes(set(cell) - set(b'\n\r",'))),
)


@given(st.lists(st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=20), min_size=1, max_size=4))
def test_lines_are_cut_into_the_cells_that_pythons_split_gives(blocks: list[list[list[bytes]]]) -> None:
    one, other = ClassColumn(), ClassColumn()
    with mock.patch.object(label_columns, "FEW", 8):
        for rows in blocks:
            lines = PlainLines.of(b"\n".join(map(b",".join, rows)) + b"\n", ",", 2)
            assert lines is not None
            for column in (0, 1):
                expected = [row[column].decode("utf-8", "surrogateescape") for row in rows]
                assert list(Cells(lines, column)) == expected
                one.add(Cells(lines, column))
                other.add(expected)
    assert list(one.cells) == list(other.cells)
    assert one.codes.tolist() == other.codes.tolist()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(1, 20), st.data())
def test_cells_that_stand_alike_in_every_line_are_the_same_numbers(
    widths: list[int], n: int, data: st.DataObject
) -> None:
    cells = [[data.draw(st.text("FM0", min_size=width, max_size=width)) for width in widths] for _ in range(n)]
    if data.draw(st.booleans()):  # a line of other places, or of more cells
        cells[data.draw(st.integers(0, n - 1))][-1] = data.draw(st.sampled_from(["", "F", "0,", ",0"]))
    n_columns = len(widths)
    lines = PlainLines.of("\n".join(map(",".join, cells)).encode() + b"\n", ",", n_columns)
    assert (lines is not None) == all("," not in cell for row in cells for cell in row)
    for i in range(n_columns if lines is not None else 0):
        words, column = Cells(lines, i).words, [row[i].encode() for row in cells]
        if words is None:
            assert max(map(len, column)) > 8
        else:
            assert words.tolist() == [int.from_bytes(cell, "little") for cell in column]


@pytest.mark.parametrize(
    ("data", "has_words"), [(b"a,b\n", True), (b"12345678,b", True), (b"123456789,b\n", False), (b"a\0,b\n", False)]
)
def test_cells_up_to_eight_bytes_are_numbers(data: bytes, has_words: bool) -> None:
    lines = PlainLines.of(data, ",", 2)
    assert lines is not None
    assert (Cells(lines, 0).words is not None) == has_words


@pytest.mark.parametrize(
    "data",
    [
        *(b"a,b\nc\n", b"a,b\nc,d,e\n", b'a,"b"\n', b"a,b\r\n", b"a,b\n\nc,d\n", b"\na,b\n", b"a,b,c,d\n"),
        *(b"a,b\nc\nd\n", b"a,b\nc\nd,e,f\n"),  # marks at the same places of every four bytes
    ],
)
def test_lines_that_need_more_than_cutting_are_not_cut(data: bytes) -> None:
    assert PlainLines.of(data, ",", 2) is None


@given(
    st.lists(st.lists(st.sampled_from(["", "F", "male", " x", "more than eight"]), max_size=3), min_size=1, max_size=9),
    st.integers(1, 3),
)
def test_lines_that_are_cut_are_what_the_csv_module_reads_blank_ones_too(rows: list[list[str]], n_columns: int) -> None:
    text = "\n".join(map(",".join, rows)) + "\n"
    lines = PlainLines.of(text.encode(), ",", n_columns)
    expected = [record or [""] for record in csv.reader(text.split("\n")[:-1])]
    assert (lines is not None) == all(len(record) == n_columns for record in expected)
    if lines is not None:
        assert list(zip(*(Cells(lines, column) for column in range(n_columns)), strict=True)) == list(
            map(tuple, expected)
        )


def test_codes_of_short_cells_that_come_after_many_long_ones() -> None:
    column, long = ClassColumn(), [f"a class of its own, {i}" for i in range(300)]
    column.add(long)
    for block in (b"F\nM\n", b"M\nF\nF\n"):
        lines = PlainLines.of(block, ",", 1)
        assert lines is not None
        column.add(Cells(lines, 0))
    assert column.codes.tolist() == [*range(300), 300, 301, 301, 300, 300]


@given(st.lists(st.lists(st.integers(0, 300).map(str), max_size=300), min_size=1, max_size=4), st.data())
def test_codes_are_changed_by_a_table_where_they_are(parts: list[list[str]], data: st.DataObject) -> None:
    column = ClassColumn()
    for part in parts:
        column.add(part)
    plain = column.codes.tolist()
    n = len(column.cells)
    orders = st.permutations(range(n)) | st.just(list(range(n))) | st.just([-1] * n)
    table = data.draw(orders)
    with mock.patch.object(label_columns, "AT_ONCE", 7):
        assert column.recoded(table).tolist() == [table[code] for code in plain]
