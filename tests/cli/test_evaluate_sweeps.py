"""`salcli evaluate`: along a parameter, on repeated fits, and with a kernel's eraser."""

from pathlib import Path

import numpy as np
import pytest

from .helpers import SAMPLE, header_of, planted, refuse, save_npy, succeed, write_csv

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
    return [*files, "--probes", "linear", "--task", "job", "--json"]


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
    refuse(3, *args[:-1], str(N), "--quiet", says="only 150 rows were fitted")


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
    args = ["evaluate", tmp_path / "x.npy", tmp_path / "y.csv", "--eraser", tmp_path / "e.npz", "--probes", "linear"]
    assert succeed(*args, "--repeats", "3", "--sample", "12", "--json").json()["repeats"]["n"] == 3


def test_the_random_control_of_a_sweep_removes_as_many_directions_as_far(tmp_path: Path) -> None:
    sample = ["evaluate", SAMPLE / "glove-sample.txt", SAMPLE / "glove-sample-labels.csv"]
    succeed("fit", *sample[1:], "-o", tmp_path / "e.npz")
    words = (SAMPLE / "glove-sample.keys.txt").read_text("utf-8").split("\n")[200:320]
    gold = [f"{a}\t{b}\t{i % 17}" for i, (a, b) in enumerate(zip(words[::2], words[1::2], strict=True))]
    (tmp_path / "gold.tsv").write_text("\n".join(gold))
    more = ["--eraser", tmp_path / "e.npz", "--similarity", tmp_path / "gold.tsv", "--probes", "linear", "--json"]
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
        found = succeed("evaluate", *args, "--probes", "linear", "--task", "job", "--sweep", "k=0:2").json()
        assert [step["value"] for step in found["sweep"]] == [0, 1, 2]
