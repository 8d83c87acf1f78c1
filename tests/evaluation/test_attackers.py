import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

from salcli.erasers.sal import fit_sal
from salcli.evaluation.attackers import ATTACKERS, names_of
from salcli.evaluation.attackers.base import Attacker, Axis, Scaling, Settings
from salcli.evaluation.attackers.kernel_svm import GramSVM, KernelSVM
from salcli.evaluation.attackers.knn import NearestNeighbours
from salcli.evaluation.attackers.linear import LinearSVM
from salcli.evaluation.attackers.quadratic import Quadratic
from salcli.evaluation.attackers.scores import silence_convergence_warnings
from salcli.evaluation.attackers.tuning import N_FINE, TrainingRows, tuned
from salcli.evaluation.readings import Vectors, Whitening
from salcli.evaluation.stages import Stages
from salcli.linalg.moments import CrossMoments
from salcli.streaming.engine import one_blas_thread

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
VECTOR_PROBES = ("linear", "poly", "rbf")
EVERY_PROBE = (*VECTOR_PROBES, "quadratic", "knn", "mlp", "boosting")


def product(n: int = 1200, d: int = 4, seed: int = 0) -> tuple[Array, Codes]:
    x = np.random.default_rng(seed).normal(size=(n, d))
    return Scaling.of(x)(x), (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def choice(attacker: Attacker, x: Array, y: NDArray[Any], seed: int = 0) -> Settings:
    """The settings that tuning takes on rows, or inner products, as they are."""
    with silence_convergence_warnings():
        return tuned(attacker, TrainingRows(lambda _: x, y, x.shape[1]), seed)


def noise(n: int, n_classes: int = 2, seed: int = 0, d: int = 4) -> tuple[Array, Codes]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return Scaling.of(x)(x), rng.integers(0, n_classes, n)


def accuracy(name: str, x: Array, y: Codes, settings: Settings | None = None) -> float:
    half = len(x) // 2
    attacker = ATTACKERS[name].fit(x[:half], y[:half], settings or ATTACKERS[name].usual(x.shape[1]), 0)
    assert attacker.converged
    return float(np.mean(attacker.predict(x[half:]) == y[half:]))


def test_the_sign_of_a_product_is_read_by_poly_and_rbf_and_not_by_linear() -> None:
    x, y = product()
    found = {name: accuracy(name, x, y, choice(ATTACKERS[name], x[:600], y[:600])) for name in VECTOR_PROBES}
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
        if not 0.1 <= settings["C"] <= 10:  # with less, every row is a tie
            continue
        if name == "linear":
            theirs = LinearSVC(C=settings["C"], dual=False, tol=1e-2)
        else:
            c = settings["C"] / (1 if name == "rbf" else (5 * settings["gamma"] + 1) ** 2)
            theirs = SVC(kernel=name, degree=2, coef0=1.0, gamma=settings["gamma"], C=c)
        attacker = ATTACKERS[name].fit(x, y, settings, 0)
        # a vote that ties may be settled by a decision that differs by the rounding of the Gram matrix
        assert np.mean(attacker.predict(new) == theirs.fit(x, y).predict(new)) >= 0.99


@pytest.mark.parametrize("name", VECTOR_PROBES)
@pytest.mark.parametrize(("copies", "majority"), [([2, 3], 1), ([4, 1], 0), ([1, 1, 3], 2)])
def test_classes_of_the_same_rows_are_answered_by_the_majority(name: str, copies: list[int], majority: int) -> None:
    base = np.random.default_rng(1).normal(size=(40, 3))
    x = np.concatenate([np.tile(base, (n, 1)) for n in copies])
    y = np.repeat(np.arange(len(copies)), [40 * n for n in copies])
    assert (ATTACKERS[name].fit(x, y, ATTACKERS[name].usual(3), 0).predict(x) == majority).all()


@pytest.mark.parametrize("attacker", [KernelSVM("poly", (1.0,)), KernelSVM("rbf", (1.0,))])
def test_blocks_of_rows_do_not_change_answers(attacker: KernelSVM) -> None:
    x, y = product(200)
    whole = attacker.fit(x, y, attacker.usual(4), 0)
    in_blocks = replace(attacker, block_rows=7).fit(x, y, attacker.usual(4), 0)
    assert_array_equal(in_blocks.predict(x), whole.predict(x))
    assert_array_equal(in_blocks.predict(x[:1]), whole.predict(x)[:1])
    assert in_blocks.decision(x).shape == whole.decision(x).shape == (200,)


@pytest.mark.parametrize("name", ["poly", "rbf"])
def test_on_noise_whatever_tuning_takes_stays_at_chance(name: str) -> None:
    x, y = noise(1200, seed=1)
    settings = choice(ATTACKERS[name], x[:600], y[:600], seed=1)
    assert abs(accuracy(name, x, y, settings) - 0.5) < 4 * np.sqrt(0.25 / 600)


@pytest.mark.parametrize("name", EVERY_PROBE)
@pytest.mark.parametrize("labels", [[0], [0, 0, 0, 0], [0, 1], [0, 1, 2], [0] * 8 + [1], [0] * 50 + [1] * 50])
def test_where_there_is_too_little_to_learn_from_tuning_gives_the_usual_settings(name: str, labels: list[int]) -> None:
    x = np.zeros((len(labels), 3))
    with one_blas_thread():
        assert choice(ATTACKERS[name], x, np.array(labels)) == ATTACKERS[name].usual(3)


@pytest.mark.slow
def test_tuning_finds_the_narrow_kernel_that_a_chequered_attribute_needs() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, size=(1000, 2))
    y = (np.sin(8 * x[:, 0]) * np.sin(8 * x[:, 1]) > 0).astype(np.int64)
    scaled = Scaling.of(x)(x)
    narrow = choice(ATTACKERS["rbf"], scaled, y)
    assert narrow["gamma"] > 1 / 2
    assert accuracy("rbf", scaled, y, narrow) > accuracy("rbf", scaled, y) + 0.1


