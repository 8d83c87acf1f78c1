"""INLP against a plain loop of scikit-learn's classifiers, and the traps of the usual recipe."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

import salcli
from salcli.commands.apply import apply
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.source import ArrayReader, Source
from salcli.erasers.base import Fit
from salcli.erasers.inlp import METHOD, INLPParameters, extended
from salcli.erasers.linear import LinearEraser
from salcli.erasers.linear_probes import ProbeRows, ProbeScore
from salcli.errors import LabelError, RankError
from salcli.linalg.squared_hinge import Targets, fit_squared_hinge, gram_of
from salcli.options import ApplyOptions, EvaluateOptions, FitOptions, Sweep
from salcli.streaming.engine import LOCAL, one_blas_thread
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Silent

from ..cli.helpers import header_of, refuse, save_npy, succeed, write_csv

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


def drawn(n: int = 900, d: int = 10, c: int = 2, seed: int = 0, shift: float = 1.5) -> tuple[Array, Codes]:
    """Draw rows of correlated columns, whose classes lie apart in a few of them and are of different sizes."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(c, n, p=np.arange(1, c + 1) / np.sum(np.arange(1, c + 1)))
    x = rng.normal(size=(n, d)) + shift * rng.normal(size=(c, d))[codes]
    return x @ (rng.normal(size=(d, d)) + 2 * np.eye(d)) + 3, codes


def labelled(x: Array, *codes: Codes, names: tuple[str, ...] = ("g", "h")) -> LabelledSource:
    attributes = tuple(
        Attribute(name, of, tuple("abcdefgh"[: of.max() + 1])) for name, of in zip(names, codes, strict=False)
    )
    return LabelledSource.of(Source([ArrayReader(x)]), GuardedLabels("y.csv", attributes, None), np.arange(len(x)))


def fitted(x: Array, *codes: Codes, seed: int = 0, **how: int | bool | None) -> Fit[LinearEraser]:
    with one_blas_thread():
        parameters = INLPParameters(**how)  # type: ignore[arg-type]
        return METHOD.fit(labelled(x, *codes), parameters, seed=seed, engine=LOCAL, progress=Silent())


def oracle_normals(x: Array, codes: Codes, removed: Array) -> Array:
    """Return the normals of LIBLINEAR's machines, one class against the rest, on projected rows."""
    projected = x - (x @ removed) @ removed.T
    found = []
    for c in [1] if codes.max() == 1 else range(codes.max() + 1):
        machine = LinearSVC(dual=False, tol=1e-10, max_iter=100_000, class_weight="balanced")
        found.append(machine.fit(projected, codes == c).coef_[0])
    return np.array(found).T


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("shift", [0.1, 1.5, 20.0])
def test_the_classifiers_are_those_of_liblinear(c: int, shift: float) -> None:
    x, codes = drawn(c=c, shift=shift)
    x = (x - x.mean(0)) / x.std()
    removed = np.linalg.qr(np.random.default_rng(1).normal(size=(10, 2)))[0]
    for directions in (np.zeros((10, 0)), removed):
        rows = x.astype(np.float32)
        planes = fit_squared_hinge(rows, Targets.of(codes, c), gram_of(rows), removed=directions)
        expected = oracle_normals(x, codes, directions)
        assert planes.converged
        assert_allclose(planes.normals, expected, atol=5e-3 * np.abs(expected).max())
        assert_allclose(directions.T @ planes.normals, 0, atol=1e-12)


