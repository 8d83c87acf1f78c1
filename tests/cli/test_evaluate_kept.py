"""`salcli evaluate`: what an erasure kept, and files that were erased elsewhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from .helpers import erased, planted, refuse, run, save_npy, succeed, text_of, words, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N, D = 300, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keyed rows with a guarded attribute, a task and a number, an eraser, its output, and a gold set."""
    folder = tmp_path_factory.mktemp("kept")
    x, labels = planted(N, D)
    parts = ["train", "train", "dev", "test"] * (N // 4)
    jobs = np.where(x[:, 0] > x[:, 0].mean(), "b", "a")
    rows = zip(words(N), labels, jobs, range(N), parts, strict=True)
    (folder / "x.txt").write_bytes(text_of([w.encode() for w in words(N)], x, has_header=True))
    save_npy(folder / "x.npy", x)
    write_csv(folder / "y.csv", ["word", "y", "job", "age", "split"], rows)
    succeed("fit", folder / "x.txt", folder / "y.csv", "--attribute", "y", "-o", folder / "e.npz")
    succeed("apply", folder / "e.npz", folder / "x.txt", "-o", folder / "out.txt")
    gold = [f"w{i}\tw{i + 1}\t{score}" for i, score in enumerate(np.random.default_rng(2).uniform(0, 10, 40))]
    (folder / "gold.tsv").write_text("\n".join([*gold, "w1\tnowhere\t3"]) + "\n")
    return folder


def given(folder: Path) -> list[object]:
    how = ["--attribute", "y", "--probes", "linear", "--as", "raw", "--no-learning-curve", "--json"]
    return [folder / "x.txt", folder / "y.csv", *how]


def cosine_rho(x: np.ndarray[Any, Any], gold: Path) -> float:
    pairs = [line.split("\t") for line in gold.read_text().splitlines()[:-1]]
    at = [(int(a[1:]), int(b[1:])) for a, b, _ in pairs]
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return float(spearmanr([unit[a] @ unit[b] for a, b in at], [float(p[2]) for p in pairs]).statistic)


def test_similarity_needs_no_labels_and_agrees_with_scipy(folder: Path) -> None:
    x = np.load(folder / "x.npy").astype(np.float64)
    done = succeed(
        "evaluate", folder / "x.txt", "--eraser", folder / "e.npz", "--similarity", folder / "gold.tsv", "--json"
    )
    (found,) = done.json()["similarity"]
    assert found["before"] == pytest.approx(cosine_rho(x, folder / "gold.tsv"), abs=1e-6)
    assert found["after"] == pytest.approx(cosine_rho(erased(x, folder / "e.npz"), folder / "gold.tsv"), abs=1e-3)
    assert (found["pairs_total"], found["pairs_used"], found["oov_words"]) == (41, 40, ["nowhere"])


def test_words_need_keys(folder: Path) -> None:
    for option in (["--similarity", folder / "gold.tsv"], ["--neighbors", "w1"]):
        refuse(3, "evaluate", folder / "x.npy", "--eraser", folder / "e.npz", *option, says="has no keys")
    refuse(3, "evaluate", folder / "x.txt", "--eraser", folder / "e.npz", "--neighbors", "zebra", says="'zebra'")


def test_min_similarity_kept_passes_fails_and_is_undefined(folder: Path) -> None:
    sets = [folder / "x.txt", "--similarity", folder / "gold.tsv", "--min-similarity-kept"]
    x = np.load(folder / "x.npy").astype(np.float64)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = np.sum(unit[:40] * unit[1:41], axis=1)
    agreed = [
        folder / "x.txt",
        "--similarity",
        folder / "agreed.tsv",
        "--min-similarity-kept",
        "0.1",
        "--judge",
        "point",
    ]
    refuse(2, "evaluate", *sets, "0.1", says="give --eraser or --against")
    (folder / "constant.tsv").write_text("w1\tw2\t1\nw2\tw3\t1\n")
    constant = ["--similarity", folder / "constant.tsv", "--min-similarity-kept", "0.1", "--json"]
    undefined = run("evaluate", folder / "x.txt", "--eraser", folder / "e.npz", *constant)
    assert undefined.code == 1
    assert undefined.json()["gates"][0]["value"] is None
    for scores, code in ((cosines, 0), (-cosines, 1)):  # what people said agrees with the rows, or is their opposite
        pairs = zip(range(40), scores, strict=True)
        (folder / "agreed.tsv").write_text("".join(f"w{i}\tw{i + 1}\t{score}\n" for i, score in pairs))
        done = run("evaluate", *agreed, "--eraser", folder / "e.npz", "--json")
        gate = done.json()["gates"][0]
        assert (done.code, gate["passed"]) == (code, code == 0)
        assert (gate["value"] is not None and gate["value"] >= 0.1) == (code == 0)


@pytest.mark.parametrize(
    ("column", "code", "says"),
    [
        ("nothing", 3, "no column 'nothing' (--task)"),
        ("age", 2, "--task age: that column is guarded"),
        ("y", 2, "--task y: that column is guarded"),
        ("split", 2, "--task split: that column is the key or the split"),
    ],
)
def test_a_task_column_that_cannot_serve_is_refused(folder: Path, column: str, code: int, says: str) -> None:
    extra = ["--numeric", "age"] if column == "age" else []
    refuse(code, "evaluate", *given(folder), *extra, "--task", column, "--quiet", says=says)


def test_against_the_output_of_apply_gives_the_figures_of_the_eraser(folder: Path) -> None:
    own = succeed("evaluate", *given(folder), "--eraser", folder / "e.npz").json()
    other = succeed("evaluate", *given(folder), "--against", folder / "out.txt").json()
    for one, two in zip(own["probes"], other["probes"], strict=True):
        assert abs(one["accuracy"] - two["accuracy"]) < 0.06
        assert (one["n_train"], one["n_test"]) == (two["n_train"], two["n_test"])


def test_against_a_file_without_keys_goes_by_row(folder: Path, tmp_path: Path) -> None:
    save_npy(tmp_path / "out.npy", np.loadtxt(folder / "out.txt", skiprows=1, usecols=range(1, D + 1)))
    args = ["evaluate", folder / "x.txt", "--similarity", folder / "gold.tsv", "--json", "--against"]
    (keyed,), (bare,) = (
        succeed(*args, folder / name).json()["similarity"] for name in ("out.txt", tmp_path / "out.npy")
    )
    assert bare == keyed
    assert bare["after"] != bare["before"]


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--neighbors", "zebra"], "'zebra'"),
        (["--repeats", "2", "--sample", "9999"], "--sample 9999: only 150 rows were fitted"),
    ],
)
def test_what_cannot_be_is_told_before_attackers_are_trained(folder: Path, extra: list[str], says: str) -> None:
    done = refuse(3, "evaluate", *given(folder), "--eraser", folder / "e.npz", *extra, says=says)
    assert b"attack" not in done.stderr
    assert b"attack" in succeed("evaluate", *given(folder), "--eraser", folder / "e.npz").stderr


