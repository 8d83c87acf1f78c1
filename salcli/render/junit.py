"""The gates as JUnit XML, which CI services show as tests."""

from typing import Any
from xml.etree import ElementTree

from salcli.render.text import general, number, records, visible
from salcli.render.verdict import findings, gate_message, is_passed, limit_in_words

CLASS_NAME = "salcli.gates"


def junit(report: dict[str, Any]) -> str:
    """Write one test suite, in which each gate is a test case.

    A gate without a value had nothing to judge: a failure. A report without gates is one skipped case, because an empty
    suite is an error to some services and a success to others.

    Parameters
    ----------
    report : the JSON object of a report

    Returns
    -------
    XML without characters that XML forbids; it holds no time stamp, so the same report gives the same text
    """
    gates = records(report.get("gates"))
    failures = [gate for gate in gates if not is_passed(gate)]
    counts = {"tests": len(gates) or 1, "failures": len(failures), "errors": 0, "skipped": 0 if gates else 1}
    totals = {name: str(n) for name, n in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "salcli", **totals})
    suite = ElementTree.SubElement(root, "testsuite", {"name": "salcli evaluate", **totals})
    for gate in gates:
        _add_case(suite, gate)
    if not gates:
        case = ElementTree.SubElement(suite, "testcase", {"classname": CLASS_NAME, "name": "gates"})
        ElementTree.SubElement(case, "skipped", {"message": "no limit was set, so nothing was judged"})
    if told := findings(report):
        ElementTree.SubElement(suite, "system-out").text = "\n".join(told)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _add_case(suite: ElementTree.Element, gate: dict[str, Any]) -> None:
    name = f"{visible(gate.get('name'))} {limit_in_words(gate)}"
    case = ElementTree.SubElement(suite, "testcase", {"classname": CLASS_NAME, "name": name})
    if is_passed(gate):
        return
    told = {"message": f"{visible(gate.get('name'))} {gate_message(gate)}", "type": "gate"}
    failure = ElementTree.SubElement(case, "failure", told)
    value = number(gate.get("value"))
    lines = [f"gate:  {visible(gate.get('name'))}", f"limit: {general(gate.get('limit'))}"]
    lines.append(f"value: {'none' if value is None else repr(value)}")
    lines += [f"why:   {visible(gate['reason'])}"] if gate.get("reason") else []
    failure.text = "\n".join(lines)
