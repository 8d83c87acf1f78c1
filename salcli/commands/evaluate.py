"""`evaluate`: attackers before and after erasure, what was kept, gates, reports."""

import json
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from salcli.commands.folds import evaluate_folds
from salcli.commands.near_rows import with_bands
from salcli.commands.sweep import Again, repeat_fits, require_repeatable, sweep
from salcli.data.hashes import HASH_ALGORITHMS, FileHash
from salcli.data.join import settle_index
from salcli.data.labels import GuardedLabels, Index, as_index
from salcli.data.source import Source
from salcli.data.splits import EvaluationSplit, in_bands
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.erasers.kernel_scale import dissimilarity_doubt
from salcli.errors import located, warn
from salcli.evaluation.attack import asked_for, attack, chosen_probes, needs_vectors, require_attackers
from salcli.evaluation.attack_numbers import asked_of_numbers, attack_numbers, chosen_regressors
from salcli.evaluation.bands import attack_bands, notes_on_bands, numbers_on_bands
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.baseline import Baseline
from salcli.evaluation.before import Before, read_before
from salcli.evaluation.comparison import Comparison
from salcli.evaluation.duplicates import doubts_of_copies
from salcli.evaluation.forms import INT8, distinct, scale_of
from salcli.evaluation.gates import (
    Asked,
    Judge,
    accuracy_gate,
    gain_gate,
    leak_gate,
    leak_increase_gate,
    neighbors_gate,
    r2_gate,
    similarity_gate,
    task_accuracy_gate,
    task_kept_gate,
    tpr_gap_gate,
)
from salcli.evaluation.judged import worst_gates
from salcli.evaluation.learning import learning_curves
from salcli.evaluation.measures import MEASURES, run_measures
from salcli.evaluation.neighbors import NEIGHBORS
from salcli.evaluation.plan import require_same_labels, rule_of, split_rows
from salcli.evaluation.power import blind_spots, detectable
from salcli.evaluation.provenance import file_name, run_of
from salcli.evaluation.report import ErasedFile, EraserSummary, Gate, InputFile, LearningCurve, Report, to_json
from salcli.evaluation.similarity import SIMILARITY
from salcli.evaluation.stages import Erasure, Stages, opened_against
from salcli.evaluation.task import TASK
from salcli.formats import atomic
from salcli.formats.gold_sets import column_of
from salcli.formats.registry import open_source
from salcli.options import WHITE_BOX, EvaluateOptions
from salcli.streaming.cluster.client import runs_on_cluster
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.hashing import hashing
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import join_labels, read_table
from salcli.streaming.progress import Progress, Silent

UNKNOWN_FIT = (
    "the rows that {} was erased with are not known: in-sample and fresh attackers differ only in their training rows"
)

UNTUNED = "`quick`: attackers have one setting each, so they are weak and no gate on labelled rows passes"

ORDER_UNKNOWN = "whether the rows of {} and {} are in the same order was not checked: that takes keys in both files"


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
    """The report's record of the eraser, or of the file that another tool erased."""
    baseline: Baseline | None = None
    before: Before | None = None
    """The labelled rows before erasure, if they were read and attacked before; None: that is done here."""
    cache: dict[Hashable, Any] = field(default_factory=dict)
    """Of measures: what they found before erasure."""
    is_of_files: bool = True
    """Whether rows and labels were read from files: hashes identify those of the fit, and keys the order of rows."""


