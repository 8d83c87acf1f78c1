"""Attackers over a source: which rows train and test them, and what they read before and after erasure."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.selection import RowRule, stratified_sample
from salcli.engine.local import ordered_map
from salcli.engine.memory import require_room
from salcli.engine.progress import Progress
from salcli.errors import AlignmentError, UsageError, warn
from salcli.evaluation.deviation import deviation
from salcli.evaluation.kernel_probe import KernelProbe
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
from salcli.kernel_route import TILE, explicit
from salcli.options import DEFAULT_FIT_SPLIT, SAME_KERNEL, EvaluateOptions, require_split
from salcli.passes import erased_dtype, gather_rows, join_labels
from salcli.spectral.eraser import LinearEraser
from salcli.spectral.kernel_eraser import FeatureEraser, KernelEraser

NOT_HELD_OUT = (
    "no held-out rows: only in-sample figures can be given, and they are measured on the fitted rows themselves"
)


@dataclass(frozen=True, eq=False)
class _Bench:
    """Rows in memory, before and after erasure, and how to find a label's row among them."""

    labels: Index
    """`[m]` the labels held, ascending."""
    rows: NDArray[Any]
    """`[m, d]` as they are in the file."""
    stages: dict[str, NDArray[Any]]
    """`[m, w]` what an attacker is given, by stage: the rows themselves, or of a kernel the written features."""
    kernel: KernelEraser | None = None
    """The eraser by its inner products."""

    def at(self, index: Index) -> Index:
        """Find the positions of those labels of `index` that are held, ascending."""
        return np.flatnonzero(np.isin(self.labels, index))


@dataclass(frozen=True)
class Findings:
    """What the attackers read."""

    asked: tuple[tuple[str, str, str], ...]
    """Each attribute, adversary and probe that was asked for."""
    probes: tuple[ProbeResult, ...]
    deviation: dict[str, Any] | None
    """γ/ρ of a kernel's eraser on the test rows, and how many those are."""
    notes: tuple[str, ...]
    """What a reader needs to know."""


Answers = Iterator[tuple[str, NDArray[Any], bool]]
"""stage, predicted classes, whether the probe converged"""


