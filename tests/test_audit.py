import importlib.util
import json
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("audit", Path(__file__).with_name("audit.py"))
assert SPEC is not None
assert SPEC.loader is not None
audit = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(audit)


def told(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages})


def test_a_service_that_knows_nothing_is_no_clean_bill() -> None:
    clean = {"name": "a", "version": "1", "vulns": []}
    assert audit.judge(told(clean), "", 1) is None
    for said in ("", "[]", told({"name": "a", "skip_reason": "not found"}), told()):
        found = audit.judge(said, "ConnectionError: no route", 1) if said != "[]" else audit.judge("{}", "", 1)
        assert "could not be reached" in found
        assert "\n" not in found
    assert "CVE-1" in audit.judge(told(clean | {"vulns": [{"id": "CVE-1"}]}), "", 1)


def test_what_runs_is_what_is_asked_about() -> None:
    found = audit.installed("salcli")
    assert {"numpy", "scipy", "pygments"} <= set(found)  # the last comes with rich
    assert not {"salcli", "pytest", "mypy"} & set(found)


@pytest.mark.parametrize("n_found", [0, 2])
def test_every_vulnerability_is_told_and_fails_the_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], n_found: int
) -> None:
    *names, last = sorted(audit.installed("salcli"))
    clean = [{"name": name, "version": "1", "vulns": []} for name in names]
    found = {"name": last, "version": "1", "vulns": [{"id": f"CVE-{i}"} for i in range(n_found)]}
    (tmp_path / "said.json").write_text(told(*clean, found), encoding="utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip-audit").write_text(f"#!/bin/sh\nexec cat '{tmp_path}/said.json'\n", encoding="utf-8")
    (tmp_path / "bin" / "pip-audit").chmod(0o755)
    assert audit.main(tmp_path) == int(n_found > 0)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "CVE" in line] == [f"{last} 1: CVE-{i}" for i in range(n_found)]
