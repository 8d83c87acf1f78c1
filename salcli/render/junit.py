"""The gates as JUnit XML, which CI services show as tests."""

from xml.etree import ElementTree

from salcli.evaluation.report import Gate, Report
from salcli.evaluation.text import general, visible
from salcli.render.verdict import findings, gate_message, limit_in_words

CLASS_NAME = "salcli.gates"


def junit(report: Report) -> str:
    """Return one test suite, in which each gate of `report` is a test case.

    A report without gates is one skipped case, because an empty suite is an error to some services and a success to
    others. A gate that is undecided is a failure of that type, or a skipped case where that is allowed.

    Returns
    -------
    XML without characters that XML forbids; it holds no time stamp, so the same report gives the same text
    """
    gates = report.gates
    allowed = [gate for gate in gates if gate.status == "undecided" and report.allows_undecided]
    n_failures = sum(not gate.passed for gate in gates) - len(allowed)
    counts = {
        "tests": len(gates) or 1,
        "failures": n_failures,
        "errors": 0,
        "skipped": len(allowed) if gates else 1,
    }
    totals = {name: str(n) for name, n in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "salcli", **totals})
    suite = ElementTree.SubElement(root, "testsuite", {"name": "salcli evaluate", **totals})
    for gate in gates:
        _add_case(suite, gate, is_allowed=gate in allowed)
    if not gates:
        case = ElementTree.SubElement(suite, "testcase", {"classname": CLASS_NAME, "name": "gates"})
        ElementTree.SubElement(case, "skipped", {"message": "no limit was set, so nothing was judged"})
    if found := findings(report):
        ElementTree.SubElement(suite, "system-out").text = "\n".join(found)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _add_case(suite: ElementTree.Element, gate: Gate, *, is_allowed: bool) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": CLASS_NAME, "name": f"{visible(gate.name)} {limit_in_words(gate)}"}
    )
    if gate.passed:
        return
    text = f"{visible(gate.name)} {gate_message(gate)}"
    if is_allowed:
        ElementTree.SubElement(case, "skipped", {"message": f"undecided: {text}"})
        return
    message = {"message": text, "type": "undecided" if gate.status == "undecided" else "gate"}
    failure = ElementTree.SubElement(case, "failure", message)
    lines = [f"gate:  {visible(gate.name)}", f"limit: {general(gate.limit)}"]
    lines.append(f"value: {'none' if gate.value is None else repr(gate.value)}")
    lines += [f"why:   {visible(gate.reason)}"] if gate.reason else []
    failure.text = "\n".join(lines)
