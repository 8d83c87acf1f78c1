"""The Python face: the same bits as the command, and its examples run."""

import doctest
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import salcli
from salcli.api import fitting as api
from salcli.commands.fit import fit as fit_file
from salcli.erasers.artifact import read_artifact
from salcli.erasers.leace import LEACEMethod
from salcli.erasers.sal import SALParameters
from salcli.errors import LabelError, ParameterError, ShapeError
from salcli.options import FitOptions, LabelOptions


def rows(n: int = 500, d: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, n)
    return (rng.normal(size=(n, d)) + rng.normal(size=(3, d))[codes] + 5).astype(np.float32), np.array(list("abc"))[
        codes
    ]


@pytest.mark.parametrize("method", ["sal", "leace", "inlp", "ksal"])
def test_arrays_are_fitted_to_the_same_bits_as_files(method: str, tmp_path: Path) -> None:
    x, y = rows()
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "y.csv").write_text("y\n" + "\n".join(y) + "\n")
    path = str(tmp_path / "e.npz")
    by_command = fit_file(str(tmp_path / "x.npy"), str(tmp_path / "y.csv"), path, FitOptions(method=method))
    found = salcli.fit(x, y, method=method)
    for name, array in by_command.eraser.arrays().items():
        np.testing.assert_array_equal(found.eraser.arrays()[name], array)
    np.testing.assert_array_equal(found.singular_values, by_command.singular_values)
    np.testing.assert_array_equal(read_artifact(path).eraser(x), found.eraser(x))


def test_numbers_are_fitted_as_the_command_fits_them(tmp_path: Path) -> None:
    x, _ = rows()
    age = x @ np.arange(7.0) + 40
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "y.csv").write_text("age\n" + "\n".join(map(repr, age.tolist())) + "\n")
    options = FitOptions(labels=LabelOptions(numeric=("age",)), parameters=SALParameters(k=1))
    by_command = fit_file(str(tmp_path / "x.npy"), str(tmp_path / "y.csv"), str(tmp_path / "e.npz"), options)
    assert np.array_equal(
        salcli.fit(x, age, numeric=True, k=1).eraser.arrays()["left"], by_command.eraser.arrays()["left"]
    )


def test_what_cannot_be_fitted_is_refused_in_pythons_words() -> None:
    x, y = rows()
    with pytest.raises(ShapeError, match="not floats"):
        salcli.fit(x, y[:-1])
    with pytest.raises(LabelError, match="one class"):
        salcli.fit(x, ["a"] * len(x))
    with pytest.raises(ParameterError, match="k = 0: at least one direction"):
        salcli.fit(x, y, k=0)
    with pytest.raises(
        ParameterError, match="method = 'tox': expected one of sal, leace, splince, inlp, ksal, transport"
    ):
        salcli.fit(x, y, method="tox")
    with pytest.raises(AttributeError):
        salcli.nothing  # noqa: B018


def test_the_examples_run() -> None:
    found = doctest.testmod(api)
    assert found.attempted > 5
    assert found.failed == 0
    assert LEACEMethod.name == "leace"


@pytest.mark.parametrize("value", [{"k": "a"}, {"k": True}, {"k": 1.5}, {"center": "no"}])
def test_a_parameter_of_another_type_is_refused(value: dict[str, object]) -> None:
    x, y = rows()
    with pytest.raises(ParameterError, match="expected"):
        salcli.fit(x, y, **value)


@pytest.mark.parametrize("bad", [lambda x: np.round(x).astype(int), lambda x: x.tolist(), lambda x: x.astype(object)])
@pytest.mark.parametrize("method", ["sal", "leace"])
def test_an_eraser_takes_floats_alone(bad: Callable[[np.ndarray], object], method: str) -> None:
    x, y = rows()
    with pytest.raises(ShapeError, match="numpy array of floats"):
        salcli.fit(x, y, method=method).eraser(bad(x))


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_rows_without_a_label_are_not_fitted(missing: object) -> None:
    x, y = rows()
    some = np.array(y, dtype=object)
    some[::5] = missing
    kept = np.arange(len(x)) % 5 > 0
    found, expected = salcli.fit(x, some).eraser, salcli.fit(x[kept], np.asarray(y)[kept]).eraser
    np.testing.assert_allclose(found.arrays()["left"], expected.arrays()["left"], atol=1e-12)
    numbers = np.where(kept, x @ np.arange(7.0), np.nan)
    found = salcli.fit(x, numbers, numeric=True).eraser
    expected = salcli.fit(x[kept], numbers[kept], numeric=True).eraser
    np.testing.assert_allclose(found.arrays()["left"], expected.arrays()["left"], atol=1e-12)
