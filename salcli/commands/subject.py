"""What is evaluated, and all that is measured of it."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from salcli.commands.folds import evaluate_folds
from salcli.commands.sweep import Again, repeat_fits, require_repeatable, sweep
from salcli.data.hashes import FileHash
from salcli.data.labels import GuardedLabels, Index, as_index
from salcli.data.source import Source
from salcli.data.split_parts import in_bands
from salcli.data.splits import EvaluationSplit
from salcli.erasers.artifact import Artifact
from salcli.erasers.kernel_scale import dissimilarity_doubt
from salcli.evaluation.attack import attack
from salcli.evaluation.attack_numbers import attack_numbers, chosen_regressors, expected_of_numbers
from salcli.evaluation.bands import attack_bands, notes_on_bands, numbers_on_bands
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.baseline import Baseline
from salcli.evaluation.before import Before, read_before
from salcli.evaluation.duplicates import doubts_of_copies
from salcli.evaluation.forms import INT8, distinct, scale_of
from salcli.evaluation.gates import Expected
from salcli.evaluation.judged import judged
from salcli.evaluation.kept import KEPT, as_in_table
from salcli.evaluation.learning import learning_curves
from salcli.evaluation.measures import MEASURES, run_measures
from salcli.evaluation.neighbors import NEIGHBORS
from salcli.evaluation.plan import require_same_labels, rule_of, split_rows, starved
from salcli.evaluation.power import blind_spots, detectable
from salcli.evaluation.report import ErasedFile, EraserSummary, InputFile, LearningCurve, Report
from salcli.evaluation.requested import chosen_probes, expected_of, needs_vectors
from salcli.evaluation.row_order import seem_shuffled
from salcli.evaluation.spread_columns import notes_on_spread_columns, spread_columns, with_thresholds
from salcli.evaluation.stages import Erasure, Stages
from salcli.options import WHITE_BOX, EvaluateOptions
from salcli.streaming.passes import join_labels
from salcli.streaming.progress import Progress

UNKNOWN_FIT = (
    "the rows that {} was erased with are not known: in-sample and fresh attackers differ only in their training rows"
)

UNTUNED = "`quick`: attackers have one setting each, so they are weak and no gate on labelled rows passes"

ORDER_UNKNOWN = "whether the rows of {} and {} are in the same order was not checked: that takes keys in both files"
SHUFFLED = "the rows of {} and {} do not seem to be in the same order: they are no more alike than shuffled rows are"


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


def assess(
    subject: Subject, inputs: Callable[[], dict[str, InputFile]], options: EvaluateOptions, progress: Progress
) -> Report:
    """Return all that was measured, with the gates judged (see `measured` and `judged`)."""
    report, expected = measured(subject, inputs, options, progress)
    return judged(report, expected, options, subject.baseline)


def measured(
    subject: Subject, inputs: Callable[[], dict[str, InputFile]], options: EvaluateOptions, progress: Progress
) -> tuple[Report, Expected]:
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
    order = _note_on_order(subject)
    rows = BeforeAfter(source, erasure, options, progress=progress, note=notes.append, cache=subject.cache)
    # Measures that need no labels come first: they are cheap, and fail early where a word is missing.
    measures = dict.fromkeys(MEASURES) | run_measures(rows, needs_labels=False)
    report = Report(eraser=subject.eraser, measures=measures, allows_undecided=options.allow_undecided)
    expected = Expected()
    if options.folds is not None:
        report, expected, found = _in_folds(subject, report, rows, probes, progress)
        notes += found
    elif labels is not None:
        regressors = chosen_regressors(artifact, labels, options)
        before = subject.before or _before(subject, labels, erasure, options, progress)
        plan, stages = before.plan, before.erased(source, erasure, progress)
        rows = replace(rows, labelled=Labelled(labels, plan, stages, before.row_of_label))
        dissimilar = _dissimilar_rows(stages, plan)
        shuffled = _shuffled_rows(subject, stages, options.seed) if order else ()
        order = shuffled or order
        notes += [*before.notes, *dissimilar]
        if subject.against is not None:
            notes.append(UNKNOWN_FIT.format(subject.against.path))
        filled = spread_columns(stages.before, stages.after)
        notes += notes_on_spread_columns(filled)
        only = "after" if before.is_attacked else None
        if only is None:
            probes = with_thresholds(probes, filled, options)
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
        expected = replace(
            expected_of(labels, options, probes, forms),
            of_numbers=expected_of_numbers(labels, options, regressors, forms),
            doubts=(*doubts_of_copies(before.copies), *dissimilar, *shuffled, *untuned),
            doubts_of_numbers=numbers_on_bands(labels, plan),
            starved=starved(plan),
        )
        report = replace(
            report,
            duplicates=before.copies,
            probes=results,
            numeric=(*before.numeric, *numeric),
            detectable=could_show,
            measures=_in_agreement(measures | run_measures(rows, needs_labels=True)),
        )
        bands, unread = attack_bands(stages, labels, plan, results, options.seed, progress)
        notes += [*unread, *notes_on_bands(bands)]
        expected = replace(expected, doubts=(*expected.doubts, *unread))
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
    notes = list(dict.fromkeys([*order, *notes, *(_notes_on_inputs(artifact, files) if subject.is_of_files else ())]))
    return replace(report, inputs=files, notes=tuple(notes)), expected


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
) -> tuple[Report, Expected, tuple[str, ...]]:
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
    forms = dict.fromkeys([*(result.form for result in found.probes), *(result.form for result in found.numeric)])
    numbers = expected_of_numbers(labels, options, chosen_regressors(artifact, labels, options), forms)
    expected = replace(
        expected_of(labels, options, probes, forms),
        of_numbers=numbers,
        doubts=(*found.doubts, *untuned),
        starved=found.starved,
    )
    return report, expected, (*found.notes, *untuned)


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


def _in_agreement(measures: Mapping[str, Any]) -> dict[str, Any]:
    """Return records of measures in which all rows keep the same share of neighbours, however it was measured."""
    neighbors = as_in_table(measures[NEIGHBORS.name], measures[KEPT.name])
    return {**measures, NEIGHBORS.name: neighbors}


def _note_on_order(subject: Subject) -> tuple[str, ...]:
    """Return a note if keys do not show that a file which another tool erased has its rows in the same order."""
    source, against = subject.source, subject.against
    if against is None or not subject.is_of_files or (source.has_keys and against.has_keys):
        return ()
    return (ORDER_UNKNOWN.format(against.path, source.path),)


def _shuffled_rows(subject: Subject, stages: Stages, seed: int) -> tuple[str, ...]:
    """Return why no gate can pass, if the rows that another tool erased seem to be in another order."""
    if subject.against is None or stages.after is None or not seem_shuffled(stages.rows, stages.after, seed):
        return ()
    return (SHUFFLED.format(subject.against.path, subject.source.path),)


def _dissimilar_rows(stages: Stages, plan: EvaluationSplit) -> tuple[str, ...]:
    """Return why no gate can pass, if most test rows are dissimilar to all landmarks of a kernel's eraser."""
    if stages.kernel is None:
        return ()
    doubt = dissimilarity_doubt(stages.kernel.kernel, stages.rows[stages.at(plan.test)], stages.kernel.landmarks)
    return (doubt,) if doubt else ()


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
