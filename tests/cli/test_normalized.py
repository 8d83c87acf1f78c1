"""Erased rows that are divided by their length: what a linear attacker reads then, and what `apply` says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .helpers import SAMPLE, Array, planted, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

SAMPLES: dict[str, tuple[str, str, str, tuple[object, ...]]] = {
    "bios": ("bios-sample.npy", "bios-sample.csv", "gender", ()),
    "glove": ("glove-sample.npy", "glove-sample-labels.csv", "label", ("--keys", SAMPLE / "glove-sample.keys.txt")),
}


def normalized(x: Array) -> Array:
    exact = x.astype(np.float64)
    return np.asarray(exact / np.linalg.norm(exact, axis=1, keepdims=True), np.float32)


def read_by_linear(
    folder: Path, sample: str, *options: str, is_unit: bool = True, adversaries: str = "in-sample,fresh"
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what a linear attacker reads of erased rows, by adversary, and of the same rows divided by their length.

    Parameters
    ----------
    is_unit : whether the rows are of length 1 before they are fitted
    adversaries : that read
    """
    embeddings, labels, attribute, keys = SAMPLES[sample]
    x = np.load(SAMPLE / embeddings)
    files = (save_npy(folder / "x.npy", normalized(x) if is_unit else x), SAMPLE / labels)
    succeed("fit", *files, *keys, "--attribute", attribute, *options, "-o", folder / "e.npz")
    succeed("apply", folder / "e.npz", files[0], "-o", folder / "o.npy")
    save_npy(folder / "n.npy", normalized(np.load(folder / "o.npy")))

    def found(name: str) -> dict[str, float]:
        how = ("--attribute", attribute, "--against", folder / name, "--probes", "linear", "--as", "raw")
        how += ("--adversary", adversaries, "--no-learning-curve", "--no-kept", "--json")
        probes: list[dict[str, Any]] = succeed("evaluate", *files, *keys, *how).json()["probes"]
        return {p["adversary"]: p["accuracy"] for p in probes if p["stage"] == "after"}

    return found("o.npy"), found("n.npy")


@pytest.mark.parametrize("sample", SAMPLES)
def test_normalising_the_default_output_brings_nothing_back_to_a_linear_attacker(tmp_path: Path, sample: str) -> None:
    erased, then_normalized = read_by_linear(tmp_path, sample)
    assert set(erased) == {"in-sample", "fresh"}
    for adversary, accuracy in erased.items():
        assert then_normalized[adversary] <= accuracy + 0.03, adversary


def test_a_mean_that_is_kept_brings_it_back_once_rows_are_normalised(tmp_path: Path) -> None:
    erased, then_normalized = read_by_linear(tmp_path, "bios", "--keep-mean", adversaries="in-sample")
    assert then_normalized["in-sample"] > erased["in-sample"] + 0.15


def test_rows_of_any_length_leak_little_once_normalised(tmp_path: Path) -> None:
    erased, then_normalized = read_by_linear(tmp_path, "glove", is_unit=False)
    for adversary, accuracy in erased.items():  # with `--keep-mean`: .29 and .16 more
        assert then_normalized[adversary] <= accuracy + 0.1, adversary


def test_without_the_mean_that_all_rows_share_lengths_of_words_bring_nothing_back(tmp_path: Path) -> None:
    erased, then_normalized = read_by_linear(tmp_path, "glove", "--no-center", is_unit=False)
    for adversary, accuracy in erased.items():
        assert then_normalized[adversary] <= accuracy + 0.03, adversary


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x, labels = planted(60)
    write_csv(tmp_path / "y.csv", ["y"], [[label] for label in labels])
    unit, mixed = normalized(x), normalized(x)
    mixed[50] *= 2
    for name, rows in {"any": x, "unit": unit, "mixed": mixed, "half": unit.astype(np.float16)}.items():
        save_npy(tmp_path / f"{name}.npy", rows)
    succeed("fit", tmp_path / "unit.npy", tmp_path / "y.csv", "-o", tmp_path / "e.npz")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "is_told"),
    [
        ("unit", (), True),
        ("half", (), True),
        ("unit", ("--reduce",), True),
        ("unit", ("--batch-rows", "7"), True),
        ("unit", ("--strength", "0"), False),
        ("any", (), False),
        ("mixed", (), False),
        ("mixed", ("--batch-rows", "7"), False),
    ],
)
def test_apply_warns_once_of_rows_that_have_lost_their_length_of_one(
    folder: Path, name: str, options: tuple[str, ...], is_told: bool
) -> None:
    done = succeed("apply", folder / "e.npz", folder / f"{name}.npy", *options, "-o", folder / "o.npy")
    assert done.err.count("all of length 1, the erased ones are not") == is_told
    assert ("evaluate --against" in done.err) == is_told


def test_rows_that_are_erased_in_place_are_looked_at_before(folder: Path) -> None:
    done = succeed("apply", folder / "e.npz", folder / "unit.npy", "--in-place")
    assert done.err.count("all of length 1, the erased ones are not") == 1


@pytest.mark.parametrize(("strength", "is_told"), [("0.5", True), ("0", True), ("1", False)])
def test_a_strength_below_one_is_said_to_erase_nothing(folder: Path, strength: str, is_told: bool) -> None:
    done = succeed("apply", folder / "e.npz", folder / "any.npy", "--strength", strength, "-o", folder / "o.npy")
    line = f"--strength {strength} can be inverted, and linear attackers are as accurate as before erasure"
    assert done.err.count(line) == is_told
