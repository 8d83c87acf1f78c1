from hypothesis import given
from hypothesis import strategies as st

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
