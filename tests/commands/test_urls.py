"""Every command reads from URLs, and writes to them, what it reads and writes as local files: the same bytes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.commands.checkpoint import Checkpoint
from salcli.evaluation.baseline import Baseline

from ..cli.helpers import planted, save_npy, write_csv

fsspec = pytest.importorskip("fsspec")
pytestmark = pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
X, CLASSES = planted(120, 4)
CUTS = (0, 1, 40, 87, 120)
NUMBERS = (9, 10, 100, 101)  # e_100 follows e_9 by letters
STORE = "memory://d"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Write shards with labels beside them, into this folder and into a store."""
    monkeypatch.chdir(tmp_path)
    for name in ("x", "y"):
        Path(name).mkdir()
    for i, a, b in zip(NUMBERS, CUTS[:-1], CUTS[1:], strict=True):
        save_npy(Path(f"x/e_{i}.npy"), X[a:b])
        write_csv(Path(f"y/e_{i}.csv"), ["g", "t"], zip(CLASSES[a:b], ("pq" * 60)[a:b], strict=True))
    write_csv(Path("all.csv"), ["g"], [[each] for each in CLASSES])
    Path("x/_SUCCESS").touch()
    words = "".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(X.tolist()))
    Path("words.txt").write_text(words, "ascii")
    found = fsspec.filesystem("memory")
    found.store.clear()
    for path in (path for path in Path().rglob("*") if path.is_file()):
        found.put_file(str(path), f"/d/{path}")
    yield found
    found.store.clear()


def run(*args: object) -> str:
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(code: int, *args: object) -> str:
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    lines = [line for line in done.output.splitlines() if line.startswith("error: ")]
    assert (done.exit_code, len(lines)) == (code, 1), done.output
    return lines[0].removeprefix("error: ")


def same(memory: Any, name: str) -> bool:
    """Return whether an output in the store has the bytes of the local one of that name."""
    return bool(memory.cat_file(f"/d/{name}") == Path(name).read_bytes())


@pytest.mark.parametrize(
    ("x", "y"), [("x/", "y/"), ("x", "y/*.csv"), ("x/*.npy", "all.csv"), ("x/e_*", "y"), ("**/*.npy", "y/")]
)
def test_folders_and_globs_of_shards_are_one_file_in_natural_order(memory: Any, x: str, y: str) -> None:
    run("fit", x, y, "-o", "e.npz", "--attribute", "g")
    run("fit", f"{STORE}/{x}", f"{STORE}/{y}", "-o", f"{STORE}/e.npz", "--attribute", "g")
    assert same(memory, "e.npz")
    local, stored = (json.loads(run("inspect", path, "--json")) for path in (x, f"{STORE}/{x}"))
    assert list(stored["shards"]) == [f"{STORE}/{path}" for path in local["shards"]]
    assert stored["n"] == len(X)


def test_erasers_reports_and_labels_are_at_urls(memory: Any) -> None:
    run("fit", "x", "all.csv", "--holdout", 0.3, "-o", "e.npz")
    memory.put_file("e.npz", "/d/e.npz")
    evaluation = ("--probes", "linear", "--quick", "--seed", 3)
    for folder in ("", f"{STORE}/"):
        reports = [option for kind in ("json", "md", "html", "xml") for option in ("--report", f"{folder}r.{kind}")]
        run("evaluate", f"{folder}x", f"{folder}all.csv", "--eraser", f"{folder}e.npz", *evaluation, *reports)
        run("label", f"{folder}words.txt", "--direction", "w1:w2", "--top", 20, "-o", f"{folder}labels.csv")
        run("apply", f"{folder}e.npz", f"{folder}x/e_100.npy", "-o", f"{folder}out.npy")
        run("export", f"{folder}e.npz", "-o", f"{folder}p.npz")
        run("inspect", f"{folder}e.npz", "--projection", f"{folder}p.npy")
    for name in ("labels.csv", "out.npy", "p.npz", "p.npy"):
        assert same(memory, name), name
    found = [json.loads(data) for data in (Path("r.json").read_bytes(), memory.cat_file("/d/r.json"))]
    for report in found:
        report.pop("run")  # the command
    assert found[0] == found[1]
    assert json.loads(run("inspect", f"{STORE}/e.npz", "--json"))["format"] == "salcli eraser"
    assert Baseline.read(f"{STORE}/r.json").leaks == Baseline.read("r.json").leaks
    erasers = ("--eraser", "e.npz", "--eraser", f"{STORE}/e.npz")
    run("compare", "x", "all.csv", *erasers, "--probes", "linear", "--quick")


