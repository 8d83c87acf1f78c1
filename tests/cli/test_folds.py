"""`salcli fit --groups`, `evaluate --folds` and `--groups`, and gates on `--repeats`, through the command line."""

from pathlib import Path

import numpy as np
import pytest

from .helpers import header_of, planted, refuse, run, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folds")
    x, labels = planted(N)
    save_npy(folder / "x.npy", x)
    authors = [f"a{i % 40}" for i in range(N)]
    write_csv(folder / "y.csv", ["y", "author"], zip(labels, authors, strict=True))
    parts = ["train" if i % 40 < 20 else "dev" if i % 40 < 30 else "test" for i in range(N)]
    torn = [*parts[:-1], "train"]
    write_csv(folder / "split.csv", ["y", "author", "split"], zip(labels, authors, parts, strict=True))
    write_csv(folder / "torn.csv", ["y", "author", "split"], zip(labels, authors, torn, strict=True))
    return folder


def fit(folder: Path, *more: object, labels: str = "y.csv", output: str = "e.npz") -> list[object]:
    return ["fit", folder / "x.npy", folder / labels, "--attribute", "y", "-o", folder / output, "--quiet", *more]


def evaluate(folder: Path, *more: object, labels: str = "y.csv", eraser: str = "e.npz") -> list[object]:
    files = ["evaluate", folder / "x.npy", folder / labels, "--eraser", folder / eraser]
    return [*files, "--probes", "linear", "--no-learning-curve", "--json", *more]


def test_groups_of_a_hold_out_are_remembered_by_the_eraser(folder: Path) -> None:
    succeed(*fit(folder, "--holdout", "0.4", "--groups", "author", output="g.npz"))
    rows = header_of(folder / "g.npz")["rows"]
    assert rows["group_column"] == "author"
    assert rows["n_fitted"] % (N // 40) == 0
    found = succeed(*evaluate(folder, eraser="g.npz")).json()
    assert found["run"]["fitted_rows"]["group_column"] == "author"
    for probe in found["probes"]:
        assert probe["n_test"] % (N // 40) == 0
        assert probe["n_effective"] < probe["n_test"]
    says = "error: --groups y: that column is guarded; groups are in another one"
    refuse(2, *fit(folder, "--holdout", "0.4", "--groups", "y", output="no.npz"), says=says)
    assert not (folder / "no.npz").exists()


def test_a_hold_out_without_groups_cannot_be_divided_by_groups(folder: Path) -> None:
    succeed(*fit(folder, "--holdout", "0.4", output="h.npz"))
    says = "--groups author: the rows of the fit were held out without groups: fit again, or set --folds"
    refuse(2, *evaluate(folder, "--groups", "author", eraser="h.npz"), says=says)
    assert succeed(*evaluate(folder, "--groups", "author", "--folds", "3", eraser="h.npz")).json()["folds"]["n"] == 3


def test_a_column_that_is_not_there_is_hinted_at(folder: Path) -> None:
    says = "no column 'autor' (--groups); it has y, author; did you mean author?"
    refuse(3, *fit(folder, "--groups", "autor", output="no.npz"), says=says)
    refuse(
        3,
        *fit(folder, "--groups", "author", labels="torn.csv", output="no.npz"),
        says="'a39' has rows in test and train",
    )
    assert not (folder / "no.npz").exists()
    succeed(*fit(folder, "--groups", "author", labels="split.csv", output="s.npz"))
    found = succeed(*evaluate(folder, labels="split.csv", eraser="s.npz")).json()
    assert all(probe["n_effective"] <= 12 for probe in found["probes"] if probe["accuracy"] in (0, 1))


def test_folds_give_figures_of_every_row_in_every_kind_of_report(folder: Path, tmp_path: Path) -> None:
    succeed(*fit(folder))
    reports = [word for name in ("r.md", "r.html", "r.xml", "r.json") for word in ("--report", tmp_path / name)]
    args = evaluate(folder, "--folds", "5", "--learning-curve", "--max-accuracy", "0.99", *reports)
    done = succeed(*args)
    assert done.stdout == succeed(*args).stdout
    found = done.json()
    assert found["folds"] == {
        "n": 5, "n_fitted": [96] * 5, "n_fresh": [96] * 5, "n_test": [48] * 5, "group_column": None, "n_groups": None
    }  # fmt: skip
    assert {probe["n_test"] for probe in found["probes"]} == {N}
    assert "learning" not in found
    for name in ("r.md", "r.html"):
        assert "in each of 5 turns the eraser was fitted anew to 96 rows" in (tmp_path / name).read_text("utf-8")
    text = succeed(*[arg for arg in args if arg != "--json"])
    assert "of the method, fitted anew in each turn" in text.err
    refuse(
        2, *evaluate(folder, "--folds", "5", "--repeats", "2", "--sample", "9"), says="--folds fits an eraser in each"
    )
    refuse(2, *evaluate(folder, "--folds", "2"), says="--folds 2: at least 3")
    refuse(3, *evaluate(folder, "--folds", "300"), says="240 labelled rows cannot be divided into --folds 300 parts")


def test_a_repeat_that_leaks_fails_the_gate_that_the_eraser_itself_passes(folder: Path) -> None:
    """Fits on eight rows leave what a fit on all erases."""
    parts = ["train", "train", "train", "dev", "test"] * (N // 5)
    x = np.load(folder / "x.npy")
    labels = [line.split(",")[0] for line in (folder / "y.csv").read_text().splitlines()[1:]]
    write_csv(folder / "parts.csv", ["y", "split"], zip(labels, parts, strict=True))
    assert x.shape == (N, 8)
    succeed(*fit(folder, labels="parts.csv", output="p.npz"))
    gate = ["--adversary", "fresh", "--max-accuracy", "0.9", "--judge", "point"]
    alone = succeed(*evaluate(folder, *gate, labels="parts.csv", eraser="p.npz")).json()["gates"][0]
    done = run(*evaluate(folder, *gate, "--repeats", "4", "--sample", "8", labels="parts.csv", eraser="p.npz"))
    (again,) = done.json()["gates"]
    worst = max(done.json()["repeats"]["figures"][0]["values"])
    assert again["value"] == max(worst, alone["value"])
    assert again["value"] > alone["value"]
    assert (done.code, again["status"]) == ((1, "failed") if worst > 0.9 else (0, "passed"))
    assert "repeat " in again["decided_by"]


def test_along_strength_attackers_that_are_not_retrained_stand_beside_the_task(folder: Path, tmp_path: Path) -> None:
    succeed(*fit(folder, "--holdout", "0.4", output="l.npz"))
    sweep = ["--sweep", "strength=0:1:0.5", "--report", tmp_path / "r.md", "--report", tmp_path / "r.html"]
    found = succeed(*evaluate(folder, *sweep, eraser="l.npz")).json()
    first, _, last = found["sweep"]
    before = {p["adversary"]: p["accuracy"] for p in found["probes"] if p["stage"] == "before"}
    assert {each["adversary"]: each["accuracy"] for each in first["not_retrained"]} == before
    for each in last["not_retrained"]:
        assert each["accuracy"] < 0.75 < before[each["adversary"]]
        assert each["ci95"][0] <= each["accuracy"] <= each["ci95"][1]
    assert "attackers that are not retrained, along strength" in (tmp_path / "r.md").read_text("utf-8")
    assert "attackers that are not retrained along strength" in (tmp_path / "r.html").read_text("utf-8")
