"""`compare` on the command line: options, exit status, reports, refusals that write nothing."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from salcli.cli.app import app
from salcli.options import WITHOUT, CompareOptions, EvaluateOptions, options_of

from .helpers import planted, save_npy, write_csv

N = 240
REPORTS = ("r.json", "r.md", "r.html", "r.xml")


def salcli(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of three classes with a split, SAL with one and with both directions."""
    folder = tmp_path_factory.mktemp("compare")
    x, labels = planted(N, 8, n_classes=3, shift=3.0)
    save_npy(folder / "x.npy", x)
    parts = [("train", "train", "dev", "test")[i % 4] for i in range(N)]
    write_csv(folder / "y.csv", ["y", "split"], zip(labels, parts, strict=True))
    for k in (1, 2):
        done = salcli("fit", folder / "x.npy", folder / "y.csv", "-k", k, "-o", folder / f"{k}.npz")
        assert done.exit_code == 0, done.output
    return folder


def compare(folder: Path, *args: object) -> Result:
    erasers = ("--eraser", folder / "1.npz", "--eraser", folder / "2.npz")
    return salcli(
        "compare",
        folder / "x.npy",
        folder / "y.csv",
        *erasers,
        "--probes",
        "linear",
        "--no-learning-curve",
        "--quiet",
        *args,
    )


def test_json_has_a_report_of_each_candidate(folder: Path) -> None:
    done = compare(folder, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["schema"] == "salcli.comparison/1"
    assert [each["name"] for each in found["candidates"]] == ["sal k=1", "sal k=2"]
    assert {each["report"]["schema"] for each in found["candidates"]} == {"salcli.report/1"}
    run = found["run"]
    assert run["command"].startswith("salcli compare x.npy y.csv --eraser 1.npz --eraser 2.npz --probes linear")
    assert run["options"]["erasers"] == ["1.npz", "2.npz"]
    one, both = (each["leak"] for each in found["candidates"])
    assert one > both
    assert found["fronts"] == {"neighbors": ["sal k=2", "sal k=1"]}


@pytest.mark.parametrize(
    ("args", "status"),
    [
        ((), 0),
        (("--max-leak", "0.4", "--judge", "point"), 1),
        (("--max-leak", "0.4", "--judge", "point", "--require", "any"), 0),
        (("--max-leak", "0.01", "--judge", "point", "--require", "any"), 1),
    ],
)
def test_the_exit_status_is_over_all_candidates(folder: Path, args: tuple[str, ...], status: int) -> None:
    done = compare(folder, *args)
    assert done.exit_code == status, done.output
    if args:
        assert done.stdout.count("gate max-leak") == 2
        assert done.stdout.splitlines()[-1] == f"verdict: {'fail' if status else 'pass'}"


@pytest.mark.slow
def test_reports_are_the_same_in_another_folder(folder: Path, tmp_path: Path) -> None:
    options = [part for name in REPORTS for part in ("--report", name)]
    found = []
    for place in (tmp_path / "a", tmp_path / "b"):
        shutil.copytree(folder, place)
        paths = [place / part if part in REPORTS else part for part in options]
        assert compare(place, *paths, "--max-leak", "0.9").exit_code in (0, 1)
        found.append([(place / name).read_bytes() for name in REPORTS])
    assert found[0] == found[1]
    assert not [text for text in found[0] if str(tmp_path).encode() in text]


@pytest.mark.slow
def test_a_baseline_is_the_report_of_an_earlier_candidate(folder: Path, tmp_path: Path) -> None:
    assert compare(folder, "--report", tmp_path / "r.json").exit_code == 0
    old = json.loads((tmp_path / "r.json").read_text("utf-8"))["candidates"][1]["report"]
    (tmp_path / "old.json").write_text(json.dumps(old), "utf-8")
    done = compare(folder, "--baseline", tmp_path / "old.json", "--max-leak-increase", "0.1", "--judge", "point")
    assert done.exit_code == 1
    assert [("passed" in line) for line in done.stdout.splitlines() if "gate max-leak-increase" in line] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (("--eraser", "1.npz"), 2, "a comparison takes at least two candidates (--eraser, --against, --method)"),
        (
            ("--eraser", "1.npz", "--eraser", "2.npz", "--require", "some"),
            2,
            "--require some: expected one of all, any",
        ),
        (("--eraser", "1.npz", "--eraser", "2.npz", "--sweep", "k=0:1"), 2, "--sweep"),
        (("--eraser", "1.npz", "--eraser", "2.npz", "--probes", "same-kernel"), 2, "reads the kernel of one eraser"),
        (("--eraser", "1.npz", "--eraser", "none.npz"), 3, "none.npz"),
        (("--eraser", "1.npz", "--against", "y.csv"), 3, "y.csv"),
        (("2.npz", "--eraser", "1.npz"), 2, "an eraser is given by --eraser, an erased file by --against"),
    ],
)
def test_refusals_write_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], status: int, says: str
) -> None:
    monkeypatch.chdir(folder)
    done = salcli("compare", "x.npy", "y.csv", *args, "--quiet", "--report", tmp_path / "r.json")
    assert done.exit_code == status, done.output
    assert says in done.output
    assert not (tmp_path / "r.json").exists()


def test_options_that_are_left_out_are_there_to_be_left_out() -> None:
    (held,) = [each for each in CompareOptions.__dataclass_fields__.values() if WITHOUT in each.metadata]
    assert set(held.metadata[WITHOUT]) <= set(options_of(EvaluateOptions))
