"""What `make reproduce-…` runs: every script runs to its end on small data, and prints a figure in every cell."""

import csv
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import own_attackers, reproduce_fairness, reproduce_kernels, reproduce_words, strongest
from salcli.cli.app import app

from .cli.helpers import SAMPLE

pytestmark = pytest.mark.slow
MAKEFILE = SAMPLE.parent / "Makefile"


def tables(
    main: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> str:
    """Return what a script prints; commands run in this process."""

    def salcli(*command: str) -> str:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (command, done.output)
        return done.stdout

    monkeypatch.setattr(reproduce_words, "salcli", salcli)
    monkeypatch.setattr(reproduce_kernels, "salcli", salcli)
    monkeypatch.setattr(strongest, "salcli", salcli)
    monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
    main()
    return capsys.readouterr().out


def rows_of(printed: str) -> list[list[str]]:
    """Return the rows of all tables, without their heads."""
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    return [row for row in rows if any(re.fullmatch(r"-?(\d+(\.\d+)?|\.\d+)", cell) for cell in row)]


@pytest.mark.filterwarnings("ignore")
def test_words_are_reproduced_from_a_text_file_as_downloaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    glove = SAMPLE / "glove-sample.txt"
    printed = tables(reproduce_words.main, capsys, monkeypatch, glove, "--top", 100)
    assert "words: 5,000; split" in printed
    rows = rows_of(printed)
    assert len(rows) == 3 + 2 * 4 + 2
    assert [row[0] for row in rows[-2:]] == ["simlex999", "wordsim353"]
    assert re.search(r"SAL itself, moments and SVD: \d+\.\d ms", printed)


@pytest.mark.filterwarnings("ignore")
def test_kernels_are_reproduced_from_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = reproduce_words.as_folder(SAMPLE / "glove-sample.txt", tmp_path)
    np.testing.assert_array_equal(np.load(folder / "vectors.npy"), np.load(SAMPLE / "glove-sample.npy"))
    monkeypatch.setattr(reproduce_kernels, "COUNTS", (8, 16, 2048))
    printed = tables(reproduce_kernels.main, capsys, monkeypatch, folder, "--top", 100)
    assert re.search(r"Exact `kfit` on 200 words, files included: \d+\.\d s", printed)
    rows = rows_of(printed)
    assert len(rows) == 3 * 2 + 2 * 2 * 2
    assert {row[1] for row in rows[6:]} == {"8", "16"}


@pytest.mark.parametrize(
    ("script", "arguments", "says"),
    [
        (reproduce_words, [SAMPLE / "bios-sample.csv"], "bios-sample.csv: line 1"),
        (reproduce_kernels, [SAMPLE / "bios-sample.csv"], "bios-sample.csv: line 1"),
        (reproduce_fairness, [SAMPLE], "vectors.npy"),
    ],
)
def test_scripts_refuse_what_is_no_data_in_one_line(
    script: ModuleType, arguments: list[Path], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        script.run(script.main)
    assert str(ended.value).startswith("error: ")
    assert says in str(ended.value)
    assert "\n" not in str(ended.value)


@pytest.mark.filterwarnings("ignore")
def test_fairness_is_reproduced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    dialect, sentiment = rng.integers(2, size=(2, 800))
    x = rng.standard_normal((800, 6)) + dialect[:, None] * [2, 0, 0, 0, 0, 0] + sentiment[:, None] * [1, 2, 0, 0, 0, 0]
    np.save(tmp_path / "vectors.npy", x)
    with (tmp_path / "labels.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["dialect", "sentiment", "split"])
        names = (("sae", "aae")[g] for g in dialect)
        writer.writerows(zip(names, sentiment, ["train", "train", "test"] * 267, strict=False))
    bios = (SAMPLE / "bios-sample.csv").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "bios-sample.csv").write_text("".join(bios[:601]), "utf-8")
    np.save(tmp_path / "bios-sample.npy", np.load(SAMPLE / "bios-sample.npy")[:600, :20])
    monkeypatch.setattr(reproduce_fairness, "SAMPLE", tmp_path)
    monkeypatch.setattr(reproduce_fairness, "LANDMARKS", 32)
    printed = tables(reproduce_fairness.main, capsys, monkeypatch, tmp_path, "--draws", 1)
    titles = ("Agreement", "Few labels", "Perturbed inputs", "Kernels", "Professions")
    parts = [part.split("\n\n") for part in re.split(rf"^(?:{'|'.join(titles)})$", printed, flags=re.MULTILINE)[1:]]
    found = [rows_of(table) for part in parts for table in part if "|" in table]
    assert [len(rows) for rows in found] == [3 * 4, 3, 5, 3 * 3, 3, 1 + 8]
    assert {len(row) for row in found[0]} == {7}
    assert {len(row) for row in found[-1]} == {7}


@pytest.mark.filterwarnings("ignore")
def test_other_attackers_are_compared_on_four_data_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a ring within a ring, which no linear attacker reads, both sides read nearly all."""
    glove = tmp_path / "glove-6b-100d"
    glove.mkdir()
    reproduce_words.as_folder(SAMPLE / "glove-sample.txt", glove)
    rng = np.random.default_rng(0)
    for name, attribute in (("dialect-sentiment", "dialect"), ("eec", "gender")):
        (tmp_path / name).mkdir()
        y = rng.permutation(np.arange(240) % 2)
        x = rng.standard_normal((240, 5))
        np.save(tmp_path / name / "vectors.npy", x / np.linalg.norm(x, axis=1, keepdims=True) * (1 + 2 * y[:, None]))
        with (tmp_path / name / "labels.csv").open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow([attribute, *(["split"] if attribute == "dialect" else [])])
            parts = [[part] for part in ("train", "dev", "test")] * 80 if attribute == "dialect" else [[]] * 240
            writer.writerows(["ab"[code], *part] for code, part in zip(y, parts, strict=True))
    every = own_attackers.attackers
    few = ("rbf", "shrunk QDA", "kNN")
    monkeypatch.setattr(strongest, "attackers", lambda: [each for each in every() if each.name in few])
    monkeypatch.setattr(strongest, "COLUMNS", ("rbf", "QDA", "kNN", own_attackers.MIXED))
    printed = tables(strongest.main, capsys, monkeypatch, tmp_path, "--rows", 60, "--top", 60)
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines()[2:]]
    assert [row[0].rsplit(" (", 1)[0].rsplit(", ", 1)[1] for row in rows] == ["in-sample", "fresh"] * 4
    assert {len(row) for row in rows} == {7}
    for row in rows[2:6]:
        assert float(row[1].split()[-1]) > 0.9
        assert float(row[2]) > 0.9
        assert max(float(cell) for cell in row[2:6]) - float(row[1].split()[-1]) == pytest.approx(
            float(row[6].split(",")[0]), abs=0.0011
        )


def test_own_attackers_fold_as_rows_of_the_fit_have_equal_means() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, 4)), np.arange(300) % 3
    x -= np.stack([x[y == value].mean(axis=0) for value in range(3)])[y]
    block = own_attackers.Block(x, y, x, y)
    train, held = np.arange(200), np.arange(200, 300)
    among, across = block._fold("raw", train, held)
    assert block.is_level
    means = np.stack([among[y[train] == value].mean(axis=0) for value in range(3)])
    np.testing.assert_allclose(means, np.broadcast_to(means.mean(axis=0), means.shape), atol=1e-12)
    assert np.linalg.matrix_rank(across) == 2
    assert not own_attackers.Block(x + y[:, None], y, x, y).is_level


def test_the_makefile_runs_these_scripts() -> None:
    named = re.findall(r"-m (benchmarks\.(?:reproduce_\w+|strongest))", MAKEFILE.read_text("utf-8"))
    modules = (reproduce_fairness, reproduce_kernels, reproduce_words, strongest)
    assert sorted(named) == sorted(module.__name__ for module in modules)
