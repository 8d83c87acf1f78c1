"""Columns with one value in most rows, into which an eraser writes what it removes: they are named, and read."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import salcli
from salcli.evaluation.spread_columns import SAMPLE_ROWS, notes_on_spread_columns, spread_columns, with_thresholds
from salcli.options import EvaluateOptions
from tests.cli.helpers import save_npy, succeed, write_csv

N, D, COLUMN = 1_200, 12, 7


def sparse_rows(scale: float, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes; column 7 is 0 but in one of 50 rows, with another mean in each class."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, N)
    x = rng.standard_normal((N, D)) + 2.5 * np.outer(z, np.eye(D)[2])
    x[:, COLUMN] = np.where(rng.random(N) < 0.02, scale * (1 + z), 0)
    return x.astype(dtype), z


@pytest.mark.parametrize("scale", [1.0, 1e-8])
def test_the_column_is_named_where_a_tree_reads_it(scale: float) -> None:
    x, z = sparse_rows(scale)
    erased = salcli.SAL().fit(x, guarded=z).transform(x)
    assert set(spread_columns(x, erased)) == {COLUMN}
    half = N // 2
    column = erased[:, [COLUMN]].astype(np.float64) / scale
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(column[:half], z[:half])
    assert tree.score(column[half:], z[half:]) > 0.8


def test_columns_that_stay_as_they_are_are_not_named() -> None:
    x, _ = sparse_rows(1.0)
    moved = x + np.float32(1) * (np.arange(D) != COLUMN)
    assert spread_columns(x, moved) == {}
    assert notes_on_spread_columns({}) == ()
    assert spread_columns(x, x[:, :5]) == {}
    assert spread_columns(x[:0], x[:0]) == {}


def test_at_most_a_sample_of_rows_is_looked_at() -> None:
    x = np.zeros((3 * SAMPLE_ROWS, 1))
    assert spread_columns(x, np.arange(len(x), dtype=float)[:, None]) == {0: SAMPLE_ROWS}


def relu_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes with six columns that are 0 in about half of the rows."""
    rng = np.random.default_rng(1)
    z = rng.integers(0, 2, N)
    x = rng.standard_normal((N, D)) + 2.5 * np.outer(z, np.linalg.qr(rng.standard_normal((D, D)))[0][0])
    return np.hstack([x, np.maximum(x[:, :6] + 0.2, 0)]).astype(np.float32), z


def test_columns_of_half_zeros_are_named_and_boosting_joins_the_default_attackers(tmp_path: Path) -> None:
    x, z = relu_rows()
    options = EvaluateOptions(adversaries=("fresh",), attacker_rows=600, forms=("raw",), learning_curve=False)
    third = np.arange(N) % 3
    split = np.array(["train", "dev", "test"])[third]
    erased = salcli.SAL().fit(x[third == 0], guarded=z[third == 0]).transform(x)
    found = spread_columns(x, erased)
    assert set(found) == set(range(D, D + 6))
    assert with_thresholds(("linear",), found, options) == ("linear", "boosting")
    assert with_thresholds(("linear",), {}, options) == ("linear",)
    assert with_thresholds(("linear",), found, replace(options, probes=("linear",))) == ("linear",)
    rows = save_npy(tmp_path / "x.npy", x)
    labels = write_csv(tmp_path / "z.csv", ("z", "split"), zip(map("ab".__getitem__, z), split, strict=True))
    succeed("fit", rows, labels, "-o", tmp_path / "e.npz")
    flags = (
        "--adversary",
        "fresh",
        "--as",
        "raw",
        "--no-learning-curve",
        "--no-kept",
        "--attacker-rows",
        600,
        "--json",
    )
    report = succeed("evaluate", rows, labels, "--eraser", tmp_path / "e.npz", *flags).json()
    after = {each["probe"]: each["accuracy"] for each in report["probes"] if each["stage"] == "after"}
    assert set(after) == {"linear", "poly", "rbf", "quadratic", "boosting"}
    assert after["boosting"] > after["linear"] + 0.15


def test_evaluate_names_the_column_and_its_default_attackers_read_it(tmp_path: Path) -> None:
    x, z = sparse_rows(1e-8)
    rows = save_npy(tmp_path / "x.npy", x)
    labels = write_csv(
        tmp_path / "z.csv", ("z", "split"), (("ab"[c], "train" if i % 2 else "test") for i, c in enumerate(z))
    )
    succeed("fit", rows, labels, "-o", tmp_path / "e.npz")
    options = ("--json", "--probes", "linear,quadratic", "--adversary", "in-sample", "--as", "raw")
    found = succeed("evaluate", rows, labels, "--eraser", tmp_path / "e.npz", *options)
    report = json.loads(found.stdout)
    assert any(note.startswith(f"columns {COLUMN} ") for note in report["notes"])
    after = {each["probe"]: each["accuracy"] for each in report["probes"] if each["stage"] == "after"}
    assert after["linear"] < 0.6 < 0.8 < after["quadratic"]
