from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.embeddings import Embeddings
from salcli.data.join import Join, LabelledRows, settle_index
from salcli.data.labels import Attribute, GuardedLabels, as_index
from salcli.data.source import Source
from salcli.errors import AlignmentError, SalcliWarning


def labels(keys: list[str] | None, n: int) -> GuardedLabels:
    attribute = Attribute("g", np.zeros(n, dtype=np.int32), ("a",))
    return GuardedLabels("l.csv", (attribute,), None if keys is None else tuple(keys))


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.integers(1, 5))
def test_labels_join_the_first_row_with_their_key(rows: list[str], size: int) -> None:
    keys = sorted(set(rows))
    batches = [tuple(rows[i : i + size]) for i in range(0, len(rows), size)]
    join = Join.by_key(labels(keys, len(keys)), batches, "x")
    assert join.row_of_label.tolist() == [rows.index(key) for key in keys]
    assert join.n_rows == len(rows)


def test_unmatched_labels_are_counted_and_the_first_three_named() -> None:
    with pytest.warns(SalcliWarning, match=r"4 of 5 labels not in the embedding x: 'b', 'c', 'd' …"):
        join = Join.by_key(labels(list("abcde"), 5), [("a", "A")], "x")
    assert_array_equal(join.unmatched(), [1, 2, 3, 4])


def test_keys_match_exactly() -> None:
    with pytest.raises(AlignmentError, match="1 of 1 labels not in"):
        Join.by_key(labels(["Anna"], 1), [("anna", " Anna", "Anna ")], "x")


def test_joining_by_position_needs_equal_counts() -> None:
    assert_array_equal(Join.by_position(labels(None, 3), 3, "x").row_of_label, [0, 1, 2])
    with pytest.raises(AlignmentError, match=r"l\.csv.*3 labels, but x has 4 rows"):
        Join.by_position(labels(None, 3), 4, "x")


@given(st.integers(1, 30), st.data())
def test_chosen_rows_are_found_in_any_batches_even_when_some_rows_were_dropped(n: int, data: st.DataObject) -> None:
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    rows = np.array(data.draw(st.permutations(range(n))))[: data.draw(st.integers(0, n))]
    if data.draw(st.booleans()):  # consecutive rows are a range
        span = range(*sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))))
        rows, chosen = np.array(span, dtype=np.int64), LabelledRows.of(span)
    else:
        chosen = LabelledRows.of(rows)
    vectors = np.arange(n, dtype=float)[:, None]
    size = data.draw(st.integers(1, n))
    found = {}
    for start in range(0, n, size):
        batch = Embeddings.starting_at(start, vectors[start : start + size]).take(kept[start : start + size])
        x, index = chosen.within(batch)
        found |= dict(zip(as_index(index).tolist(), x[:, 0].tolist(), strict=True))
        assert len(x) == 0 or chosen.touch(start, size)
        assert chosen.touch(start, size) == any(start <= row < start + size for row in rows)
    assert found == {i: float(row) for i, row in enumerate(rows.tolist()) if kept[row]}


def numbered(*numbers: int) -> GuardedLabels:
    return replace(labels(None, len(numbers)), index=np.array(numbers, np.int64))


def rows_of(n: int) -> Source:
    return cast(Source, SimpleNamespace(n_all=n, path="x"))


@pytest.mark.parametrize("numbers", [(0, 1, 2), (1, 2, 3)])
def test_row_numbers_that_only_count_all_rows_are_left_out(numbers: tuple[int, ...]) -> None:
    settled = settle_index(numbered(*numbers), rows_of(3))
    assert (settled.index, settled.keys) == (None, None)


@given(st.integers(2, 12), st.data())
def test_fewer_labels_join_by_their_row_numbers(n: int, data: st.DataObject) -> None:
    numbers = data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n - 1))]
    assume(list(numbers) != list(range(1, len(numbers) + 1)))
    with pytest.warns(SalcliWarning, match="joined by them to the"):
        settled = settle_index(numbered(*numbers), rows_of(n))
    assert settled.keys == tuple(map(str, numbers))
    assert Join.by_number(settled, n, "x").row_of_label.tolist() == list(numbers)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("numbers", "n", "message"),
    [
        ((2, 0, 1), 3, r"\(2 … 1\) in another order than 0…2.*`key=''`.*`by_row`"),
        ((0, 1, 0, 1), 4, "in another order.*`key=''`.*`by_row`"),
        ((1, 2), 3, "that count from 1; .*`key=''`"),
        ((0, 0), 3, "that repeat, or go beyond the rows"),
        ((0, 3), 3, "that repeat, or go beyond the rows; x has 3 rows, 0…2"),
    ],
)
def test_row_numbers_that_can_mean_either_are_refused(numbers: tuple[int, ...], n: int, message: str) -> None:
    with pytest.raises(AlignmentError, match=message):
        settle_index(numbered(*numbers), rows_of(n))


def test_keys_come_before_row_numbers() -> None:
    keyed = replace(numbered(5, 6), keys=("a", "b"))
    assert settle_index(keyed, rows_of(1)) is keyed


def test_row_numbers_of_all_rows_may_count_from_one_as_r_does() -> None:
    with pytest.warns(SalcliWarning, match="count from 1 to 3"):
        assert_array_equal(Join.by_number(numbered(3, 1, 2), 3, "x").row_of_label, [2, 0, 1])
    with pytest.raises(AlignmentError, match="row 3 in the column without a name, but x has 3 rows"):
        Join.by_number(numbered(3, 1), 3, "x")
