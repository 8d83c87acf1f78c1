"""`salcli evaluate`: along a parameter, on repeated fits, and with a kernel's eraser."""

from pathlib import Path

import numpy as np
import pytest

from .helpers import SAMPLE, header_of, planted, refuse, run, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, so that the rank is two."""
    folder = tmp_path_factory.mktemp("sweeps")
    x, labels = planted(N, n_classes=3)
    save_npy(folder / "x.npy", x)
    jobs = np.where(x[:, 1] > x[:, 1].mean(), "a", "b")
    parts = ["train", "train", "dev", "test"] * (N // 4)
    write_csv(folder / "y.csv", ["y", "job", "split"], zip(labels, jobs, parts, strict=True))
    succeed("fit", folder / "x.npy", folder / "y.csv", "--attribute", "y", "-o", folder / "e.npz")
    return folder


def given(folder: Path, eraser: str = "e.npz") -> list[object]:
    files = [folder / "x.npy", folder / "y.csv", "--eraser", folder / eraser]
    return [*files, "--probes", "linear", "--as", "raw", "--no-learning-curve", "--task", "job", "--json"]


@pytest.mark.parametrize("sweep", ["k=0:9", "strength=0:1:0.5"])
def test_a_sweep_begins_before_and_ends_after(folder: Path, sweep: str) -> None:
    done = succeed("evaluate", *given(folder), "--sweep", sweep)
    found = done.json()
    rank = header_of(folder / "e.npz")["rank"]
    steps = found["sweep"]
    assert [step["value"] for step in steps] == (list(range(rank + 1)) if sweep[0] == "k" else [0, 0.5, 1])
    for step, stage in ((steps[0], "before"), (steps[-1], "after")):
        whole = {p["adversary"]: p["accuracy"] for p in found["probes"] if p["stage"] == stage}
        assert {p["adversary"]: p["accuracy"] for p in step["probes"]} == pytest.approx(whole, abs=0.03)
        assert step["task"]["accuracy"]["after"] == pytest.approx(found["task"]["accuracy"][stage], abs=0.03)


def test_repeats_give_mean_and_deviation_of_their_values(folder: Path) -> None:
    args = ["evaluate", *given(folder), "--repeats", "3", "--sample", "60"]
    done = succeed(*args)
    assert succeed(*args).stdout == done.stdout
    for figure in done.json()["repeats"]["figures"]:
        assert len(figure["values"]) == 3
        assert figure["mean"] == pytest.approx(np.mean(figure["values"]), abs=1e-12)
        assert figure["std"] == pytest.approx(np.std(figure["values"], ddof=1), abs=1e-12)
    refuse(3, *args[:-1], str(N // 2 + 1), "--quiet", says="only 150 rows were fitted")


def test_in_sample_attackers_of_repeats_are_trained_on_the_rows_of_each_fit(folder: Path) -> None:
    """A linear one then does no better than the majority of those rows, by construction; others need not."""
    args = ["evaluate", *given(folder)[:-3], "--json", "--repeats", "4", "--sample", "40"]
    figures = {figure["name"]: figure for figure in succeed(*args).json()["repeats"]["figures"]}
    found = succeed("evaluate", *given(folder)[:-3], "--json").json()
    for i, accuracy in enumerate(figures["y, linear, in-sample: accuracy"]["values"]):
        test = next(p for p in found["probes"] if p["adversary"] == "in-sample")
        assert accuracy <= test["majority"] + 1e-12, f"fit {i}"


def test_repeats_of_a_threshold_choose_as_many_directions_as_each_fit_asks_for(tmp_path: Path) -> None:
    """But for two rows, the second and the third class are the same point: samples without those have rank one."""
    codes = np.arange(N) % 3
    x = np.zeros((N, 4))
    x[codes == 0, 0] = 1
    x[[2, 5], 1] = 1
    save_npy(tmp_path / "x.npy", x)
    write_csv(tmp_path / "y.csv", ["y"], [[f"c{code}"] for code in codes])
    whole = ["fit", tmp_path / "x.npy", tmp_path / "y.csv", "--holdout", "0.2", "--alpha", "1e6"]
    succeed(*whole, "-o", tmp_path / "e.npz")
    assert header_of(tmp_path / "e.npz")["k"] == 2
    args = [
        "evaluate",
        tmp_path / "x.npy",
        tmp_path / "y.csv",
        "--eraser",
        tmp_path / "e.npz",
        "--probes",
        "linear",
        "--as",
        "raw",
    ]
    assert succeed(*args, "--repeats", "3", "--sample", "12", "--json").json()["repeats"]["n"] == 3


def test_the_random_control_of_a_sweep_removes_as_many_directions_as_far(tmp_path: Path) -> None:
    sample = ["evaluate", SAMPLE / "glove-sample.txt", SAMPLE / "glove-sample-labels.csv"]
    succeed("fit", *sample[1:], "-o", tmp_path / "e.npz")
    words = (SAMPLE / "glove-sample.keys.txt").read_text("utf-8").split("\n")[200:320]
    gold = [f"{a}\t{b}\t{i % 17}" for i, (a, b) in enumerate(zip(words[::2], words[1::2], strict=True))]
    (tmp_path / "gold.tsv").write_text("\n".join(gold))
    more = [
        "--eraser",
        tmp_path / "e.npz",
        "--similarity",
        tmp_path / "gold.tsv",
        "--probes",
        "linear",
        "--as",
        "raw",
        "--json",
    ]
    found = succeed(*sample, *more, "--sweep", "strength=0:1:0.5").json()
    first, half, last = (step["similarity"][0] for step in found["sweep"])
    whole = found["similarity"][0]
    assert first["random_control"] == pytest.approx(whole["before"], abs=1e-9)
    assert last["random_control"] == whole["random_control"]
    assert first["random_control"] != half["random_control"] != last["random_control"]


@pytest.mark.parametrize("landmarks", ["50", "all"])
def test_a_kernel_eraser_is_swept_or_refused_in_one_line(folder: Path, tmp_path: Path, landmarks: str) -> None:
    fit = ["kfit", folder / "x.npy", folder / "y.csv", "--attribute", "y", "-o", tmp_path / "k.npz"]
    succeed(*fit, "--landmarks", landmarks)
    args = [folder / "x.npy", folder / "y.csv", "--eraser", tmp_path / "k.npz", "--json"]
    if landmarks == "all":
        same = succeed("evaluate", *args, "--probes", "same-kernel").json()
        assert {p["stage"] for p in same["probes"]} == {"before", "after"}
        refuse(2, "evaluate", *args, "--probes", "same-kernel", "--sweep", "k=0:2", "--quiet", says="--sweep")
    else:
        found = succeed(
            "evaluate", *args, "--probes", "linear", "--as", "raw", "--task", "job", "--sweep", "k=0:2"
        ).json()
        assert [step["value"] for step in found["sweep"]] == [0, 1, 2]


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An eraser of y, whose rows also tell z, a number and a job, each in columns of their own."""
    folder = tmp_path_factory.mktemp("crossed")
    rng = np.random.default_rng(8)
    y, z = rng.integers(0, 2, (2, N))
    job = (rng.random(N) < np.where(z == 1, 0.9, 0.1)).astype(int)
    x = rng.normal(size=(N, 6))
    x[:, 0] += 3 * y
    x[:, 1] += 3 * z
    x[:, 2] += job
    save_npy(folder / "x.npy", x)
    parts = ["train", "train", "dev", "test"] * (N // 4)
    write_csv(folder / "y.csv", ["y", "z", "job", "age", "split"], zip(y, z, job, x[:, 3], parts, strict=True))
    succeed("fit", folder / "x.npy", folder / "y.csv", "--attribute", "y", "-o", folder / "e.npz")
    return folder


def of_z(folder: Path) -> list[object]:
    files = [folder / "x.npy", folder / "y.csv", "--eraser", folder / "e.npz", "--attribute", "z"]
    return ["evaluate", *files, "--probes", "linear", "--as", "raw", "--no-learning-curve", "--json"]


def test_fits_are_repeated_for_what_the_eraser_guards_and_not_for_what_is_attacked(crossed: Path) -> None:
    found = succeed(*of_z(crossed), "--repeats", "2", "--sample", str(N // 2)).json()  # all fitted rows, again
    whole = {p["adversary"]: p["accuracy"] for p in found["probes"] if p["stage"] == "after"}
    assert min(whole.values()) > 0.85
    again = {figure["name"]: figure["values"] for figure in found["repeats"]["figures"]}
    for adversary, accuracy in whole.items():
        assert again[f"z, linear, {adversary}: accuracy"] == [accuracy] * 2


def test_a_sweep_of_k_is_of_what_the_eraser_guards(tmp_path: Path, crossed: Path) -> None:
    both = ["--attribute", "y", "--attribute", "z", "-k", "1", "-o", tmp_path / "e.npz"]
    succeed("fit", crossed / "x.npy", crossed / "y.csv", *both)
    files = ["evaluate", crossed / "x.npy", crossed / "y.csv", "--eraser", tmp_path / "e.npz", "--attribute", "z"]
    found = succeed(*files, "--probes", "linear", "--as", "raw", "--json", "--sweep", "k=1:9").json()
    assert [step["value"] for step in found["sweep"]] == [1, 2]  # the rank of both
    whole = {p["adversary"]: p["accuracy"] for p in found["probes"] if p["stage"] == "after"}
    assert {p["adversary"]: p["accuracy"] for p in found["sweep"][0]["probes"]} == whole
    assert "--sweep k: the rank is 2, so the sweep ends there" in found["notes"]
    refuse(3, *files, "--sweep", "k=3:5", says="the rank is 2, so there is nothing to measure")
    (step,) = succeed(*files, "--probes", "linear", "--as", "raw", "--json", "--sweep", "k=2:2").json()["sweep"]
    assert step["value"] == 2


def test_the_widest_gap_of_all_guarded_attributes_is_judged(crossed: Path) -> None:
    for attributes in (["y", "z"], ["z", "y"]):
        options = [word for name in attributes for word in ("--attribute", name)]
        task = ["--task", "job", "--probes", "linear", "--as", "raw", "--max-tpr-gap", "0.3", "--json"]
        done = run("evaluate", crossed / "x.npy", crossed / "y.csv", *options, *task)
        (gate,) = done.json()["gates"]
        first, other = done.json()["task"], done.json()["task"]["others"][0]
        assert (first["n_train"], first["n_test"]) == (N // 2, N // 4)
        assert done.code == 1
        assert gate["value"] == max(first["tpr_gap"]["before"], other["tpr_gap"]["before"]) > 0.3
        assert "groups of z" in gate["reason"]


def test_a_number_among_the_attributes_is_told_shortly(crossed: Path) -> None:
    args = ["evaluate", crossed / "x.npy", crossed / "y.csv", "--attribute", "y", "--numeric", "age"]
    done = run(*args, "--probes", "linear", "--as", "raw", "--max-accuracy", "1", "--json")
    assert done.code == 1
    assert done.json()["gates"][0]["reason"].startswith("no limit judges age, which is numeric")


def test_what_the_eraser_guards_must_be_labelled_as_it_was(tmp_path: Path, crossed: Path) -> None:
    lines = (crossed / "y.csv").read_text().splitlines()
    turned = [line if i == 0 else str(1 - int(line[0])) + line[1:] for i, line in enumerate(lines)]
    (tmp_path / "y.csv").write_text("\n".join(turned) + "\n")
    files = ["evaluate", crossed / "x.npy", tmp_path / "y.csv", "--eraser", crossed / "e.npz", "--attribute", "z"]
    for extra in (["--repeats", "2", "--sample", "50"], ["--sweep", "k=0:1"]):
        refuse(
            3,
            *files,
            "--probes",
            "linear",
            "--as",
            "raw",
            *extra,
            says="column 'y' has other labels on the fitted rows",
        )


def test_without_its_split_an_eraser_does_not_know_what_is_fresh(crossed: Path) -> None:
    refuse(2, *of_z(crossed), "--no-split", says="the eraser was fitted on the rows marked 'train'")


def test_each_fit_has_all_classes_of_what_the_eraser_guards(tmp_path: Path) -> None:
    """One fitted row in ten is of the second class, and none of what is attacked tells which."""
    rng = np.random.default_rng(3)
    is_fitted = np.arange(N) % 4 < 2
    y = np.zeros(N, int)
    y[rng.choice(np.flatnonzero(is_fitted), N // 20, replace=False)] = 1
    y[rng.choice(np.flatnonzero(~is_fitted), N // 20, replace=False)] = 1
    x = rng.normal(size=(N, 5))
    x[:, 0] += 3 * y
    save_npy(tmp_path / "x.npy", x)
    parts = ["train", "train", "dev", "test"] * (N // 4)
    write_csv(tmp_path / "y.csv", ["y", "z", "split"], zip(y, rng.integers(0, 2, N), parts, strict=True))
    succeed("fit", tmp_path / "x.npy", tmp_path / "y.csv", "--attribute", "y", "-o", tmp_path / "e.npz")
    args = of_z(tmp_path)
    assert succeed(*args, "--repeats", "8", "--sample", "10").json()["repeats"]["n"] == 8
    refuse(3, *args, "--repeats", "2", "--sample", "4", says="column 'y' has one class (0) on 4 rows")


def test_a_sample_without_anything_to_fit_is_told_as_that(folder: Path, crossed: Path) -> None:
    says = "--sample 2 is too small for --repeats: on one sample, "
    done = refuse(3, "evaluate", *given(folder), "--repeats", "3", "--sample", "2", says=says)
    assert "column 'y' has 2 classes on as many rows: every label is unique" in done.err
    refuse(3, *of_z(crossed), "--repeats", "2", "--sample", "2", says="column 'y' has 2 classes")


def test_a_warning_is_said_once_however_often_a_file_is_read(tmp_path: Path, crossed: Path) -> None:
    lines = (crossed / "y.csv").read_text().splitlines()
    lines[4] = " " + lines[4]
    (tmp_path / "y.csv").write_text("\n".join(lines) + "\n")
    files = [crossed / "x.npy", tmp_path / "y.csv"]
    succeed("fit", *files, "--attribute", "y", "--attribute", "z", "-k", "1", "-o", tmp_path / "e.npz")
    options = [
        "--eraser",
        tmp_path / "e.npz",
        "--attribute",
        "y",
        "--probes",
        "linear",
        "--as",
        "raw",
        "--sweep",
        "k=0:1",
    ]
    assert succeed("evaluate", *files, *options).err.count("spaces around labels in column 'y'") == 1
