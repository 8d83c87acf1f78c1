"""The seam of measures: one object and its entry are enough for the whole of `evaluate`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.measures import MEASURES, recorded, run_measures
from salcli.evaluation.report import Report
from salcli.evaluation.section import Fact, Figure, Section, Table, names, numbers
from salcli.evaluation.stages import Erasure
from salcli.options import EvaluateOptions
from tests.cli.helpers import planted, save_npy, write_csv

N = 120


@dataclass(frozen=True)
class Norms:
    before: float
    after: float


class MeanNorm(Measure[Norms]):
    """The mean norm of the test rows: a measure that is nowhere but here."""

    name: ClassVar[str] = "mean_norm"
    swept: ClassVar[tuple[str, str] | None] = ("Mean norm", "norm")

    def __init__(self) -> None:
        self.n_reads = 0

    def read(self, *_: object) -> None:
        self.n_reads += 1

    def run(self, rows: BeforeAfter) -> Norms | None:
        rows.once(self.read)
        stages = rows.stages
        if stages.after is None:
            rows.note("nothing was erased, so that no norm changed")
            return None
        at = stages.at(rows.plan.test)
        return Norms(*(float(np.linalg.norm(x[at], axis=1).mean()) for x in (stages.before, stages.after)))

    def section(self, record: Norms) -> Section:
        row = ("rows", f"{record.before:.3f}", f"{record.after:.3f}")
        table = Table("Mean norms", (*names("of"), *numbers("before", "after")), (row,))
        return Section(self.name, "Mean norm", ("Erasure shortens rows.",), (table,), line="norms were measured")

    def facts(self, record: Norms) -> Iterator[Fact]:
        yield Fact("mean norm", f"{record.before:.3f}", f"{record.after:.3f}", "shorter is not safer")

    def figures(self, record: Norms) -> Iterator[Figure]:
        yield Figure("mean norm", "of rows", record.after)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x, labels = planted(N)
    save_npy(tmp_path / "x.npy", x)
    parts = ["train", "train", "dev", "test"] * (N // 4)
    write_csv(tmp_path / "y.csv", ["y", "split"], zip(labels, parts, strict=True))
    done = CliRunner().invoke(app, ["fit", f"{tmp_path}/x.npy", f"{tmp_path}/y.csv", "-o", f"{tmp_path}/e.npz"])
    assert done.exit_code == 0, done.output
    return tmp_path


def evaluated(folder: Path, *args: str) -> tuple[dict, str]:
    """Run `evaluate` in this process; return what `--report x.json` holds, and the terminal's text."""
    files = ["evaluate", f"{folder}/x.npy", f"{folder}/y.csv", "--probes", "linear", *args]
    done = CliRunner().invoke(app, [*files, "--report", f"{folder}/r.json", "--report", f"{folder}/r.md"])
    assert done.exit_code == 0, done.output
    return json.loads((folder / "r.json").read_text()), done.stdout


@pytest.mark.slow
def test_a_measure_that_is_registered_is_measured_swept_repeated_and_shown_everywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = MeanNorm()
    monkeypatch.setitem(MEASURES, "mean_norm", measure)
    more = ["--report", f"{folder}/r.html", "--sweep", "strength=0:1:0.5", "--repeats", "2", "--sample", "40"]
    found, printed = evaluated(folder, "--eraser", f"{folder}/e.npz", *more)
    x = np.load(folder / "x.npy")[3::4]
    before, after = found["mean_norm"]["before"], found["mean_norm"]["after"]
    assert before == pytest.approx(np.linalg.norm(x, axis=1).mean())
    assert after < before
    steps = [step["mean_norm"]["after"] for step in found["sweep"]]
    assert steps == pytest.approx([before, steps[1], after])
    assert after < steps[1] < before
    assert len(next(f["values"] for f in found["repeats"]["figures"] if f["name"] == "mean norm")) == 2
    row = f"| rows | {before:.3f} | {after:.3f} |"
    markdown = (folder / "r.md").read_text()
    for part in ("### Mean norm", "Erasure shortens rows.", row, "mean\\_norm of rows", "shorter is not safer"):
        assert part in markdown
    assert "Mean norm along strength" in (folder / "r.html").read_text()
    assert "Mean norms" in printed
    assert "norms were measured" in printed
    assert measure.n_reads == 1


def test_a_measure_without_a_record_is_null_and_its_note_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "mean_norm", MeanNorm())
    found, printed = evaluated(folder)
    assert found["mean_norm"] is None
    assert found["notes"] == ["nothing was erased, so that no norm changed"]
    assert "nothing was erased" not in printed  # it was a warning on stderr, and is said once
    assert "Mean norm" not in (folder / "r.md").read_text()


def test_measures_that_need_no_labels_run_without_them() -> None:
    rows = BeforeAfter(None, Erasure(), EvaluateOptions())  # type: ignore[arg-type]
    assert run_measures(rows, needs_labels=False) == {"similarity": (), "bias": (), "neighbors": None}
    with pytest.raises(AssertionError, match="needs labels"):
        run_measures(rows, needs_labels=True)


def test_records_come_in_the_order_of_the_measures() -> None:
    assert list(MEASURES) == ["similarity", "bias", "task", "neighbors", "kept", "geometry", "deviation", "scatter"]
    report = Report(measures={"scatter": 1, "task": 2, "similarity": None})
    assert [(measure.name, record) for measure, record in recorded(report)] == [("task", 2), ("scatter", 1)]


def test_what_is_read_once_is_shared_by_all_erasures() -> None:
    read = []
    rows = BeforeAfter(None, Erasure(), EvaluateOptions())  # type: ignore[arg-type]
    again = BeforeAfter(rows.source, Erasure(strength=0.5), rows.options, cache=rows.cache)
    assert rows.once(lambda *given: read.append(given)) is None

    def count(*given: object) -> int:
        read.append(given)
        return len(read)

    assert rows.once(count) == again.once(count) == 2
