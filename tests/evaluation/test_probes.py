import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score

from salcli.erasers.sal import fit_sal
from salcli.errors import RangeError
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.attackers.linear import LinearSVM
from salcli.evaluation.attackers.scores import balanced_accuracy, majority_rate, wilson
from salcli.linalg.moments import CrossMoments


@given(st.integers(1, 500), st.data())
def test_the_interval_is_wilsons(n: int, data: st.DataObject) -> None:
    n_right = data.draw(st.integers(0, n))
    expected = binomtest(n_right, n).proportion_ci(0.95, method="wilson")
    assert_allclose(wilson(n_right, n), (expected.low, expected.high), atol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_balanced_accuracy_and_majority_rate(answers: list[tuple[int, int]]) -> None:
    true, predicted = (np.array(column) for column in zip(*answers, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of predicted classes that are not in `true`
        assert balanced_accuracy(predicted, true) == pytest.approx(balanced_accuracy_score(true, predicted))
    assert majority_rate(true) == max(np.mean(true == value) for value in set(true.tolist()))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_probe_reads_a_planted_attribute_and_on_erased_rows_guesses_the_majority(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(n_classes), [300, *[200] * (n_classes - 1)]))
    x = (rng.normal(size=(len(y), 20)) + 4 * rng.normal(size=(n_classes, 20))[y]).astype(np.float32)
    scaling = Scaling.of(x)
    before = LinearSVM().fit(scaling(x), y, {"C": 1.0}, 0)
    assert before.converged
    assert np.mean(before.predict(scaling(x)) == y) > 0.98

    eraser = fit_sal(CrossMoments.of(x, np.eye(n_classes)[y])).eraser
    for dtype in (np.float32, np.float64):
        erased = eraser(x, dtype=dtype)
        after = LinearSVM().fit(scaling(erased), y, {"C": 1.0}, 0)
        assert (after.predict(scaling(erased)) == 0).all()  # class 0 is the most frequent


def test_with_equal_classes_an_erased_probe_still_answers_with_one_class() -> None:
    rng = np.random.default_rng(1)
    y = np.arange(400) % 2
    x = (rng.normal(size=(400, 10)) + 3 * y[:, None]).astype(np.float32)
    erased = fit_sal(CrossMoments.of(x, np.eye(2)[y])).eraser(x)
    scaling = Scaling.of(x)
    answers = LinearSVM().fit(scaling(erased), y, {"C": 1.0}, 0).predict(scaling(erased))
    assert len(set(answers.tolist())) == 1


def test_predictions_equal_scikit_learns_where_nothing_ties() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 300)
    x = rng.normal(size=(300, 5)) + y[:, None]
    probe = LinearSVM().fit(x, y, {"C": 1.0}, 0)
    assert (probe.predict(x) == probe.classifier.predict(x)).all()


def test_scaling_is_one_factor_for_all_features() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(100, 4)) * [1, 10, 100, 1000] + 5
    scaled = Scaling.of(x)(x)
    assert_allclose(scaled.mean(0), 0, atol=1e-12)
    assert_allclose(np.mean(scaled**2), 1)
    assert_allclose(scaled.std(0) / scaled.std(0)[0], x.std(0) / x.std(0)[0])
    assert np.isfinite(Scaling.of(np.ones((3, 2)))(np.ones((3, 2)))).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scaling_neither_overflows_nor_vanishes(scale: float) -> None:
    x = np.random.default_rng(4).normal(size=(50, 3))
    assert_allclose(Scaling.of(x * scale)(x * scale), Scaling.of(x)(x), rtol=1e-10)


def test_rows_too_small_to_be_scaled_are_refused() -> None:
    with pytest.raises(RangeError, match="too small"):
        Scaling.of(np.random.default_rng(4).normal(size=(50, 3)) * 1e-320)
