"""Estimators: what `salcli fit` writes, bit for bit; what scikit-learn demands; rows in parts."""

import doctest
import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import salcli
from salcli.api import estimators
from salcli.api.constructor import COLUMNS, OWN
from salcli.commands.apply import apply
from salcli.commands.fit import fit
from salcli.erasers.artifact import read_artifact
from salcli.erasers.base import METHODS
from salcli.errors import FormatError, LabelError, ParameterError, SalcliWarning, UsageError
from salcli.options import ApplyOptions, FitOptions, LabelOptions, options_of

ESTIMATORS = (salcli.SAL, salcli.LEACE, salcli.SPLINCE, salcli.INLP, salcli.KernelSAL, salcli.Transport)
SUMMED = ESTIMATORS[:3]
N, D = 600, 12
Table = dict[str, np.ndarray]


def rows(seed: int = 0, n: int = N, dtype: Any = np.float32) -> tuple[np.ndarray, Table]:
    """Return rows in columns of very different scales and means, and their labels."""
    rng = np.random.default_rng(seed)
    gender, job = rng.integers(0, 3, n), rng.integers(0, 2, n)
    x = rng.normal(size=(n, D)) + rng.normal(size=(3, D))[gender] * 2 + rng.normal(size=(2, D))[job]
    x = (x + 3) * np.array([1e-3, *[1] * 9, 10, 1e3])
    return x.astype(dtype), {"gender": np.array(["f", "m", "x"])[gender], "job": np.array(["nurse", "poet"])[job]}


def write(folder: Path, x: np.ndarray, table: Table) -> tuple[str, str, str]:
    np.save(folder / "x.npy", x)
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    (folder / "y.csv").write_text("\n".join(lines) + "\n")
    return tuple(str(folder / name) for name in ("x.npy", "y.csv", "e.npz"))  # type: ignore[return-value]


def fitted(kind: type, x: np.ndarray, table: Table, **parameters: Any) -> Any:
    task = {"task": {"job": table["job"]}} if kind is salcli.SPLINCE else {}
    return kind(**parameters).fit(x, guarded={"gender": table["gender"]}, **task)


def same_eraser(one: Any, other: Any) -> None:
    assert one.eraser.arrays().keys() == other.eraser.arrays().keys()
    for name, array in one.eraser.arrays().items():
        np.testing.assert_array_equal(other.eraser.arrays()[name], array)
    np.testing.assert_array_equal(one.singular_values, other.singular_values)


