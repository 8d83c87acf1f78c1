import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from salcli.data.splits import stratified_parts
from salcli.evaluation.attackers import (
    ATTACKERS,
    GramSVM,
    KernelSVM,
    LinearSVM,
    Reads,
    Scaling,
    Settings,
    names_of,
    silence_convergence_warnings,
    tuned,
)

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
VECTOR_PROBES = ("linear", "poly", "rbf")


def product(n: int = 1200, d: int = 4, seed: int = 0) -> tuple[Array, Codes]:
    x = np.random.default_rng(seed).normal(size=(n, d))
    return Scaling.of(x)(x), (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def noise(n: int, n_classes: int = 2, seed: int = 0, d: int = 4) -> tuple[Array, Codes]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return Scaling.of(x)(x), rng.integers(0, n_classes, n)


def accuracy(name: str, x: Array, y: Codes, settings: Settings | None = None) -> float:
    half = len(x) // 2
    attacker = ATTACKERS[name].fit(x[:half], y[:half], settings or ATTACKERS[name].grid(x.shape[1])[0], 0)
    assert attacker.converged
    return float(np.mean(attacker.predict(x[half:]) == y[half:]))


def test_the_sign_of_a_product_is_read_by_poly_and_rbf_and_not_by_linear() -> None:
    x, y = product()
    found = {
        name: accuracy(name, x, y, tuned(ATTACKERS[name], x[:600], y[:600], x.shape[1], seed=0))
        for name in VECTOR_PROBES
    }
    assert found["poly"] > 0.9
    assert found["rbf"] > 0.9
    assert abs(found["linear"] - 0.5) < 0.1


@pytest.mark.parametrize("name", VECTOR_PROBES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_random_attribute_is_at_chance_for_every_attacker(name: str, n_classes: int) -> None:
    x, y = noise(1200, n_classes)
    assert abs(accuracy(name, x, y) - 1 / n_classes) < 4 * np.sqrt(0.25 / 600)


@pytest.mark.parametrize("name", VECTOR_PROBES)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_answers_are_those_of_scikit_learns_own_kernels(name: str, n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    y = np.arange(240) % n_classes
    x = rng.normal(size=(240, 5)) + 1.5 * rng.normal(size=(n_classes, 5))[y]
    new = rng.normal(size=(100, 5)) * 2
    for settings in ATTACKERS[name].grid(5):
        if name == "linear":
            theirs = LinearSVC(C=settings["C"], dual=False, tol=1e-2)
        else:
            theirs = SVC(kernel=name, degree=2, coef0=1.0, gamma=settings["gamma"], C=settings["C"])
        attacker = ATTACKERS[name].fit(x, y, settings, 0)
        # a vote that ties may be settled by a decision that differs by the rounding of the Gram matrix
        assert np.mean(attacker.predict(new) == theirs.fit(x, y).predict(new)) >= 0.99


@pytest.mark.parametrize("name", VECTOR_PROBES)
@pytest.mark.parametrize(("copies", "majority"), [([2, 3], 1), ([4, 1], 0), ([1, 1, 3], 2)])
def test_classes_of_the_same_rows_are_answered_by_the_majority(name: str, copies: list[int], majority: int) -> None:
    base = np.random.default_rng(1).normal(size=(40, 3))
    x = np.concatenate([np.tile(base, (n, 1)) for n in copies])
    y = np.repeat(np.arange(len(copies)), [40 * n for n in copies])
    assert (ATTACKERS[name].fit(x, y, ATTACKERS[name].grid(3)[0], 0).predict(x) == majority).all()


@pytest.mark.parametrize("attacker", [KernelSVM("poly", (1.0,)), KernelSVM("rbf", (1.0,))])
def test_blocks_of_rows_do_not_change_answers(attacker: KernelSVM) -> None:
    x, y = product(200)
    whole = attacker.fit(x, y, attacker.grid(4)[0], 0)
    in_blocks = replace(attacker, block_rows=7).fit(x, y, attacker.grid(4)[0], 0)
    assert_array_equal(in_blocks.predict(x), whole.predict(x))
    assert_array_equal(in_blocks.predict(x[:1]), whole.predict(x)[:1])
    assert in_blocks.decision(x).shape == whole.decision(x).shape == (200,)


@pytest.mark.parametrize("name", VECTOR_PROBES)
def test_tuning_takes_the_best_of_the_grid_if_it_beats_the_usual_by_a_standard_error(name: str) -> None:
    for seed, (x, y) in enumerate([product(160, seed=5), noise(160, seed=6), noise(160, 3, seed=7)]):
        train, held = stratified_parts(y, [0.75, 0.25], seed, sizes=[120, 40])
        shares = []
        for settings in ATTACKERS[name].grid(4):
            attacker = ATTACKERS[name].fit(x[train], y[train], settings, seed)
            shares.append(float(np.mean(attacker.predict(x[held]) == y[held])))
        error = np.sqrt(shares[0] * (1 - shares[0]) / 40)
        expected = shares.index(max(shares)) if max(shares) - shares[0] > error else 0
        chosen = [tuned(ATTACKERS[name], x, y, 4, seed=seed) for _ in range(2)]
        assert chosen == [ATTACKERS[name].grid(4)[expected]] * 2


@pytest.mark.parametrize("seed", range(5))
def test_on_noise_tuning_keeps_a_linear_machine_to_the_usual_settings(seed: int) -> None:
    x, y = noise(400, seed=seed)
    assert tuned(LinearSVM(), x, y, 4, seed=seed) == LinearSVM().grid(4)[0]


@pytest.mark.parametrize("name", ["poly", "rbf"])
def test_on_noise_whatever_tuning_takes_stays_at_chance(name: str) -> None:
    x, y = noise(1200, seed=1)
    settings = tuned(ATTACKERS[name], x[:600], y[:600], 4, seed=1)
    assert abs(accuracy(name, x, y, settings) - 0.5) < 4 * np.sqrt(0.25 / 600)


@pytest.mark.parametrize("name", VECTOR_PROBES)
@pytest.mark.parametrize("labels", [[0], [0, 0, 0, 0], [0, 1], [0, 1, 2], [0] * 8 + [1], [0] * 50 + [1] * 50])
def test_where_there_is_too_little_to_learn_from_tuning_gives_the_usual_settings(name: str, labels: list[int]) -> None:
    x = np.zeros((len(labels), 3))
    assert tuned(ATTACKERS[name], x, np.array(labels), 3, seed=0) == ATTACKERS[name].grid(3)[0]


def test_tuning_finds_the_narrow_kernel_that_a_chequered_attribute_needs() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, size=(1000, 2))
    y = (np.sin(8 * x[:, 0]) * np.sin(8 * x[:, 1]) > 0).astype(np.int64)
    scaled = Scaling.of(x)(x)
    narrow = tuned(ATTACKERS["rbf"], scaled, y, 2, seed=0)
    assert narrow["gamma"] == 4.0 / 2
    assert accuracy("rbf", scaled, y, narrow) > accuracy("rbf", scaled, y) + 0.1


class Recorder:
    """An attacker that predicts class 0 and records what it was given."""

    reads: Reads
    converged = True

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.trained: list[Array] = []
        self.tested: list[Array] = []

    def grid(self, d: int) -> list[Settings]:
        return [{"C": 1.0}, {"C": 2.0}]

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> "Recorder":
        self.trained.append(x)
        return self

    def decision(self, x: Array) -> Array:
        return np.zeros(len(x))

    def predict(self, x: Array) -> NDArray[Any]:
        self.tested.append(x)
        return np.zeros(len(x), np.int64)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        return 0


def test_tuning_looks_at_no_more_rows_than_it_says() -> None:
    x, y = product(500)
    recorder = Recorder("vectors")
    tuned(recorder, x, y, 4, seed=0, most_rows=40)
    assert [part.shape for part in recorder.trained] == [(30, 4)] * 2
    assert [part.shape for part in recorder.tested] == [(10, 4)] * 2
    recorder = Recorder("vectors")
    tuned(recorder, np.zeros((3000, 1)), np.arange(3000) % 2, 1, seed=0)
    assert [len(part) for part in recorder.trained] == [1500] * 2


def test_a_kernel_is_tuned_on_the_inner_products_of_the_same_rows_as_vectors_are() -> None:
    x, y = product(60)
    of_rows, of_products = Recorder("vectors"), Recorder("kernel")
    tuned(of_rows, x, y, 4, seed=3)
    tuned(of_products, x @ x.T, y, 4, seed=3)
    for rows, new, among, across in zip(
        of_rows.trained, of_rows.tested, of_products.trained, of_products.tested, strict=True
    ):
        np.testing.assert_allclose(among, rows @ rows.T, atol=1e-12)
        np.testing.assert_allclose(across, new @ rows.T, atol=1e-12)


@pytest.mark.parametrize("name", VECTOR_PROBES)
def test_a_grid_starts_with_the_usual_settings_and_holds_none_twice(name: str) -> None:
    choices = ATTACKERS[name].grid(10)
    assert choices[0] == ({"C": 1.0} if name == "linear" else {"C": 1.0, "gamma": 0.1})
    assert len({tuple(each.items()) for each in choices}) == len(choices) == (9 if name == "rbf" else 3)


@pytest.mark.parametrize("name", ["poly", "rbf", "same-kernel"])
def test_the_memory_bound_covers_the_gram_matrix_and_grows_with_the_training_rows(name: str) -> None:
    bound = ATTACKERS[name].memory_bytes
    assert bound(1000, 10, 5) >= 8 * 1000**2
    assert bound(1000, 10, 5) < bound(1001, 10, 5)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", VECTOR_PROBES)
def test_where_nothing_ties_the_largest_decision_is_the_prediction(name: str, n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    y = np.arange(200) % n_classes
    x = rng.normal(size=(200, 5)) + 3 * rng.normal(size=(n_classes, 5))[y]
    classifier = ATTACKERS[name].fit(x, y, ATTACKERS[name].grid(5)[0], 0)
    scores = classifier.decision(x)
    assert scores.shape == ((200,) if n_classes == 2 else (200, n_classes))
    assert_array_equal(scores > 0 if n_classes == 2 else scores.argmax(axis=1), classifier.predict(x))


def test_the_names_are_told_apart_by_what_is_read() -> None:
    assert names_of("vectors") == VECTOR_PROBES
    assert names_of("kernel") == ("same-kernel",)
    assert isinstance(ATTACKERS["same-kernel"], GramSVM)


def test_solvers_are_kept_from_warning_only_of_convergence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with silence_convergence_warnings():
            warnings.warn("not met", ConvergenceWarning, stacklevel=1)
            with pytest.raises(UserWarning, match="else"):
                warnings.warn("something else", UserWarning, stacklevel=1)
