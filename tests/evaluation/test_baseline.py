"""An earlier report as the baseline of a release."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from salcli.errors import FormatError
from salcli.evaluation.baseline import Baseline
from salcli.evaluation.gates import Expected, Judge, leak_increase_gate
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Report
from tests.evaluation.results import result

ASKED = Expected((("g", "fresh", "linear"), ("g", "fresh", "rbf")))


def earlier(folder: Path, *probes: ProbeResult) -> Baseline:
    path = folder / "before.json"
    path.write_text(json.dumps(to_json(Report(probes=probes))))
    return Baseline.read(str(path))


def pair(linear: float, rbf: float, n: int = 10_000) -> tuple[ProbeResult, ProbeResult]:
    return result(linear, n_test=n), result(rbf, probe="rbf", n_test=n)


def test_the_worst_leaks_are_compared_with_their_errors(tmp_path: Path) -> None:
    baseline = earlier(tmp_path, *pair(0.6, 0.55), result(1.0, stage="before"))
    assert baseline.leaks["g"].worst(baseline.leaks["g"].of)[0] == pytest.approx(0.2)
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
    both = earlier(tmp_path, *pair(0.6, 0.6), result(0.6, form="unit", n_test=10_000))
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
    assert set(Baseline.read(str(path)).leaks["g"].of) == {"fresh linear", "fresh rbf"}


def test_what_the_baseline_attacked_must_be_attacked_again_and_bands_count(tmp_path: Path) -> None:
    both = earlier(tmp_path, *pair(0.6, 0.6), replace(result(0.6), attribute="race"))
    reason = leak_increase_gate(1, both, ASKED, pair(0.5, 0.5), "after", Judge()).reason
    assert "race is attacked there, and not here" in reason
    path = tmp_path / "bands.json"
    near = replace(result(0.65, n_test=10_000), band="band1")
    path.write_text(json.dumps(to_json(Report(probes=pair(0.6, 0.6), bands=(near,)))))
    banded = Baseline.read(str(path))
    assert banded.leaks["g"].worst(banded.leaks["g"].of)[0] == pytest.approx(0.3)
    now = replace(result(0.9, n_test=10_000), band="band1")
    gate = leak_increase_gate(0.25, banded, ASKED, (*pair(0.6, 0.6), now), "after", Judge())
    assert gate.status == "failed"
    reason = leak_increase_gate(0.25, banded, ASKED, pair(0.6, 0.6), "after", Judge()).reason
    assert "fresh linear on band1 attacker of g is not here" in reason


def test_a_form_that_is_new_is_compared_with_the_worst_that_both_have(tmp_path: Path) -> None:
    baseline = earlier(tmp_path, *pair(0.6, 0.55))
    for found, status in ((0.62, "passed"), (0.75, "failed")):
        now = (*pair(0.6, 0.6), result(found, form="unit", n_test=10_000), result(0.4, band="band1", n_test=10_000))
        assert leak_increase_gate(0.1, baseline, ASKED, now, "after", Judge()).status == status
        (note,) = baseline.lacking(now, "after")
        assert note.endswith(
            "no fresh linear as unit, fresh linear on band1 attacker of g: compared with the worst of those it has"
        )
    assert not baseline.lacking(pair(0.6, 0.55), "after")


def test_a_product_that_is_new_is_compared_with_the_worst_of_its_factors(tmp_path: Path) -> None:
    of_race = result(0.7, attribute="race", n_test=10_000)
    baseline = earlier(tmp_path, *pair(0.6, 0.55), of_race)
    for found, status in ((0.72, "passed"), (0.9, "failed")):
        product = result(found, attribute="g × race", factors=("g", "race"), n_test=10_000)
        now = (*pair(0.6, 0.55), of_race, product)
        assert leak_increase_gate(0.1, baseline, ASKED, now, "after", Judge()).status == status
        (note,) = baseline.lacking(now, "after")
        assert note.endswith("no attacker of g × race, which is compared with the worst of g and race")
    alone = result(0.5, attribute="a × b", factors=("a", "b"), n_test=10_000)
    reason = leak_increase_gate(1, baseline, ASKED, (*pair(0.5, 0.5), of_race, alone), "after", Judge()).reason
    assert "no attacker of a × b, so nothing is comparable (`intersections=False` leaves products out)" in reason


def test_a_weighted_twin_may_be_gone_and_nothing_else(tmp_path: Path) -> None:
    twin = result(0.9, probe="rbf-weighted", n_test=10_000)
    baseline = earlier(tmp_path, *pair(0.6, 0.55), twin)
    gate = leak_increase_gate(0.1, baseline, ASKED, pair(0.6, 0.7), "after", Judge())
    assert gate.status == "failed"  # the twin's leak, which is not measured, excuses nothing
    assert leak_increase_gate(0.1, baseline, ASKED, pair(0.6, 0.55), "after", Judge()).status == "passed"
    more = earlier(tmp_path, *pair(0.6, 0.55), replace(twin, probe="mlp-weighted"))
    assert "mlp-weighted" in leak_increase_gate(1, more, ASKED, pair(0.6, 0.55), "after", Judge()).reason


def test_an_error_that_is_not_known_is_no_error_of_zero(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    report = to_json(Report(probes=pair(0.6, 0.55)))
    report["probes"][0]["leak_error"] = None
    path.write_text(json.dumps(report))
    baseline = Baseline.read(str(path))
    gate = leak_increase_gate(0.5, baseline, ASKED, pair(0.6, 0.55), "after", Judge())
    assert gate.status == "failed"
    assert "the error of the leak in" in gate.reason
    assert "before.json is not known (`leak_error` is null)" in gate.reason
    assert leak_increase_gate(0.5, baseline, ASKED, pair(0.6, 0.55), "after", Judge(None)).status == "passed"
    now = (result(0.6, accuracy_error=float("inf"), n_test=10_000), pair(0.5, 0.55)[1])
    gate = leak_increase_gate(0.5, earlier(tmp_path, *pair(0.6, 0.5)), ASKED, now, "after", Judge())
    assert "the error of the leak in this report is not known" in gate.reason