def probe_all(
    source: FiniteSource, labels: GuardedLabels, artifact: Artifact | None, options: EvaluateOptions, progress: Progress
) -> Findings:
    """Train every attacker asked for, on every guarded attribute, before and after erasure.

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
    probes = _probes(artifact, options)
    needed = np.unique(np.concatenate([*chosen.values(), rows.test]))
    bench = _gather(source, artifact, join.row_of_label, needed, probes, progress)
    results: list[ProbeResult] = []
    for attribute in labels.attributes:
        if attribute.classes is None:
            notes.append(f"{attribute.name} is numeric: no probe reads it")
            continue
        for adversary, train in chosen.items():
            n_rows = len(trainers[adversary])
            is_capped = len(train) < n_rows
            found = _probe(bench, attribute, adversary, train, rows.test, options, probes, is_capped=is_capped)
            results += found
            if is_capped:
                notes.append(f"{adversary}: {len(train)} of {n_rows} training rows used (--probe-rows)")
            if not found:
                notes.append(f"{attribute.name}: the {adversary} attacker's training rows are all of one class")
    for note in dict.fromkeys(notes):
        warn(note)
    moved = _deviation(bench, _capped(labels, rows.test, options))
    asked = itertools.product((a.name for a in labels.attributes), options.adversaries, probes)
    return Findings(tuple(asked), tuple(results), moved, tuple(dict.fromkeys(notes)))


def _probes(artifact: Artifact | None, options: EvaluateOptions) -> tuple[str, ...]:
    is_kernel = artifact is not None and not isinstance(artifact.eraser, LinearEraser)
    if SAME_KERNEL in (options.probes or ()) and not is_kernel:
        raise UsageError("--probes same-kernel: only an eraser that `salcli kfit` wrote has a kernel")
    return options.probes or (("linear", SAME_KERNEL) if is_kernel else ("linear",))


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
    source: FiniteSource,
    artifact: Artifact | None,
    row_of_label: Index,
    index: Index,
    probes: tuple[str, ...],
    progress: Progress,
) -> _Bench:
    x, held = gather_rows(source, row_of_label[index], progress)
    labels = index[held]
    if artifact is None:
        return _Bench(labels, x, {"before": x})
    eraser, kernel = artifact.eraser, None
    if isinstance(eraser, FeatureEraser):
        kernel = eraser.by_inner_products()
    elif isinstance(eraser, KernelEraser):
        kernel = eraser
        if set(probes) == {SAME_KERNEL}:
            return _Bench(labels, x, {}, kernel)
        eraser = explicit(kernel, "fit with --landmarks M, or ask for --probes same-kernel alone")
    dtype = erased_dtype(eraser, artifact.singular_values, source)
    before = eraser(x, strength=0.0, dtype=dtype) if kernel else x
    return _Bench(labels, x, {"before": before, "after": eraser(x, dtype=dtype)}, kernel)


def _probe(
    bench: _Bench,
    attribute: Attribute,
    adversary: str,
    train: Index,
    test: Index,
    options: EvaluateOptions,
    probes: tuple[str, ...],
    *,
    is_capped: bool,
) -> list[ProbeResult]:
    at_train, at_test = bench.at(train), bench.at(test)
    y_train, y_test = attribute.values[bench.labels[at_train]], attribute.values[bench.labels[at_test]]
    if len(np.unique(y_train)) < 2 or not len(y_test):
        return []
    attacks = {"linear": _linear_attack, SAME_KERNEL: _kernel_attack}
    return [
        ProbeResult(
            attribute=attribute.name,
            probe=probe,
            adversary=adversary,
            stage=stage,
            accuracy=float(np.mean(predicted == y_test)),
            ci95=wilson(int(np.sum(predicted == y_test)), len(y_test)),
            balanced_accuracy=balanced_accuracy(predicted, y_test),
            majority=majority_rate(y_test),
            n_train=len(y_train),
            n_test=len(y_test),
            converged=converged,
            capped=is_capped,
            n_classes=len(np.union1d(y_train, y_test)),
        )
        for probe in probes
        for stage, predicted, converged in attacks[probe](bench, at_train, at_test, y_train, options.seed)
    ]


def _linear_attack(bench: _Bench, at_train: Index, at_test: Index, y_train: NDArray[Any], seed: int) -> Answers:
    scaling = Scaling.of(bench.stages["before"][at_train])
    for stage, x in bench.stages.items():
        probe = LinearProbe.train(scaling(x[at_train]), y_train, seed=seed)
        yield stage, probe.predict(scaling(x[at_test])), probe.converged


def _kernel_attack(bench: _Bench, at_train: Index, at_test: Index, y_train: NDArray[Any], _: int) -> Answers:
    assert bench.kernel is not None
    eraser, train, test = bench.kernel, bench.rows[at_train], bench.rows[at_test]
    require_room(8 * len(train) * (2 * len(train) + len(test)), "the same-kernel probe", "lower --probe-rows")
    among, across = eraser.kernel.gram(train, train), eraser.kernel.gram(test, train)
    probe = KernelProbe.train(among, y_train)
    yield "before", probe.predict(across), probe.converged
    of_train, of_test = eraser.coordinates(train), eraser.coordinates(test)
    eraser.erase_gram(among, of_train, of_train)
    eraser.erase_gram(across, of_test, of_train)
    probe = KernelProbe.train(among, y_train)
    yield "after", probe.predict(across), probe.converged


def _deviation(bench: _Bench, test: Index) -> dict[str, Any] | None:
    """Measure γ/ρ on the test rows, tile by tile."""
    if bench.kernel is None:
        return None
    eraser, x = bench.kernel, bench.rows[bench.at(test)]
    at = eraser.coordinates(x)
    parts = [slice(start, start + TILE) for start in range(0, len(x), TILE)]

    def tile(pair: tuple[slice, slice]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rows, columns = pair
        gram = eraser.kernel.gram(x[rows], x[columns])
        return gram, eraser.erase_gram(np.zeros_like(gram), at[rows], at[columns])

    tiles = ordered_map(tile, ((rows, columns) for rows in parts for columns in parts))
    return {"value": deviation(tiles), "n": len(x)}
