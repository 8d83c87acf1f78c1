from typing import Any
from xml.dom import minidom

from hypothesis import given

from salcli.render.junit import junit
from salcli.render.text import number
from tests.render.reports import HOSTILE, full_report, gates, many, probes, some


def suite_of(text: str) -> minidom.Element:
    (suite,) = minidom.parseString(text.encode("utf-8")).getElementsByTagName("testsuite")
    return suite


@given(some(gates=many(gates(), 4), probes=many(probes(), 2)))
def test_counts_equal_the_gates(report: dict[str, Any]) -> None:
    wanted = report.get("gates") or []
    failed = [gate for gate in wanted if not gate["passed"] or number(gate["value"]) is None]
    suite = suite_of(junit(report))
    assert int(suite.getAttribute("tests")) == len(suite.getElementsByTagName("testcase")) == max(1, len(wanted))
    assert int(suite.getAttribute("failures")) == len(suite.getElementsByTagName("failure")) == len(failed)
    assert int(suite.getAttribute("skipped")) == len(suite.getElementsByTagName("skipped")) == (not wanted)
    assert suite.getAttribute("errors") == "0"


def test_a_failure_tells_value_limit_and_reason() -> None:
    failures = suite_of(junit(full_report())).getElementsByTagName("failure")
    messages = [failure.getAttribute("message") for failure in failures]
    assert messages == [
        "max-accuracy is 0.634, at most 0.6 is allowed",
        "max-tpr-gap had nothing valid to judge, at most 0.1 is allowed, no fresh result for dialect",
    ]
    assert "value: 0.634" in failures[0].firstChild.data


def test_a_gate_without_a_value_fails_even_if_it_claims_otherwise() -> None:
    suite = suite_of(junit({"gates": [{"name": "max-accuracy", "limit": 0.5, "value": None, "passed": True}]}))
    assert suite.getAttribute("failures") == "1"


def test_any_string_gives_valid_xml() -> None:
    gates = [{"name": text, "limit": 1, "value": 2, "passed": False, "reason": text} for text in HOSTILE]
    suite = suite_of(junit({"gates": gates}))
    named = [case.getAttribute("name") for case in suite.getElementsByTagName("testcase")]
    assert "<script>alert(1)</script> limit 1" in named
    assert r"\x1b[31mred\x1b[0m limit 1" in named
    assert r"byte \udcff limit 1" in named
