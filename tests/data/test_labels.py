import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from salcli.data.blocks import Block
from salcli.data.join import Join
from salcli.data.labels import Attribute, GuardedLabels, smallest_code
from salcli.errors import LabelError, SalcliWarning


def classes(values: list[int], names: str = "FM") -> Attribute:
    return Attribute("gender", np.array(values, dtype=np.int32), tuple(names))


def numbers(values: list[float]) -> Attribute:
    return Attribute("age", np.array(values), None)


def test_several_attributes_stand_side_by_side_in_the_design() -> None:
    labels = GuardedLabels("x.csv", (classes([0, 1, 1]), numbers([20.0, 30.5, 7.0])), None)
    assert_array_equal(labels.design(np.array([2, 0])), [[0, 1, 7.0], [1, 0, 20.0]])
    assert labels.n_columns == 3


def test_a_row_is_labelled_only_if_every_attribute_is() -> None:
    labels = GuardedLabels("x.csv", (classes([0, -1, 1]), numbers([1.0, 2.0, np.nan])), None)
    assert_array_equal(labels.is_labelled, [True, False, False])


def test_restricting_keeps_only_the_classes_that_occur() -> None:
    attribute = classes([0, 1, 2, -1, 2], "abc").restricted_to(np.array([4, 3, 0]))
    assert attribute.classes == ("a", "c")
    assert_array_equal(attribute.values, [1, -1, 0])
    assert attribute.counts() == {"a": 1, "c": 1}


def test_strata_are_the_combinations_of_classes() -> None:
    labels = GuardedLabels("x.csv", (classes([0, 1, 0, 1]), numbers([1.0, 2.0, 3.0, 4.0]), classes([0, 0, 1, 0])), None)
    assert_array_equal(labels.strata(np.arange(4)), [0, 2, 1, 2])


def test_one_class_is_named_and_refused() -> None:
    with pytest.raises(LabelError, match=r"y\.csv: column 'gender' has one class \(F\) on 2 rows"):
        Block.of(classes([0, 0, -1], "F")).require_variety("y.csv")


def test_labels_that_are_all_unique_are_refused() -> None:
    with pytest.raises(LabelError, match="every label is unique"):
        Block.of(classes([0, 1, 2], "abc")).require_variety("y.csv")


def test_a_class_with_a_single_row_is_warned_of() -> None:
    with pytest.warns(SalcliWarning, match="single row: M"):
        Block.of(classes([0, 0, 1])).warn_of_single_rows("y.csv")


def test_a_number_that_never_changes_is_refused() -> None:
    with pytest.raises(LabelError, match="y.csv: numeric column 'age' has one value on 2 rows"):
        Block.of(numbers([3.0, np.nan, 3.0])).require_variety("y.csv")
    Block.of(numbers([3.0, 4.0])).require_variety("y.csv")


@pytest.mark.parametrize("is_centred", [True, False])
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_numbers_of_any_size_are_measured_in_standard_deviations(scale: float, is_centred: bool) -> None:
    plain = np.array([1.0, np.nan, 2.0, 5.0, -3.0])
    found = Attribute("a", plain * scale, None).standardized(is_centred=is_centred).values
    expected = (plain - (np.nanmean(plain) if is_centred else 0)) / np.nanstd(plain)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@given(
    st.lists(st.tuples(st.integers(-1, 2), st.floats(-5, 5) | st.just(np.nan)), min_size=1, max_size=20),
    st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted),
    st.booleans(),
)
def test_a_range_selects_what_its_numbers_select(
    cells: list[tuple[int, float]], ends: list[int], has_keys: bool
) -> None:
    codes, values = zip(*cells, strict=True)
    keys = tuple(map(str, range(len(cells)))) if has_keys else None
    labels = GuardedLabels("x.csv", (classes(list(codes), "abc"), numbers(list(values))), keys, splits=keys)
    span = range(min(ends[0], len(cells)), min(ends[1], len(cells)))
    one, other = labels.restricted_to(span), labels.restricted_to(np.array(span, dtype=np.int64))
    assert (one.keys, one.splits) == (other.keys, other.splits)
    for a, b in zip(one.attributes, other.attributes, strict=True):
        assert (a.classes, a.counts()) == (b.classes, b.counts())
        assert_array_equal(a.values, b.values)
    for a, b in zip(labels.entries(span), labels.entries(np.array(span, dtype=np.int64)), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("n_classes", [2, 127, 128, 32_767, 32_768])
def test_codes_are_as_small_as_their_number_allows_and_never_overflow(n_classes: int) -> None:
    names = tuple(f"{i:05}" for i in range(n_classes))
    dtype = smallest_code(n_classes)
    values = np.array([n_classes - 1, 0, n_classes - 1, -1], dtype)
    assert values.tolist() == [n_classes - 1, 0, n_classes - 1, -1]
    assert dtype.itemsize == (1 if n_classes <= 127 else 2 if n_classes <= 32_767 else 4)
    labels = GuardedLabels("x.csv", (classes([0, 1, 0, 0]), Attribute("a", values, names)), None)
    assert_array_equal(labels.entries(range(3))[0], [[0, n_classes + 1], [1, 2], [0, n_classes + 1]])
    kept = labels.attributes[1].restricted_to(range(4))
    assert kept.classes == (names[0], names[-1])
    assert_array_equal(kept.values, [1, 0, 1, -1])
    assert kept.counts() == {names[0]: 1, names[-1]: 2}


@pytest.mark.parametrize("empty", [None, 0, 1, 2])
def test_rows_match_that_have_a_value_for_every_attribute(empty: int | None) -> None:
    values = [np.array([0, 1, 0, 1], np.int8), np.array([1, 1, 0, 0], np.int8), np.array([1.0, 2.0, 3.0, 4.0])]
    if empty is not None:
        values[empty][2] = -1 if empty < 2 else np.nan
    attributes = tuple(
        Attribute(name, held, None if held.dtype == float else ("F", "M"))
        for name, held in zip("abc", values, strict=True)
    )
    labels = GuardedLabels("l.csv", attributes, None)
    matched = Join.by_position(labels, 4, "x.npy").matched(labels)
    assert list(matched) == ([0, 1, 2, 3] if empty is None else [0, 1, 3])
    assert [a.n_labelled for a in attributes] == [4 - (i == empty) for i in range(3)]
    assert labels.is_complete == (empty is None)


@given(st.integers(1, 40), st.integers(1, 3), st.sampled_from([2, 5, 3_000_000]), st.data())
def test_strata_are_the_combinations_of_classes_in_their_order(
    n: int, n_attributes: int, n_classes: int, data: st.DataObject
) -> None:
    values = np.array(data.draw(st.lists(st.integers(-1, min(n_classes, 5) - 1), min_size=n * 3, max_size=n * 3)))
    names = ("a class",) * n_classes
    columns = values.reshape(3, n)[:n_attributes].astype(np.int32)
    labels = GuardedLabels("l.csv", tuple(Attribute(f"g{i}", column, names) for i, column in enumerate(columns)), None)
    expected = np.unique(columns.T, axis=0, return_inverse=True)[1].reshape(-1)
    assert_array_equal(labels.strata(np.arange(n)), expected)
