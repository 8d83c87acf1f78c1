"""The scripts whose tables stand in the pages on methods run to their end, on small rows whose answers are known."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import beyond_transport, robust, unaligned, which_method
from salcli.erasers.base import METHODS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def table(
    main: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> list[dict[str, str]]:
    """Return the rows of the table that a script prints, by column."""
    monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
    main()
    lines = capsys.readouterr().out.strip().rsplit("\n\n", 1)[-1].splitlines()  # rows may come one by one before
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def made(folder: Path, n: int = 600, d: int = 6) -> tuple[Path, Path]:
    """Write rows whose classes differ in mean and spread, with a task of their own, and labels."""
    rng = np.random.default_rng(0)
    gender, task = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = rng.standard_normal((n, d)) * (1 + 2 * gender[:, None])
    x[:, 0] += 6 * gender
    x[:, 1] += 6 * task
    np.save(folder / "vectors.npy", x.astype(np.float32))
    with (folder / "labels.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["gender", "emotion", "split"])
        parts = np.resize(["train", "train", "dev", "test"], n).tolist()
        writer.writerows(zip(np.array(["f", "m"])[gender], np.array(["joy", "fear"])[task], parts, strict=True))
    return folder / "vectors.npy", folder / "labels.csv"


def test_robust_erasure_is_measured(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    rows = table(robust.main, capsys, monkeypatch, "eec", tmp_path, "--seeds", 1, "--methods", "sal,transport")
    assert [row["eec"] for row in rows] == ["sal", "transport"]
    sal, transport = rows
    assert float(sal["linear"]) < 0.65
    assert float(sal["quadratic"]) > 0.85
    assert float(transport["quadratic"]) < float(sal["quadratic"])
    attackers = ("linear", "poly", "rbf", "quadratic", "knn", "boosting", "mlp")
    for row in rows:
        assert float(row["worst"]) == max(float(row[name]) for name in attackers)
        assert float(row["task"]) > 0.7


def test_what_was_tried_beside_transport_is_measured(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    monkeypatch.setattr(beyond_transport, "CLUSTERS", (2,))
    monkeypatch.setattr(beyond_transport, "ROUNDS", (1, 2))
    rows = table(beyond_transport.main, capsys, monkeypatch, "eec", tmp_path, "--seeds", 1)
    assert [row["eec"] for row in rows] == ["transport", "mixture", "marginals"]
    for row in rows:
        read = {name: float(row[name].split()[0]) for name in ("linear", "poly", "rbf", "quadratic", "knn", "worst")}
        assert read.pop("worst") == max(read.values()) < 0.8


def test_rows_between_the_classes_are_those_without_a_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((900, 4)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", x)
    monkeypatch.setattr(robust, "TOP", 150)
    monkeypatch.setattr(robust, "UNLABELLED", 200)
    order = np.argsort(x[:, 0])
    rows, y = np.concatenate([order[:150], order[-150:]]), np.repeat([1, 0], 150)
    data = robust.Data(x, rows, y, path=tmp_path / "vectors.npy", scores=x[:, 0])
    moved = robust.scored(data, np.arange(0, 300, 2), 0)(x)
    before, after = (abs(each[rows[y == 1]].mean(0) - each[rows[y == 0]].mean(0)).max() for each in (x, moved))
    assert after < 0.3 * before


def test_methods_are_put_side_by_side(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels = made(tmp_path)
    monkeypatch.setitem(which_method.DATA, "bios", (str(vectors), str(labels), "gender", "emotion"))
    monkeypatch.setattr(which_method, "METHODS", {name: METHODS[name] for name in ("sal", "leace", "splince", "auto")})
    monkeypatch.setattr(which_method, "RUNS", 1)
    rows = table(which_method.main, capsys, monkeypatch, "bios", "--probes", "linear,quadratic")
    assert [row["bios"] for row in rows] == ["before", "sal k=1", "leace k=1", "splince k=1"]
    assert float(rows[0]["linear"]) > 0.8
    assert all(float(row["linear"]) < 0.4 < float(row["quadratic"]) for row in rows[1:])
    assert rows[1]["fit"] == "1"


def test_rows_without_labels_are_assigned(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, 300)
    np.save(tmp_path / "x.npy", rng.standard_normal((300, 4)) + 8 * codes[:, None])
    (tmp_path / "y.csv").write_text("g\n" + "".join(f"{'ab'[code]}\n" for code in codes))
    rows = table(unaligned.main, capsys, monkeypatch, tmp_path / "x.npy", tmp_path / "y.csv", "g", "--seeds", "0,20")
    assert [row["seed labels"] for row in rows] == ["0", "20"]
    assert all(float(row["right"]) > 0.98 for row in rows)
