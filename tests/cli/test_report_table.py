"""Figures on terminals of any width, in this process: the console is given its width."""

import re
from typing import Any

import pytest
from rich.console import Console

from salcli.cli import console, report_table


def report(name: str, n_values: int) -> dict[str, Any]:
    probe = {
        "attribute": name, "probe": "linear", "adversary": "in-sample", "stage": "after", "accuracy": 0.123,
        "ci95": [0.111, 0.135], "balanced_accuracy": 0.456, "majority": 0.789, "n_train": 12_345, "n_test": 6_789,
        "converged": False, "capped": True, "hyperparameters": {}, "leakage": 0.877,
    }  # fmt: skip
    step = {"parameter": "strength", "probes": [probe], "similarity": [], "task": None}
    sweep = [step | {"value": i / 100} for i in range(n_values)]
    return {"probes": [probe], "sweep": sweep, "deviation": None, "notes": [], "gates": []}


def printed(report: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> str:
    for module in (console, report_table):
        monkeypatch.setattr(module, "results", lambda: Console(width=width, highlight=False, markup=False))
    report_table.print_report(report)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [10, 40, 80, 200])
@pytest.mark.parametrize("name", ["gender", "a" * 150])
def test_no_figure_is_cut_on_a_narrow_terminal(
    width: int, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    told = printed(report(name, 3), width, monkeypatch, capsys)
    assert "…" not in told
    for figure in ("0.123", "0.111–0.135", "0.789", "12,345", "6,789", "linear", "in-sample", "after"):
        assert re.search(rf"(^|\s){figure}(\s|$)", told, re.MULTILINE), figure
    assert ("0.456" in told) == (width >= report_table.WIDE)


@pytest.mark.parametrize("n_values", [3, 11])
def test_every_value_of_a_sweep_is_printed(
    n_values: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    told = printed(report("gender", n_values), 100, monkeypatch, capsys)
    for i in range(n_values):
        assert re.search(rf"^ *{i / 100:g} +0\.123", told, re.MULTILINE)


def test_the_centres_of_a_picture_are_not_for_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    scatter = {
        "attribute": "g",
        "classes": ["a"],
        "codes": [0, 0],
        "before": [[0, 1], [1, 0]],
        "after": [[0, 0], [0, 0]],
    }
    report_table.print_report(report("g", 0) | {"scatter": scatter})
    assert "Centres" not in capsys.readouterr().out