def without_inputs(header: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in header.items() if name != "inputs"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_writes_the_artifact_and_the_rows_of_the_command(kind: Any, dtype: Any, tmp_path: Path) -> None:
    x, table = rows(dtype=dtype)
    if kind is salcli.KernelSAL:  # γ of unit variances
        x = (x / x.std(axis=0)).astype(dtype)
    found = fitted(kind, x, table)
    embeddings, labels, path = write(tmp_path, x, table)
    columns = LabelOptions(("gender",), task="job" if kind is salcli.SPLINCE else None)
    by_command = fit(embeddings, labels, path, FitOptions(labels=columns, method=kind.method))
    found.to_artifact(str(tmp_path / "mine.npz"))
    mine = read_artifact(str(tmp_path / "mine.npz"))
    same_eraser(by_command, mine)
    assert without_inputs(mine.header) == without_inputs(read_artifact(path).header)
    assert mine.header["inputs"]["embeddings"]["n"] == N
    out = str(tmp_path / "out.npy")
    apply(path, embeddings, out, ApplyOptions(dtype=np.dtype(dtype).name))
    np.testing.assert_array_equal(np.load(out), found.transform(x))
    again = kind.from_artifact(path)
    np.testing.assert_array_equal(again.transform(x), found.transform(x))
    again.to_artifact(str(tmp_path / "again.npz"))
    assert (tmp_path / "again.npz").read_bytes() == Path(path).read_bytes()


def test_several_attributes_numbers_and_missing_labels_are_those_of_the_command(tmp_path: Path) -> None:
    x, table = rows()
    table["age"] = np.round(x[:, 1].astype(np.float64) * 10 + 40, 2)
    gender, age = table["gender"].astype(object), table["age"].copy()
    gender[::7], age[::5] = None, np.nan
    found = salcli.SAL(numeric=("age",)).fit(x, guarded={"gender": gender, "job": table["job"], "age": age})
    texts = {"gender": np.where(gender == None, "", gender), "job": table["job"]}  # noqa: E711
    texts["age"] = np.where(np.isnan(age), "", age.astype(str))
    embeddings, labels, path = write(tmp_path, x, texts)
    columns = LabelOptions(("gender", "job"), ("age",))
    with pytest.warns(SalcliWarning, match="unlabelled"):
        by_command = fit(embeddings, labels, path, FitOptions(labels=columns))
    same_eraser(by_command, found.artifact_)
    assert without_inputs(by_command.header) == without_inputs(found.header_)
    assert salcli.SAL.from_artifact(path).numeric == ("age",)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_those_of_the_method(kind: Any) -> None:
    parameters = kind().get_params()
    of_method = options_of(kind._parameter_type()).items()
    options = {name: default for name, (_, default) in of_method if name not in COLUMNS}
    own = {name: default for name, (default, _) in OWN.items()} | ({"noise_key": None} if "noise" in options else {})
    assert parameters == options | own
    assert all(f"    {name}\n" in kind.__doc__ for name in parameters)
    assert set(inspect.signature(kind).parameters) == set(parameters)
    with pytest.raises(TypeError, match="unknown"):
        kind(unknown=1)
    assert repr(kind()) == f"{kind.__name__}()"
    assert repr(kind(strength=0.5, seed=3)) == f"{kind.__name__}(seed=3, strength=0.5)"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_copies_transform_as_the_original(kind: Any) -> None:
    x, table = rows()
    found = fitted(kind, x / x.std(axis=0), table)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.transform(x), found.transform(x))
    assert clone(found).get_params() == found.get_params()


def test_y_is_the_main_task_and_is_never_erased_unasked() -> None:
    x, table = rows()
    x = x / x.std(axis=0)
    with pytest.raises(UsageError, match=r"there is none: fit\(X, y, guarded=labels\).*main task.*set_fit_request"):
        make_pipeline(salcli.SAL(), LogisticRegression()).fit(x, table["job"])
    erased = salcli.SAL(guards="y").fit_transform(x, table["gender"])
    np.testing.assert_array_equal(erased, salcli.SAL().fit_transform(x, guarded=table["gender"]))
    with pytest.raises(LabelError, match="requires y to be passed, but the target y is None"):
        salcli.SAL(guards="y").fit(x)
    with pytest.raises(UsageError, match="pass one of both"):
        salcli.SAL(guards="y").fit(x, table["job"], guarded=table["gender"])
    with pytest.raises(UsageError, match="expected 'guarded' or 'y'"):
        salcli.SAL(guards="z").fit(x, table["job"])


def test_what_cannot_be_fitted_is_a_value_error_that_says_why(tmp_path: Path) -> None:
    x, table = rows()
    with pytest.raises(ValueError, match="n_samples=1"):
        salcli.SAL().fit(x[:1], guarded=["a"])
    with pytest.raises(ValueError, match="one class"):
        salcli.SAL().fit(x, guarded=["a"] * N)
    with pytest.raises(ValueError, match="zero covariance"):
        salcli.SAL().fit(np.ones((4, 2)), guarded=list("abab"))
    with pytest.raises(ValueError, match="guarded: 599 labels, but X has 600 rows"):
        salcli.SAL().fit(x, guarded=table["gender"][1:])
    with pytest.raises(ValueError, match="no column 'age'"):
        salcli.SAL(numeric=("age",)).fit(x, guarded=table["gender"])
    with pytest.raises(ParameterError, match="at least one direction"):
        salcli.SAL(k=0).fit(x, guarded=table["gender"])
    salcli.LEACE().fit(x, guarded=table["gender"]).to_artifact(str(tmp_path / "e.npz"))
    with pytest.raises(FormatError, match="was fitted by method 'leace', SAL is 'sal'"):
        salcli.SAL.from_artifact(str(tmp_path / "e.npz"))


