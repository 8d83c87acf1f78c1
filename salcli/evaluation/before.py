"""The labelled rows of a file before erasure, read and attacked once, however many erasers are judged on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index, as_index
from salcli.data.source import Source
from salcli.data.splits import EvaluationSplit, SplitRule
from salcli.evaluation.attack import attack
from salcli.evaluation.attack_numbers import attack_numbers
from salcli.evaluation.attackers import base_name, names_of
from salcli.evaluation.duplicates import Copies, notes_on_copies, without_copies
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.forms import ALREADY, scale_rows
from salcli.evaluation.plan import note_on_splits, notes_on
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.stages import Array, Erasure, Stages, gather_same
from salcli.options import RAW, EvaluateOptions
from salcli.streaming.passes import gather_rows, join_labels
from salcli.streaming.progress import Progress


@dataclass(frozen=True, eq=False)
class Before:
    """Labelled rows before erasure, what they do in an evaluation, and what was measured on them."""

    labels: GuardedLabels
    row_of_label: NDArray[np.int64]
    """`[m]` embedding row of each label."""
    plan: EvaluationSplit
    copies: Mapping[str, Copies]
    """By part of the split: rows that are left out."""
    stages: Stages
    """Without a later stage."""
    needed: Index
    """The labels whose rows are needed."""
    kept: Index
    """Positions, among those, of the labels whose rows were read: NaN and Inf may be dropped."""
    notes: tuple[str, ...]
    probes: tuple[ProbeResult, ...] = ()
    """What attackers read."""
    numeric: tuple[NumericResult, ...] = ()
    """What attackers of numbers read."""

    @property
    def is_attacked(self) -> bool:
        """Whether attackers were trained on these rows alone; else they are trained on both stages at once."""
        return bool(self.probes or self.numeric)

    def attacked(
        self, probes: tuple[str, ...], regressors: tuple[str, ...], options: EvaluateOptions, progress: Progress
    ) -> "Before":
        """Return the same with attackers trained and measured on these rows.

        Parameters
        ----------
        probes : names in `ATTACKERS`
        regressors : names in `REGRESSORS`
        options : of the evaluation
        progress : shows the stage

        Raises
        ------
        NotEnoughMemory : the attackers that are trained at once would not fit into memory
        """
        found, notes = attack(self.stages, self.labels, self.plan, probes, options, progress, "before")
        missing = [form for form in options.attacked_forms if all(form != result.form for result in found)]
        # those of raw rows, which the missing ones equal before erasure; inner products have no other form
        raw = [result for result in found if result.form == RAW and base_name(result.probe) in names_of("vectors")]
        same = (replace(result, form=form) for form in missing for result in raw)
        notes = tuple(note for note in notes if note not in ALREADY.values())  # erased rows may differ
        numeric, doubts = attack_numbers(self.stages, self.labels, self.plan, regressors, options, progress, "before")
        return replace(self, probes=(*found, *same), numeric=numeric, notes=(*self.notes, *notes, *doubts))

    def erased(self, source: Source, erasure: Erasure, progress: Progress) -> Stages:
        """Return the rows before and after an erasure.

        Parameters
        ----------
        source : the embeddings
        erasure : what comes after
        progress : shows the reading of a file that was erased elsewhere

        Raises
        ------
        AlignmentError : that file drops other rows
        """
        if erasure.against is not None:
            rows = self.row_of_label[self.needed]
            after: Array | None = gather_same(source, erasure.against, rows, self.kept, progress)
        else:
            after = erasure.erased(self.stages.rows)
        eraser = erasure.eraser
        is_mapped = eraser is not None and (eraser.normalizes or not eraser.keeps_space)
        has_features = self.stages.before is not self.stages.rows
        is_foreign = erasure.against is not None or (is_mapped and not has_features)
        return replace(self.stages, after=after, kernel=erasure.kernel, is_foreign=is_foreign, erasure=erasure)


def read_before(
    source: Source,
    labels: GuardedLabels,
    split: Callable[[Index], EvaluationSplit],
    rule: SplitRule,
    options: EvaluateOptions,
    progress: Progress,
    published: Callable[[NDArray[Any]], NDArray[Any]] = lambda x: x,
) -> Before:
    """Read the rows that an evaluation needs.

    Parameters
    ----------
    source : the embeddings
    labels : of the CSV
    split : divides the positions `[m]` of labels that have a row and a value
    rule : by which rows were chosen for the fit
    options : of the evaluation
    progress : shows the stages
    published : returns what attackers read of rows `[n, d]` before erasure; default: the rows themselves

    Raises
    ------
    AlignmentError, LabelError : labels and rows do not meet
    """
    join = join_labels(source, labels, progress)
    row_of_label, matched = as_index(join.row_of_label), as_index(join.matched(labels, by_any=True))
    plan, copies = without_copies(source, labels, row_of_label, split(matched), progress)
    needed = np.union1d(plan.needed, scale_rows(labels, plan, options))
    x, kept = gather_rows(source, row_of_label[needed], progress)
    notes = (
        *notes_on(plan, labels, options),
        *notes_on_copies(copies),
        *note_on_splits(labels, matched, rule),
    )
    stages = Stages(needed[kept], x, published(x), None, of_file=row_of_label[needed[kept]])
    return Before(labels, row_of_label, plan, copies, stages, needed, kept, notes)
