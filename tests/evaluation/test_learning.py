"""Learning curves: what is trained on what, and where a curve leads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attack import attack
from salcli.evaluation.clusters import cluster_effect
from salcli.evaluation.learning import _balanced_error, _draws, extrapolated, learning_curves
from salcli.evaluation.report import LearningPoint
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Silent

N = 1_200


def test_the_strongest_attacker_is_trained_on_parts_of_its_rows_and_all() -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(N) % 2).astype(np.int32)
    x = rng.normal(size=(N, 8)) * (1 + 0.5 * y[:, None])
    labels = GuardedLabels("l.csv", (Attribute("g", y, ("a", "b")),), None)
    train, test = np.arange(800), np.arange(800, N)
    split = EvaluationSplit.of(train, {"fresh": train}, test, has_held_out=True)
    stages = Stages(np.arange(N), x, x, None)
    results, _ = attack(stages, labels, split, ("linear", "quadratic"), EvaluateOptions(), Silent())
    (curve,) = learning_curves(stages, labels, split, results, 0, Silent())
    assert (curve.probe, curve.adversary, curve.stage) == ("quadratic", "fresh", "before")
    assert [(point.n_train, len(point.values)) for point in curve.points] == [(100, 4), (200, 4), (400, 4), (800, 1)]
    assert curve.points[-1].mean == max(result.balanced_accuracy for result in results)
    assert curve.points[0].mean < curve.points[-1].mean
    assert curve.n_extrapolated == 8_000
    assert curve.extrapolated_ci95[0] <= curve.extrapolated <= curve.extrapolated_ci95[1] <= 1
    assert learning_curves(stages, labels, split, results, 0, Silent()) == (curve,)
    few = EvaluationSplit.of(train[:80], {"fresh": train[:80]}, test, has_held_out=True)
    results, _ = attack(stages, labels, few, ("linear",), EvaluateOptions(), Silent())
    assert learning_curves(stages, labels, few, results, 0, Silent()) == ()


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_a_curve_of_a_known_form_is_continued_and_its_interval_holds_the_truth(power: float) -> None:
    def truth(n: float) -> float:
        return 0.85 - 0.3 * (n / 100) ** -power

    rng, n_held = np.random.default_rng(0), 0
    for seed in range(100):
        noise = [rng.normal(0, 0.01, 4) for _ in range(3)] + [rng.normal(0, 0.01, 1)]
        points = [LearningPoint(n, tuple(truth(n) + noise[i])) for i, n in enumerate((100, 200, 400, 800))]
        value, low, high = extrapolated(points, 8_000, seed)
        assert low <= value <= high
        n_held += low <= truth(8_000) <= high
    assert n_held >= 93
    exact = [LearningPoint(n, (truth(n),)) for n in (100, 200, 400, 800)]
    assert extrapolated(exact, 8_000, 0)[0] == pytest.approx(truth(8_000))


def test_what_falls_with_more_rows_is_taken_for_noise() -> None:
    points = [LearningPoint(n, (0.5 - n / 10_000,)) for n in (100, 200, 400, 800)]
    assert extrapolated(points, 8_000, 0)[0] == pytest.approx(0.4625)


@given(st.lists(st.integers(1, 12), min_size=16, max_size=60), st.integers(0, 9), st.booleans())
def test_whole_groups_are_drawn(sizes: list[int], seed: int, is_pure: bool) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    y = groups % 2 if is_pure else np.arange(len(groups)) % 2
    draws = list(_draws(y, seed, groups))
    assert len(draws) == 12
    for i, draw in enumerate(draws):
        drawn = np.unique(groups[draw])
        np.testing.assert_array_equal(draw, np.flatnonzero(np.isin(groups, drawn)))
        wanted = (1 / 8, 1 / 4, 1 / 2)[i // 4] * len(groups)
        assert abs(len(draw) - wanted) <= 2 * max(sizes)  # of each class the last group, or the only one
        assert set(y[draw]) == set(y) or not is_pure
    assert len({tuple(draw) for draw in draws}) > 3


def test_rows_of_groups_give_a_curve_whose_interval_knows_them() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(N // 10), 10)
    y = (groups % 2).astype(np.int32)
    x = (rng.normal(size=(N // 10, 8)) * (1 + 0.5 * y[::10, None]))[groups]  # all alike
    column = Attribute("author", groups.astype(np.int32), tuple(f"a{i:03}" for i in range(N // 10)))
    labels = GuardedLabels("l.csv", (Attribute("g", y, ("a", "b")),), None, groups=column)
    train, test = np.arange(800), np.arange(800, N)
    split = EvaluationSplit.of(train, {"fresh": train}, test, has_held_out=True)
    stages = Stages(np.arange(N), x, x, None)
    results, _ = attack(stages, labels, split, ("quadratic",), EvaluateOptions(), Silent())
    (curve,) = learning_curves(stages, labels, split, results, 0, Silent())
    assert [point.n_train for point in curve.points] == [100, 200, 400, 800]
    low, high = curve.extrapolated_ci95
    assert high - low > 0.15  # 40 groups of test rows, not 400 rows
    few = EvaluationSplit.of(train[:150], {"fresh": train[:150]}, test, has_held_out=True)
    rows = Stages(np.arange(N), x, x, None)
    many = GuardedLabels(
        "l.csv", labels.attributes, None, groups=Attribute("a", groups.astype(np.int32) // 6, column.classes)
    )
    results, _ = attack(rows, many, split, ("linear",), EvaluateOptions(), Silent())
    assert learning_curves(rows, many, split, results, 0, Silent()) == ()  # 14 groups train it
    assert learning_curves(rows, labels, few, results, 0, Silent()) == ()


def test_the_error_of_rows_that_are_alike_is_that_of_their_groups() -> None:
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(100), 8)
    true, right = groups % 2, (rng.random(100) < 0.7)[groups]
    predicted = np.where(right, true, 1 - true)
    of_rows, of_groups = (_balanced_error(predicted, true, each) for each in (None, groups))
    assert of_groups == pytest.approx(of_rows * np.sqrt(8), rel=0.1)
    assert cluster_effect(np.zeros(800), groups) == pytest.approx(8, rel=0.1)
