"""`k = auto`: the gentlest k that leaves nothing to read, chosen on rows of the fit alone."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

import salcli
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.inspect import inspect
from salcli.erasers.artifact import read_artifact
from salcli.erasers.auto_k import parse_k
from salcli.erasers.sal import SALParameters
from salcli.errors import LabelError, ParameterError, SalcliWarning, UsageError
from salcli.options import EvaluateOptions, FitOptions, InspectOptions, LabelOptions, Sweep

from ..cli.helpers import refuse, run, save_npy, succeed, write_csv

Codes = NDArray[np.int64]


def drawn(n: int = 4000, d: int = 12, c: int = 5, n_strong: int = 2, seed: int = 0) -> tuple[np.ndarray, Codes]:
    """Draw rows of `c` classes, whose means vary along `n_strong` directions only; others add rounding's worth."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % c)
    centres = np.zeros((c, d))
    centres[:, :n_strong] = 4 * rng.normal(size=(c, n_strong)) * [1, 0.5, 0.3][:n_strong]
    return rng.normal(size=(n, d)) + centres[codes] + 2, codes


def leak(x: np.ndarray, codes: Codes) -> float:
    machine = LinearSVC(dual=False)
    half = len(x) // 2
    return float(machine.fit(x[:half], codes[:half]).score(x[half:], codes[half:])) - 1 / (codes.max() + 1)


@pytest.mark.parametrize("n_strong", [1, 2, 3])
def test_it_is_the_least_k_after_which_an_independent_machine_reads_nothing(n_strong: int) -> None:
    x, codes = drawn(n_strong=n_strong)
    found = salcli.fit(x, codes, k="auto")
    about = found.header["auto_k"]
    assert found.eraser.k == n_strong == about["ks"][-1]
    assert found.rank == 4
    assert about["ks"] == list(range(1, n_strong + 1))
    assert about["is_at_chance"]
    assert found.k_rule == {"auto": True}
    leaks = [leak(salcli.fit(x, codes, k=k).eraser(x), codes) for k in about["ks"]]
    assert all(each > 0.03 for each in leaks[:-1])
    assert leaks[-1] < 0.03
    assert_array_equal(found.eraser.arrays()["left"], salcli.fit(x, codes, k=n_strong).eraser.arrays()["left"])


def test_uncentred_two_classes_need_two_directions() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(3000) % 2
    x = rng.normal(size=(3000, 8)) + 6 + 3 * np.outer(codes, np.eye(8)[0])
    found = salcli.fit(x, codes, k="auto", center=False)
    assert found.eraser.k == 2
    assert found.header["auto_k"]["accuracies"][0][0] > 0.8


def test_where_no_k_is_at_chance_all_of_the_rank_goes_and_that_is_said() -> None:
    rng = np.random.default_rng(0)  # few rows in many dimensions: means of other rows differ from those of the fit
    codes = np.arange(4000) % 2
    x = rng.normal(size=(4000, 200)) + 0.3 * codes[:, None]
    with pytest.warns(SalcliWarning, match="with all 1 directions of the rank removed"):
        found = salcli.fit(x, codes, k="auto")
    assert found.eraser.k == found.rank == 1
    assert not found.header["auto_k"]["is_at_chance"]


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str, Path]:
    x, codes = drawn(1600, c=3, n_strong=1)
    parts = np.array(["train", "train", "dev", "test"])[np.arange(len(x)) % 4]
    write_csv(tmp_path / "y.csv", ["g", "split"], zip(np.array(list("abc"))[codes], parts, strict=True))
    return str(save_npy(tmp_path / "x.npy", x.astype(np.float32))), str(tmp_path / "y.csv"), tmp_path


def test_rows_that_are_not_fitted_change_nothing(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    options = FitOptions(parameters=SALParameters(k="auto"))
    one = fit(x, y, str(folder / "e.npz"), options)
    changed = np.load(x)
    changed[np.arange(len(changed)) % 4 > 1] += 9
    np.save(folder / "other.npy", changed)
    other = fit(str(folder / "other.npy"), y, str(folder / "o.npz"), options)
    assert one.header["auto_k"] == other.header["auto_k"]
    assert_array_equal(one.eraser.arrays()["left"], other.eraser.arrays()["left"])
    about = one.header["auto_k"]
    assert about["n_trial"] + about["n_train"] + about["n_held_out"] == 800
    assert inspect(str(folder / "e.npz"), InspectOptions())["auto_k"] == about
    again = fit(x, y, str(folder / "again.npz"), options)
    assert again.header["auto_k"] == about


@pytest.mark.slow
def test_it_goes_through_the_commands(paths: tuple[str, str, Path]) -> None:
    x, y, folder = paths
    done = succeed("fit", x, y, "-k", "auto", "-o", folder / "e.npz")
    assert "at chance" in done.out
    assert read_artifact(str(folder / "e.npz")).parameters == SALParameters(k="auto")
    options = EvaluateOptions(probes=("linear",), sweep=Sweep.parse("k=0:2"), repeats=2, sample=300)
    report = evaluate(x, y, str(folder / "e.npz"), options)
    assert [step.value for step in report.sweep] == [0, 1, 2]
    refuse(2, "fit", x, y, "-k", "few", "-o", folder / "n.npz", says="-k few: expected a number of directions, or auto")
    assert run("fit", x, y, "--method", "leace", "-k", "auto", "-o", folder / "n.npz").code == 2


def test_numbers_and_contradictions_are_refused(paths: tuple[str, str, Path]) -> None:
    x, _, folder = paths
    rows = np.load(x)
    write_csv(folder / "n.csv", ["age"], [[value] for value in rows[:, 0].tolist()])
    options = FitOptions(parameters=SALParameters(k="auto"), labels=LabelOptions(numeric=("age",)))
    with pytest.raises(LabelError, match="column 'age' is numeric, and `k=auto` trains classifiers"):
        fit(x, str(folder / "n.csv"), str(folder / "e.npz"), options)
    with pytest.raises(ParameterError, match="k"):
        SALParameters(k="some")
    with pytest.raises(UsageError, match="alpha"):
        SALParameters(k="auto", alpha=2.0)
    with pytest.raises(UsageError, match="`unit`"):
        SALParameters(k="auto", unit=True)
    assert (parse_k("auto"), parse_k("3")) == ("auto", 3)


def test_a_handful_of_held_out_rows_decides_nothing() -> None:
    x, codes = drawn(n=90, c=3)
    with pytest.raises(LabelError, match=r"holds .* rows out of the fit .* expected at least 5 for each of 3"):
        salcli.fit(x, codes.astype(str), k="auto")