@pytest.mark.parametrize("kind", [*SUMMED, salcli.INLP])
@pytest.mark.parametrize("strength", [0.0, 0.3, 0.9])
def test_what_is_moved_part_of_the_way_can_be_moved_back(kind: Any, strength: float) -> None:
    x, table = rows(dtype=np.float64)
    found = fitted(kind, x, table, strength=strength)
    np.testing.assert_allclose(found.inverse_transform(found.transform(x)), x, rtol=1e-9, atol=1e-9)
    assert not hasattr(clone(found).set_params(strength=1.0), "inverse_transform")


def test_what_cannot_be_undone_has_no_inverse() -> None:
    for kind in (salcli.KernelSAL, salcli.Transport):
        assert not hasattr(kind(strength=0.5), "inverse_transform")
    assert not hasattr(salcli.SAL(strength=0.5, unit=True), "inverse_transform")


def test_labels_are_taken_in_every_shape() -> None:
    x, table = rows()
    expected = salcli.SAL().fit(x, guarded=table).singular_values_
    both = np.stack(list(table.values()), axis=1)
    for guarded in (both, both.tolist(), both.astype(object)):
        found = salcli.SAL().fit(x, guarded=guarded)
        np.testing.assert_array_equal(found.singular_values_, expected)
        assert [each["name"] for each in found.header_["attributes"]] == ["guarded0", "guarded1"]
    codes = salcli.SAL().fit(x, guarded=np.unique(table["job"], return_inverse=True)[1])
    assert codes.header_["attributes"][0]["classes"] == ["0", "1"]
    ten = salcli.SAL().fit(x, guarded=np.arange(N) % 11)
    assert ten.header_["attributes"][0]["classes"][:3] == ["0", "1", "10"]  # as the command sorts text
    np.testing.assert_array_equal(
        ten.transform(x), salcli.SAL().fit_transform(x, guarded=[str(i % 11) for i in range(N)])
    )


def test_the_examples_run() -> None:
    found = doctest.testmod(estimators)
    assert found.attempted > 30
    assert found.failed == 0


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (salcli.SAL, {"k": "auto"}),
        (salcli.SAL, {"unit": True, "seed": 3}),
        (salcli.SAL, {"alpha": 1.5, "keep_mean": True}),
        (salcli.SAL, {"center": False}),
        (salcli.LEACE, {"k": 1}),
        (salcli.INLP, {"rounds": 2, "seed": 5}),
        (salcli.KernelSAL, {"landmarks": "all", "kernel": "poly"}),
        (salcli.KernelSAL, {"landmarks": 40, "gamma": "scale", "seed": 2}),
        (salcli.Transport, {"shrinkage": 0.3, "towards": "identity"}),
    ],
)
def test_parameters_mean_what_they_mean_to_the_command(kind: Any, parameters: Any, tmp_path: Path) -> None:
    x, table = rows(n=200)
    x = (x / x.std(axis=0)).astype(np.float32)
    embeddings, labels, path = write(tmp_path, x, {"gender": table["gender"]})
    fields = {name: value for name, value in parameters.items() if name != "seed"}
    seed = parameters.get("seed", 0)
    options = FitOptions(method=kind.method, parameters=kind._parameter_type()(**fields), seed=seed)
    by_command = fit(embeddings, labels, path, options)
    found = fitted(kind, x, table, **parameters)
    same_eraser(by_command, found.artifact_)
    assert without_inputs(by_command.header) == without_inputs(found.header_)
    out = str(tmp_path / "out.npy")
    apply(path, embeddings, out, ApplyOptions())
    np.testing.assert_array_equal(np.load(out), found.transform(x))
    again = kind.from_artifact(path)
    known = {name: value for name, value in found.header_["parameters"].items() if name not in COLUMNS}
    assert again.get_params() == found.get_params() | known  # γ = scale is a number there
    assert len(again.get_feature_names_out()) == again.transform(x).shape[1]


