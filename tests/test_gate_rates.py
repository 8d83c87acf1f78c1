"""The scripts behind the tables of docs/explanation: simulated gates and intervals, other attackers."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gap_intervals, gate_rates, own_attackers, strongest

pytestmark = pytest.mark.slow


def test_a_gate_fails_a_file_at_its_limit_and_passes_one_above_it_no_more_often_than_it_says() -> None:
    at_the_limit = gate_rates.rates(0.2, 400, 4, 0.2, 200)
    above = gate_rates.rates(0.4, 400, 4, 0.2, 200)
    clean = gate_rates.rates(0.0, 4_000, 2, 0.3, 20)
    assert all(sum(shares.values()) == pytest.approx(1) for shares in (at_the_limit, above, clean))
    assert at_the_limit["failed"] <= 0.09  # .05, and three standard errors of 200 runs
    assert at_the_limit["passed"] <= 0.09
    assert above["passed"] == 0
    assert above["failed"] > 0.5
    assert clean["passed"] == 1


@pytest.mark.filterwarnings("ignore")
def test_the_table_of_own_attackers_has_a_row_for_each_adversary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=240)
    np.save(tmp_path / "x.npy", (rng.standard_normal((240, 6)) * (1 + y[:, None])).astype(np.float32))
    with (tmp_path / "y.csv").open("w", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows([["label"], *([f"c{each}"] for each in y)])

    every = own_attackers.attackers
    one_of_each = {each.kind: each for each in every() if each.name != "boosting"}
    assert {*one_of_each, own_attackers.MIXED} == set(strongest.COLUMNS)
    monkeypatch.setattr(strongest, "attackers", lambda: list(one_of_each.values()))
    files = [str(tmp_path / name) for name in ("x.npy", "y.csv")]
    monkeypatch.setattr(sys, "argv", ["strongest", "--data", "made up", *files, "label", "--rows", "100"])
    strongest.main()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split(" (")[0] for row in rows] == ["| made up, in-sample", "| made up, fresh"]
    assert all(len(row.split("|")) == len(head.split("|")) for row in rows)


def test_simulated_intervals_hold_a_gap_and_a_ratio_of_two_classes() -> None:
    for case in gap_intervals.CASES:
        if case[1] == 2:
            held, width = gap_intervals.coverage(*case, 40)
            assert held >= 34 / 40  # of 38 that are expected: fewer come once in sixty runs
            assert 0.02 < width < 0.4