def test_moments_are_at_urls(memory: Any) -> None:
    for folder in ("", f"{STORE}/"):
        for i in NUMBERS[1:]:
            run(
                "moments",
                f"{folder}x/e_{i}.npy",
                f"{folder}y/e_{i}.csv",
                "--attribute",
                "g",
                "-o",
                f"{folder}m-{i}.npz",
            )
        run("fit", "--moments", f"{folder}m-*.npz", "-o", f"{folder}f.npz")
    assert all(same(memory, name) for name in ("m-10.npz", "m-101.npz", "f.npz"))
    assert json.loads(run("inspect", f"{STORE}/m-10.npz", "--json"))["format"] == "salcli moments"
    assert f"{STORE}/n-*.npz: no such file" in refused(3, "fit", "--moments", f"{STORE}/n-*.npz", "-o", "f.npz")


def test_a_checkpoint_is_at_a_url(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, keep = list[int](), Checkpoint.keep

    def counted(checkpoint: Checkpoint, number: int, *args: Any, **named: Any) -> None:
        kept.append(number)
        keep(checkpoint, number, *args, **named)

    monkeypatch.setattr(Checkpoint, "keep", counted)
    run("fit", "x", "all.csv", "-o", "e.npz")
    for hashed in ((), ("--hash", "none")):
        for expected in ([0, 1, 2, 3], [], [1]):
            kept.clear()
            checkpoint = ("--checkpoint", f"{STORE}/kept{len(hashed)}")
            run("fit", f"{STORE}/x/", "all.csv", "-o", f"{STORE}/e.npz", *checkpoint, *hashed)
            assert kept == expected
            assert hashed or same(memory, "e.npz") is (expected != [1])
            if not expected:
                save_npy(Path("changed.npy"), X[1:40] + 1)
                memory.put_file("changed.npy", "/d/x/e_10.npy")
        memory.put_file("x/e_10.npy", "/d/x/e_10.npy")
    assert not Path("memory:").exists()
    assert "hf upload" in refused(2, "fit", "x", "all.csv", "-o", "f.npz", "--checkpoint", "hf://me/words/kept")


def test_a_report_that_cannot_be_uploaded_leaves_local_ones_as_they_were(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("r.md").write_text("old")

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError("denied")

    monkeypatch.setattr(type(memory), "put_file", denied)
    reports = ("--report", "r.md", "--report", f"{STORE}/r.json")
    says = refused(4, "evaluate", "x", "all.csv", "--probes", "linear", "--quick", *reports)
    assert says == f"{STORE}/r.json: could not be uploaded: denied"
    assert Path("r.md").read_text() == "old"
    assert not memory.exists("/d/r.json")


REFUSED = [
    (("fit", f"{STORE}/none*", "all.csv", "-o", "e.npz"), 3, "none*: no file matches"),
    (("fit", f"{STORE}/y/", "all.csv", "-o", "e.npz"), 3, f"{STORE}/y/: is a folder without embedding files"),
    (("fit", f"{STORE}/x", f"{STORE}/x", "-o", "e.npz"), 3, "is a folder without label tables"),
    (("fit", "x", "all.csv", "-o", f"{STORE}/x/"), 4, "is a folder, expected the name of an object"),
    (("fit", "https://127.0.0.1:9/x/*.npy", "all.csv", "-o", "e.npz"), 3, "x/*.npy: cannot be read"),
    (("export", f"{STORE}/e.npz", "-o", f"{STORE}/m", "--to", "sentence-transformers"), 2, "a local folder"),
    (
        ("fit", "x", "all.csv", "-o", "hf://datasets/me/words@main/a/e.npz"),
        2,
        "upload that once: hf upload me/words HERE a/e.npz --repo-type dataset --revision main",
    ),
]


def test_what_is_refused_is_one_line(memory: Any) -> None:
    run("fit", "x", "all.csv", "-o", "e.npz")
    memory.put_file("e.npz", "/d/e.npz")
    before = set(memory.store)
    Path("e.npz").unlink()
    for args, code, says in REFUSED:
        assert says in refused(code, *args)
        assert set(memory.store) == before
        assert not Path("e.npz").exists()