def test_rows_in_many_blocks_and_factors_give_the_same_classifier() -> None:
    x, codes = drawn()
    rows = ((x - x.mean(0)) / x.std()).astype(np.float32)
    factors = np.random.default_rng(0).uniform(0.5, 2, len(rows)).astype(np.float32)
    targets = Targets.of(codes, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("salcli.linalg.squared_hinge.BLOCK_ELEMENTS", 170)
        split = fit_squared_hinge(rows, targets, gram_of(rows), factors=factors, spread=map)
    whole = fit_squared_hinge(rows * factors[:, None], targets, gram_of(rows))
    assert_allclose(split.normals, whole.normals, atol=1e-3 * np.abs(whole.normals).max())
    assert_array_equal(split.predict(rows, factors), whole.predict(rows * factors[:, None]))


@pytest.mark.parametrize("c", [2, 3])
def test_the_eraser_is_that_of_a_plain_loop_of_machines(c: int) -> None:
    x, codes = drawn(n=1200, c=c)
    fit = fitted(x, codes, rounds=3)
    sample = ProbeRows.of(labelled(x, codes), None, 0, Silent(), method="inlp")
    rows, codes_of_train = sample.train.astype(np.float64), sample.train_codes[0]
    basis = np.zeros((10, 0))
    for _ in range(fit.header["inlp"]["n_rounds"]):
        basis = np.linalg.qr(np.hstack([basis, oracle_normals(rows, codes_of_train, basis)]))[0]
    assert basis.shape[1] == fit.eraser.k >= min(2, c - 1)
    assert_allclose(fit.eraser.left @ fit.eraser.left.T, basis @ basis.T, atol=5e-3)


def test_it_is_an_exact_orthogonal_projection_whose_first_directions_are_those_of_fewer_rounds() -> None:
    x, codes = drawn(d=12, shift=3.0)
    many, one = fitted(x, codes, rounds=4), fitted(x, codes, rounds=1)
    assert many.eraser.k > one.eraser.k == 1
    assert_allclose(many.eraser.left.T @ many.eraser.left, np.eye(many.eraser.k), atol=1e-13)
    assert many.eraser.is_orthogonal
    assert_array_equal(many.eraser.truncated(1).left, one.eraser.left)
    assert_allclose(many.eraser(many.eraser(x)), many.eraser(x), atol=1e-9)
    assert np.all(np.diff(many.singular_values) <= 0)
    assert (many.rank, len(many.singular_values)) == (many.eraser.k, many.eraser.k)


def test_it_ends_when_held_out_rows_are_at_chance_and_leaves_a_task_at_right_angles_as_it_is() -> None:
    rng = np.random.default_rng(0)
    n, d = 3000, 20
    codes, task = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = rng.normal(size=(n, d))
    x[:, 0] += 4 * codes
    x[:, 1] += 4 * task
    fit = fitted(x, codes)
    about = fit.header["inlp"]
    assert about["is_at_chance"]
    assert about["n_rounds"] == fit.eraser.k <= 3  # 35 rounds would have taken all of 20 dimensions
    assert about["accuracies"][0][0] > 0.9
    assert about["accuracies"][-1][0] < 0.56
    machine = LinearSVC(dual=False)
    erased = fit.eraser(x)
    assert machine.fit(erased, task).score(erased, task) > 0.95
    assert machine.fit(erased, codes).score(erased, codes) < 0.56
    assert not fit.doubts


def test_what_is_left_after_the_last_round_is_said() -> None:
    x, codes = drawn(d=30, shift=0.5)
    fit = fitted(x, codes, rounds=1)
    (doubt,) = fit.doubts
    assert "after 1 rounds the balanced accuracy of a linear classifier on held-out rows" in doubt
    assert "g 0." in doubt
    assert not fit.header["inlp"]["is_at_chance"]


def test_a_rare_class_is_not_passed_over() -> None:
    rng = np.random.default_rng(0)
    codes = (np.arange(4000) % 33 == 0).astype(np.int64)
    x = rng.normal(size=(4000, 6))
    x[:, 2] += 1.2 * codes  # a machine that counts rows predicts the majority throughout
    assert LinearSVC(dual=False).fit(x, codes).predict(x).sum() == 0
    fit = fitted(x, codes)
    assert abs(fit.eraser.left[2, 0]) > 0.9


def test_several_attributes_are_each_trained_until_they_are_at_chance() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 2, 2000), rng.integers(0, 3, 2000)
    x = rng.normal(size=(2000, 12))
    x[:, 0] += 4 * one
    x[:, 1:4] += 4 * np.eye(3)[other]
    fit = fitted(x, one, other)
    assert fit.header["inlp"]["is_at_chance"]
    assert len(fit.header["inlp"]["accuracies"][0]) == 2
    erased = fit.eraser(x)
    for codes in (one, other):
        assert LinearSVC(dual=False).fit(erased, codes).score(erased, codes) < 1 / (codes.max() + 1) + 0.06


