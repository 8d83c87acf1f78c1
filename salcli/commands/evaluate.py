"""`evaluate`: attackers before and after erasure, what was kept, gates, reports."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from salcli.commands.sweep import Again, repeat_fits, require_repeatable, sweep
from salcli.data.labels import GuardedLabels, as_index
from salcli.data.source import Source
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.errors import located, warn
from salcli.evaluation import utility as keeping
from salcli.evaluation.attack import asked_for, attack, chosen_probes, measure_deviation
from salcli.evaluation.gates import Asked, Gate, accuracy_gate, gain_gate, similarity_gate, tpr_gap_gate
from salcli.evaluation.plan import RowPlan, capped, plan_rows, require_same_labels
from salcli.evaluation.report import Fields, Report, judged_stage
from salcli.evaluation.stages import Erasure, Stages, opened_against, stage_rows
from salcli.formats import atomic
from salcli.formats.label_table import read_labels
from salcli.formats.registry import open_source
from salcli.options import EvaluateOptions
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.hashing import hashing
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import join_labels
from salcli.streaming.progress import Progress, Silent

UNKNOWN_FIT = (
    "which rows {} was erased with is not known: in-sample and fresh say only what the attackers were trained on"
)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is evaluated."""

    source: Source
    labels: GuardedLabels | None
    artifact: Artifact | None
    against: Source | None
    guarded: GuardedLabels | None
    """The labels of the attributes that the eraser was fitted for, if others are evaluated."""
    eraser: Fields | None
    """What the report says of the eraser, or of the file that was erased elsewhere."""


def evaluate(
    embeddings: str,
    labels: str | None,
    eraser: str | None,
    options: EvaluateOptions,
    progress: Progress | None = None,
) -> Report:
    """Train attackers on the rows before and after erasure, score what was kept, judge the gates, write reports."""
    options.require_inputs(has_labels=labels is not None, has_eraser=eraser is not None)
    for path in options.reports:
        read = (embeddings, labels, eraser, options.against, options.read.keys_file, *options.similarity)
        atomic.check_output(path, read)
    artifact = None if eraser is None else read_artifact(eraser)
    columns = replace(options.labels, task=options.task)
    columns = columns if artifact is None else artifact.label_options(columns, str(eraser))
    keep_freed_memory()
    table = None if labels is None else read_labels(labels, columns)
    guarded = None
    if artifact is not None and table is not None and options.fits_again and not artifact.guards(table):
        as_fitted = replace(options.labels, attributes=(), numeric=(), task=None)
        guarded = read_labels(table.path, artifact.label_options(as_fitted, str(eraser)))
    with (
        closing(open_source(embeddings, options.read)) as source,
        hashing(source, *([] if labels is None else [labels])) as digests,
        opened_against(options.against, source, options.read) as against,
        one_blas_thread(),
    ):
        if artifact is not None:
            artifact.require_width(str(eraser), source)

        def inputs() -> dict[str, dict[str, Any]]:
            found = {"embeddings": {"path": embeddings, "sha256": digests[0].result(), "n": source.n, "d": source.d}}
            if table is not None:
                found["labels"] = {"path": str(labels), "sha256": digests[1].result(), "n": len(table)}
            return found

        about = None if artifact is None else {"path": eraser, "sha256": artifact.sha256, **artifact.summary()}
        if against is not None:
            about = {
                "path": options.against,
                "sha256": against.sha256(),
                "method": "against",
                "n": against.n,
                "d": against.d,
            }
        with located(embeddings):
            subject = Subject(source, table, artifact, against, guarded, about)
            report = assess(subject, inputs, options, progress or Silent())
    write_reports(report, options.reports)
    return report


def assess(
    subject: Subject, inputs: Callable[[], dict[str, Fields]], options: EvaluateOptions, progress: Progress
) -> Report:
    """Measure all that was asked for, and judge the gates.

    Parameters
    ----------
    inputs : what the report says of them, asked last: they are hashed on the way
    """
    source, labels, artifact = subject.source, subject.labels, subject.artifact
    probes = chosen_probes(artifact, options)
    erasure = Erasure(against=subject.against) if artifact is None else Erasure.of(artifact, source, options)
    words = keeping.gather_words(source, options)
    notes: list[str] = []
    # What needs no attackers comes first: a word that is not there is told before they are trained.
    found: dict[str, Any] = {
        "similarity": keeping.similarity(words, erasure, options),
        "neighbors": keeping.neighbors(source, erasure, options, progress),
    }
    asked = Asked()
    if labels is not None:
        join = join_labels(source, labels)
        row_of_label = as_index(join.row_of_label)
        plan = plan_rows(labels, as_index(join.matched(labels)), artifact, options)
        if artifact is not None:
            guarded = subject.guarded or labels
            if guarded is not labels:
                require_same_labels(artifact, guarded, plan.fitted)
            require_repeatable(artifact, erasure, guarded, plan, options)
        stages = stage_rows(source, erasure, row_of_label, plan.needed, progress)
        notes += plan.notes
        if subject.against is not None:
            notes.append(UNKNOWN_FIT.format(subject.against.path))
        results, told = attack(stages, labels, plan, probes, options, progress)
        notes += told
        asked = asked_for(labels, options, probes)
        of_task, told = keeping.task(stages, labels, plan, options)
        notes += told
        found |= {"probes": results, "task": of_task, **_of_labels(stages, labels, plan, options)}
        if artifact is not None:
            again = Again(source, labels, guarded, artifact, erasure, stages, plan, row_of_label, words)
            found["sweep"], told = sweep(again, options, progress)
            notes += told
            found["repeats"], told = repeat_fits(again, options, progress)
            notes += told
    notes = list(dict.fromkeys(notes))
    for note in notes:
        warn(note)
    told_of = inputs()
    report = Report(told_of, subject.eraser, **found, notes=(*notes, *_told_of_inputs(artifact, told_of)))
    return replace(report, gates=tuple(_gates(report, asked, options)))


def _of_labels(stages: Stages, labels: GuardedLabels, plan: RowPlan, options: EvaluateOptions) -> dict[str, Any]:
    return {
        "geometry": keeping.geometry(stages, labels, plan),
        "scatter": keeping.scatter(stages, labels, plan, options),
        "deviation": measure_deviation(stages, capped(labels, plan.test, options.probe_rows, options.seed)),
    }


def _gates(report: Report, asked: Asked, options: EvaluateOptions) -> list[Gate]:
    stage = judged_stage(report.eraser)
    gates = [accuracy_gate(g.limit, g.probe, asked, report.probes, stage) for g in options.max_accuracy]
    gates += [gain_gate(g.limit, g.probe, asked, report.probes, stage) for g in options.max_gain]
    if options.max_tpr_gap is not None:
        gates.append(tpr_gap_gate(options.max_tpr_gap, report.task, stage))
    if options.min_similarity_kept is not None:
        gates.append(similarity_gate(options.min_similarity_kept, report.similarity))
    return gates


def _told_of_inputs(artifact: Artifact | None, inputs: dict[str, Fields]) -> list[str]:
    """Note files that are not those of the fit: the test rows may then have other vectors, or other labels."""
    if artifact is None:
        return []
    fitted = artifact.header["inputs"]
    notes = []
    for name in ("embeddings", "labels"):
        known = fitted[name]["sha256"]
        if known is None:
            notes.append(f"whether the {name} are the file that the eraser was fitted on is not known (--no-sha256)")
        elif name in inputs and known != inputs[name]["sha256"]:
            notes.append(f"the {name} are not the file that the eraser was fitted on (another SHA-256)")
    return notes


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
