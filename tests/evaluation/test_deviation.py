import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import EvaluationSplit
from salcli.erasers.kernel import KernelEraser
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.deviation import DEVIATION, Deviation, deviation
from salcli.evaluation.stages import Erasure, Stages
from salcli.linalg.kernels import Kernel
from salcli.options import EvaluateOptions


@given(st.integers(2, 12), st.integers(1, 12), st.integers(1, 12), st.floats(-1e6, 1e6), st.integers(0, 99))
def test_tiles_of_any_size_give_the_deviation_of_the_whole_matrix(
    n: int, height: int, width: int, shift: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    gram, other = rng.normal(size=(2, n, n)) + shift
    tiles = [
        (gram[i : i + height, j : j + width], (other - gram)[i : i + height, j : j + width])
        for i in range(0, n, height)
        for j in range(0, n, width)
    ]
    expected = np.mean(np.abs(other - gram)) / np.std(gram)
    assert deviation(iter(tiles)) == pytest.approx(expected, rel=1e-6)


def test_a_matrix_by_hand() -> None:
    gram, change = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[0.5, 0.0], [0.0, -0.5]])
    assert deviation([(gram, change)]) == 0.25
    assert deviation([(gram, 0 * gram)]) == 0


def test_a_large_mean_does_not_swallow_the_deviation() -> None:
    gram = 1e9 + np.array([[0.0, 1.0], [2.0, 3.0]])
    assert deviation([(row[None], np.ones((1, 2))) for row in gram]) == pytest.approx(1 / np.std([0, 1, 2, 3]))


@pytest.mark.parametrize("n", [1, 3, 7, 100])
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 1e9 / 3])
def test_a_kernel_that_does_not_vary_has_none(n: int, value: float) -> None:
    gram = np.full((n, n), value)
    assert deviation([(gram, gram + 1)]) is None
    assert deviation([(row[None], row[None] + 1) for row in gram]) is None


def test_no_tile_gives_none() -> None:
    assert deviation([]) is None


def test_the_measure_is_that_of_the_whole_kernel_matrix_and_needs_a_kernel() -> None:
    rng = np.random.default_rng(1)
    x, landmarks, dual = rng.normal(size=(80, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 1))
    kernel = Kernel("rbf", gamma=0.3)
    dual /= np.sqrt(dual.T @ kernel.gram(landmarks, landmarks) @ dual)
    eraser = KernelEraser(kernel, landmarks, dual, np.zeros(1))
    labels = GuardedLabels("l.csv", (Attribute("g", np.arange(80, dtype=np.int32) % 2, ("a", "b")),), None)
    train, test = np.arange(30), np.arange(30, 80)
    plan = EvaluationSplit.of(train, {"fresh": train}, test, has_held_out=True)

    def measured(stages: Stages) -> Deviation | None:
        labelled = Labelled(labels, plan, stages)
        return DEVIATION.run(BeforeAfter(None, Erasure(), EvaluateOptions(), labelled))  # type: ignore[arg-type]

    assert measured(Stages(np.arange(80), x, x, None)) is None
    found = measured(Stages(np.arange(80), x, x, None, kernel=eraser))
    whole = kernel.gram(x[test], x[test])
    change = eraser.erased_gram(x[test], x[test]) - whole
    assert found is not None
    assert found.n == 50
    assert found.value == pytest.approx(np.mean(np.abs(change)) / np.std(whole), rel=1e-9)