def test_labels_that_carry_nothing_take_one_round_and_that_is_said() -> None:
    x, codes = drawn()
    fit = fitted(x, np.random.default_rng(5).permutation(codes))
    assert (fit.eraser.k, fit.header["inlp"]["n_rounds"], fit.header["inlp"]["is_at_chance"]) == (1, 1, True)
    assert re.match("before anything is removed, .* on held-out rows .* is at chance: g 0.* removed all", fit.doubts[0])


def test_few_rows_are_scored_out_of_fold_and_that_is_said() -> None:
    x, codes = drawn(n=24, d=6, shift=6.0)
    fit = fitted(x, codes)
    about = fit.header["inlp"]
    assert (about["n_train"], about["n_held_out"]) == (24, 0)
    assert about["accuracies"][0][0] == 1.0
    assert "24 fitted rows are too few to hold any out" in fit.doubts[0]
    noise = np.random.default_rng(0).normal(size=(24, 40))  # of more dimensions than rows: all classes are separable
    rng = np.random.default_rng(1)
    accuracies = [fitted(noise, rng.permutation(codes), rounds=1).header["inlp"]["accuracies"][0][0] for _ in range(6)]
    assert 0.3 < np.mean(accuracies) < 0.65  # a row scored by a classifier that was trained on it would be right


@pytest.mark.parametrize("n_groups", [2, 7])
def test_few_rows_of_a_group_are_scored_by_classifiers_of_other_groups(n_groups: int) -> None:
    x, codes = drawn(n=28, d=4)
    rows = labelled(x, codes)
    authors = Attribute("author", np.arange(28) % n_groups, tuple(map(str, range(n_groups))))
    rows = replace(rows, labels=replace(rows.labels, groups=authors))
    folds = ProbeRows.of(rows, None, 0, Silent(), method="inlp", may_fold=True).folds
    assert folds is not None
    assert len(np.unique(folds)) > 1
    assert all(len(np.unique(folds[authors.values == group])) == 1 for group in range(n_groups))


def test_numbers_and_rows_that_cannot_be_parted_are_refused_in_one_line() -> None:
    x, _ = drawn()
    numbers = GuardedLabels("y.csv", (Attribute("age", x[:, 0], None),), None)
    with pytest.raises(LabelError, match="y.csv: column 'age' is numeric, and inlp trains classifiers"):
        METHOD.fit(
            LabelledSource.of(Source([ArrayReader(x)]), numbers, np.arange(len(x))),
            INLPParameters(),
            engine=LOCAL,
            progress=Silent(),
        )
    rows = labelled(x[:6], np.array([0, 0, 0, 0, 0, 1]))
    rows = replace(rows, labels=replace(rows.labels, groups=Attribute("author", np.zeros(6, int), ("one",))))
    with pytest.raises(LabelError, match="expected at least 5 for each of"):
        METHOD.fit(rows, INLPParameters(), engine=LOCAL, progress=Silent())
    with pytest.raises(RankError, match="rows do not vary"):
        fitted(np.ones((40, 3)), np.arange(40) % 2)


def test_more_rows_than_may_train_are_sampled_by_class_and_counted() -> None:
    x, codes = drawn(n=2000)
    fit = fitted(x, codes, training_rows=300)
    assert (fit.header["inlp"]["n_train"], fit.header["inlp"]["n_held_out"]) == (300, 100)
    sample = ProbeRows.of(labelled(x, codes), 300, 0, Silent(), method="inlp")
    assert_allclose(sample.train_codes[0].mean(), codes.mean(), atol=0.01)
    both = np.vstack([sample.train, sample.held_out])
    assert len(np.unique(both, axis=0)) == 400