@runs_on_cluster
def evaluate(
    embeddings: str,
    labels: str | None,
    eraser: str | None,
    options: EvaluateOptions,
    progress: Progress | None = None,
    wording: Callable[[str], str] = str,
    command: str = "",
) -> Report:
    """Train attackers on the rows before and after erasure, score what was kept, judge the gates, write reports.

    Parameters
    ----------
    embeddings : path of the input, before erasure
    labels : path of the label CSV; None: only what needs no labels is measured
    eraser : path of the artifact; None: rows before erasure only, or `against` another file
    options : what is measured, and the limits of the gates
    progress : shows the stages; default: none is shown
    wording : replaces parameter names in notes and reasons, such as by flags
    command : the command line, for the report

    Returns
    -------
    the report, which is written to `options.reports` too

    Raises
    ------
    UsageError : options that contradict each other, or need an input that is missing
    FormatError : an input is damaged
    AlignmentError : inputs do not belong together
    OutputError : a report cannot be written
    """
    progress = progress or Silent()
    require_attackers(options)
    options.require_inputs(has_labels=labels is not None, has_eraser=eraser is not None)
    for path in options.reports:
        sets = (column_of(name)[0] for name in options.similarity)
        read = (
            embeddings,
            labels,
            eraser,
            options.against,
            options.baseline,
            options.read.keys_file,
            *sets,
            *options.bias,
        )
        atomic.check_output(path, read)
    baseline = None if options.baseline is None else Baseline.read(options.baseline)
    artifact = None if eraser is None else read_artifact(eraser)
    fitted_file = None if artifact is None else FileHash.recorded(artifact.header["inputs"]["embeddings"])
    algorithm = HASH_ALGORITHMS[0] if fitted_file is None else fitted_file.algorithm
    keep_freed_memory()
    with (
        closing(open_source(embeddings, options.read)) as source,
        opened_against(options.against, source, options.read) as against,
        nullcontext(_tables(source, labels, artifact, eraser, options, progress)) as (table, guarded),
        hashing(
            {each: algorithm for each in (source, against) if each is not None}, *([] if labels is None else [labels])
        ) as hashes,
        one_blas_thread(),
    ):

        def inputs() -> dict[str, InputFile]:
            found = {"embeddings": InputFile(file_name(embeddings), hashes[0].result(), source.n, source.d)}
            if table is not None:
                n = len(table) - 2 * sum(options.bands)
                found["labels"] = InputFile(file_name(str(labels)), hashes[-1].result(), n)
            return found

        about: EraserSummary | ErasedFile | None = None
        if artifact is not None:
            about = EraserSummary.of(file_name(str(eraser)), artifact)
        elif against is not None:
            about = ErasedFile(file_name(str(options.against)), hashes[1].result(), against.n, against.d)
        with located(embeddings):
            subject = Subject(source, table, artifact, against, guarded, about, baseline)
            report = assess(subject, inputs, options, progress)
    for note in report.notes:
        warn(note)
    sets = (column_of(name)[0] for name in options.similarity)
    named = (
        embeddings,
        labels,
        eraser,
        options.against,
        options.baseline,
        options.read.keys_file,
        *options.bias,
        *sets,
    )
    paths = [path for path in named if path is not None]
    report = report.worded(lambda text: wording(without_folders(text, paths)))
    report = replace(report, run=run_of(options, artifact, command))
    write_reports(report, options, progress)
    return report


def without_folders(text: str, paths: Sequence[str]) -> str:
    """Return a note, `text`, without the folders of the files at `paths`: no report depends on them."""
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, file_name(path))
    return text


def _tables(
    source: Source,
    labels: str | None,
    artifact: Artifact | None,
    eraser: str | None,
    options: EvaluateOptions,
    progress: Progress,
) -> tuple[GuardedLabels | None, GuardedLabels | None]:
    """Return the labels, and the labels that the eraser was fitted with if it is fitted again and they differ.

    Raises
    ------
    AlignmentError : the rows have another width than the eraser takes
    """
    if artifact is not None:
        artifact.require_width(str(eraser), source)
    if labels is None:
        return None, None
    columns = replace(options.labels, task=options.task)
    columns = columns if artifact is None else artifact.label_options(columns, str(eraser))
    if options.folds is not None:  # the split column names the bands alone
        lacks = options.labels.split_column is None
        columns = replace(columns, may_lack_split=lacks, no_split=options.labels.no_split)
    table = settle_index(read_table(labels, columns, progress), source)
    if options.bands:
        table = with_bands(table, source, rule_of(artifact, table, options), options.bands, progress)
    if artifact is None or not options.fits_again or artifact.guards(table):
        return table, None
    as_fitted = artifact.label_options(
        replace(options.labels, attributes=(), numeric=(), task=artifact.task), str(eraser)
    )
    as_fitted = replace(as_fitted, may_lack_split=columns.may_lack_split)
    return table, settle_index(read_table(labels, as_fitted, progress), source)


def assess(
    subject: Subject, inputs: Callable[[], dict[str, InputFile]], options: EvaluateOptions, progress: Progress
) -> Report:
    """Return all that was measured, with the gates judged (see `measured` and `judged`)."""
    report, asked = measured(subject, inputs, options, progress)
    return judged(report, asked, options, subject.baseline)


def judged(report: Report, asked: Asked, options: EvaluateOptions, baseline: Baseline | None = None) -> Report:
    """Return a report with its gates judged.

    Parameters
    ----------
    report : all that was measured
    asked : what the gates expect to have been measured
    options : with the limits of the gates
    baseline : the release that leaks are compared with
    """
    gates_of = partial(_gates, asked=asked, options=options, baseline=baseline)
    return replace(report, gates=worst_gates(report, gates_of))