def test_against_a_file_with_other_rows_is_refused(folder: Path, tmp_path: Path) -> None:
    head, *lines = (folder / "out.txt").read_text().splitlines()
    (tmp_path / "other.txt").write_text("\n".join([head, lines[1], lines[0], *lines[2:]]) + "\n")
    refuse(3, "evaluate", *given(folder), "--against", tmp_path / "other.txt", says="the same order")
    save_npy(tmp_path / "short.npy", np.ones((N - 1, D)))
    refuse(3, "evaluate", *given(folder), "--against", tmp_path / "short.npy", says=f"{N - 1} rows")
    both = ["--eraser", folder / "e.npz", "--against", folder / "out.txt"]
    refuse(2, "evaluate", *given(folder), *both, says="give one")


@pytest.mark.parametrize("change", ["x * 0.001", "x + 100", "x * 1000 - 3", "np.pad(x, ((0, 0), (0, 1)))"])
def test_a_file_erased_elsewhere_may_be_in_any_units(folder: Path, tmp_path: Path, change: str) -> None:
    x = np.load(folder / "x.npy").astype(np.float64)
    options = ["--probes", "linear", "--as", "raw", "--attribute", "y", "--task", "job", "--max-tpr-gap", "0.02"]
    found = []
    for name, other in (("same", x), ("changed", eval(change, {"x": x, "np": np}))):
        save_npy(tmp_path / f"{name}.npy", other)
        args = ["evaluate", folder / "x.npy", folder / "y.csv", "--by-row", "--against", tmp_path / f"{name}.npy"]
        found.append(run(*args, *options, "--json"))
    assert found[0].code == found[1].code
    same, changed = (done.json() for done in found)
    for stage in ("before", "after"):
        assert changed["task"]["accuracy"][stage] == same["task"]["accuracy"]["before"]
        assert changed["task"]["tpr_gap"][stage] == same["task"]["tpr_gap"]["before"]
    assert changed["geometry"]["variance_removed"] is None
    assert changed["scatter"]["is_foreign"]
    assert any("was erased with are not known" in note for note in changed["notes"])


def test_neighbours_are_not_looked_for_among_other_rows(folder: Path, tmp_path: Path) -> None:
    x = np.load(folder / "x.npy").astype(np.float64)
    x[3] = np.nan
    (tmp_path / "out.txt").write_bytes(text_of([w.encode() for w in words(N)], x, has_header=True))
    args = [
        "evaluate",
        folder / "x.txt",
        "--against",
        tmp_path / "out.txt",
        "--neighbors",
        "w0,w9",
        "--allow-nonfinite",
    ]
    refuse(3, *args, says="drops other rows than")


def test_a_task_that_cannot_be_measured_is_told(folder: Path, tmp_path: Path) -> None:
    write_csv(tmp_path / "y.csv", ["y", "job"], [[label, "same"] for label in planted(N, D)[1]])
    args = [
        "evaluate",
        folder / "x.npy",
        tmp_path / "y.csv",
        "--attribute",
        "y",
        "--probes",
        "linear",
        "--as",
        "raw",
        "--json",
    ]
    done = succeed(*args, "--task", "job", "--holdout", "0.5")
    assert done.json()["task"] is None
    assert any("the main task job was not measured" in note for note in done.json()["notes"])
    assert b"the main task job was not measured" in done.stderr
