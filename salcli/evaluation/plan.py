"""Which rows an evaluation looks at: who trains which attacker, what is the test, and what of it was capped."""

from dataclasses import dataclass, replace

import numpy as np

from salcli.data.digests import labels_digest, rows_digest
from salcli.data.labels import GuardedLabels, Index
from salcli.data.splits import EvaluationRows, RowRule, divide_rows, stratified_sample
from salcli.erasers.artifact import Artifact
from salcli.errors import AlignmentError, UsageError
from salcli.options import DEFAULT_FIT_SPLIT, EvaluateOptions, require_split

TEST_ROWS = 10  # most test rows, in units of --probe-rows: enough for an interval of a fraction of a per cent
NOT_HELD_OUT = "{}: only in-sample figures are given, and they are measured on the fitted rows themselves"
NONE_FRESH = "{}, so there is no fresh attacker, and none was asked for beside"


@dataclass(frozen=True, eq=False)
class RowPlan:
    """Labels by what their rows do."""

    fitted: Index
    """Rows of the fit."""
    trainers: dict[str, Index]
    """By adversary, the rows that train it; an adversary without rows is not there."""
    n_available: dict[str, int]
    """By adversary, how many there were before `probe_rows`."""
    test: Index
    notes: tuple[str, ...]
    """What a reader needs to know."""

    @property
    def needed(self) -> Index:
        """All rows that are looked at, ascending."""
        return np.unique(np.concatenate([*self.trainers.values(), self.test]))

    def fitted_on(self, index: Index, labels: GuardedLabels, options: EvaluateOptions) -> "RowPlan":
        """Give the plan of a fit on some of the fitted rows: they train the in-sample attacker."""
        if "in-sample" not in self.trainers:
            return replace(self, fitted=index)
        kept = capped(labels, index, options.probe_rows, options.seed)
        return replace(
            self,
            fitted=index,
            trainers=self.trainers | {"in-sample": kept},
            n_available=self.n_available | {"in-sample": len(index)},
        )

    def is_capped(self, adversary: str) -> bool:
        """Whether `probe_rows` left rows out."""
        return len(self.trainers[adversary]) < self.n_available[adversary]


def plan_rows(labels: GuardedLabels, matched: Index, artifact: Artifact | None, options: EvaluateOptions) -> RowPlan:
    """Divide the matched labels as the eraser's rule says, and cap them.

    Raises
    ------
    AlignmentError : the labels do not lead to the rows that the eraser was fitted on
    """
    rows = divide_rows(labels, matched, _rule(artifact, labels, options))
    _require_same_rows(artifact, labels, rows)
    notes = []
    if not rows.has_held_out:
        is_split = labels.splits is not None
        why = "no row is marked test" if is_split else "no rows were held out (by a split or `holdout`)"
        notes.append((NOT_HELD_OUT if "in-sample" in options.adversaries else NONE_FRESH).format(why))
    if rows.has_held_out and "fresh" in options.adversaries and not len(rows.fresh):
        notes.append("no row is left to train a fresh attacker")
    available = {"in-sample": rows.fitted, "fresh": rows.fresh}
    trainers = {}
    for name in options.adversaries:
        if len(available[name]):
            trainers[name] = capped(labels, available[name], options.probe_rows, options.seed)
            if len(trainers[name]) < len(available[name]):
                notes.append(
                    f"{name}: {len(trainers[name])} of {len(available[name])} training rows used (`probe_rows`)"
                )
    test = capped(labels, rows.test, TEST_ROWS * options.probe_rows, options.seed)
    if len(test) < len(rows.test):
        notes.append(f"{len(test)} of {len(rows.test)} test rows used ({TEST_ROWS} times `probe_rows`)")
    return RowPlan(rows.fitted, trainers, {name: len(index) for name, index in available.items()}, test, tuple(notes))


def _rule(artifact: Artifact | None, labels: GuardedLabels, options: EvaluateOptions) -> RowRule:
    if artifact is not None:
        if options.fit_split is not None or options.holdout:
            raise UsageError("`fit_split` and `holdout` are for evaluation without an eraser, which knows its own rows")
        if artifact.rule.fit_split is not None and labels.splits is None:
            raise UsageError(
                f"`no_split`: the eraser was fitted on the rows marked {artifact.rule.fit_split!r}, "
                "so the split column tells which rows are fresh"
            )
        return artifact.rule
    has_splits = labels.splits is not None
    require_split(options.fit_split, has_splits=has_splits)
    fit_split = (options.fit_split or DEFAULT_FIT_SPLIT) if has_splits else None
    return RowRule(fit_split, options.holdout, None, options.seed)


def _require_same_rows(artifact: Artifact | None, labels: GuardedLabels, rows: EvaluationRows) -> None:
    if artifact is None:
        return
    told = artifact.header["rows"]
    if rows_digest(labels, rows.fitted, spells_numbers=artifact.spells_numbers) != told["sha256"]:
        raise AlignmentError(
            f"{labels.path}: these labels lead to {len(rows.fitted)} fitted rows, not to the {told['n_fitted']} rows "
            "that the eraser was fitted on, so nobody can say which rows are fresh: "
            "give the labels and embeddings of the fit"
        )
    require_same_labels(artifact, labels, rows.fitted)


def require_same_labels(artifact: Artifact, labels: GuardedLabels, index: Index) -> None:
    """Refuse other labels at `index` than the eraser was fitted with.

    Raises
    ------
    AlignmentError : they are
    """
    fitted = {held["name"]: held["sha256"] for held in artifact.header["attributes"]}
    for attribute in labels.attributes:
        if attribute.name not in fitted:
            continue
        found = labels_digest(labels, attribute, index, spells_numbers=artifact.spells_numbers)
        if found != fitted[attribute.name]:
            raise AlignmentError(
                f"{labels.path}: column {attribute.name!r} has other labels on the fitted rows than those "
                "the eraser was fitted with: give the labels of the fit"
            )


def capped(labels: GuardedLabels, index: Index, most: int, seed: int) -> Index:
    """Keep a stratified sample of the labels at `index`, if they are more than `most`."""
    if len(index) <= most:
        return index
    return stratified_sample(labels, index, most, seed)
