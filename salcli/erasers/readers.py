"""What linear classifiers read of the guarded classes, on rows in memory of which some are held out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute
from salcli.data.splits import stratified_sample
from salcli.errors import LabelError
from salcli.linalg.squared_hinge import Floats, Hyperplanes, Targets, fit_squared_hinge, gram_of
from salcli.linalg.unit import normalize
from salcli.streaming.engine import map_in_threads
from salcli.streaming.passes import LabelledSource, gather_rows
from salcli.streaming.progress import Progress

Array = NDArray[np.float64]
HELD_OUT = 0.25
"""Share of the rows in memory that classifiers are judged on, not trained."""
TRAINING_BYTES = 128 << 20
"""Of float32 rows that train, unless it is said how many."""
Z = 1.645
"""Standard errors above chance from which on something is read: the one-sided 95 % point."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows in memory, centred, of a mean squared norm of d; and their classes."""

    train: Floats
    """`[n, d]`"""
    held_out: Floats
    """`[m, d]`"""
    train_codes: tuple[NDArray[np.int64], ...]
    """`[n]` classes, of each attribute."""
    held_out_codes: tuple[NDArray[np.int64], ...]
    attributes: tuple[Attribute, ...]
    gram: Array
    """`[d, d]` about (1/n) Σ x xᵀ of the rows that train."""

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
    ) -> Self:
        """Return a stratified sample of labelled rows, or all of them.

        Parameters
        ----------
        rows : whose attributes have classes
        most : rows that train; None: as many as `TRAINING_BYTES` hold
        seed : of the sample
        progress : shows the reading
        method : its name, for messages
        is_unit : rows are divided by their lengths, and not centred

        Raises
        ------
        LabelError : an attribute is numeric, or too few rows are there to hold any out
        """
        path, attributes = rows.labels.path, rows.labels.attributes
        for attribute in attributes:
            if attribute.classes is None:
                raise LabelError(
                    f"{path}: column {attribute.name!r} is numeric, and {method} trains classifiers: expected classes"
                )
        most = max(2, TRAINING_BYTES // (4 * rows.source.d)) if most is None else most
        everyone = np.arange(len(rows))
        total = min(len(rows), math.ceil(most / (1 - HELD_OUT)))
        chosen = everyone if total == len(rows) else stratified_sample(rows.labels, everyone, total, seed)
        held = stratified_sample(rows.labels, chosen, max(1, round(HELD_OUT * total)), seed + 1)
        parts = (np.setdiff1d(chosen, held), held)
        for attribute in attributes:
            if min(len(np.unique(attribute.values[part])) for part in parts) < 2:
                raise LabelError(
                    f"{path}: column {attribute.name!r}: too few rows of a class to hold any out of the fit"
                )
        found = [gather_rows(rows.source, rows.row_of_label[part], progress) for part in parts]
        (train, kept), (held_out, kept_out) = found
        codes, codes_out = (
            tuple(a.codes(part[at]) for a in attributes) for part, at in zip(parts, (kept, kept_out), strict=True)
        )
        train, held_out = _scaled(train, held_out, is_unit=is_unit)
        return cls(train, held_out, codes, codes_out, attributes, gram_of(train))

    def read(
        self, removed: Array, at: Sequence[int] | None = None, *, is_unit: bool = False, penalty: float = 1.0
    ) -> "tuple[Reading, ...]":
        """Return what linear classifiers read of the rows without some directions.

        Parameters
        ----------
        removed : `[d, k]` orthonormal
        at : which attributes; default: all
        is_unit : rows are divided by their lengths again
        penalty : C of the classifiers
        """
        lengths = [_unit_factors(x, removed) if is_unit else None for x in (self.train, self.held_out)]
        return tuple(self._reading(i, removed, lengths, penalty) for i in at or range(len(self.attributes)))

    def _reading(self, i: int, removed: Array, factors: Sequence[Floats | None], penalty: float) -> "Reading":
        attribute, codes = self.attributes[i], self.held_out_codes[i]
        targets = Targets.of(self.train_codes[i], len(attribute.classes or ()))
        planes = fit_squared_hinge(
            self.train, targets, self.gram, penalty=penalty, removed=removed, factors=factors[0], spread=map_in_threads
        )
        return Reading.of(attribute.name, planes, planes.predict(self.held_out, factors[1]), codes)


@dataclass(frozen=True, eq=False)
class Reading:
    """How well a linear classifier tells the classes of held-out rows."""

    name: str
    """Of the attribute."""
    planes: Hyperplanes
    accuracy: float
    """Balanced: the mean recall of the classes, which weigh the same."""
    error: float
    """Its standard error."""
    chance: float
    """The accuracy of a blind guess: 1 / classes, the majority where classes are of one size."""

    @classmethod
    def of(cls, name: str, planes: Hyperplanes, predicted: NDArray[Any], codes: NDArray[Any]) -> Self:
        """Return the reading of held-out rows by their predicted and their true classes `[m]`."""
        classes, counts = np.unique(codes, return_counts=True)
        right = np.array([np.sum(predicted[codes == c] == c) for c in classes])
        guarded = (right + 1) / (counts + 2)  # so that few rows, all right, still have an error
        error = math.sqrt(float(np.sum(guarded * (1 - guarded) / counts))) / len(classes)
        return cls(name, planes, float(np.mean(right / counts)), error, 1 / len(classes))

    @property
    def is_at_chance(self) -> bool:
        """Whether chance lies in the one-sided 95 % interval of the accuracy."""
        return self.accuracy - Z * self.error <= self.chance


def _scaled(train: NDArray[Any], held_out: NDArray[Any], *, is_unit: bool) -> tuple[Floats, Floats]:
    """Return both with one shift and one factor, those of the rows that train; unit rows are not shifted."""
    d = train.shape[1]
    if is_unit:
        return tuple(_unit(x) * np.float32(math.sqrt(d)) for x in (train, held_out))  # type: ignore[return-value]
    mean = train.mean(axis=0, dtype=np.float64)
    largest = max(float(np.max(np.abs(train - mean.astype(train.dtype)), initial=0.0)), np.finfo(np.float64).tiny)
    found = [((x - mean.astype(x.dtype)) / x.dtype.type(largest)).astype(np.float32) for x in (train, held_out)]
    spread = math.sqrt(float(np.mean(np.square(found[0]), dtype=np.float64))) or 1.0
    for x in found:
        x /= np.float32(spread)
    return found[0], found[1]


def _unit(x: NDArray[Any]) -> Floats:
    return normalize(x.astype(np.float64)).astype(np.float32)


def _unit_factors(x: Floats, removed: Array) -> Floats:
    """Return √d / length `[n]` of rows `x` `[n, d]`, of length √d, without their components along `removed`."""
    d = x.shape[1]
    along = x @ removed.astype(np.float32)
    left = np.einsum("ij,ij->i", x, x, dtype=np.float64) - np.einsum("ij,ij->i", along, along, dtype=np.float64)
    factors = np.zeros(len(x))
    np.divide(math.sqrt(d), np.sqrt(np.maximum(left, 0)), out=factors, where=left > 1e-9 * d)
    return factors.astype(np.float32)