def test_rows_of_a_group_are_all_held_out_or_none() -> None:
    x, codes = drawn(n=2000)
    rows = labelled(x, codes)
    authors = Attribute("author", np.arange(2000) // 20, tuple(map(str, range(100))))
    x[:, 0] = authors.values  # so that a row says whose it is
    rows = replace(labelled(x, codes), labels=replace(rows.labels, groups=authors))
    sample = ProbeRows.of(rows, None, 0, Silent(), method="inlp")
    one, other = (set(part[:, 0].round(4).tolist()) for part in (sample.train, sample.held_out))
    assert not one & other
    assert len(one) + len(other) == 100
    assert abs(len(sample.held_out) - 500) < 60


def test_directions_that_are_there_already_are_not_added() -> None:
    basis = np.eye(5)[:, :2]
    found = extended(basis, np.array([[1.0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 1, 0, 0]]).T[:, 1:])
    assert_allclose(found.T @ found, np.eye(3), atol=1e-14)
    assert_allclose(np.abs(found[:, 2]), [0, 0, 1, 0, 0], atol=1e-12)


def test_the_interval_of_a_reading_covers_chance_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [60, 240])
    found = [
        ProbeScore.of("g", None, rng.integers(0, 2, 300), codes).is_at_chance  # type: ignore[arg-type]
        for _ in range(2000)
    ]
    assert_allclose(np.mean(found), 0.95, atol=0.015)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str, Path]:
    x, codes = drawn(n=1200, d=8, shift=1.0)
    parts = np.array(["train", "train", "dev", "test"])[np.arange(1200) % 4]
    write_csv(tmp_path / "y.csv", ["g", "split"], zip(np.array(["f", "m"])[codes], parts, strict=True))
    return str(save_npy(tmp_path / "x.npy", x.astype(np.float32))), str(tmp_path / "y.csv"), tmp_path


def test_the_command_fits_the_train_rows_and_arrays_are_fitted_to_the_same_bits(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    by_command = fit(x, y, str(folder / "e.npz"), FitOptions(method="inlp"))
    train = np.array([line.endswith("train") for line in Path(y).read_text().splitlines()[1:]])
    assert by_command.header["inlp"]["n_train"] + by_command.header["inlp"]["n_held_out"] == train.sum()
    changed = np.load(x)
    changed[~train] += 9
    np.save(folder / "other.npy", changed)
    other = fit(str(folder / "other.npy"), y, str(folder / "other.npz"), FitOptions(method="inlp"))
    assert_array_equal(other.eraser.arrays()["left"], by_command.eraser.arrays()["left"])
    apply(str(folder / "e.npz"), x, str(folder / "o.npy"), ApplyOptions())
    basis = by_command.eraser.arrays()["left"]
    assert_allclose(np.load(folder / "o.npy") @ basis, 0, atol=1e-5)


def test_the_python_face_fits_it_too() -> None:
    x, codes = drawn()
    found = salcli.fit(x, codes, method="inlp", seed=3)
    assert_array_equal(found.eraser.arrays()["left"], fitted(x, codes, seed=3).eraser.left)
    assert found.k_rule == {"rounds": found.header["inlp"]["n_rounds"]}


@pytest.mark.slow
def test_it_is_swept_repeated_and_inspected(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    done = succeed("fit", x, y, "--method", "inlp", "--rounds", "2", "-o", folder / "e.npz")
    assert "rounds" in done.out
    assert "held-out" in done.out
    assert header_of(folder / "e.npz")["parameters"]["rounds"] == 2
    assert "held-out" in succeed("inspect", folder / "e.npz").out
    options = EvaluateOptions(probes=("linear",), sweep=Sweep.parse("k=0:1"), repeats=2, sample=300)
    report = evaluate(x, y, str(folder / "e.npz"), options)
    assert [step.value for step in report.sweep] == [0, 1]
    assert report.repeats is not None
    refuse(2, "fit", x, y, "--method", "inlp", "-k", "1", "-o", folder / "n.npz", says="method inlp has no such option")
    refuse(2, "fit", x, y, "--method", "inlp", "--rounds", "0", "-o", folder / "n.npz", says="at least 1")
    assert not (folder / "n.npz").exists()