@dataclass(frozen=True, eq=False)
class Peaked(Attacker):
    """An attacker of one setting, that is right the more often the nearer it is to the best."""

    best: float
    given: list[tuple[Array, Array]] = field(default_factory=list)
    tried: list[float] = field(default_factory=list)
    whitens = False

    def axes(self, d: int) -> dict[str, Axis]:
        return {"C": Axis((1.0, 10.0, 100.0), 1.0, grows=True)}

    def fit(self, x: Array, y: NDArray[Any], settings: Settings, seed: int) -> Any:
        raise NotImplementedError

    def decisions(self, x: Array, y: NDArray[Any], new: Array, choices: Any, seed: int) -> Any:
        self.given.append((x, new))
        for settings in choices:
            self.tried.append(settings["C"])
            n_right = int(len(new) * (0.9 - 0.05 * abs(np.log10(settings["C"] / self.best))))
            truth = 2 * new[:, -1] - 1  # the class stands in the last column
            yield np.where(np.arange(len(new)) < n_right, truth, -truth)

    def memory_bytes(self, n_train: int, n_test: int, d: int) -> int:
        return 0


def with_class(n: int) -> tuple[Array, Codes]:
    y = np.random.default_rng(0).permutation(np.arange(n) % 2)
    return np.column_stack([np.arange(n), y]).astype(float), y


@pytest.mark.parametrize("best", [1e-3, 1e-2, 1.0, 10.0, 100.0, 1e4])
def test_tuning_takes_the_best_of_the_grid_and_goes_on_beyond_its_ends(best: float) -> None:
    x, y = with_class(700)
    assert choice(Peaked(best), x, y)["C"] == pytest.approx(best)


def test_tuning_tries_all_settings_on_few_rows_and_the_best_on_more() -> None:
    x, y = with_class(5_000)

    class Many(Peaked):
        def axes(self, d: int) -> dict[str, Axis]:
            return {"C": Axis(tuple(10.0**i for i in range(12)), 1.0)}

    recorder = Many(1e5)
    assert choice(recorder, x, y) == {"C": 1e5}
    assert [(len(train), len(held)) for train, held in recorder.given[::3]] == [(666, 334), (2_000, 1_000)]
    assert all(not set(train[:, 0]) & set(held[:, 0]) for train, held in recorder.given)
    assert len(recorder.tried) == 3 * (12 + N_FINE)


