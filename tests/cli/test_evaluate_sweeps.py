"""`salcli evaluate`: along a parameter, on repeated fits, and with a kernel's eraser."""

from pathlib import Path

import numpy as np
import pytest

from .helpers import header_of, planted, refuse, save_npy, succeed, write_csv

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
