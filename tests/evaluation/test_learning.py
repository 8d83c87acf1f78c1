"""Learning curves: what is trained on what, and where a curve leads."""

import numpy as np
import pytest

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attack import attack
from salcli.evaluation.learning import extrapolated, learning_curves
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
