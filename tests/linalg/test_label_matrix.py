import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from salcli.errors import ShapeError
from salcli.linalg.label_matrix import LabelMatrix

shapes = st.tuples(st.integers(0, 6), st.integers(0, 4))
mostly_one_hot = arrays(np.float32, shapes, elements=st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, -1.0, np.nan]))


@given(mostly_one_hot)
def test_one_hot_is_what_has_one_1_in_each_row_and_nothing_else(z: np.ndarray) -> None:
    design = LabelMatrix.of(z)
    is_one_hot = len(z) > 0 and all(np.count_nonzero(row) == 1 and row.max() == 1 for row in z)
    assert design.n_one_hot == (z.shape[1] if is_one_hot else 0)
    assert (len(design), design.width) == z.shape
    assert_array_equal(design.to_dense().values, z)


@pytest.mark.parametrize(
    "z", [[[1, 1], [0, 0]], [[0, 0], [1, 1]], [[1, 0], [0, 0]], [[2, 0], [0, 2]], [[1, 2], [1, 0]]]
)
def test_as_many_ones_as_rows_are_not_enough(z: list[list[float]]) -> None:
    assert LabelMatrix.of(np.array(z, float)).n_one_hot == 0


@given(st.integers(1, 9), st.integers(1, 5), st.data())
def test_entries_are_to_dense_where_they_belong(n: int, width: int, data: st.DataObject) -> None:
    codes = data.draw(arrays(np.int32, (n, 1), elements=st.integers(0, width - 1)))
    numbers = data.draw(arrays(np.float64, (n, 1), elements=st.floats(-9, 9)))
    assert_array_equal(LabelMatrix(codes, None, width, width).to_dense().values, np.eye(width)[codes[:, 0]])
    mixed = LabelMatrix(
        np.hstack([codes, np.full((n, 1), width, np.int32)]), np.hstack([np.ones((n, 1)), numbers]), width + 1
    )
    assert_array_equal(mixed.to_dense().values, np.hstack([np.eye(width)[codes[:, 0]], numbers]))


def test_a_list_of_labels_is_no_design() -> None:
    with pytest.raises(ShapeError, match=r"is not \[n, c\]"):
        LabelMatrix.of(np.ones(3))
