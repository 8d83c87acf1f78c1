"""Attackers over a source: which rows train and test them, and what they read before and after erasure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.selection import RowRule, stratified_sample
from salcli.engine.progress import Progress
from salcli.errors import AlignmentError, UsageError, warn
from salcli.evaluation.probes import (
    LinearProbe,
    ProbeResult,
    Scaling,
    balanced_accuracy,
    majority_rate,
    wilson,
)
from salcli.evaluation.protocol import EvaluationRows, divide_rows, labels_digest, rows_digest
from salcli.formats.artifact import Artifact
from salcli.formats.finite import FiniteSource
from salcli.options import DEFAULT_FIT_SPLIT, EvaluateOptions, require_split
from salcli.passes import erased_dtype, gather_rows, join_labels

NOT_HELD_OUT = (
    "no held-out rows: only in-sample figures can be given, and they are measured on the fitted rows themselves"
)


@dataclass(frozen=True, eq=False)
class _Bench:
    """Rows in memory, before and after erasure, and how to find a label's row among them."""

    labels: Index
    """`[m]` the labels held, ascending."""
    stages: dict[str, NDArray[Any]]
    """`[m, d]` vectors by stage."""

    def at(self, index: Index) -> Index:
        """Find the positions of those labels of `index` that are held, ascending."""
        return np.flatnonzero(np.isin(self.labels, index))


def probe_all(
    source: FiniteSource, labels: GuardedLabels, artifact: Artifact | None, options: EvaluateOptions, progress: Progress
) -> tuple[tuple[ProbeResult, ...], tuple[str, ...]]:
    """Train every attacker asked for, on every guarded attribute, before and after erasure.

    Returns
    -------
    results, and notes that a reader needs

    Raises
    ------
    AlignmentError : the labels do not lead to the rows that the eraser was fitted on
    """
    join = join_labels(source, labels)
    matched = join.matched(labels)
    rows = divide_rows(labels, matched, _rule(artifact, labels, options))
    _require_same_rows(artifact, labels, rows)
    notes = [] if rows.has_held_out else [NOT_HELD_OUT]
    if rows.has_held_out and "fresh" in options.adversaries and not len(rows.fresh):
        notes.append("no row is left to train a fresh attacker")
    trainers = {"in-sample": rows.fitted, "fresh": rows.fresh}
    chosen = {name: _capped(labels, trainers[name], options) for name in options.adversaries if len(trainers[name])}
    bench = _gather(
        source, artifact, join.row_of_label, np.unique(np.concatenate([*chosen.values(), rows.test])), progress
    )
    results: list[ProbeResult] = []
    for attribute in labels.attributes:
        if attribute.classes is None:
            notes.append(f"{attribute.name} is numeric: no probe reads it")
            continue
        for adversary, train in chosen.items():
            n_rows = len(trainers[adversary])
            is_capped = len(train) < n_rows
            found = _probe(bench, attribute, adversary, train, rows.test, options.seed, is_capped=is_capped)
            results += found
            if is_capped:
                notes.append(f"{adversary}: {len(train)} of {n_rows} training rows used (--probe-rows)")
            if not found:
                notes.append(f"{attribute.name}: the {adversary} attacker's training rows are all of one class")
    for note in dict.fromkeys(notes):
        warn(note)
    return tuple(results), tuple(dict.fromkeys(notes))


def _rule(artifact: Artifact | None, labels: GuardedLabels, options: EvaluateOptions) -> RowRule:
    if artifact is not None:
        if options.fit_split is not None or options.holdout:
            raise UsageError("--fit-split and --holdout are for evaluation without an eraser, which knows its own rows")
        return artifact.rule
    has_splits = labels.splits is not None
    require_split(options.fit_split, has_splits=has_splits)
    fit_split = (options.fit_split or DEFAULT_FIT_SPLIT) if has_splits else None
    return RowRule(fit_split, options.holdout, None, options.seed)


def _require_same_rows(artifact: Artifact | None, labels: GuardedLabels, rows: EvaluationRows) -> None:
    if artifact is None:
        return
    told = artifact.header["rows"]
    if rows_digest(labels, rows.fitted) != told["sha256"]:
        raise AlignmentError(
            f"{labels.path}: these labels lead to {len(rows.fitted)} fitted rows, not to the {told['n_fitted']} rows "
            "that the eraser was fitted on, so nobody can say which rows are fresh: "
            "give the labels and embeddings of the fit"
        )
    fitted = {held["name"]: held["sha256"] for held in artifact.header["attributes"]}
    for attribute in labels.attributes:
        if attribute.name in fitted and labels_digest(labels, attribute, rows.fitted) != fitted[attribute.name]:
            raise AlignmentError(
                f"{labels.path}: column {attribute.name!r} has other labels on the fitted rows than those "
                "the eraser was fitted with: give the labels of the fit"
            )


def _capped(labels: GuardedLabels, index: Index, options: EvaluateOptions) -> Index:
    if len(index) <= options.probe_rows:
        return index
    return stratified_sample(index, labels.strata(index), options.probe_rows, options.seed)


def _gather(
    source: FiniteSource, artifact: Artifact | None, row_of_label: Index, index: Index, progress: Progress
) -> _Bench:
    x, held = gather_rows(source, row_of_label[index], progress)
    stages = {"before": x}
    if artifact is not None:
        stages["after"] = artifact.eraser(x, dtype=erased_dtype(artifact, source))
    return _Bench(index[held], stages)


def _probe(
    bench: _Bench, attribute: Attribute, adversary: str, train: Index, test: Index, seed: int, *, is_capped: bool
) -> list[ProbeResult]:
    at_train, at_test = bench.at(train), bench.at(test)
    y_train, y_test = attribute.values[bench.labels[at_train]], attribute.values[bench.labels[at_test]]
    if len(np.unique(y_train)) < 2 or not len(y_test):
        return []
    scaling = Scaling.of(bench.stages["before"][at_train])
    results = []
    for stage, x in bench.stages.items():
        probe = LinearProbe.train(scaling(x[at_train]), y_train, seed=seed)
        predicted = probe.predict(scaling(x[at_test]))
        n_right = int(np.sum(predicted == y_test))
        results.append(
            ProbeResult(
                attribute=attribute.name,
                probe="linear",
                adversary=adversary,
                stage=stage,
                accuracy=n_right / len(y_test),
                ci95=wilson(n_right, len(y_test)),
                balanced_accuracy=balanced_accuracy(predicted, y_test),
                majority=majority_rate(y_test),
                n_train=len(y_train),
                n_test=len(y_test),
                converged=probe.converged,
                capped=is_capped,
                n_classes=len(np.union1d(y_train, y_test)),
            )
        )
    return results
