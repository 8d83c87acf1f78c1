"""The split of an evaluation: by the rule of the artifact or of the options, checked against the rows of the fit."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from salcli.data.digests import labels_digest, rows_digest
from salcli.data.labels import GuardedLabels, Index
from salcli.data.split_parts import BAND, DEV_NAMES, TEST, split_counts
from salcli.data.splits import FRESH, IN_SAMPLE, TEST_ROWS, WHITE_BOX, EvaluationSplit, SplitRule, shared_by
from salcli.erasers.artifact import Artifact
from salcli.errors import AlignmentError, UsageError
from salcli.options import DEFAULT_FIT_SPLIT, EvaluateOptions, require_split

NOT_HELD_OUT = "{}: there are only in-sample figures, and they are measured on the fitted rows themselves"
MOST_NAMES = 6
NEARLY_BAND = re.compile(r"bands?[ _.-]*0*([1-9]\d*)", re.IGNORECASE)
"""Names of parts that may be meant as bands."""
NONE_FRESH = "{}, so there is no fresh attacker, and no other was requested"


def split_rows(
    labels: GuardedLabels, matched: Index, artifact: Artifact | None, options: EvaluateOptions
) -> EvaluationSplit:
    """Return the matched labels divided by the eraser's rule or the options, with at most `attacker_rows` each.

    Parameters
    ----------
    labels : of the CSV
    matched : `[m]` positions of labels that have a row and a value of any attribute; those that an eraser was fitted on
        have one of each attribute that it guards
    artifact : the eraser, or None
    options : with the rule, where there is no eraser, and limits

    Raises
    ------
    AlignmentError : the labels do not lead to the rows that the eraser was fitted on
    UsageError : the options contradict the eraser's rule, or name a part that is not there
    """
    split = _divided(labels, matched, artifact, options)
    return split.only(options.adversaries).capped(labels, options.attacker_rows, options.seed)


def _divided(
    labels: GuardedLabels, matched: Index, artifact: Artifact | None, options: EvaluateOptions
) -> EvaluationSplit:
    """Return all of the matched labels divided, after checking that they lead to the rows of the fit."""
    guarded = None if artifact is None else [attribute["name"] for attribute in artifact.header["attributes"]]
    complete = None if guarded is None else matched[labels.has_all(guarded)[matched]]
    split = rule_of(artifact, labels, options).divide(labels, matched, complete)
    if artifact is not None:
        require_same_rows(artifact, labels, split.fitted)
        require_same_labels(artifact, labels, split.fitted)
    return split


def shared_split(
    labels: GuardedLabels, matched: Index, artifacts: Mapping[str, Artifact], options: EvaluateOptions
) -> EvaluationSplit:
    """Return the matched labels divided for several erasers at once (see `salcli.data.splits.shared_by`).

    Parameters
    ----------
    labels : of the CSV
    matched : `[m]` positions of labels that have a row and a value
    artifacts : the erasers by path; without any, the rule is that of the options
    options : limits, and the rule

    Raises
    ------
    AlignmentError : the labels do not lead to the rows that one of the erasers was fitted on
    LabelError : no row is left to test on
    UsageError : the options contradict the rule of an eraser
    """
    splits, seed = [], options.seed
    for path, artifact in artifacts.items():
        try:
            splits.append(_divided(labels, matched, artifact, options))
        except AlignmentError as error:
            raise AlignmentError(f"{path}: {error}") from error
        seed = artifact.rule.seed
    shared = shared_by(splits or [_divided(labels, matched, None, options)], labels, seed)
    return shared.only(options.adversaries).capped(labels, options.attacker_rows, options.seed)


def notes_on(split: EvaluationSplit, labels: GuardedLabels, options: EvaluateOptions) -> tuple[str, ...]:
    """Return notes on the rows that figures are measured on.

    Parameters
    ----------
    split : of the evaluation
    labels : that it is of
    options : that it was fitted with
    """
    notes = []
    if not split.has_held_out:
        why = (
            "no row is marked test" if labels.splits is not None else "no rows were held out (by a split or `holdout`)"
        )
        notes.append((NOT_HELD_OUT if IN_SAMPLE in options.adversaries else NONE_FRESH).format(why))
    elif {FRESH, WHITE_BOX} & set(options.adversaries) and not {FRESH, WHITE_BOX} & split.trainers.keys():
        notes.append("no row is left to train a fresh attacker")
    for name, index in split.trainers.items():
        if split.is_capped(name):
            notes.append(f"{name}: {len(index):,} of {split.n_available[name]:,} training rows used (`attacker_rows`)")
    if split.is_capped(TEST):
        used, available = len(split.test), split.n_available[TEST]
        notes.append(f"{used} of {available} test rows used ({TEST_ROWS} times `attacker_rows`)")
    return tuple(notes)


def note_on_splits(labels: GuardedLabels, matched: Index, rule: SplitRule) -> tuple[str, ...]:
    """Return a note on the names in the split column that have no part in an evaluation; none if all have one.

    Parameters
    ----------
    labels : of the CSV
    matched : `[m]` positions of labels that have a row and a value
    rule : of the fit
    """
    if labels.splits is None or rule.fit_split is None:
        return ()
    used = {rule.fit_split, *DEV_NAMES, TEST}
    counts = split_counts(labels, matched)
    others = {name: n for name, n in counts.items() if name not in used and not BAND.fullmatch(name)}
    if not others:
        return ()
    shown = ", ".join(f"{name!r} ({n:,} rows)" for name, n in list(others.items())[:MOST_NAMES])
    more = f" and {len(others) - MOST_NAMES} more" if len(others) > MOST_NAMES else ""
    names = f"{rule.fit_split}, {DEV_NAMES[0]} (or {', '.join(DEV_NAMES[1:])}) and {TEST}"
    hint = hint_at_band(others)
    return (f"column {labels.split_column!r}: rows marked {shown}{more} are not used; {names} are{hint}",)


def hint_at_band(names: Iterable[str]) -> str:
    """Return a hint if one of `names` of parts is nearly that of a band, such as Band1 or band01; else ""."""
    near = ((name, NEARLY_BAND.fullmatch(name)) for name in names if not BAND.fullmatch(name))
    return next((f"; did you mean band{match[1]} by {name!r}?" for name, match in near if match), "")


def rule_of(artifact: Artifact | None, labels: GuardedLabels, options: EvaluateOptions) -> SplitRule:
    """Return the rule by which rows were chosen for the fit: the eraser's, or that of the options.

    Parameters
    ----------
    artifact : the eraser, or None
    labels : of the CSV
    options : of the evaluation

    Raises
    ------
    UsageError : the options contradict the eraser's rule, or name a part that is not there
    """
    if artifact is not None:
        _require_groups(artifact, labels)
        if options.fit_split is not None or options.holdout:
            raise UsageError("`fit_split` and `holdout` are for evaluation without an eraser, which records its rows")
        if artifact.rule.fit_split is not None and labels.splits is None:
            raise UsageError(
                f"`no_split`: the eraser was fitted on the rows marked {artifact.rule.fit_split!r}, "
                "so the split column is needed to find the fresh rows"
            )
        return artifact.rule
    has_splits = labels.splits is not None
    require_split(options.fit_split, has_splits=has_splits)
    fit_split = (options.fit_split or DEFAULT_FIT_SPLIT) if has_splits else None
    return SplitRule(fit_split, options.holdout, None, options.seed)


def _require_groups(artifact: Artifact, labels: GuardedLabels) -> None:
    """Check that a hold-out is divided by the groups of the fit, or by none."""
    rows, name = artifact.header["rows"], None if labels.groups is None else labels.groups.name
    known = rows.get("group_column")
    if artifact.rule.holdout and name != known:
        how = "without groups" if known is None else f"by groups of column {known!r}"
        raise UsageError(f"`groups={name}`: the rows of the fit were held out {how}: fit again, or set `folds`")


def require_same_rows(artifact: Artifact, labels: GuardedLabels, fitted: Index) -> None:
    """Check that the fitted rows of the labels are those of the artifact.

    Parameters
    ----------
    artifact : the eraser
    labels : of the CSV
    fitted : `[n]` positions of the labels that the rule fits

    Raises
    ------
    AlignmentError : they are not
    """
    header = artifact.header["rows"]
    how: Any = {"spells_numbers": artifact.spells_numbers, "shards": header.get("shards", ())}
    if rows_digest(labels, fitted, **how) != header["sha256"]:
        raise AlignmentError(
            f"{labels.path}: these labels lead to {len(fitted)} fitted rows, not to the {header['n_fitted']} rows "
            "that the eraser was fitted on, so no row is known to be unseen by the eraser: "
            "give the labels and embeddings of the fit"
        )


def require_same_labels(artifact: Artifact, labels: GuardedLabels, index: Index) -> None:
    """Check that the labels at `index` are those that the eraser was fitted with.

    Parameters
    ----------
    artifact : the eraser
    labels : of the CSV; attributes that the eraser does not guard are passed over
    index : `[n]` positions of the fitted labels

    Raises
    ------
    AlignmentError : they are not
    """
    digests = {attribute["name"]: attribute["sha256"] for attribute in artifact.header["attributes"]}
    for attribute in labels.attributes:
        if attribute.name not in digests:
            continue
        shards = artifact.header["rows"].get("shards", ())
        found = labels_digest(labels, attribute, index, spells_numbers=artifact.spells_numbers, shards=shards)
        if found != digests[attribute.name]:
            raise AlignmentError(
                f"{labels.path}: column {attribute.name!r} has other labels on the fitted rows than those "
                "the eraser was fitted with: give the labels of the fit"
            )
