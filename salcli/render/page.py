"""What a report shows, of one eraser or of several: a headline, figures at a glance, sections, and pictures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from salcli.evaluation.comparison import Comparison
from salcli.evaluation.report import Report
from salcli.evaluation.section import Fact, Section
from salcli.render import comparison as compared
from salcli.render import pictures, sections, verdict
from salcli.render.pictures import Picture

RESULTS = {"pass": "passed", "fail": "failed", "undecided": "undecided", "none": "no limit set"}


@dataclass(frozen=True)
class Page:
    """The parts of a report, before any rendering has written a character."""

    kind: str
    """evaluation or comparison."""
    subject: str
    """Attributes and file, visible; empty if neither is known."""
    tone: str
    """pass, fail, undecided or none."""
    result: str
    """The verdict in a word or two."""
    sentence: str
    """The verdict in a sentence."""
    findings: tuple[str, ...]
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    draw: Callable[[], Mapping[str, tuple[Picture, ...]]]
    """Return the pictures by the key of their section."""

    @property
    def heading(self) -> str:
        """The name of the report."""
        return f"salcli {self.kind}: {self.subject}" if self.subject else f"salcli {self.kind}"


def page_of(report: Report | Comparison) -> Page:
    """Return what is shown of a `report`."""
    if isinstance(report, Comparison):
        return Page(
            "comparison",
            compared.subject(report),
            compared.tone_of(report),
            RESULTS[report.verdict],
            compared.verdict_sentence(report),
            compared.findings(report),
            (),
            compared.sections(report),
            lambda: compared.pictures(report),
        )
    tone = verdict.tone_of(report)
    return Page(
        "evaluation",
        verdict.subject(report),
        tone,
        "passed in part" if report.verdict == "pass" and tone != "pass" else RESULTS[report.verdict],
        verdict.verdict_sentence(report),
        verdict.findings(report),
        verdict.facts(report),
        sections.sections(report),
        lambda: pictures.pictures(report),
    )
