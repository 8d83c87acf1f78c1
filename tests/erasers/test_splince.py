"""SPLINCE against its theorem, against an oracle in numpy, and against LEACE."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import salcli
from salcli.commands.apply import apply
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.inspect import inspect
from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import Fit
from salcli.erasers.leace import fit_leace
from salcli.erasers.linear import LinearEraser
from salcli.erasers.splince import SPLINCEParameters, fit_splince, projection_norm
from salcli.errors import LabelError, RankError, SalcliWarning, UsageError
from salcli.linalg.moments import CrossMoments, SecondMoments
from salcli.options import ApplyOptions, EvaluateOptions, FitOptions, InspectOptions, LabelOptions, Sweep

from ..cli.helpers import header_of, refuse, save_npy, succeed, write_csv

Array = NDArray[np.float64]


def one_hot(codes: NDArray[np.int64]) -> Array:
    return np.eye(int(codes.max()) + 1)[codes]


def drawn(
    n: int = 400, d: int = 7, c: int = 2, t: int = 3, seed: int = 0, mean: float = 5.0
) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """Draw rows of correlated columns that vary with guarded classes and with those of a task, which go together."""
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.arange(n) % c)
    y = np.where(rng.random(n) < 0.4, z % t, rng.permutation(np.arange(n) % t))
    x = rng.normal(size=(n, d)) + rng.normal(size=(c, d))[z] + rng.normal(size=(t, d))[y]
    return x @ (rng.normal(size=(d, d)) + 2 * np.eye(d)) + mean, z, y


def fitted(x: Array, z: Array, y: Array, **how: float | bool | None) -> Fit[LinearEraser]:
    return fit_splince(SecondMoments.of(x, np.hstack([z, y])), z.shape[1], **how)  # type: ignore[arg-type]


def oracle(x: Array, z: Array, y: Array) -> Array:
    """Return erased rows, by the formula of the paper, with the inverse of a dense root."""
    centred = x - x.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(x))
    w, inverse = (vectors * values**power @ vectors.T for power in (-0.5, 0.5))

    def orth(m: Array) -> Array:
        u, s, _ = np.linalg.svd(m, full_matrices=False)
        return u[:, s > 1e-9 * s[0]]

    a, b = (orth(w @ (centred.T @ (labels - labels.mean(0)) / len(x))) for labels in (z, y))
    v = orth((np.eye(len(a)) - b @ b.T) @ np.hstack([a, b]))
    whole = w @ v @ np.linalg.inv(a.T @ v) @ a.T @ inverse
    return x - centred @ whole


@pytest.mark.parametrize(("c", "t"), [(2, 2), (2, 4), (3, 3)])
def test_the_projection_is_that_of_the_papers_formula(c: int, t: int) -> None:
    x, codes, task = drawn(d=9, c=c, t=t)
    z, y = one_hot(codes), one_hot(task)
    fit = fitted(x, z, y)
    assert_allclose(fit.eraser(x), oracle(x, z, y), atol=1e-8)
    assert (fit.rank, fit.eraser.k, fit.header["kept_task"]["rank"]) == (c - 1, c - 1, t - 1)
    projection = fit.eraser.projection()
    assert_allclose(fit.header["projection"]["norm"], np.linalg.norm(projection, 2), rtol=1e-9)


def test_the_angle_and_the_condition_are_those_of_scipy() -> None:
    from scipy.linalg import subspace_angles

    x, codes, task = drawn(d=9, c=3, t=3)
    z, y = one_hot(codes), one_hot(task)
    centred = x - x.mean(0)
    chol = np.linalg.cholesky(centred.T @ centred)  # another whitening: angles are the same
    angles = subspace_angles(*(np.linalg.solve(chol, centred.T @ (v - v.mean(0)))[:, 1:] for v in (z, y)))
    found = fitted(x, z, y).header["projection"]
    assert_allclose(found["angle"], np.degrees(angles.min()), rtol=1e-7)
    assert_allclose(found["condition"], np.sin(angles.max()) / np.sin(angles.min()), rtol=1e-7)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 4),
    st.integers(2, 4),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.booleans(),
)
def test_guarded_covariance_is_erased_and_the_tasks_kept(
    seed: int, c: int, t: int, scale: float, shrinkage: float, keep_mean: bool
) -> None:
    x, codes, task = drawn(120, 9, c, t, seed)
    x, z, y = x * scale, one_hot(codes), one_hot(task)
    try:
        eraser = fitted(x, z, y, shrinkage=shrinkage, keep_mean=keep_mean).eraser
    except RankError as error:
        if "nearly" not in str(error):
            raise
        return
    erased = eraser(x)
    size = np.linalg.norm(x - x.mean(0)) / np.sqrt(len(x))
    assert_allclose(CrossMoments.of(erased, z).cross_covariance(), 0, atol=1e-9 * size)
    before, after = (CrossMoments.of(rows, y).cross_covariance() for rows in (x, erased))
    assert_allclose(after, before, atol=1e-9 * size)
    assert_allclose(eraser(erased), erased, atol=1e-8 * size * (1 + np.abs(x.mean(0)).max() / size))  # idempotent
    if keep_mean:
        assert_allclose(erased.mean(0), x.mean(0), rtol=1e-9)


def test_with_a_task_that_is_uncorrelated_it_is_leace() -> None:
    x, codes, _ = drawn()
    z = one_hot(codes)
    x = np.vstack([x, x])  # each row twice, once for each class of a task that thus carries nothing
    z, task = np.vstack([z, z]), np.repeat([0, 1], len(codes))
    fit = fitted(x, z, one_hot(task))
    assert fit.header["kept_task"]["rank"] == 0
    assert_allclose(fit.eraser(x), fit_leace(SecondMoments.of(x, z)).eraser(x), atol=1e-10)


def test_with_a_task_at_right_angles_it_is_leace() -> None:
    rng = np.random.default_rng(1)
    codes = np.arange(400) % 4
    guarded, task = codes % 2, codes // 2
    x = np.linalg.qr(rng.normal(size=(400, 6)) - 0)[0]
    both = np.column_stack([guarded, task]) - 0.5
    x -= x.mean(0)
    x -= both @ np.linalg.lstsq(both, x, rcond=None)[0]  # of what is left, nothing covaries with either
    x = np.linalg.qr(x)[0] * 20
    x[:, 0] += both[:, 0]
    x[:, 1] += both[:, 1]
    z, y = one_hot(guarded), one_hot(task)
    fit = fitted(x, z, y)
    assert_allclose(fit.header["projection"]["angle"], 90, atol=1e-5)
    assert_allclose(fit.eraser(x), fit_leace(SecondMoments.of(x, z)).eraser(x), atol=1e-9)


def test_no_other_map_with_both_properties_changes_whitened_rows_less() -> None:
    x, codes, task = drawn(d=8)
    z, y = one_hot(codes), one_hot(task)
    moments = SecondMoments.of(x, z)
    inverse = np.linalg.inv(moments.covariance())
    eraser = fitted(x, z, y).eraser
    cov_y = CrossMoments.of(x, y).cross_covariance()
    rng = np.random.default_rng(0)
    both = np.linalg.qr(np.hstack([moments.cross.cross_covariance()[:, :1], cov_y[:, :2]]))[0]

    def change(other: LinearEraser) -> float:
        moved = other(x) - x
        return float(np.einsum("ij,jk,ik->", moved, inverse, moved))

    for _ in range(10):
        aside = rng.normal(size=eraser.right.shape)
        aside -= both @ (both.T @ aside)  # so that both covariances stay as they are
        other = LinearEraser(eraser.mean, eraser.left, eraser.right + 0.1 * aside)
        assert_allclose(CrossMoments.of(other(x), z).cross_covariance(), 0, atol=1e-9)
        assert change(eraser) < change(other)


def test_the_first_k_directions_are_those_of_a_fit_with_k_and_keep_the_task() -> None:
    x, codes, task = drawn(d=9, c=4)
    z, y = one_hot(codes), one_hot(task)
    one, other = fitted(x, z, y).eraser.truncated(2), fitted(x, z, y, k=2).eraser
    assert_allclose(one(x), other(x), atol=1e-10)
    after = CrossMoments.of(other(x), y).cross_covariance()
    assert_allclose(after, CrossMoments.of(x, y).cross_covariance(), atol=1e-9)


def test_a_task_that_is_nearly_the_guarded_attribute_is_refused_in_one_line() -> None:
    x, codes, _ = drawn(n=2000)
    z = one_hot(codes)
    with pytest.raises(RankError, match="nearly parallel .an angle of") as found:
        fitted(x, z, z)
    assert "\n" not in str(found.value)
    with pytest.raises(RankError, match="an angle of"):  # more directions than there are
        x, codes, task = drawn(d=3, c=3, t=4)
        fitted(x, one_hot(codes), one_hot(task))


def test_the_norm_of_a_projection_that_removes_everything_is_zero() -> None:
    assert projection_norm(np.eye(3), np.eye(3)) == 0


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str, Path]:
    x, codes, task = drawn(300, 6)
    rng = np.random.default_rng(0)
    parts = np.array(["train", "train", "dev", "test"])[np.arange(300) % 4]
    y = np.where(rng.random(300) < 0.1, "", np.array(["u", "v", "w"])[task])
    write_csv(tmp_path / "y.csv", ["g", "job", "split"], zip(np.array(["f", "m"])[codes], y, parts, strict=True))
    return str(save_npy(tmp_path / "x.npy", x.astype(np.float32))), str(tmp_path / "y.csv"), tmp_path


def test_the_command_keeps_the_mean_of_every_class_of_the_task_also_where_some_rows_have_none(
    paths: tuple[str, str, Path],
) -> None:
    x, y, folder = paths
    options = FitOptions(method="splince", parameters=SPLINCEParameters(task="job"), labels=LabelOptions(("g",)))
    artifact = fit(x, y, str(folder / "e.npz"), options)
    assert not artifact.eraser.is_orthogonal
    apply(str(folder / "e.npz"), x, str(folder / "o.npy"), ApplyOptions(dtype="float64"))
    table = np.array([line.split(",") for line in Path(y).read_text().splitlines()[1:]])
    train = table[:, 2] == "train"
    before, after = np.load(x).astype(np.float64)[train], np.load(folder / "o.npy")[train]
    assert_allclose(*(after[table[train, 0] == g].mean(0) for g in "fm"), atol=1e-6)
    for job in ("u", "v", "w", ""):
        of_class = table[train, 1] == job
        assert_allclose(after[of_class].mean(0), before[of_class].mean(0), atol=1e-5)
    found = inspect(str(folder / "e.npz"), InspectOptions())
    assert found["kept_task"] == {"name": "job", "classes": ["u", "v", "w"], "rank": 3}
    assert found["projection"] == artifact.header["projection"]


def test_a_model_that_is_not_trained_again_predicts_the_same_class_means(paths: tuple[str, str, Path]) -> None:
    x, codes, task = drawn(2000, 8, t=2)
    z, y = one_hot(codes), one_hot(task)
    model = LogisticRegression().fit(x, task)
    splince, leace = fitted(x, z, y).eraser, fit_leace(SecondMoments.of(x, z)).eraser
    means = [[model.decision_function(rows)[task == t].mean() for t in (0, 1)] for rows in (x, splince(x), leace(x))]
    assert_allclose(means[1], means[0], atol=1e-8)
    assert abs(means[2][0] - means[0][0]) > 0.05


@pytest.mark.slow
def test_a_sweep_and_repeats_fit_again_with_the_artifacts_own_task(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    options = FitOptions(method="splince", parameters=SPLINCEParameters(task="job"), labels=LabelOptions(("g",)))
    fit(x, y, str(folder / "e.npz"), options)
    report = evaluate(
        x,
        y,
        str(folder / "e.npz"),
        EvaluateOptions(probes=("linear",), sweep=Sweep.parse("k=0:1"), repeats=2, sample=60),
    )
    assert len(report.sweep) == 2
    assert report.repeats is not None
    assert report.repeats.n == 2


def test_arrays_are_fitted_as_files_are(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    options = FitOptions(
        method="splince", parameters=SPLINCEParameters(task="job"), labels=LabelOptions(("g",), no_split=True)
    )
    by_command = fit(x, y, str(folder / "e.npz"), options)
    table = np.array([line.split(",") for line in Path(y).read_text().splitlines()[1:]], object)
    task = [job or None for job in table[:, 1]]
    found = salcli.fit(np.load(x), table[:, 0].astype(str), method="splince", task=task)
    for name, array in by_command.eraser.arrays().items():
        assert_array_equal(found.eraser.arrays()[name], array)
    with pytest.raises(UsageError, match="keeps no main task"):
        salcli.fit(np.load(x), table[:, 0].astype(str), task=task)
    with pytest.raises(UsageError, match="keeps a main task"):
        salcli.fit(np.load(x), table[:, 0].astype(str), method="splince")


def test_the_task_of_the_labels_is_that_of_the_method_where_no_parameters_are_given(
    paths: tuple[str, str, Path],
) -> None:
    x, y, folder = paths
    artifact = fit(x, y, str(folder / "e.npz"), FitOptions(LabelOptions(("g",), task="job"), method="splince"))
    assert artifact.parameters == SPLINCEParameters(task="job")
    sal = fit(x, y, str(folder / "s.npz"), FitOptions(LabelOptions(("g",), task="job")))
    assert "kept_task" not in sal.header


def test_a_task_with_one_class_is_refused_and_one_that_carries_nothing_is_warned_of(
    paths: tuple[str, str, Path],
) -> None:
    x, y, folder = paths
    lines = Path(y).read_text().splitlines()
    (folder / "one.csv").write_text("\n".join([lines[0], *(",job,".join(line.split(",")[::2]) for line in lines[1:])]))
    options = FitOptions(method="splince", parameters=SPLINCEParameters(task="job"), labels=LabelOptions(("g",)))
    with pytest.raises(LabelError, match=r"one class \(job\) on the fitted rows"):
        fit(x, str(folder / "one.csv"), str(folder / "e.npz"), options)
    assert not (folder / "e.npz").exists()
    rows = np.load(x)
    np.save(folder / "twice.npy", np.vstack([rows, rows]))
    both = [f"{line.split(',')[0]},{job}" for job in "ab" for line in lines[1:]]
    (folder / "twice.csv").write_text("\n".join(["g,job", *both]))
    with pytest.warns(SalcliWarning, match="do not covary with the task 'job'"):
        fit(str(folder / "twice.npy"), str(folder / "twice.csv"), str(folder / "e.npz"), options)
    assert read_artifact(str(folder / "e.npz")).header["kept_task"]["rank"] == 0


@pytest.mark.slow
def test_the_command_line_says_what_was_kept_and_what_is_missing(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    how = ("fit", x, y, "--attribute", "g", "-o", folder / "e.npz")
    done = succeed(*how, "--method", "splince", "--task", "job", "--no-keep-mean")
    assert "kept task" in done.out
    assert "‖P‖₂" in done.out
    assert header_of(folder / "e.npz")["parameters"]["keep_mean"] is False
    assert not np.load(folder / "e.npz")["mean"].any()
    refuse(2, *how, "--method", "splince", says="name its column by --task COL")
    refuse(2, *how, "--method", "sal", "--task", "job", says="--task: method sal has no such option; splince has it")
    refuse(2, *how, "--method", "splince", "--task", "g", says="that column is guarded")
    refuse(3, *how, "--method", "splince", "--task", "jobs", says="did you mean job?")
