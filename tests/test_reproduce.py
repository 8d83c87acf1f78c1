"""The scripts that reproduce figures run to their end on the sample data."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "sample_data"


def tables(script: str, *args: object) -> str:
    command = [sys.executable, ROOT / "benchmarks" / script, *args]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    (tmp_path / "vectors.npy").symlink_to(SAMPLE / "glove-sample.npy")
    (tmp_path / "vocab.txt").symlink_to(SAMPLE / "glove-sample.keys.txt")
    return tmp_path


@pytest.mark.slow
def test_the_figures_of_words(glove: Path) -> None:
    printed = tables("reproduce_words.py", glove, "--top", 200)
    assert "| SAL centred, k = 1 | 1.000 | 0.500 | majority |" in printed
    assert "| wordsim353 | 353 of 353 |" in printed


@pytest.mark.slow
def test_the_figures_of_kernels(glove: Path) -> None:
    printed = tables("reproduce_kernels.py", glove, "wordsim353", "--top", 200)
    assert "| linear | centred, k = 1 | 1.000 | 0.500 |" in printed
    assert "| poly | 64 | 2, uncentred |" in printed


@pytest.mark.slow
def test_the_figures_of_fairness(tmp_path: Path) -> None:
    (tmp_path / "vectors.npy").symlink_to(SAMPLE / "bios-sample.npy")
    with (SAMPLE / "bios-sample.csv").open(encoding="utf-8", newline="") as handle:
        rows = [
            (
                "aae" if row["gender"] == "female" else "sae",
                int(row["profession"] in ("nurse", "professor")),
                row["split"],
            )
            for row in csv.DictReader(handle)
        ]
    np.savetxt(tmp_path / "labels.csv", rows, "%s", ",", header="dialect,sentiment,split", comments="")
    assert len(tables("reproduce_fairness.py", tmp_path).splitlines()) == 6
