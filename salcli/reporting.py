"""Reports as files: each format that a name asks for, written whole or not at all."""

import json
from pathlib import Path

from salcli.evaluation.report import Report
from salcli.formats import atomic


def write_reports(report: Report, paths: tuple[str, ...]) -> None:
    """Write the report to every path, in the format of its suffix: .json, .md, .html or .xml (JUnit).

    Raises
    ------
    OutputError : one cannot be written
    """
    fields = report.to_dict()
    for path in paths:
        text = _rendered(fields, Path(path).suffix.lower())
        with atomic.replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as handle:
            handle.write(text)


def _rendered(fields: dict[str, object], suffix: str) -> str:
    if suffix == ".md":
        from salcli.render.markdown import markdown

        return markdown(fields)
    if suffix == ".html":
        from salcli.render.html import html

        return html(fields)
    if suffix == ".xml":
        from salcli.render.junit import junit

        return junit(fields)
    return json.dumps(fields, sort_keys=True, allow_nan=False, indent=1) + "\n"
