import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sklearn.svm import SVC

from salcli.erasers.sal import fit_sal
from salcli.evaluation.attackers.kernel_svm import GramSVM, KernelSVM
from salcli.evaluation.attackers.linear import LinearSVM
from salcli.evaluation.attackers.scores import silence_convergence_warnings
from salcli.linalg.moments import CrossMoments

USUAL = {"C": 1.0}


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_answers_are_scikit_learns_where_nothing_ties(n_classes: int, c: float) -> None:
    rng = np.random.default_rng(n_classes)
    centres = 2 * rng.normal(size=(n_classes, 6))
    y, later = rng.permutation(np.repeat(np.arange(n_classes), 50)), rng.integers(0, n_classes, 100)
    x, new = (rng.normal(size=(len(at), 6)) + centres[at] for at in (y, later))
    probe = GramSVM().fit(x @ x.T, y, {"C": c}, 0)
    svc = SVC(kernel="linear", C=c).fit(x, y)
    if n_classes > 2:  # votes tie with equal frequencies: scikit-learn and the probe both take the first
        assert_array_equal(probe.predict(x @ x.T), svc.predict(x))
    assert_array_equal(probe.predict(new @ x.T), svc.predict(new))
    assert np.mean(probe.predict(new @ x.T) == later) > 0.9
    assert probe.converged


def erased(sizes: list[int], d: int = 8) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = rng.normal(size=(len(y), d)) + 3 * rng.normal(size=(len(sizes), d))[y]
    return fit_sal(CrossMoments.of(x, np.eye(len(sizes))[y])).eraser(x, dtype=np.float64), y


@pytest.mark.parametrize("sizes", [[120, 80], [80, 120], [190, 10], [60, 60, 90], [20, 90, 60, 30]])
def test_on_rows_with_equal_class_means_linear_and_kernel_probes_answer_the_majority(sizes: list[int]) -> None:
    x, y = erased(sizes)
    means = np.array([x[y == value].mean(axis=0) for value in range(len(sizes))])
    assert np.ptp(means, axis=0).max() < 1e-12
    majority = int(np.argmax(sizes))
    assert (GramSVM().fit(x @ x.T, y, USUAL, 0).predict(x @ x.T) == majority).all()
    assert (LinearSVM().fit(x, y, USUAL, 0).predict(x) == majority).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_between_equally_frequent_classes_an_erased_probe_always_answers_with_the_same_one(n_classes: int) -> None:
    """Which one is up to the solver: between two classes of one size, its threshold may lie anywhere."""
    x, y = erased([60] * n_classes)
    assert len(set(GramSVM().fit(x @ x.T, y, USUAL, 0).predict(x @ x.T).tolist())) == 1


@pytest.mark.parametrize(("copies", "majority"), [([2, 3], 1), ([3, 2], 0), ([1, 1], 0), ([1, 2, 4], 2)])
def test_where_classes_are_copies_of_the_same_rows_no_kernel_reads_more_than_the_majority(
    copies: list[int], majority: int
) -> None:
    base = np.random.default_rng(1).normal(size=(40, 3))
    x = np.concatenate([np.tile(base, (n, 1)) for n in copies])
    y = np.repeat(np.arange(len(copies)), [40 * n for n in copies])
    for gram in ((1 + x @ x.T) ** 2, np.exp(-((x[:, None] - x) ** 2).sum(axis=2)), np.zeros((len(x), len(x)))):
        assert (GramSVM().fit(gram, y, USUAL, 0).predict(gram) == majority).all()


@pytest.mark.parametrize("labels", [["b", "a"], [7, -3]])
def test_answers_are_the_classes_that_were_given(labels: list[object]) -> None:
    y = np.array(labels)[np.arange(20) % 2]
    x = np.where(np.arange(20) % 2, 1.0, -1.0)[:, None]
    assert_array_equal(GramSVM().fit(x @ x.T, y, USUAL, 0).predict(x @ x.T), y)


def test_two_rows_are_enough_and_no_row_gets_no_answer() -> None:
    x = np.array([[-1.0], [1.0]])
    probe = GramSVM().fit(x @ x.T, np.array([0, 1]), USUAL, 0)
    assert_array_equal(probe.predict(x @ x.T), [0, 1])
    assert_array_equal(probe.predict(np.zeros((1, 2))), [0])  # half way: a tie, to the first


def test_training_that_is_cut_short_says_so() -> None:
    x, y = np.random.default_rng(2).normal(size=(60, 3)), np.arange(60) % 2
    with silence_convergence_warnings():
        assert not GramSVM(max_iter=1).fit(x @ x.T, y, USUAL, 0).converged
        assert not KernelSVM("rbf", (1.0,), solver=GramSVM(max_iter=1)).fit(x, y, USUAL | {"gamma": 1.0}, 0).converged
        assert not LinearSVM(max_iter=1).fit(x, y, USUAL, 0).converged
