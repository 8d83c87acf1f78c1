from xml.dom import minidom

from hypothesis import given
from hypothesis import strategies as st

from salcli.evaluation.report import Gate, Report
from salcli.render.junit import junit
from tests.render.reports import HOSTILE, full_report, gates, many, probes


def suite_of(text: str) -> minidom.Element:
    (suite,) = minidom.parseString(text.encode("utf-8")).getElementsByTagName("testsuite")
    return suite


@given(st.builds(Report, gates=many(gates(), 4), probes=many(probes(), 2), allows_undecided=st.booleans()))
def test_counts_equal_the_gates(report: Report) -> None:
    wanted = report.gates
    allowed = [gate for gate in wanted if gate.status == "undecided" and report.allows_undecided]
    failed = [gate for gate in wanted if not gate.passed and gate not in allowed]
    suite = suite_of(junit(report))
    assert int(suite.getAttribute("tests")) == len(suite.getElementsByTagName("testcase")) == max(1, len(wanted))
    assert int(suite.getAttribute("failures")) == len(suite.getElementsByTagName("failure")) == len(failed)
    assert (
        int(suite.getAttribute("skipped")) == len(suite.getElementsByTagName("skipped")) == (len(allowed) or not wanted)
    )
    assert suite.getAttribute("errors") == "0"


def test_a_failure_tells_value_limit_and_reason() -> None:
    failures = suite_of(junit(full_report())).getElementsByTagName("failure")
    messages = [failure.getAttribute("message") for failure in failures]
    assert [failure.getAttribute("type") for failure in failures] == ["gate", "undecided", "gate"]
    assert messages == [
        "max-accuracy is 0.634, at most 0.6 is allowed",
        "min-task-kept is 0.930, at least 0.9 is required, about 5,000 test rows would decide (900 here)",
        "max-tpr-gap had nothing valid to judge, at most 0.1 is allowed, no fresh result for dialect",
    ]
    assert "value: 0.634" in failures[0].firstChild.data


def test_any_string_gives_valid_xml() -> None:
    gates = tuple(Gate("max-gain", 1, 2, "failed", reasons=(text,)) for text in HOSTILE)
    suite = suite_of(junit(Report(gates=gates)))
    messages = [failure.getAttribute("message") for failure in suite.getElementsByTagName("failure")]
    start = "max-gain is 2.000, at most 1 is allowed"
    assert f"{start}, <script>alert(1)</script>" in messages
    assert rf"{start}, \x1b[31mred\x1b[0m" in messages
    assert rf"{start}, byte \udcff" in messages
