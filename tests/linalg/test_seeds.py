import numpy as np
import pytest
from numpy.testing import assert_allclose

from salcli.errors import RankError
from salcli.linalg.seeds import direction_scores, seed_direction


def test_the_direction_is_the_mean_difference_and_scores_are_cosines() -> None:
    rng = np.random.default_rng(0)
    firsts, seconds, x = rng.normal(size=(3, 5)), rng.normal(size=(3, 5)), rng.normal(size=(10, 5))
    direction = seed_direction(firsts, seconds)
    assert_allclose(direction, firsts.mean(0) - seconds.mean(0))
    cosines = [row @ direction / np.linalg.norm(row) / np.linalg.norm(direction) for row in x]
    assert_allclose(direction_scores(x, direction, by_cosine=True), cosines)
    assert_allclose(direction_scores(x, direction, by_cosine=False), x @ direction)


def test_a_zero_row_has_no_cosine() -> None:
    assert np.isnan(direction_scores(np.zeros((1, 2)), np.ones(2), by_cosine=True)).all()


def test_equal_seed_words_give_no_direction() -> None:
    with pytest.raises(RankError, match="no direction"):
        seed_direction(np.ones((1, 3)), np.ones((1, 3)))
