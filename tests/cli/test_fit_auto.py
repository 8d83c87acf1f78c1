"""`salcli fit --method auto` in a process of its own: what it tries, and what it refuses to write."""

from pathlib import Path

import numpy as np
import pytest

from .helpers import header_of, planted, refuse, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose class means differ, and rows whose classes are an exclusive or of two clusters; with a split."""
    folder = tmp_path_factory.mktemp("auto")
    x, labels = planted(N, 6)
    save_npy(folder / "x.npy", x)
    parts = ["train" if i < 800 else ("dev", "test")[i % 2] for i in range(N)]
    write_csv(folder / "y.csv", ["y", "split"], zip(labels, parts, strict=True))
    rng = np.random.default_rng(1)
    a, b = rng.integers(2, size=(2, N))
    save_npy(folder / "xor.npy", rng.normal(size=(N, 3)) + 5 * np.stack([2 * a - 1, 2 * b - 1, 0 * a], axis=1))
    write_csv(folder / "xor.csv", ["y", "split"], zip((a ^ b).tolist(), parts, strict=True))
    return folder


def auto(folder: Path, name: str, *options: object) -> list[object]:
    rows = {"x": ("x.npy", "y.csv"), "xor": ("xor.npy", "xor.csv")}[name]
    return ["fit", *(folder / each for each in rows), "--attribute", "y", "--method", "auto", *options]


def test_the_gentlest_method_is_fitted_and_what_was_tried_is_said(folder: Path, tmp_path: Path) -> None:
    args = auto(folder, "x", "--max-leak", 0.4, "--attacker", "linear", "--attacker", "rbf", "-o", tmp_path / "e.npz")
    record = succeed(*args, "--json").json()
    header = header_of(tmp_path / "e.npz")
    assert record["method"] == header["method"] == "sal"
    assert record["auto"] == header["auto"]
    assert header["auto"]["attackers"] == ["linear", "rbf"]
    assert [header["auto"][name] for name in ("n_trial", "n_train", "n_held_out")] == [400, 200, 200]
    assert header["rows"]["n_fitted"] == 800
    shown = succeed(*args).out
    leak = header["auto"]["tried"][0]["leak"]
    assert f"leak {leak:.3f}" in shown
    assert "the gentlest with a leak of at most 0.4" in shown
    plain = ["fit", folder / "x.npy", folder / "y.csv", "--attribute", "y", "-o", tmp_path / "sal.npz"]
    succeed(*plain)
    with np.load(tmp_path / "e.npz") as one, np.load(tmp_path / "sal.npz") as other:
        np.testing.assert_array_equal(one["left"], other["left"])
    judged = succeed(
        "evaluate", folder / "x.npy", folder / "y.csv", "--eraser", tmp_path / "e.npz", "--probes", "linear", "--json"
    )
    assert judged.json()["eraser"]["method"] == "sal"


def test_no_row_of_the_test_changes_what_is_chosen(folder: Path, tmp_path: Path) -> None:
    x = np.load(folder / "x.npy")
    x[800:] = np.random.default_rng(9).normal(size=x[800:].shape) * 50
    save_npy(tmp_path / "x.npy", x)
    options = ["--max-leak", 0.5, "--attacker", "linear", "--json"]
    first = succeed(*auto(folder, "x", *options, "-o", tmp_path / "a.npz")).json()
    second = succeed(
        "fit", tmp_path / "x.npy", folder / "y.csv", "--attribute", "y", "--method", "auto", *options, "-o",
        tmp_path / "b.npz",
    ).json()  # fmt: skip
    assert first["auto"] == second["auto"]


def test_a_limit_that_nothing_keeps_is_a_failed_gate_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    args = auto(folder, "xor", "--attacker", "rbf", "-o", tmp_path / "e.npz")
    refuse(
        1, *args, "--max-leak", 0.1, says="no method keeps --max-leak 0.1 on 200 held-out rows of the fit: the best of"
    )
    refuse(2, *args, says="method auto needs a limit: give --max-leak X")
    refuse(2, *args, "--max-leak", 0.1, "--attacker", "spy", says="--attacker rbf,spy: expected some of linear, poly")
    assert not list(tmp_path.iterdir())