@pytest.mark.parametrize("of_products", [False, True])
def test_on_rows_whose_class_means_are_equal_folds_are_made_equal_too(of_products: bool) -> None:
    """Else what is held out differs in the opposite direction, and nothing read better than chance."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 30)), np.arange(60) % 2
    x[y == 1] *= 1.5
    level = fit_sal(CrossMoments.of(x, np.eye(2)[y])).eraser(x, dtype=np.float64)
    level -= level.mean(axis=0)
    seen: list[tuple[Array, Array]] = []

    class Watching(GramSVM if of_products else LinearSVM):  # type: ignore[misc]
        def decisions(self, x: Array, y: NDArray[Any], new: Array, choices: Any, seed: int) -> Any:
            seen.append((x, y))
            yield from super().decisions(x, y, new, choices, seed)

    for rows, is_level in ((level, True), (x, False)):
        seen.clear()
        choice(Watching(), rows @ rows.T if of_products else rows, y)
        for train, codes in seen:
            z = np.eye(2)[codes] / np.bincount(codes)
            apart = train.T @ (z[:, 1] - z[:, 0])
            assert (np.abs(apart).max() < 1e-10) == is_level


def test_a_linear_attacker_reads_a_label_in_a_narrow_column_when_rows_are_whitened() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 4_000)
    x = rng.normal(size=(4_000, 20))
    x[:, 0] = 1e-3 * (y - 1 + 0.01 * x[:, 0])
    train, test = np.arange(2_000), np.arange(2_000, 4_000)
    reading = Vectors.of(Stages(np.arange(4_000), x, x, None), train, test)
    assert reading.can_whiten
    rows = TrainingRows(lambda settings: reading.train("before", settings), y[train], 20, True)
    settings = tuned(LinearSVM(), rows, 0)
    found = LinearSVM().fit(reading.train("before", settings), y[train], settings, 0)
    assert settings["whitened"] == 1
    assert np.mean(found.predict(reading.test("before", settings)) == y[test]) > 0.95


def test_whitening_keeps_small_spreads_and_leaves_out_rounding() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 6)) * [1, 2, 3, 4, 1e-8, 1e-15]
    found = Whitening.of(x)(x)
    assert found.shape == (500, 5)
    assert_allclose(np.cov(found.T, bias=True), np.eye(5), atol=1e-8)


@pytest.mark.parametrize("name", EVERY_PROBE)
def test_the_usual_settings_are_on_the_grid_which_holds_none_twice(name: str) -> None:
    choices = ATTACKERS[name].grid(10)
    assert ATTACKERS[name].usual(10) in choices
    assert len({tuple(each.items()) for each in choices}) == len(choices)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_PROBE)
def test_a_weighted_twin_reads_a_rare_class_more_often(name: str) -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(1_200) % 12 == 0).astype(np.int64)
    x = rng.normal(size=(1_200, 3)) + 1.2 * y[:, None]
    attacker = ATTACKERS[name]
    twin = attacker.twin()
    assert twin is not None
    assert twin.twin() is None
    recalls = [
        np.mean(each.fit(x[:600], y[:600], attacker.usual(3), 0).predict(x[600:])[y[600:] == 1])
        for each in (attacker, twin)
    ]
    assert recalls[1] > recalls[0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_quadratic_attackers_are_scikit_learns_without_a_pooled_share(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 300)
    x = rng.normal(size=(300, 4)) * (1 + y[:, None]) + 0.3 * y[:, None]
    found = Quadratic().fit(x, y, {"pooled": 0.0, "identity": 0.0, "ranked": 0.0}, 0)
    theirs = QuadraticDiscriminantAnalysis().fit(x, y)
    assert_array_equal(found.predict(x), theirs.predict(x))
    pooled = Quadratic().fit(x, y, {"pooled": 1.0, "identity": 0.0, "ranked": 0.0}, 0)
    assert_array_equal(pooled.predict(x), LinearDiscriminantAnalysis(solver="lsqr").fit(x, y).predict(x))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_nearest_neighbours_are_scikit_learns(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    x, y, new = rng.normal(size=(200, 3)), rng.integers(0, n_classes, 200), rng.normal(size=(50, 3))
    for k in (1.0, 7.0):
        theirs = KNeighborsClassifier(int(k), weights="distance").fit(x, y)
        found = NearestNeighbours(block_rows=16).fit(x, y, {"k": k}, 0)
        assert_array_equal(found.predict(new), theirs.predict(new))


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
    classifier = ATTACKERS[name].fit(x, y, ATTACKERS[name].usual(5), 0)
    scores = classifier.decision(x)
    assert scores.shape == ((200,) if n_classes == 2 else (200, n_classes))
    assert_array_equal(scores > 0 if n_classes == 2 else scores.argmax(axis=1), classifier.predict(x))


def test_the_names_are_told_apart_by_what_is_read() -> None:
    assert names_of("vectors") == EVERY_PROBE
    assert names_of("kernel") == ("same-kernel",)
    assert isinstance(ATTACKERS["same-kernel"], GramSVM)


def test_solvers_are_kept_from_warning_only_of_convergence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with silence_convergence_warnings():
            warnings.warn("not met", ConvergenceWarning, stacklevel=1)
            with pytest.raises(UserWarning, match="else"):
                warnings.warn("something else", UserWarning, stacklevel=1)
