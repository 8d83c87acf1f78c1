"""`evaluate`: attackers before and after erasure, what was kept, gates, reports."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from salcli.commands.sweep import Again, repeat_fits, require_repeatable, sweep
from salcli.data.labels import GuardedLabels, as_index
from salcli.data.source import Source
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.errors import located, warn
from salcli.evaluation.attack import asked_for, attack, chosen_probes, needs_vectors, require_attackers
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.duplicates import doubts_of_copies, notes_on_copies, without_copies
from salcli.evaluation.gates import (
    Asked,
    Judge,
    accuracy_gate,
    gain_gate,
    neighbors_gate,
    similarity_gate,
    task_accuracy_gate,
    task_kept_gate,
    tpr_gap_gate,
)
from salcli.evaluation.measures import MEASURES, run_measures
from salcli.evaluation.neighbors import NEIGHBORS
from salcli.evaluation.plan import notes_on, require_same_labels, split_rows
from salcli.evaluation.report import ErasedFile, EraserSummary, Gate, InputFile, Report, to_json
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.stages import Erasure, opened_against, stage_rows
from salcli.evaluation.task import TASK
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
    eraser: EraserSummary | ErasedFile | None
    """What the report says of the eraser, or of the file that was erased elsewhere."""


def evaluate(
    embeddings: str,
    labels: str | None,
    eraser: str | None,
    options: EvaluateOptions,
    progress: Progress | None = None,
    wording: Callable[[str], str] = str,
) -> Report:
    """Train attackers on the rows before and after erasure, score what was kept, judge the gates, write reports.

    Parameters
    ----------
    wording : replaces the names of parameters in notes and reasons by those that the reader of the report knows
    """
    require_attackers(options)
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

        def inputs() -> dict[str, InputFile]:
            found = {"embeddings": InputFile(embeddings, digests[0].result(), source.n, source.d)}
            if table is not None:
                found["labels"] = InputFile(str(labels), digests[1].result(), len(table))
            return found

        about: EraserSummary | ErasedFile | None = None
        if artifact is not None:
            about = EraserSummary.of(str(eraser), artifact)
        elif against is not None:
            about = ErasedFile(str(options.against), against.sha256(), against.n, against.d)
        with located(embeddings):
            subject = Subject(source, table, artifact, against, guarded, about)
            report = assess(subject, inputs, options, progress or Silent()).worded(wording)
    write_reports(report, options.reports)
    return report


def assess(
    subject: Subject, inputs: Callable[[], dict[str, InputFile]], options: EvaluateOptions, progress: Progress
) -> Report:
    """Return all that was measured, with the gates judged.

    Parameters
    ----------
    inputs : called last, since the input files are hashed in the background
    """
    source, labels, artifact = subject.source, subject.labels, subject.artifact
    probes = chosen_probes(artifact, options)
    erasure = Erasure(against=subject.against)
    if artifact is not None:
        erasure = Erasure.of(artifact, source, needs_vectors=needs_vectors(options))
    notes: list[str] = []
    rows = BeforeAfter(source, erasure, options, progress=progress, note=notes.append)
    # Measures that need no labels come first: they are cheap, and fail early where a word is missing.
    measures = dict.fromkeys(MEASURES) | run_measures(rows, needs_labels=False)
    report = Report(eraser=subject.eraser, measures=measures, allows_undecided=options.allow_undecided)
    asked = Asked()
    if labels is not None:
        join = join_labels(source, labels)
        row_of_label = as_index(join.row_of_label)
        plan = split_rows(labels, as_index(join.matched(labels)), artifact, options)
        if artifact is not None:
            guarded = subject.guarded or labels
            if guarded is not labels:
                require_same_labels(artifact, guarded, plan.fitted)
            require_repeatable(artifact, erasure, guarded, plan, options)
        plan, copies = without_copies(source, labels, row_of_label, plan, progress)
        stages = stage_rows(source, erasure, row_of_label, plan.needed, progress)
        rows = replace(rows, labelled=Labelled(labels, plan, stages))
        notes += [*notes_on(plan, labels, options), *notes_on_copies(copies)]
        if subject.against is not None:
            notes.append(UNKNOWN_FIT.format(subject.against.path))
        results, found = attack(stages, labels, plan, probes, options, progress)
        notes += found
        asked = replace(asked_for(labels, options, probes), doubts=doubts_of_copies(copies))
        report = replace(
            report, duplicates=copies, probes=results, measures=measures | run_measures(rows, needs_labels=True)
        )
        if artifact is not None:
            again = Again(source, labels, guarded, artifact, erasure, stages, plan, row_of_label, rows)
            steps, found = sweep(again, options, progress)
            notes += found
            repeats, found = repeat_fits(again, options, progress)
            notes += found
            report = replace(report, sweep=steps, repeats=repeats)
    notes = list(dict.fromkeys(notes))
    for note in notes:
        warn(note)
    files = inputs()
    report = replace(report, inputs=files, notes=(*notes, *_notes_on_inputs(artifact, files)))
    return replace(report, gates=tuple(_gates(report, asked, options)))


def _gates(report: Report, asked: Asked, options: EvaluateOptions) -> list[Gate]:
    stage, task = report.judged_stage, report.of(TASK)
    judge = Judge(options.confidence if options.judge == "bounds" else None, options.min_pairs)
    gates = [accuracy_gate(g.limit, g.probe, asked, report.probes, stage, judge) for g in options.max_accuracy]
    gates += [gain_gate(g.limit, g.probe, asked, report.probes, stage, judge) for g in options.max_gain]
    if options.max_tpr_gap is not None:
        gates.append(tpr_gap_gate(options.max_tpr_gap, task, stage, judge, asked))
    if options.min_task_accuracy is not None:
        gates.append(task_accuracy_gate(options.min_task_accuracy, task, stage, judge, asked))
    if options.min_task_kept is not None:
        gates.append(task_kept_gate(options.min_task_kept, task, judge, asked))
    if options.min_similarity_kept is not None:
        changes = report.of(SIMILARITY)
        gates.append(similarity_gate(options.min_similarity_kept, changes or (), judge))
    if options.min_neighbors_kept is not None:
        gates.append(neighbors_gate(options.min_neighbors_kept, report.of(NEIGHBORS), judge))
    return gates


def _notes_on_inputs(artifact: Artifact | None, inputs: dict[str, InputFile]) -> list[str]:
    """Return notes on files that are not those of the fit: the test rows may have other vectors, or other labels."""
    if artifact is None:
        return []
    fitted = artifact.header["inputs"]
    notes = []
    for name in ("embeddings", "labels"):
        known = fitted[name]["sha256"]
        if known is None:
            is_unknown = f"whether the {name} are the file that the eraser was fitted on is not known"
            notes.append(f"{is_unknown} (`hashes_embeddings=False`)")
        elif name in inputs and known != inputs[name].sha256:
            notes.append(f"the {name} are not the file that the eraser was fitted on (another SHA-256)")
    return notes


def write_reports(report: Report, paths: tuple[str, ...]) -> None:
    """Write the report to every path, in the format of its suffix: .json, .md, .html or .xml (JUnit).

    Raises
    ------
    OutputError : one cannot be written
    """
    for path in paths:
        text = _rendered(report, Path(path).suffix.lower())
        with atomic.replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as handle:
            handle.write(text)


def _rendered(report: Report, suffix: str) -> str:
    if suffix == ".md":
        from salcli.render.markdown import markdown

        return markdown(report)
    if suffix == ".html":
        from salcli.render.html import html

        return html(report)
    if suffix == ".xml":
        from salcli.render.junit import junit

        return junit(report)
    return json.dumps(to_json(report), sort_keys=True, allow_nan=False, indent=1) + "\n"