def measured(
    subject: Subject, inputs: Callable[[], dict[str, InputFile]], options: EvaluateOptions, progress: Progress
) -> tuple[Report, Asked]:
    """Return all that was measured, and what gates expect to have been.

    Parameters
    ----------
    subject : what is evaluated
    inputs : called last, since the input files are hashed in the background
    options : what is measured
    progress : shows the stages

    Raises
    ------
    AlignmentError : labels, rows and eraser do not belong together
    UsageError : options that contradict each other or the eraser
    """
    source, labels, artifact = subject.source, subject.labels, subject.artifact
    probes = chosen_probes(artifact, options)
    erasure = Erasure(against=subject.against)
    if artifact is not None:
        erasure = Erasure.of(artifact, source, needs_vectors=needs_vectors(options))
    if WHITE_BOX in options.adversaries and subject.eraser is not None:
        erasure.require_invertible()
    notes: list[str] = []
    against = subject.against
    if against is not None and subject.is_of_files and not (source.has_keys and against.has_keys):
        notes.append(ORDER_UNKNOWN.format(against.path, source.path))
    rows = BeforeAfter(source, erasure, options, progress=progress, note=notes.append, cache=subject.cache)
    # Measures that need no labels come first: they are cheap, and fail early where a word is missing.
    measures = dict.fromkeys(MEASURES) | run_measures(rows, needs_labels=False)
    report = Report(eraser=subject.eraser, measures=measures, allows_undecided=options.allow_undecided)
    asked = Asked()
    if options.folds is not None:
        report, asked, found = _in_folds(subject, report, rows, probes, progress)
        notes += found
    elif labels is not None:
        regressors = chosen_regressors(artifact, labels, options)
        before = subject.before or _before(subject, labels, erasure, options, progress)
        plan, stages = before.plan, before.erased(source, erasure, progress)
        rows = replace(rows, labelled=Labelled(labels, plan, stages, before.row_of_label))
        dissimilar = _dissimilar_rows(stages, plan)
        notes += [*before.notes, *dissimilar]
        if subject.against is not None:
            notes.append(UNKNOWN_FIT.format(subject.against.path))
        only = "after" if before.is_attacked else None
        results, found = attack(stages, labels, plan, probes, options, progress, only)
        notes += found
        numeric, found = attack_numbers(stages, labels, plan, regressors, options, progress, only)
        notes += found
        could_show = detectable(stages, labels, plan, options)
        notes += blind_spots(could_show, options)
        untuned = (UNTUNED,) if options.quick else ()
        notes += untuned
        forms = distinct(stages, options.attacked_forms)
        results = (*(result for result in before.probes if result.form in forms), *results)
        asked = replace(
            asked_for(labels, options, probes, forms),
            of_numbers=asked_of_numbers(labels, options, regressors, forms),
            doubts=(*doubts_of_copies(before.copies), *dissimilar, *untuned),
            doubts_of_numbers=numbers_on_bands(labels, plan),
        )
        report = replace(
            report,
            duplicates=before.copies,
            probes=results,
            numeric=(*before.numeric, *numeric),
            detectable=could_show,
            measures=measures | run_measures(rows, needs_labels=True),
        )
        bands, unread = attack_bands(stages, labels, plan, results, options.seed, progress)
        notes += [*unread, *notes_on_bands(bands)]
        asked = replace(asked, doubts=(*asked.doubts, *unread))
        report = replace(report, bands=bands, int8=scale_of(stages, plan.fitted) if INT8 in forms else None)
        report = replace(report, learning=_learning(report, stages, labels, plan, options, progress))
        if artifact is not None:
            guarded = subject.guarded or labels
            again = Again(source, labels, guarded, artifact, erasure, stages, plan, before.row_of_label, rows)
            steps, found = sweep(again, options, progress, results)
            notes += found
            repeats, found = repeat_fits(again, options, progress)
            notes += found
            report = replace(report, sweep=steps, repeats=repeats)
    if subject.baseline is not None:
        notes += subject.baseline.lacking((*report.probes, *report.bands), report.judged_stage)
    files = inputs()
    notes = list(dict.fromkeys([*notes, *(_notes_on_inputs(artifact, files) if subject.is_of_files else ())]))
    return replace(report, inputs=files, notes=tuple(notes)), asked