def test_the_method_is_chosen_as_the_command_chooses_it(tmp_path: Path) -> None:
    x, table = rows(n=200)
    x = (x / x.std(axis=0)).astype(np.float32)
    embeddings, labels, path = write(tmp_path, x, {"gender": table["gender"]})
    parameters = {"max_leak": 0.6, "attackers": ("linear",)}
    options = FitOptions(method="auto", parameters=salcli.Auto._parameter_type()(**parameters))
    by_command = fit(embeddings, labels, path, options)
    found = fitted(salcli.Auto, x, table, **parameters)
    same_eraser(by_command, found.artifact_)
    assert without_inputs(by_command.header) == without_inputs(found.header_)
    chosen = {kind.method: kind for kind in ESTIMATORS}[found.header_["method"]]
    np.testing.assert_array_equal(chosen.from_artifact(path).transform(x), found.transform(x))
    with pytest.raises(UsageError, match="needs a limit"):
        fitted(salcli.Auto, x, table)


def test_every_method_has_an_estimator() -> None:
    kinds = (getattr(salcli, name) for name in salcli.__all__)
    assert {kind.method for kind in kinds if isinstance(kind, type)} == set(METHODS)


def test_noise_needs_its_secret(tmp_path: Path) -> None:
    x, table = rows()
    x = (x / x.std(axis=0)).astype(np.float32)
    found = fitted(salcli.Transport, x, table, shrinkage=0.3, noise=0.2)
    with pytest.raises(UsageError, match="noise_key"):
        found.transform(x)
    path, secret, out = (str(tmp_path / name) for name in ("e.npz", "secret", "out.npy"))
    embeddings, _, _ = write(tmp_path, x, table)
    found.to_artifact(path)
    with pytest.warns(SalcliWarning, match="wrote a new secret"):
        apply(path, embeddings, out, ApplyOptions(noise_key=secret))
    np.testing.assert_array_equal(np.load(out), found.set_params(noise_key=secret).transform(x))


@pytest.mark.parametrize("name", ["schema-1-sal", "schema-1-exact", "schema-1-features"])
def test_artifacts_of_the_first_schema_are_read(name: str, tmp_path: Path) -> None:
    path = str(Path(__file__).parent.parent / "golden" / f"{name}.npz")
    artifact = read_artifact(path)
    kind = salcli.SAL if artifact.header["method"] == "sal" else salcli.KernelSAL
    found = kind.from_artifact(path)
    x = np.random.default_rng(0).normal(size=(20, found.n_features_in_))
    np.testing.assert_array_equal(found.transform(x), artifact.eraser.to_features()(x))
    found.to_artifact(str(tmp_path / "e.npz"))
    np.testing.assert_array_equal(kind.from_artifact(str(tmp_path / "e.npz")).transform(x), found.transform(x))


@pytest.mark.parametrize("kind", [salcli.SAL, salcli.LEACE])
def test_every_column_is_centred_by_its_own_mean(kind: Any) -> None:
    x, table = rows(dtype=np.float64)
    if kind is salcli.LEACE:  # which floors eigenvalues at 1e-7 of the largest
        x = x * np.array([1e2, *[1] * 10, 1e-2])
    x = x + np.array([1e4, -1e2, *[0] * 9, 5e4])  # means that differ as much as scales do
    z = (table["gender"][:, None] == np.unique(table["gender"])).astype(float)
    centred_x, centred_z = x - x.mean(axis=0), z - z.mean(axis=0)
    omega = centred_x.T @ centred_z / N
    if kind is salcli.SAL:
        u = np.linalg.svd(omega)[0][:, :2]
        expected = x - x @ u @ u.T
    else:  # Belrose et al. 2023, theorem 4.3
        values, vectors = np.linalg.eigh(centred_x.T @ centred_x / N)
        whiten, restore = (vectors * values**power @ vectors.T for power in (-0.5, 0.5))
        u = np.linalg.svd(whiten @ omega)[0][:, :2]
        expected = x - centred_x @ whiten @ u @ u.T @ restore
    found = kind().fit_transform(x, guarded=table["gender"])
    scale = x.std(axis=0)
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-5)
    left = (found - found.mean(axis=0)).T @ centred_z / N
    assert np.abs(left).max() < 1e-9 * np.abs(omega).max()
    assert np.abs(omega / scale[:, None]).min(axis=1).max() > 0.01  # there was something to remove
