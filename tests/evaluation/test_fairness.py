import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from salcli.evaluation import gaps
from salcli.evaluation.clusters import cluster_effect
from salcli.evaluation.fairness import Cells, Outcomes, excluded, influence_on_gap
from salcli.evaluation.gaps import mean, root_mean_square

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), max_size=60)


def counted(rows: list[tuple[int, int, int]], n_classes: int = 3, n_groups: int = 3) -> Outcomes:
    true, predicted, groups = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Outcomes.of(true, predicted, groups, n_classes, n_groups)


def gaps_by_hand(rows: list[tuple[int, int, int]]) -> list[float]:
    gaps = []
    present = {group for _, _, group in rows}
    for c in range(3):
        answers = [[p == c for t, p, g in rows if t == c and g == group] for group in present]
        if len(present) > 1 and all(answers):
            rates = [sum(a) / len(a) for a in answers]
            gaps.append(max(rates) - min(rates))
    return gaps


@given(ROWS)
def test_rates_and_gaps_are_those_counted_row_by_row(rows: list[tuple[int, int, int]]) -> None:
    outcomes = counted(rows)
    rates, n = outcomes.true_positives.rates, outcomes.true_positives.n
    for c, g in np.ndindex(3, 3):
        answers = [p == c for t, p, group in rows if (t, group) == (c, g)]
        assert n[c, g] == len(answers)
        assert_allclose(rates[c, g], np.mean(answers) if answers else np.nan)
    gaps = gaps_by_hand(rows)
    if gaps:
        assert outcomes.true_positives.gap() == pytest.approx(sum(gaps) / len(gaps))
        assert outcomes.true_positives.rms_gap() == pytest.approx(math.sqrt(sum(gap**2 for gap in gaps) / len(gaps)))
    else:
        assert outcomes.true_positives.gap() is None
        assert outcomes.true_positives.rms_gap() is None


def test_a_table_by_hand_gives_its_gap() -> None:
    rows = [(0, 0, 0)] * 8 + [(0, 1, 0)] * 2 + [(0, 0, 1)] * 5 + [(0, 1, 1)] * 5  # TPR 0.8 and 0.5
    rows += [(1, 1, 0)] * 6 + [(1, 0, 0)] * 4 + [(1, 1, 1)] * 7 + [(1, 0, 1)] * 3  # 0.6 and 0.7
    outcomes = counted(rows, 2, 2)
    assert_allclose(outcomes.true_positives.rates, [[0.8, 0.5], [0.6, 0.7]])
    assert outcomes.true_positives.gap() == pytest.approx((0.3 + 0.1) / 2)
    assert outcomes.true_positives.rms_gap() == pytest.approx(math.sqrt((0.09 + 0.01) / 2))


def test_a_class_without_positives_in_a_group_is_named_and_left_out_and_no_gap_of_zero() -> None:
    rows = [(0, 0, 0)] * 3 + [(0, 1, 1)] * 3 + [(1, 1, 0)] * 3
    outcomes = counted(rows, 2, 2)
    assert outcomes.true_positives.gap() == 1.0  # and not ½, the mean with a gap of 0
    assert outcomes.true_positives.rms_gap() == 1.0
    assert excluded(outcomes.true_positives) == [(1, 1)]


@pytest.mark.parametrize("rows", [[], [(0, 0, 0)], [(0, 0, 0), (1, 1, 1)], [(0, 0, 1), (1, 0, 1), (2, 2, 1)]])
def test_no_class_in_two_groups_means_no_gap(rows: list[tuple[int, int, int]]) -> None:
    outcomes = counted(rows)
    assert (
        outcomes.true_positives.gap(),
        outcomes.true_positives.rms_gap(),
        outcomes.true_positives.test(mean, 0),
    ) == (None, None, None)


def test_counting_takes_small_integer_types_and_many_classes() -> None:
    rng = np.random.default_rng(0)
    true, predicted, groups = rng.integers(0, 100, (3, 5000)).astype(np.int8)
    outcomes = Outcomes.of(true, predicted, groups, 100, 100)
    assert outcomes.counts.sum() == 5000
    assert_array_equal(outcomes.counts.sum(axis=(1, 2)), np.bincount(true, minlength=100))


def test_a_gap_is_the_float_that_a_limit_would_be_written_as() -> None:
    """The rates 1 and 1 of one class, 0.8 and 0.7 of the other: 0.05, where floats would give 0.05000000000000004."""
    tables = np.array([[[10, 10], [0, 0]], [[2, 3], [8, 7]]])
    assert Outcomes(tables).true_positives.gap() == 0.05


def test_what_is_tested_is_the_gap_of_the_classes_with_positives_in_every_group() -> None:
    counts = np.zeros((3, 3, 3), np.int64)  # the third group is empty, the third class lacks the second group
    counts[0, 0], counts[0, 1], counts[1, 1], counts[1, 2], counts[2, 2] = (
        (8, 5, 0),
        (2, 5, 0),
        (6, 7, 0),
        (4, 3, 0),
        (9, 0, 0),
    )
    outcomes = Outcomes(counts)
    for statistic, value in (
        (mean, outcomes.true_positives.gap()),
        (root_mean_square, outcomes.true_positives.rms_gap()),
    ):
        tested = outcomes.true_positives.test(statistic, 0)
        assert tested is not None
        assert tested.n.tolist() == [[10, 10], [10, 10]]
        assert tested.value == pytest.approx(value)


def true_positive_rate(true: np.ndarray, predicted: np.ndarray) -> float:
    """As fairlearn.metrics, of the positive class 1."""
    return float(np.sum((true == 1) & (predicted == 1)) / np.sum(true == 1))


