import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.embeddings import Embeddings
from salcli.data.join import Join, LabelledRows
from salcli.data.labels import Attribute, GuardedLabels, as_index
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
