"""`evaluate` in folds: rows take turns as fit, attack and test, and figures are those of all test rows together."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from salcli.commands.sweep import fit_again
from salcli.data.folds import fold_splits, reciprocity
from salcli.data.groups import RowGroups
from salcli.data.labels import GuardedLabels, Index
from salcli.data.source import ArrayReader, Source
from salcli.data.split_parts import BAND, TEST
from salcli.data.splits import FRESH, IN_SAMPLE, EvaluationSplit
from salcli.erasers.artifact import Artifact
from salcli.erasers.base import Eraser
from salcli.erasers.kernel_scale import dissimilarity_doubt
from salcli.errors import LabelError, RankError
from salcli.evaluation.answers import pooled, pooled_numbers
from salcli.evaluation.attack import attack
from salcli.evaluation.attack_numbers import attack_numbers, chosen_regressors
from salcli.evaluation.attackers import base_name
from salcli.evaluation.base import BeforeAfter, Labelled
from salcli.evaluation.duplicates import NAMED, Copies, doubts_of_copies, notes_on_copies, without_copies
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.forms import scale_rows
from salcli.evaluation.intersections import attacked
from salcli.evaluation.main_task import TaskAnswers
from salcli.evaluation.measures import MEASURES
from salcli.evaluation.plan import hint_at_band, starved
from salcli.evaluation.power import Detectable, blind_spots, detectable
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Folds
from salcli.evaluation.requested import chosen_probes
from salcli.evaluation.spread_columns import notes_on_spread_columns, spread_columns
from salcli.evaluation.stages import Erasure, Stages, stage_rows
from salcli.evaluation.task import TASK
from salcli.options import EvaluateOptions
from salcli.streaming.memory import require_memory
from salcli.streaming.passes import gather_rows
from salcli.streaming.progress import Progress, Silent

OF_THE_METHOD = (
    "`folds={}`: figures of attackers{} are of the method, fitted anew in each turn to about half of the other rows, "
    "not of the eraser in the artifact"
)
SPLIT_UNUSED = "column {!r} is not used: `folds` divides all labelled rows but bands, which take no turn"


@dataclass(frozen=True, eq=False)
class Folded:
    """What was measured in folds."""

    folds: Folds
    probes: tuple[ProbeResult, ...]
    numeric: tuple[NumericResult, ...]
    detectable: tuple[Detectable, ...]
    measures: Mapping[str, object]
    duplicates: Mapping[str, Copies]
    notes: tuple[str, ...]
    doubts: tuple[str, ...]
    """Why no gate on labelled rows can pass."""
    starved: tuple[str, ...]
    """Attackers that have too few of their training rows, in the turn where most have."""


@dataclass
class _Found:
    """What the turns have found so far."""

    splits: list[EvaluationSplit] = field(default_factory=list)
    results: list[tuple[ProbeResult, ...]] = field(default_factory=list)
    numeric: list[tuple[NumericResult, ...]] = field(default_factory=list)
    tasks: list[TaskAnswers | None] = field(default_factory=list)
    copies: list[Mapping[str, Copies]] = field(default_factory=list)
    notes: list[tuple[str, ...]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def evaluate_folds(
    rows: BeforeAfter,
    labels: GuardedLabels,
    guarded: GuardedLabels,
    artifact: Artifact,
    matched: Index,
    row_of_label: Index,
    progress: Progress,
) -> Folded:
    """Measure attackers and the main task in turns, and the other measures on all labelled rows at once.

    Parameters
    ----------
    rows : the file before and after the eraser, with the options
    labels : what is attacked
    guarded : what erasers are fitted to, label by label the same
    artifact : of the eraser, whose method and parameters are fitted again
    matched : `[m]` labels that have a row and a value; those with all values are fitted
    row_of_label : embedding row of each label
    progress : shows the turns as a stage

    Raises
    ------
    LabelError : a part would be empty, or a turn has nothing to fit
    NotEnoughMemory : the labelled rows do not fit into memory
    RankError : a turn has fewer directions than the eraser removes
    """
    options, n = rows.options, rows.options.folds or 0
    matched = _without_bands(labels, matched)
    source, of_label = _in_memory(rows.source, row_of_label, matched, progress)
    matched = matched[of_label[matched] >= 0]  # rows with NaN are dropped
    found = _Found()
    complete = matched[guarded.is_labelled[matched]]
    turns = fold_splits(labels, matched, n, options.seed, complete=complete, sample=artifact.rule.sample)
    with progress.stage("folds", n, "turns") as advance:
        for i, split in enumerate(turns, 1):
            with _named(i, n):
                guarded.restricted_to(split.fitted).require_variety()
                eraser = fit_again(artifact, source, guarded, of_label, split.fitted, Silent())
            split = split.only(options.adversaries).capped(labels, options.attacker_rows, options.seed)
            _measure(replace(rows, source=source, erasure=_erasure(rows.erasure, eraser)), labels, artifact, of_label,
                     split, found)  # fmt: skip
            advance(1)
    effects = reciprocity(n)
    copies = _copies(found.copies)
    notes: list[str] = [OF_THE_METHOD.format(n, "" if labels.task is None else " and the main task")]
    if labels.splits is not None:
        notes.append(SPLIT_UNUSED.format(labels.split_column) + hint_at_band(labels.split_codes[0]))
    notes += [*_notes(found.notes), *notes_on_copies(copies)]
    whole = _whole(replace(rows, note=notes.append), labels, source, of_label, row_of_label, matched)
    measures: dict[str, object] = {
        name: measure.run(whole) for name, measure in MEASURES.items() if measure.needs_labels and measure is not TASK
    }
    could_show = detectable(whole.stages, labels, whole.plan, options)
    notes += blind_spots(could_show, options)
    measures[TASK.name] = None
    if labels.task is not None:
        answers = [each for each in found.tasks if each is not None]
        is_whole = len(answers) == n
        measures[TASK.name] = TASK.pooled(whole, answers if is_whole else [], effect=effects[IN_SAMPLE])
    return Folded(
        _record(found.splits, labels, matched),
        tuple(_pooled(found, labels, options, effects)),
        tuple(_pooled_numbers(found, labels, effects)),
        could_show,
        measures,
        copies,
        tuple(notes),
        (*doubts_of_copies(copies), *dict.fromkeys(found.doubts)),
        max(map(starved, found.splits), key=len),
    )


def _without_bands(labels: GuardedLabels, matched: Index) -> Index:
    """Return the labels at `matched` that are in no band, whose rows are never fitted."""
    names, codes = labels.split_codes
    is_band = np.array([BAND.fullmatch(name) is not None for name in names], np.bool_)
    return matched[~is_band[codes[matched]]] if len(names) else matched


def _in_memory(source: Source, row_of_label: Index, matched: Index, progress: Progress) -> tuple[Source, Index]:
    """Return the labelled rows as a source of their own, and the row of each label in it, −1: none."""
    n_bytes = 3 * len(matched) * source.d * source.dtype.itemsize  # with the two stages
    require_memory(n_bytes, "holding the labelled rows for `folds`", "give fewer labels")
    x, kept = gather_rows(source, row_of_label[matched], progress)
    of_label = np.full(len(row_of_label), -1, np.int64)
    of_label[matched[kept]] = np.arange(len(kept))
    return Source([ArrayReader(x, source.path)]), of_label


@contextmanager
def _named(i: int, n: int) -> Iterator[None]:
    """Name the turn in errors of a fit."""
    try:
        yield
    except (LabelError, RankError) as error:
        raise type(error)(f"turn {i} of `folds={n}` has too few rows to fit: {error}") from error


def _erasure(first: Erasure, fitted: Eraser) -> Erasure:
    """Return the erasure of a turn, of the same kind as that of the artifact."""
    eraser = None if first.eraser is None else fitted.to_features()
    return replace(first, eraser=eraser, kernel=fitted.by_inner_products())


def _measure(
    rows: BeforeAfter,
    labels: GuardedLabels,
    artifact: Artifact,
    of_label: Index,
    split: EvaluationSplit,
    found: _Found,
) -> None:
    """Add what attackers and the main task find in one turn."""
    split, copies = without_copies(rows.source, labels, of_label, split, Silent())
    needed = np.union1d(split.needed, scale_rows(labels, split, rows.options))
    stages = stage_rows(rows.source, rows.erasure, of_label, needed, Silent())
    probes = chosen_probes(artifact, rows.options)
    results, notes = attack(stages, labels, split, probes, rows.options, Silent())
    regressors = chosen_regressors(artifact, labels, rows.options)
    numeric, more = attack_numbers(stages, labels, split, regressors, rows.options, Silent())
    found.splits.append(split)
    found.results.append(results)
    found.numeric.append(numeric)
    found.copies.append(copies)
    filled = notes_on_spread_columns(spread_columns(stages.before, stages.after))
    found.notes.append((*notes, *more, *filled))
    if labels.task is not None:
        found.tasks.append(TASK.answers(replace(rows, labelled=Labelled(labels, split, stages))))
    if stages.kernel is not None:
        test = stages.rows[stages.at(split.test)]
        found.doubts += filter(None, [dissimilarity_doubt(stages.kernel.kernel, test, stages.kernel.landmarks)])


def _pooled(
    found: _Found, labels: GuardedLabels, options: EvaluateOptions, effects: Mapping[str, float]
) -> Iterator[ProbeResult]:
    """Yield the results of all turns, in the order of the first that has each."""
    attributes = {attribute.name: attribute for attribute in attacked(labels, options)}
    by_name: dict[tuple[str, ...], dict[int, ProbeResult]] = {}
    for turn, results in enumerate(found.results):
        for result in results:
            by_name.setdefault((result.attribute, result.adversary, result.form, result.probe, result.stage), {})[
                turn
            ] = result
    for (name, adversary, _, probe, _), turns in by_name.items():
        if probe != base_name(probe) and len(turns) < len(found.results):
            continue  # in some turns only, classes are so unequal that a weighted twin takes part
        lost = (split for i, split in enumerate(found.splits) if i not in turns)
        n_lost = sum(len(split.having(attributes[name], TEST, labels)) for split in lost)
        yield pooled(list(turns.values()), labels, effect=effects[adversary], n_lost=n_lost)


def _pooled_numbers(found: _Found, labels: GuardedLabels, effects: Mapping[str, float]) -> Iterator[NumericResult]:
    """Yield the results of attackers of numbers that all turns have."""
    by_name: dict[tuple[str, ...], list[NumericResult]] = {}
    for result in itertools.chain.from_iterable(found.numeric):
        by_name.setdefault((result.attribute, result.adversary, result.form, result.probe, result.stage), []).append(
            result
        )
    for (_, adversary, *_), turns in by_name.items():
        if len(turns) == len(found.numeric):
            yield pooled_numbers(turns, labels, effect=effects[adversary])


def _copies(found: Sequence[Mapping[str, Copies]]) -> Mapping[str, Copies]:
    """Return the copies of all turns, by part."""
    joined = {}
    for name in (FRESH, TEST):
        every = [copies[name] for copies in found if name in copies]
        if every:
            named = dict.fromkeys(key for copies in every for key in copies.named)
            n, n_near = (sum(getattr(copies, name) for copies in every) for name in ("n", "n_near"))
            joined[name] = Copies(n, sum(copies.of for copies in every), n_near, tuple(named)[:NAMED])
    return joined


def _notes(found: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the notes of all turns; those that not all turns have, with the turn."""
    every = list(found)
    common = [note for note in dict.fromkeys(every[0]) if all(note in notes for notes in every)]
    yield from common
    for i, notes in enumerate(every, 1):
        yield from (f"turn {i}: {note}" for note in notes if note not in common)


def _whole(
    rows: BeforeAfter, labels: GuardedLabels, source: Source, of_label: Index, row_of_label: Index, matched: Index
) -> BeforeAfter:
    """Return all labelled rows before and after the artifact's own eraser, for measures that train nothing."""
    split = EvaluationSplit.of(matched, {IN_SAMPLE: matched}, matched, has_held_out=False)
    split = split.capped(labels, rows.options.attacker_rows, rows.options.seed)
    stages: Stages = stage_rows(source, rows.erasure, of_label, split.needed, Silent())
    return replace(rows, labelled=Labelled(labels, split, stages, row_of_label))


def _record(splits: Sequence[EvaluationSplit], labels: GuardedLabels, matched: Index) -> Folds:
    groups = labels.groups
    return Folds(
        len(splits),
        tuple(len(split.fitted) for split in splits),
        tuple(len(split.trainers.get(FRESH, ())) for split in splits),
        tuple(len(split.test) for split in splits),
        None if groups is None else groups.name,
        None if groups is None else len(RowGroups.of(labels, matched).names),
    )
