import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from salcli.data.splits import stratified_parts
from salcli.evaluation.attackers import VECTOR_PROBES, Attacker, Scaling, Settings, grid, kernel_bytes, tuned, untold

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


def product(n: int = 1200, d: int = 4, seed: int = 0) -> tuple[Array, Codes]:
    x = np.random.default_rng(seed).normal(size=(n, d))
    return Scaling.of(x)(x), (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def noise(n: int, n_classes: int = 2, seed: int = 0, d: int = 4) -> tuple[Array, Codes]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return Scaling.of(x)(x), rng.integers(0, n_classes, n)


def accuracy(name: str, x: Array, y: Codes, settings: Settings | None = None) -> float:
    half = len(x) // 2
    attacker = Attacker.train(name, x[:half], y[:half], settings or grid(name, x.shape[1])[0], seed=0)
    assert attacker.converged
    return float(np.mean(attacker.predict(x[half:]) == y[half:]))


def test_the_sign_of_a_product_is_read_by_poly_and_rbf_and_not_by_linear() -> None:
    x, y = product()
    found = {name: accuracy(name, x, y, tuned(name, x[:600], y[:600], seed=0)) for name in VECTOR_PROBES}
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
    for settings in grid(name, 5):
        if name == "linear":
            theirs = LinearSVC(C=settings["C"], dual=False, tol=1e-2)
        else:
            theirs = SVC(kernel=name, degree=2, coef0=1.0, gamma=settings["gamma"], C=settings["C"])
        attacker = Attacker.train(name, x, y, settings, seed=0)
        # a vote that ties may be settled by a decision that differs by the rounding of the Gram matrix
        assert np.mean(attacker.predict(new) == theirs.fit(x, y).predict(new)) >= 0.99


@pytest.mark.parametrize("name", VECTOR_PROBES)
@pytest.mark.parametrize(("copies", "majority"), [([2, 3], 1), ([4, 1], 0), ([1, 1, 3], 2)])
def test_classes_of_the_same_rows_are_answered_by_the_majority(name: str, copies: list[int], majority: int) -> None:
    base = np.random.default_rng(1).normal(size=(40, 3))
    x = np.concatenate([np.tile(base, (n, 1)) for n in copies])
    y = np.repeat(np.arange(len(copies)), [40 * n for n in copies])
    assert (Attacker.train(name, x, y, grid(name, 3)[0], seed=0).predict(x) == majority).all()


@pytest.mark.parametrize("name", VECTOR_PROBES)
def test_blocks_of_rows_do_not_change_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = product(200)
    attacker = Attacker.train(name, x, y, grid(name, 4)[0], seed=0)
    whole = attacker.predict(x)
    monkeypatch.setattr("salcli.evaluation.attackers.BLOCK_ROWS", 7)
    assert_array_equal(attacker.predict(x), whole)
    assert_array_equal(attacker.predict(x[:1]), whole[:1])


@pytest.mark.parametrize("name", VECTOR_PROBES)
def test_tuning_takes_the_best_of_the_grid_if_it_beats_the_usual_by_a_standard_error(name: str) -> None:
    for seed, (x, y) in enumerate([product(160, seed=5), noise(160, seed=6), noise(160, 3, seed=7)]):
        train, held = stratified_parts(y, [0.75, 0.25], seed, sizes=[120, 40])
        shares = []
        for settings in grid(name, 4):
            attacker = Attacker.train(name, x[train], y[train], settings, seed=seed)
            shares.append(float(np.mean(attacker.predict(x[held]) == y[held])))
        error = np.sqrt(shares[0] * (1 - shares[0]) / 40)
        expected = shares.index(max(shares)) if max(shares) - shares[0] > error else 0
        assert tuned(name, x, y, seed=seed) == tuned(name, x, y, seed=seed) == grid(name, 4)[expected]


@pytest.mark.parametrize("seed", range(5))
def test_on_noise_tuning_keeps_a_linear_machine_to_the_usual_settings(seed: int) -> None:
    x, y = noise(400, seed=seed)
    assert tuned("linear", x, y, seed=seed) == grid("linear", 4)[0]


@pytest.mark.parametrize("name", ["poly", "rbf"])
def test_on_noise_whatever_tuning_takes_stays_at_chance(name: str) -> None:
    x, y = noise(1200, seed=1)
    assert abs(accuracy(name, x, y, tuned(name, x[:600], y[:600], seed=1)) - 0.5) < 4 * np.sqrt(0.25 / 600)


@pytest.mark.parametrize("name", VECTOR_PROBES)
@pytest.mark.parametrize("labels", [[0], [0, 0, 0, 0], [0, 1], [0, 1, 2], [0] * 8 + [1], [0] * 50 + [1] * 50])
def test_where_there_is_too_little_to_learn_from_tuning_gives_the_usual_settings(name: str, labels: list[int]) -> None:
    x = np.zeros((len(labels), 3))
    assert tuned(name, x, np.array(labels), seed=0) == grid(name, 3)[0]


def test_tuning_finds_the_narrow_kernel_that_a_chequered_attribute_needs() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, size=(1000, 2))
    y = (np.sin(8 * x[:, 0]) * np.sin(8 * x[:, 1]) > 0).astype(np.int64)
    scaled = Scaling.of(x)(x)
    narrow = tuned("rbf", scaled, y, seed=0)
    assert narrow["gamma"] == 4.0 / 2
    assert accuracy("rbf", scaled, y, narrow) > accuracy("rbf", scaled, y) + 0.1


def test_tuning_looks_at_no_more_rows_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("salcli.evaluation.attackers.TUNING_ROWS", 40)
    sizes = []
    train = Attacker.train
    monkeypatch.setattr(Attacker, "train", lambda name, x, *a, **k: sizes.append(len(x)) or train(name, x, *a, **k))
    tuned("linear", *product(500), seed=0)
    assert sizes == [30] * 3


@pytest.mark.parametrize("name", VECTOR_PROBES)
def test_a_grid_starts_with_the_usual_settings_and_holds_none_twice(name: str) -> None:
    choices = grid(name, 10)
    assert choices[0] == ({"C": 1.0} if name == "linear" else {"C": 1.0, "gamma": 0.1})
    assert len({tuple(each.items()) for each in choices}) == len(choices) == (9 if name == "rbf" else 3)


def test_the_memory_bound_covers_the_gram_matrix_and_grows_with_everything() -> None:
    assert kernel_bytes(1000, 10) >= 8 * 1000**2
    assert kernel_bytes(1000, 10) < kernel_bytes(1001, 10)
    assert kernel_bytes(1000, 10) < kernel_bytes(1000, 11)


def test_solvers_are_kept_from_warning_only_of_convergence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with untold():
            warnings.warn("not met", ConvergenceWarning, stacklevel=1)
            with pytest.raises(UserWarning, match="else"):
                warnings.warn("something else", UserWarning, stacklevel=1)
