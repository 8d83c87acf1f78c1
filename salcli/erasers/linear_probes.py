"""Linear classifiers of the guarded attributes, trained on rows in memory and scored on held-out rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.sampling import seeded_shares, stratified_sample
from salcli.errors import LabelError
from salcli.linalg.squared_hinge import Floats, Hyperplanes, Targets, fit_squared_hinge, gram_of
from salcli.linalg.unit import normalize
from salcli.streaming.engine import map_in_threads, one_blas_thread
from salcli.streaming.passes import LabelledSource, gather_rows
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]
HELD_OUT = 0.25
"""Share of the rows in memory that classifiers are scored on and not trained on."""
LEAST_HELD_OUT = 5
"""Held-out rows for each class, below which hardly any accuracy would be above chance."""
FOLDS = 5
"""Parts of rows that are too few to hold any out: classifiers of four parts score the fifth."""
TRAINING_BYTES = 32 << 20
"""Most memory of the training rows, as float32, where their number is not set."""
UNIT_ROWS = 1 << 12
Z = 1.645
"""Standard errors above chance at which a score counts as above it: the one-sided 95 % point."""


@dataclass(frozen=True, eq=False)
class ProbeRows:
    """Training and held-out rows in memory, centred and scaled to a mean squared norm of d, with their classes."""

    train: Floats
    """`[n, d]`"""
    held_out: Floats
    """`[m, d]`"""
    train_codes: tuple[NDArray[np.int64], ...]
    """`[n]` classes, of each attribute."""
    held_out_codes: tuple[NDArray[np.int64], ...]
    attributes: tuple[Attribute, ...]
    gram: Array
    """`[d, d]` about (1/n) Σ x xᵀ of the training rows."""
    folds: NDArray[np.int64] | None = None
    """`[n]` parts of few rows, by which all are scored, out of fold; `held_out` are then the training rows."""

    @classmethod
    def of(
        cls,
        rows: LabelledSource,
        most: int | None,
        seed: int,
        progress: Progress,
        *,
        method: str,
        is_unit: bool = False,
        may_fold: bool = False,
    ) -> Self:
        """Return a stratified sample of labelled rows, or all of them.

        Parameters
        ----------
        rows : whose attributes have classes
        most : training rows; None: as many as `TRAINING_BYTES` hold
        seed : of the sample
        progress : shows the reading of rows
        method : its name, for messages
        is_unit : divide rows by their lengths, and do not centre them
        may_fold : score all rows out of fold where they are too few to hold any out

        Raises
        ------
        LabelError : a class has too few rows to hold any out
        """
        path, attributes = rows.labels.path, rows.labels.attributes
        most = max(2, TRAINING_BYTES // (4 * rows.source.d)) if most is None else most
        everyone: Index = np.arange(len(rows))
        total = min(len(rows), math.ceil(most / (1 - HELD_OUT)))
        chosen = everyone if total == len(rows) else stratified_sample(rows.labels, everyone, total, seed)
        scored = held_out(rows.labels, chosen, HELD_OUT, seed + 1)
        parts, folds = (np.setdiff1d(chosen, scored), scored), None
        if few := [each for each in attributes if _holds_few(each, *parts)]:
            folds = _folds(rows.labels, chosen, seed + 1)
            if not may_fold or len(np.unique(folds)) < 2:
                n_classes = len(np.unique(few[0].values[parts[0]]))
                raise LabelError(
                    f"{path}: column {few[0].name!r}: {method} holds {len(scored):,} of {len(chosen):,} rows out of "
                    "the fit to see whether a linear classifier is at chance: expected at least "
                    f"{LEAST_HELD_OUT} for each of {n_classes} classes"
                )
            parts = (chosen, chosen)
        found = [gather_rows(rows.source, rows.row_of_label[part], progress) for part in parts]
        (train, kept), (others, kept_out) = found
        codes, codes_out = (
            tuple(a.codes(part[at]) for a in attributes) for part, at in zip(parts, (kept, kept_out), strict=True)
        )
        train, others = _scaled(train, others, is_unit=is_unit)
        return cls(train, others, codes, codes_out, attributes, gram_of(train), None if folds is None else folds[kept])

    def scores(self, removed: Array, *, is_unit: bool = False) -> "tuple[ProbeScore, ...]":
        """Train a linear classifier of each attribute on rows without some directions, and score it.

        Parameters
        ----------
        removed : `[d, k]` orthonormal directions
        is_unit : divide the rows by their lengths afterwards
        """
        lengths = [_unit_factors(x, removed) if is_unit else None for x in (self.train, self.held_out)]
        return tuple(self._score(i, removed, lengths) for i in range(len(self.attributes)))

    def _score(self, i: int, removed: Array, factors: Sequence[Floats | None]) -> "ProbeScore":
        attribute, codes = self.attributes[i], self.held_out_codes[i]
        planes = self._trained(i, removed, factors[0], slice(None))
        if self.folds is None:
            return ProbeScore.of(attribute.name, planes, planes.predict(self.held_out, factors[1]), codes)
        predicted = np.empty_like(codes)
        for fold in np.unique(self.folds):
            is_in = self.folds == fold
            others = self._trained(i, removed, factors[0], ~is_in)
            predicted[is_in] = others.predict(self.train[is_in], None if factors[0] is None else factors[0][is_in])
        return ProbeScore.of(attribute.name, planes, predicted, codes)

    def _trained(self, i: int, removed: Array, factors: Floats | None, rows: Any) -> Hyperplanes:
        """Return the classifiers of attribute `i`, trained on some of the training rows (see `_score`)."""
        import scipy.optimize  # noqa: F401 (imported later, its BLAS would not be limited to one thread)

        with one_blas_thread():
            return fit_squared_hinge(
                self.train[rows],
                Targets.of(self.train_codes[i][rows], len(self.attributes[i].classes or ())),
                self.gram,
                removed=removed,
                factors=None if factors is None else factors[rows],
                spread=map_in_threads,
            )


@dataclass(frozen=True, eq=False)
class ProbeScore:
    """The accuracy of a linear classifier on held-out rows."""

    name: str
    """Of the attribute."""
    planes: Hyperplanes
    """The classifier."""
    accuracy: float
    """Balanced: the mean recall over classes."""
    error: float
    """Its standard error."""
    chance: float
    """1 / classes: the balanced accuracy of a constant, the majority rate if classes have the same size."""

    @classmethod
    def of(cls, name: str, planes: Hyperplanes, predicted: NDArray[Any], codes: NDArray[Any]) -> Self:
        """Return the score of `predicted` against true `codes` `[m]`, of the attribute `name`, by `planes`."""
        classes, counts = np.unique(codes, return_counts=True)
        right = np.array([np.sum(predicted[codes == c] == c) for c in classes])
        guarded = (right + 1) / (counts + 2)  # so that the error is not 0 where all rows of a class are right
        error = math.sqrt(float(np.sum(guarded * (1 - guarded) / counts))) / len(classes)
        return cls(name, planes, float(np.mean(right / counts)), error, 1 / len(classes))

    @property
    def is_at_chance(self) -> bool:
        """Whether chance lies in the one-sided 95 % interval of the accuracy."""
        return self.accuracy - Z * self.error <= self.chance


def require_classes(labels: GuardedLabels, method: str) -> None:
    """Check that all attributes of `labels` have classes, for classifiers that the `method` of this name trains.

    Raises
    ------
    LabelError : one is numeric
    """
    for attribute in labels.attributes:
        if attribute.classes is None:
            raise LabelError(
                f"{labels.path}: column {attribute.name!r} is numeric, and {method} trains classifiers: expected "
                "classes"
            )


def held_out(labels: GuardedLabels, index: Index, share: float, seed: int) -> Index:
    """Return a `share` of the `labels` at `index` `[n]`, by `seed`: stratified by class, or whole groups."""
    if labels.groups is not None:
        return index[seeded_shares(labels, index, seed, "held out") < share]
    return stratified_sample(labels, index, max(1, round(share * len(index))), seed)


def _holds_few(attribute: Attribute, train: Index, held: Index) -> bool:
    """Return whether held-out rows are too few for the accuracy on an attribute's classes to mean something."""
    n_classes = len(np.unique(attribute.values[train]))
    return len(held) < LEAST_HELD_OUT * n_classes or len(np.unique(attribute.values[held])) < 2


