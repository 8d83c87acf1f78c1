"""`salcli evaluate`: reports as files, and gates."""

import json
from pathlib import Path

import numpy as np
import pytest

from .helpers import leftovers, planted, refuse, run, save_npy, succeed, write_csv

pytestmark = pytest.mark.slow  # each test starts processes

N = 300
HOSTILE = "<script>alert(1)</script>|*"
SUFFIXES = ("json", "md", "html", "xml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose guarded classes have names that are markup."""
    folder = tmp_path_factory.mktemp("reports")
    x, labels = planted(N)
    save_npy(folder / "x.npy", x)
    names = [HOSTILE if y == "c0" else y for y in labels]
    jobs = np.where(x[:, 1] > x[:, 1].mean(), "a|b", HOSTILE)
    parts = ["train", "train", "dev", "test"] * (N // 4)
    write_csv(folder / "y.csv", ["y", "job", "split"], zip(names, jobs, parts, strict=True))
    succeed("fit", folder / "x.npy", folder / "y.csv", "--attribute", "y", "-o", folder / "e.npz")
    return folder


def given(folder: Path) -> list[object]:
    files = [folder / "x.npy", folder / "y.csv", "--eraser", folder / "e.npz"]
    return [*files, "--probes", "linear", "--no-learning-curve", "--task", "job"]


def test_all_reports_are_written_though_a_gate_fails_and_again_the_same(folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"r.{suffix}" for suffix in SUFFIXES]
    options = [option for path in paths for option in ("--report", path)]
    args = ["evaluate", *given(folder), *options, "--max-accuracy", "0", "--json"]
    done = run(*args)
    assert done.code == 1, done
    first = [path.read_bytes() for path in paths]
    assert json.loads(first[0]) == done.json()
    again = run(*args)
    assert again.stdout == done.stdout
    assert [path.read_bytes() for path in paths] == first
    assert leftovers(tmp_path) == []
    markdown, html, xml = (text.decode() for text in first[1:])
    assert "<script" not in html + xml
    assert "alert(1)" in html
    rows = [line for line in markdown.splitlines() if "alert(1)" in line and line.startswith("|")]
    assert rows
    assert all("</script>|" not in line for line in rows)
    assert 'failures="1"' in xml


@pytest.mark.parametrize("name", ["nowhere/r.json", "r.json/r.md"])
def test_a_report_that_cannot_be_written_stops_before_any_work(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "r.json").touch()
    options = ["--report", tmp_path / "good.json", "--report", tmp_path / name]
    refuse(4, "evaluate", *given(folder), *options, "--quiet", says="r.")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json"]


def test_all_reports_are_replaced_or_none(folder: Path, tmp_path: Path) -> None:
    reports = [tmp_path / "r.html", tmp_path / "new.json", "/dev/full"]
    reports[0].write_text("old")  # type: ignore[union-attr]
    options = [option for path in reports for option in ("--report", path)]
    args = ["evaluate", *given(folder), "--quick", *options, "--report-format", "md"]
    refuse(4, *args, says="/dev/full: could not be written: No space left on device (disk full)")
    assert (tmp_path / "r.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_an_unknown_suffix_is_a_usage_error(folder: Path, tmp_path: Path) -> None:
    refuse(2, "evaluate", *given(folder), "--report", tmp_path / "r.pdf", says="r.pdf")


def test_verdict_and_exit_code_agree_at_every_limit(folder: Path) -> None:
    bare = succeed("evaluate", *given(folder), "--json").json()
    after = [p for p in bare["probes"] if p["stage"] == "after"]
    counts = [(round(p["accuracy"] * p["n_test"]), round(p["majority"] * p["n_test"]), p["n_test"]) for p in after]
    gain = max((max(right, n - right) - most) / n for right, most, n in counts)
    gain = max(gain, *(abs(p["balanced_accuracy"] - 1 / 2) for p in after))  # of two classes, either may be flipped
    above, below = [max(gain, 0.0), 0.5, 1.0], [0.0, float(np.nextafter(max(gain, 1e-9), 0))]
    for limits in (above, [*above, *below]):  # one run for each verdict: as many gates as there are limits
        options = [option for limit in limits for option in ("--max-gain", repr(limit))]
        done = run("evaluate", *given(folder), "--json", "--judge", "point", *options)
        found = done.json()
        passed = [gain <= limit for limit in limits]
        assert [gate["passed"] for gate in found["gates"]] == passed
        assert (done.code, found["verdict"]) == ((0, "pass") if all(passed) else (1, "fail"))
    refuse(2, "evaluate", *given(folder)[:-2], "--max-tpr-gap", "0.1", says="--task")
