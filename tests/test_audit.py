import importlib.util
import json
from pathlib import Path

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
    assert {"numpy", "scipy", "typing-extensions"} <= set(found)
    assert not {"salcli", "pytest", "mypy"} & set(found)
