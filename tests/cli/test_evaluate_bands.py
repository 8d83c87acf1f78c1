"""`evaluate --bands`: rows that no label CSV names are attacked, and gates judge them."""

import json
from pathlib import Path

import pytest

from .helpers import SAMPLE, run, succeed

pytestmark = pytest.mark.slow  # each test starts processes
GLOVE = SAMPLE / "glove-sample.txt"


def test_bands_of_evaluate_are_attacked_like_those_of_label_and_gates_judge_them(tmp_path: Path) -> None:
    labels = tmp_path / "y.csv"
    succeed("label", GLOVE, "--direction", "he:she", "--top", "300", "-o", labels)
    succeed("fit", GLOVE, labels, "-o", tmp_path / "e.npz")
    options = (
        "evaluate",
        GLOVE,
        labels,
        "--eraser",
        tmp_path / "e.npz",
        "--probes",
        "quadratic",
        "--no-learning-curve",
    )
    done = run(*options, "--bands", "200,300", "--max-accuracy", "0.01", "--json")
    assert done.code == 1
    report = json.loads(done.out)
    assert {each["band"]: each["n_test"] for each in report["bands"]} == {"band1": 400, "band2": 600}
    after = [each for each in report["bands"] if each["stage"] == "after"]
    before = [each for each in report["bands"] if each["stage"] == "before"]
    assert min(each["accuracy"] for each in before) > 0.8
    assert min(each["accuracy"] for each in after) > 0.5
    assert report["inputs"]["labels"]["n"] == 600
    plain = json.loads(run(*options, "--json").out)
    assert "bands" not in plain
    assert plain["probes"] == report["probes"]


def test_labels_without_a_split_column_have_no_bands(tmp_path: Path) -> None:
    labels = tmp_path / "y.csv"
    succeed("label", GLOVE, "--direction", "he:she", "--top", "50", "--split", "none", "-o", labels)
    done = run("evaluate", GLOVE, labels, "--bands", "10")
    assert done.code == 2
    assert "--bands needs labels with keys and a split column" in done.err
