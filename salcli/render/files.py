"""A report as files, each in the format of its name: all of them, or none."""

import json

from salcli.evaluation.comparison import Comparison
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.report import Report
from salcli.formats import atomic
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Progress


def write_reports(report: Report | Comparison, options: EvaluateOptions, progress: Progress) -> None:
    """Write the report to files: all of them, or none.

    Parameters
    ----------
    report : what is written
    options : with the paths, `reports`, and their format where the suffix does not name it
    progress : shows each path

    Raises
    ------
    OutputError : a file cannot be written
    """
    with atomic.replacing_all(options.reports) as temporaries:
        for path, temporary in zip(options.reports, temporaries, strict=True):
            text = _rendered(report, options.format_of(path))
            with atomic.writing(path), open(temporary, "w", encoding="utf-8", newline="\n") as handle:
                handle.write(text)
    for path in options.reports:
        progress.say(f"wrote {path}")


def _rendered(report: Report | Comparison, kind: str | None) -> str:
    if kind == "md":
        from salcli.render.markdown import markdown

        return markdown(report)
    if kind == "html":
        from salcli.render.html import html

        return html(report)
    if kind == "xml":
        from salcli.render.junit import junit

        return junit(report)
    return json.dumps(to_json(report), sort_keys=True, allow_nan=False, indent=1) + "\n"
