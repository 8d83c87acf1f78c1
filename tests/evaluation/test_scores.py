"""Scores of predictions and their errors, against scikit-learn and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from salcli.evaluation.attackers.scores import areas, balanced_accuracy, errors, rated_classes, within_0_1


@given(st.integers(0, 2**32), st.integers(2, 5), st.booleans())
def test_the_area_is_scikit_learns_with_ties_too(seed: int, n_classes: int, is_rounded: bool) -> None:
    rng = np.random.default_rng(seed)
    true = rng.permutation(np.arange(20 * n_classes) % n_classes)
    scores = rng.normal(size=(len(true), n_classes)) + (true[:, None] == np.arange(n_classes))
    scores = np.round(scores) if is_rounded else scores
    if n_classes == 2:
        found = areas(scores[:, 1], true, np.arange(2))
        expected = roc_auc_score(true, scores[:, 1])
    else:
        found = areas(scores, true, np.arange(n_classes))
        expected = np.mean([roc_auc_score(true == k, scores[:, k]) for k in range(n_classes)])
    assert found is not None
    assert found.mean == pytest.approx(expected, abs=1e-12)


def test_classes_with_few_rows_have_no_part_in_the_area() -> None:
    true = np.repeat([0, 1, 2], [30, 30, 9])
    assert rated_classes(true).tolist() == [0, 1]
    scores = np.zeros((69, 3))
    scores[:, 2] = true == 2
    found = areas(scores, true, np.arange(3))
    assert found is not None
    assert (found.mean, found.strength) == (0.5, 0.0)
    assert areas(np.zeros(9), np.zeros(9), np.arange(2)) is None
    assert areas(np.zeros(25), np.repeat([0, 1], [20, 5]), np.arange(2)) is None


@pytest.mark.parametrize(("n_classes", "shift"), [(2, 0.0), (2, 1.0), (5, 0.0), (5, 1.0)])
def test_intervals_hold_what_is_true_in_95_of_100_samples(n_classes: int, shift: float) -> None:
    rng, true = np.random.default_rng(0), np.arange(300) % n_classes
    classes = np.arange(n_classes)

    def drawn(truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = rng.normal(size=(len(truth), n_classes)) + shift * (truth[:, None] == classes)
        return (scores[:, 1] - scores[:, 0] if n_classes == 2 else scores), scores.argmax(axis=1)

    large = np.arange(100_000) % n_classes
    scores, predicted = drawn(large)
    found = areas(scores, large, classes)
    assert found is not None
    area, balanced = found.mean, balanced_accuracy(predicted, large)
    n_held = np.zeros(3)
    for _ in range(400):
        scores, predicted = drawn(true)
        found = areas(scores, true, classes)
        assert found is not None
        of_accuracy, of_balanced = errors(predicted, true)
        figures = (
            (area, found.mean, found.error),
            (balanced, balanced_accuracy(predicted, true), of_balanced),
            (balanced, float(np.mean(predicted == true)), of_accuracy),
        )
        for i, (truth, value, error) in enumerate(figures):
            bounds = within_0_1(value, error)
            assert bounds is not None
            n_held[i] += bounds[0] <= truth <= bounds[1]
    assert (n_held / 400 >= 0.92).all()


def test_what_chance_adds_to_the_strength_of_many_classes_is_known() -> None:
    rng, true = np.random.default_rng(0), np.repeat(np.arange(18), 20)
    found = [areas(rng.normal(size=(360, 18)), true, np.arange(18)) for _ in range(100)]
    strengths, chances = zip(*((each.strength, each.chance) for each in found if each is not None), strict=True)
    assert_allclose(np.mean(strengths), np.mean(chances), rtol=0.05)
    assert np.mean(strengths) > 0.08


def test_the_accuracy_of_a_constant_prediction_varies_little_where_classes_are_unequal() -> None:
    true = np.repeat([0, 1], [950, 50])
    constant, balanced = errors(np.zeros(1_000, int), true)
    assert constant < 0.002 < balanced < 0.02