def false_positive_rate(true: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.sum((true == 0) & (predicted == 1)) / np.sum(true == 0))


def by_group(metric: Any, true: np.ndarray, predicted: np.ndarray, groups: np.ndarray) -> list[float]:
    """As fairlearn's `MetricFrame.by_group`; NaN where the metric has no rows."""
    with np.errstate(invalid="ignore"):
        return [metric(true[groups == g], predicted[groups == g]) for g in np.unique(groups)]


@given(ROWS)
def test_differences_and_ratios_are_fairlearns(rows: list[tuple[int, int, int]]) -> None:
    """`MetricFrame.difference()` is max − min over groups, `ratio()` min / max; each class against the rest."""
    true, predicted, groups = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    outcomes = counted(rows)
    for cells, metric in (
        (outcomes.true_positives, true_positive_rate),
        (outcomes.false_positives, false_positive_rate),
    ):
        found = [
            by_group(metric, (true == c).astype(int), (predicted == c).astype(int), groups)
            for c in range(3)
            if np.any(true == c)
        ]
        found = [rates for rates in found if len(rates) > 1 and not np.isnan(rates).any()]
        gaps = [max(rates) - min(rates) for rates in found]
        ratios = [min(rates) / max(rates) for rates in found if max(rates) > 0]
        assert cells.gap() == (pytest.approx(np.mean(gaps)) if gaps else None)
        assert cells.rms_gap() == (pytest.approx(np.sqrt(np.mean(np.square(gaps)))) if gaps else None)
        assert cells.ratio() == (pytest.approx(np.mean(ratios)) if ratios else None)


def test_of_two_classes_the_gaps_of_false_positives_are_those_of_true_ones_but_not_the_ratios() -> None:
    outcomes = Outcomes(np.array([[[80, 50], [20, 50]], [[10, 10], [90, 90]]]))
    true, false = outcomes.true_positives, outcomes.false_positives
    assert_allclose(false.rates, 1 - true.rates[::-1])
    assert (true.gap(), true.rms_gap()) == pytest.approx((false.gap(), false.rms_gap()))
    assert (true.ratio(), false.ratio()) == pytest.approx(((5 / 8 + 1) / 2, (1 + 2 / 5) / 2))


def test_a_class_without_rows_has_no_false_positives() -> None:
    counts = np.zeros((3, 3, 2), np.int64)
    counts[0, 0], counts[1, 1], counts[1, 0] = (5, 5), (3, 4), (2, 1)
    false = Outcomes(counts).false_positives
    assert false.n.tolist() == [[5, 5], [5, 5], [0, 0]]
    assert false.gap() == pytest.approx((0.2 + 0) / 2)  # the third class, a gap of 0, does not count
    assert false.ratio() == pytest.approx(0.5)  # nobody is taken for the second class: 0 / 0


def test_what_is_tested_of_a_ratio_is_what_it_lacks_of_one() -> None:
    cells = Cells(np.array([[8, 5], [0, 0], [3, 3]]), np.array([[10, 10], [10, 10], [6, 4]]))
    tested = cells.ratio_test(0)
    assert tested is not None
    assert 1 - tested.value == pytest.approx(cells.ratio()) == pytest.approx((5 / 8 + 2 / 3) / 2)
    assert Cells(np.zeros((2, 2), np.int64), np.full((2, 2), 5)).ratio_test(0) is None


def test_a_row_moves_the_gap_as_far_as_its_answer_does() -> None:
    true, groups = np.repeat([0, 1], 30), np.tile([0, 1, 1], 20)
    right = np.random.default_rng(0).random(60) < np.where(groups == 0, 0.9, 0.4)
    predicted = np.where(right, true, 1 - true)

    def gap(answers: np.ndarray) -> float:
        found = Outcomes.of(true, answers, groups, 2, 2).true_positives.gap()
        assert found is not None
        return found

    cells = Outcomes.of(true, predicted, groups, 2, 2).true_positives
    moved = influence_on_gap(true, predicted, groups, cells)
    assert moved.sum() == pytest.approx(0, abs=1e-12)
    for i in range(60):
        flipped = predicted.copy()
        flipped[i] = 1 - flipped[i]
        sign = 1 if groups[i] == 0 else -1
        change = (1 if not right[i] else -1) * sign / cells.n[true[i], groups[i]] / 2  # of the mean of two classes
        assert gap(flipped) - gap(predicted) == pytest.approx(change)
        expected = (right[i] - cells.rates[true[i], groups[i]]) * sign / cells.n[true[i], groups[i]]
        assert moved[i] == pytest.approx(expected)


def test_a_gap_of_rows_that_are_alike_fails_no_gate_at_its_limit_more_often_than_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps, "DRAWS", 300)
    rng, authors = np.random.default_rng(0), np.arange(120)
    of_row = np.repeat(authors, 5)
    true, groups = of_row % 2, of_row // 2 % 2
    failed = np.zeros(2)
    for _ in range(120):
        right = (rng.random(len(authors)) < np.where(authors // 2 % 2 == 0, 0.8, 0.7))[of_row]
        predicted = np.where(right, true, 1 - true)
        cells = Outcomes.of(true, predicted, groups, 2, 2).true_positives
        effect = cluster_effect(influence_on_gap(true, predicted, groups, cells), of_row)
        for i, each in enumerate((1.0, effect)):
            test = cells.test(mean, 0, each)
            assert test is not None
            failed[i] += test.lower(0.05) > 0.1  # the true gap
    assert failed[1] / 120 < 0.1
    assert failed[0] / 120 > 0.15  # as if rows were independent
