"""An earlier report as the baseline of a release."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from salcli.errors import FormatError
from salcli.evaluation.baseline import Baseline
from salcli.evaluation.gates import Asked, Judge, leak_increase_gate
from salcli.evaluation.report import ProbeResult, Report, to_json
from tests.evaluation.results import result

ASKED = Asked((("g", "fresh", "linear"), ("g", "fresh", "rbf")))


def earlier(folder: Path, *probes: ProbeResult) -> Baseline:
    path = folder / "before.json"
    path.write_text(json.dumps(to_json(Report(probes=probes))))
    return Baseline.read(str(path))


def pair(linear: float, rbf: float, n: int = 10_000) -> tuple[ProbeResult, ProbeResult]:
    return result(linear, n_test=n), result(rbf, probe="rbf", n_test=n)


def test_the_worst_leaks_are_compared_with_their_errors(tmp_path: Path) -> None:
    baseline = earlier(tmp_path, *pair(0.6, 0.55), result(1.0, stage="before"))
    assert baseline.leaks["g"].leak == pytest.approx(0.2)
    for found, n, status in (
        (pair(0.55, 0.6), 10_000, "passed"),
        (pair(0.5, 0.75), 10_000, "failed"),
        (pair(0.5, 0.63), 300, "undecided"),
    ):
        results = tuple(replace(each, n_test=n) for each in found)
        assert leak_increase_gate(0.05, baseline, ASKED, results, "after", Judge()).status == status
    gate = leak_increase_gate(0.05, baseline, ASKED, pair(0.5, 0.75), "after", Judge(None))
    assert gate.value == pytest.approx(0.3)
    assert "0.5 (fresh rbf), 0.2 in" in gate.reason


def test_what_the_baseline_lacks_or_has_more_of_fails(tmp_path: Path) -> None:
    other = earlier(tmp_path, replace(pair(0.6, 0.6)[0], attribute="other"))
    assert "no attacker of g" in leak_increase_gate(1, other, ASKED, pair(0.5, 0.5), "after", Judge()).reason
    more = earlier(tmp_path, *pair(0.6, 0.6), result(0.9, probe="mlp"))
    assert (
        "fresh mlp attacker of g is not here"
        in leak_increase_gate(1, more, ASKED, pair(0.5, 0.5), "after", Judge()).reason
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"probes": [{}]}', '{"probes": [{"stage": "after", "leak": "x"}]}', "é"]
)
def test_what_is_no_report_with_leaks_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match="expected a JSON report"):
        Baseline.read(str(path))
    with pytest.raises(FormatError, match="No such file"):
        Baseline.read(str(tmp_path / "none.json"))


def test_an_attacker_in_another_form_is_another_one(tmp_path: Path) -> None:
    both = earlier(tmp_path, *pair(0.6, 0.6), result(0.6, form="unit"))
    reason = leak_increase_gate(1, both, ASKED, pair(0.5, 0.5), "after", Judge()).reason
    assert "fresh linear as unit attacker of g is not here" in reason
    same = (*pair(0.5, 0.5), result(0.9, form="unit", n_test=10_000))
    gate = leak_increase_gate(0.1, both, ASKED, same, "after", Judge())
    assert gate.status == "failed"
    assert "0.8 (fresh linear as unit), 0.2 in" in gate.reason


def test_reports_of_earlier_versions_have_raw_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    report = to_json(Report(probes=pair(0.6, 0.6)))
    for probe in report["probes"]:
        del probe["as"]
    path.write_text(json.dumps(report))
    assert Baseline.read(str(path)).leaks["g"].attackers == {"fresh linear", "fresh rbf"}


def test_what_the_baseline_attacked_must_be_attacked_again_and_bands_count(tmp_path: Path) -> None:
    both = earlier(tmp_path, *pair(0.6, 0.6), replace(result(0.6), attribute="race"))
    reason = leak_increase_gate(1, both, ASKED, pair(0.5, 0.5), "after", Judge()).reason
    assert "race is attacked there, and not here" in reason
    path = tmp_path / "bands.json"
    near = replace(result(0.65, n_test=10_000), band="band1")
    path.write_text(json.dumps(to_json(Report(probes=pair(0.6, 0.6), bands=(near,)))))
    banded = Baseline.read(str(path))
    assert banded.leaks["g"].leak == pytest.approx(0.3)
    now = replace(result(0.9, n_test=10_000), band="band1")
    gate = leak_increase_gate(0.25, banded, ASKED, (*pair(0.6, 0.6), now), "after", Judge())
    assert gate.status == "failed"
    reason = leak_increase_gate(0.25, banded, ASKED, pair(0.6, 0.6), "after", Judge()).reason
    assert "fresh linear on band1 attacker of g is not here" in reason
