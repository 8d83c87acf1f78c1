"""The gates as JUnit XML, which CI services show as tests."""

from collections import Counter
from xml.etree import ElementTree

from salcli.evaluation.comparison import Comparison
from salcli.evaluation.report import Gate, Report
from salcli.evaluation.text import general, visible
from salcli.render.verdict import findings, gate_message, limit_in_words

CLASS_NAME = "salcli.gates"
UNDECIDED = "undecided: {}"
NOT_NEEDED = "another candidate keeps all limits, and one is enough: {}"


def junit(report: Report | Comparison) -> str:
    """Return one test suite, of a comparison one for each candidate, in which each gate of `report` is a test case.

    A report without gates is one skipped case, because an empty suite is an error to some services and a success to
    others. A gate that is undecided is a failure of that type, or a skipped case where that is allowed. Gates of a
    candidate that is refused are skipped too where another one is enough.

    Returns
    -------
    XML without characters that XML forbids; it has no time stamp, so the same report becomes the same text
    """
    root = ElementTree.Element("testsuites", {"name": "salcli"})
    suites = [("salcli evaluate", report)] if isinstance(report, Report) else _suites(report)
    is_enough = isinstance(report, Comparison) and report.require == "any" and not report.is_refused
    totals = Counter[str]()
    for name, suite in suites:
        totals += _add_suite(root, name, suite, is_enough=is_enough)
    root.attrib.update(_attributes(totals))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _suites(comparison: Comparison) -> list[tuple[str, Report]]:
    return [(f"salcli compare: {visible(each.name)}", each.report) for each in comparison.candidates]


def _attributes(counts: Counter[str]) -> dict[str, str]:
    return {name: str(counts[name]) for name in ("tests", "failures", "errors", "skipped")}


def _add_suite(root: ElementTree.Element, name: str, report: Report, *, is_enough: bool) -> Counter[str]:
    """Add the gates of a report, and return how many cases there are, of each kind."""
    gates = report.gates
    skipped = {
        i: UNDECIDED if gate.status == "undecided" and report.allows_undecided else NOT_NEEDED
        for i, gate in enumerate(gates)
        if not gate.passed and (is_enough or (gate.status == "undecided" and report.allows_undecided))
    }
    n_failures = sum(not gate.passed for gate in gates) - len(skipped)
    counts = Counter({"tests": len(gates) or 1, "failures": n_failures, "skipped": len(skipped) if gates else 1})
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_attributes(counts)})
    for i, gate in enumerate(gates):
        _add_case(suite, gate, skipped.get(i))
    if not gates:
        case = ElementTree.SubElement(suite, "testcase", {"classname": CLASS_NAME, "name": "gates"})
        ElementTree.SubElement(case, "skipped", {"message": "no limit was set, so nothing was judged"})
    if found := findings(report):
        ElementTree.SubElement(suite, "system-out").text = "\n".join(found)
    return counts


def _add_case(suite: ElementTree.Element, gate: Gate, skipped: str | None) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": CLASS_NAME, "name": f"{visible(gate.name)} {limit_in_words(gate)}"}
    )
    if gate.passed:
        return
    text = f"{visible(gate.name)} {gate_message(gate)}"
    if skipped is not None:
        ElementTree.SubElement(case, "skipped", {"message": skipped.format(text)})
        return
    message = {"message": text, "type": "undecided" if gate.status == "undecided" else "gate"}
    failure = ElementTree.SubElement(case, "failure", message)
    lines = [f"gate:  {visible(gate.name)}", f"limit: {general(gate.limit)}"]
    lines.append(f"value: {'none' if gate.value is None else repr(gate.value)}")
    lines += [f"why:   {visible(gate.reason)}"] if gate.reason else []
    failure.text = "\n".join(lines)
