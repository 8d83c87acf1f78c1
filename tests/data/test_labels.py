import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.data.labels import Attribute, GuardedLabels
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
    with pytest.raises(LabelError, match=r"'gender' has one class \(F\) on 2 rows"):
        classes([0, 0, -1], "F").require_variety()


def test_labels_that_are_all_unique_are_refused() -> None:
    with pytest.raises(LabelError, match="every label is unique"):
        classes([0, 1, 2], "abc").require_variety()


def test_a_class_with_a_single_row_is_warned_of() -> None:
    with pytest.warns(SalcliWarning, match="single row: M"):
        classes([0, 0, 1]).require_variety()


def test_a_number_that_never_changes_is_refused() -> None:
    with pytest.raises(LabelError, match="'age' has one value on 2 rows"):
        numbers([3.0, np.nan, 3.0]).require_variety()
    numbers([3.0, 4.0]).require_variety()


@pytest.mark.parametrize("is_centred", [True, False])
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_numbers_of_any_size_are_measured_in_standard_deviations(scale: float, is_centred: bool) -> None:
    plain = np.array([1.0, np.nan, 2.0, 5.0, -3.0])
    found = Attribute("a", plain * scale, None).standardised(is_centred=is_centred).values
    expected = (plain - (np.nanmean(plain) if is_centred else 0)) / np.nanstd(plain)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