def _learning(
    report: Report,
    stages: Stages,
    labels: GuardedLabels,
    plan: EvaluationSplit,
    options: EvaluateOptions,
    progress: Progress,
) -> tuple[LearningCurve, ...]:
    """Return the curves of the strongest attackers, if they are wanted."""
    if options.quick or not options.learning_curve:
        return ()
    judged = [result for result in report.probes if result.stage == report.judged_stage]
    return learning_curves(stages, labels, plan, judged, options.seed, progress)


def _in_folds(
    subject: Subject, report: Report, rows: BeforeAfter, probes: tuple[str, ...], progress: Progress
) -> tuple[Report, Asked, tuple[str, ...]]:
    """Return the report with what was measured in turns, what gates expect of it, and notes."""
    labels, artifact, options = subject.labels, subject.artifact, rows.options
    assert labels is not None
    assert artifact is not None
    join, guarded = join_labels(rows.source, labels, progress), subject.guarded or labels
    matched = as_index(join.matched(labels, by_any=True))
    matched = matched[~in_bands(labels)[matched]]
    of_label = as_index(join.row_of_label)
    found = evaluate_folds(rows, labels, guarded, artifact, matched, of_label, progress)
    measures = {**report.measures, **found.measures}
    report = replace(
        report,
        folds=found.folds,
        duplicates=found.duplicates,
        probes=found.probes,
        numeric=found.numeric,
        detectable=found.detectable,
        measures=measures,
    )
    untuned = (UNTUNED,) if options.quick else ()
    forms = dict.fromkeys([*(of.form for of in found.probes), *(of.form for of in found.numeric)])
    numbers = asked_of_numbers(labels, options, chosen_regressors(artifact, labels, options), forms)
    asked = replace(asked_for(labels, options, probes, forms), of_numbers=numbers, doubts=(*found.doubts, *untuned))
    return report, asked, (*found.notes, *untuned)


def _before(
    subject: Subject, labels: GuardedLabels, erasure: Erasure, options: EvaluateOptions, progress: Progress
) -> Before:
    """Return the rows before erasure by the rule of the eraser, after checking that it can be fitted again."""
    artifact, guarded = subject.artifact, subject.guarded or labels

    def split(matched: Index) -> EvaluationSplit:
        plan = split_rows(labels, matched, artifact, options)
        if artifact is not None:
            if guarded is not labels:
                require_same_labels(artifact, guarded, plan.fitted)
            require_repeatable(artifact, erasure, guarded, plan, options)
        return plan

    rule = rule_of(artifact, labels, options)
    return read_before(subject.source, labels, split, rule, options, progress, erasure.published)


def _dissimilar_rows(stages: Stages, plan: EvaluationSplit) -> tuple[str, ...]:
    """Return why no gate can pass, if most test rows are dissimilar to all landmarks of a kernel's eraser."""
    if stages.kernel is None:
        return ()
    doubt = dissimilarity_doubt(stages.kernel.kernel, stages.rows[stages.at(plan.test)], stages.kernel.landmarks)
    return (doubt,) if doubt else ()


def _gates(
    report: Report, n_settings: int, *, asked: Asked, options: EvaluateOptions, baseline: Baseline | None
) -> list[Gate]:
    stage, task = report.judged_stage, report.of(TASK)
    judge = Judge(options.confidence if options.judge == "bounds" else None, options.min_pairs, n_settings)
    attackers = (*report.probes, *report.bands)
    gates = [accuracy_gate(g.limit, g.probe, asked, attackers, stage, judge) for g in options.max_accuracy]
    gates += [gain_gate(g.limit, g.probe, asked, attackers, stage, judge) for g in options.max_gain]
    gates += [leak_gate(g.limit, g.probe, asked, attackers, stage, judge) for g in options.max_leak]
    gates += [r2_gate(g.limit, g.probe, asked, report.numeric, stage, judge) for g in options.max_r2]
    if options.max_leak_increase is not None and baseline is not None:
        gates.append(leak_increase_gate(options.max_leak_increase, baseline, asked, attackers, stage, judge))
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
        known = FileHash.recorded(fitted[name])
        if known is None:
            is_unknown = f"whether the {name} are the file that the eraser was fitted on is not known"
            notes.append(f"{is_unknown} (`hash_algorithm=none`)")
        elif name in inputs and known.algorithm != inputs[name].hash.algorithm:
            notes.append(f"whether the {name} are the file that the eraser was fitted on is not known ({known.title})")
        elif name in inputs and known != inputs[name].hash:
            notes.append(f"the {name} are not the file that the eraser was fitted on (another {known.title})")
    return notes


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
