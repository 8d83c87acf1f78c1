import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salcli.data.embeddings import Embeddings
from salcli.errors import ShapeError


def test_a_batch_is_read_only_and_knows_its_rows() -> None:
    given = np.arange(6, dtype=np.float32).reshape(3, 2)
    batch = Embeddings.starting_at(5, given, ("a", "b", "a"))
    assert_array_equal(batch.rows, [5, 6, 7])
    with pytest.raises(ValueError, match="read-only"):
        batch.vectors[0, 0] = 1
    given[0, 0] = 9  # whoever built the array may still write to it


def test_taking_rows_keeps_keys_and_row_numbers_together() -> None:
    batch = Embeddings.starting_at(10, np.eye(4), tuple("abcd")).take(np.array([True, False, False, True]))
    assert batch.keys == ("a", "d")
    assert_array_equal(batch.rows, [10, 13])
    assert_array_equal(batch.vectors, np.eye(4)[[0, 3]])


@pytest.mark.parametrize(
    ("vectors", "rows", "keys"),
    [
        (np.zeros(3), np.arange(3), None),
        (np.zeros((2, 2), dtype=int), np.arange(2), None),
        (np.zeros((2, 2)), np.arange(3), None),
        (np.zeros((2, 2)), np.arange(2), ("only one",)),
    ],
)
def test_what_does_not_match_is_refused(vectors: np.ndarray, rows: np.ndarray, keys: tuple[str, ...] | None) -> None:
    with pytest.raises(ShapeError):
        Embeddings(vectors, rows, keys)
