import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from salcli.evaluation.fairness import Outcomes, excluded
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
    rates, n = outcomes.rates()
    for c, g in np.ndindex(3, 3):
        answers = [p == c for t, p, group in rows if (t, group) == (c, g)]
        assert n[c, g] == len(answers)
        assert_allclose(rates[c, g], np.mean(answers) if answers else np.nan)
    gaps = gaps_by_hand(rows)
    if gaps:
        assert outcomes.gap() == pytest.approx(sum(gaps) / len(gaps))
        assert outcomes.rms_gap() == pytest.approx(math.sqrt(sum(gap**2 for gap in gaps) / len(gaps)))
    else:
        assert outcomes.gap() is None
        assert outcomes.rms_gap() is None


def test_a_table_by_hand_gives_its_gap() -> None:
    rows = [(0, 0, 0)] * 8 + [(0, 1, 0)] * 2 + [(0, 0, 1)] * 5 + [(0, 1, 1)] * 5  # TPR 0.8 and 0.5
    rows += [(1, 1, 0)] * 6 + [(1, 0, 0)] * 4 + [(1, 1, 1)] * 7 + [(1, 0, 1)] * 3  # 0.6 and 0.7
    outcomes = counted(rows, 2, 2)
    assert_allclose(outcomes.rates()[0], [[0.8, 0.5], [0.6, 0.7]])
    assert outcomes.gap() == pytest.approx((0.3 + 0.1) / 2)
    assert outcomes.rms_gap() == pytest.approx(math.sqrt((0.09 + 0.01) / 2))


def test_a_class_without_positives_in_a_group_is_named_and_left_out_and_no_gap_of_zero() -> None:
    rows = [(0, 0, 0)] * 3 + [(0, 1, 1)] * 3 + [(1, 1, 0)] * 3
    outcomes = counted(rows, 2, 2)
    assert outcomes.gap() == 1.0  # and not ½, the mean with a gap of 0
    assert outcomes.rms_gap() == 1.0
    assert excluded(outcomes.rates()[0]) == [(1, 1)]


@pytest.mark.parametrize("rows", [[], [(0, 0, 0)], [(0, 0, 0), (1, 1, 1)], [(0, 0, 1), (1, 0, 1), (2, 2, 1)]])
def test_no_class_in_two_groups_means_no_gap(rows: list[tuple[int, int, int]]) -> None:
    outcomes = counted(rows)
    assert (outcomes.gap(), outcomes.rms_gap(), outcomes.test(mean, 0)) == (None, None, None)


def test_counting_takes_small_integer_types_and_many_classes() -> None:
    rng = np.random.default_rng(0)
    true, predicted, groups = rng.integers(0, 100, (3, 5000)).astype(np.int8)
    outcomes = Outcomes.of(true, predicted, groups, 100, 100)
    assert outcomes.counts.sum() == 5000
    assert_array_equal(outcomes.counts.sum(axis=(1, 2)), np.bincount(true, minlength=100))


def test_a_gap_is_the_float_that_a_limit_would_be_written_as() -> None:
    """The rates 1 and 1 of one class, 0.8 and 0.7 of the other: 0.05, where floats would give 0.05000000000000004."""
    tables = np.array([[[10, 10], [0, 0]], [[2, 3], [8, 7]]])
    assert Outcomes(tables).gap() == 0.05


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
    for statistic, value in ((mean, outcomes.gap()), (root_mean_square, outcomes.rms_gap())):
        tested = outcomes.test(statistic, 0)
        assert tested is not None
        assert tested.n.tolist() == [[10, 10], [10, 10]]
        assert tested.value == pytest.approx(value)