def _folds(labels: GuardedLabels, index: Index, seed: int) -> NDArray[np.int64]:
    """Return the part `[n]`, one of `FOLDS`, of the `labels` at `index` `[n]`: stratified by class, or whole groups."""
    shares = seeded_shares(labels, index, seed, "folds")
    if labels.groups is not None:
        return (shares * FOLDS).astype(np.int64)
    found = np.empty(len(index), np.int64)
    found[np.lexsort((shares, labels.strata(index)))] = np.arange(len(index)) % FOLDS
    return found


def _scaled(train: NDArray[Any], others: NDArray[Any], *, is_unit: bool) -> tuple[Floats, Floats]:
    """Return both as float32, centred and scaled alike: by mean and spread of the training rows, or to unit rows.

    Their memory is used where they are float32 already.
    """
    if is_unit:
        return _unit(train), _unit(others)
    kind: Any = np.float32 if train.dtype.itemsize <= 4 else np.float64
    found: list[NDArray[Any]] = [x.astype(kind, copy=False) for x in (train, others)]
    mean = found[0].mean(axis=0, dtype=np.float64).astype(kind)
    is_constant = np.ptp(found[0], axis=0) == 0
    for x in found:
        x -= mean
        x[:, is_constant] = 0  # exactly, so that normals are 0 there
    largest = max(found[0].max(), -found[0].min(), np.finfo(kind).tiny)
    for x in found:
        x /= largest
    spread = math.sqrt(float(np.einsum("ij,ij->", found[0], found[0], dtype=np.float64)) / found[0].size) or 1.0
    for x in found:
        x /= kind(spread)
    return found[0].astype(np.float32, copy=False), found[1].astype(np.float32, copy=False)


def _unit(x: NDArray[Any]) -> Floats:
    """Return rows `x` `[n, d]` with a length of √d each, which is a mean square of 1."""
    found = np.empty(x.shape, np.float32)
    for start in range(0, len(x), UNIT_ROWS):
        part = slice(start, start + UNIT_ROWS)
        np.multiply(normalize(x[part].astype(np.float64)), math.sqrt(x.shape[1]), out=found[part], casting="same_kind")
    return found


def _unit_factors(x: Floats, removed: Array) -> Floats:
    """Return √d / length `[n]` of rows `x` `[n, d]`, of length √d, without their components along `removed`."""
    d = x.shape[1]
    with np.errstate(invalid="ignore"):  # a flag of float32 kernels of BLAS, also where all numbers are finite
        along = x @ removed.astype(np.float32)
    left = np.einsum("ij,ij->i", x, x, dtype=np.float64) - np.einsum("ij,ij->i", along, along, dtype=np.float64)
    factors = np.zeros(len(x))
    np.divide(math.sqrt(d), np.sqrt(np.maximum(left, 0)), out=factors, where=left > 1e-9 * d)
    return factors.astype(np.float32)
