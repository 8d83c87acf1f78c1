"""What attackers read of the rows: scaled vectors, whitened or not, or inner products of a kernel eraser."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index
from salcli.erasers.kernel import KernelEraser
from salcli.errors import AlignmentError
from salcli.evaluation.attackers.base import Array, Attacker, Scaling, Settings
from salcli.evaluation.attackers.tuning import WHITENED, TrainingRows
from salcli.evaluation.stages import Stages

FARTHEST = 1e6  # spreads of the rows before
WIDEST = 2_048
"""Dimensions above which rows are not whitened: it takes the eigenvectors of their covariance."""
LEAST_VARIANCE = 1e-10
"""Of the largest: directions with less are rounding noise of erased rows, and are left out when rows are whitened."""


class Reading(Protocol):
    """What an attacker reads, by stage."""

    @property
    def can_whiten(self) -> bool:
        """Whether the rows can be read whitened."""

    @property
    def stages(self) -> Sequence[str]:
        """Names of the stages there are."""

    @property
    def d(self) -> int:
        """Width of the rows."""

    def train(self, stage: str, settings: Settings) -> Array:
        """Return the training rows `[n, d]`, or their inner products `[n, n]`."""

    def test(self, stage: str, settings: Settings) -> Array:
        """Return the test rows `[m, d]`, or their inner products `[m, n]` with the training rows."""


def reading_of(attacker: Attacker, stages: Stages, at_train: Index, at_test: Index) -> Reading:
    """Return what an attacker reads of the rows at some positions of the stages.

    Raises
    ------
    AlignmentError : erasure has moved the rows far away
    """
    if attacker.reads == "vectors":
        return Vectors.of(stages, at_train, at_test)
    return InnerProducts.of(stages, at_train, at_test)


def training_rows(reading: Reading, stage: str, y: NDArray[Any]) -> TrainingRows:
    """Return the training rows of a stage, for tuning.

    Parameters
    ----------
    reading : of the rows
    stage : before or after
    y : `[n]` classes or numbers of the training rows
    """
    cache: dict[float, Array] = {}

    def view(settings: Settings) -> Array:
        key = settings.get(WHITENED, 0.0)
        if key not in cache:
            cache[key] = reading.train(stage, settings)
        return cache[key]

    return TrainingRows(view, y, reading.d, reading.can_whiten)


@dataclass(frozen=True)
class Whitening:
    """A linear map after which the training rows have the same variance in all directions."""

    mean: Array
    directions: Array
    """`[d, r]`"""

    @classmethod
    def of(cls, x: Array) -> "Whitening":
        """Return the whitening of rows `[n, d]`; directions in which they do not vary are left out."""
        mean = x.mean(axis=0)
        away = x - mean
        variances, directions = np.linalg.eigh(away.T @ away / len(x))
        if not variances[-1] > 1e-300:  # rows that are all alike keep one coordinate, for classifiers need one
            return cls(mean, directions[:, -1:])
        is_kept = variances > LEAST_VARIANCE * variances[-1]
        return cls(mean, directions[:, is_kept] / np.sqrt(variances[is_kept]))

    def __call__(self, x: Array) -> Array:
        """Return the whitened rows `[m, r]`."""
        found: Array = (x - self.mean) @ self.directions
        return found


@dataclass(frozen=True, eq=False)
class Vectors:
    """Scaled rows."""

    rows: dict[str, NDArray[Any]]
    """`[m, d]` by stage."""
    scalings: dict[str, Scaling]
    at_train: Index
    at_test: Index
    can_whiten: bool
    whitenings: dict[str, Whitening] = field(default_factory=dict)

    @classmethod
    def of(cls, stages: Stages, at_train: Index, at_test: Index) -> "Vectors":
        """Scale each stage as the rows before, or by its own scale if its units are others."""
        rows = stages.named()
        scalings = {stage: Scaling.of(x[at_train]) for stage, x in rows.items()}
        judged = rows["after" if "after" in rows else "before"]
        if not stages.is_foreign and judged.shape[1] == stages.before.shape[1]:
            scalings = dict.fromkeys(rows, scalings["before"])  # so that C means the same before and after
            _require_same_scale(scalings["before"](judged[at_train]))
        d = max(x.shape[1] for x in rows.values())
        return cls(rows, scalings, at_train, at_test, d <= WIDEST and len(at_train) > d)

    @property
    def stages(self) -> Sequence[str]:
        """Names of the stages there are."""
        return list(self.rows)

    @property
    def d(self) -> int:
        """Width of the rows before."""
        return int(self.rows["before"].shape[1])

    def train(self, stage: str, settings: Settings) -> Array:
        """Return the training rows `[n, d]`."""
        return self._read(stage, self.at_train, settings)

    def test(self, stage: str, settings: Settings) -> Array:
        """Return the test rows `[m, d]`."""
        return self._read(stage, self.at_test, settings)

    def _read(self, stage: str, at: Index, settings: Settings) -> Array:
        scaled = self.scalings[stage](self.rows[stage][at])
        if not settings.get(WHITENED):
            return scaled
        if stage not in self.whitenings:
            self.whitenings[stage] = Whitening.of(self.scalings[stage](self.rows[stage][self.at_train]))
        return self.whitenings[stage](scaled)


def _require_same_scale(scaled: Array) -> None:
    """Check that erasure has not moved rows far away: no solver would converge on them.

    Raises
    ------
    AlignmentError : they are
    """
    size = float(np.max(np.abs(scaled), initial=0.0))
    if size > FARTHEST:
        raise AlignmentError(
            f"erasing moves the rows {size:.2g} times as far as they lie apart: "
            "the eraser was fitted on rows of another size than these"
        )


@dataclass(frozen=True, eq=False)
class InnerProducts:
    """Inner products of rows with the training rows, in the eraser's kernel, in units of their spread."""

    eraser: KernelEraser
    of_train: NDArray[Any]
    """`[n, d]` training rows, as they are in the file."""
    of_test: NDArray[Any]
    stages = ("before", "after")
    can_whiten: bool = False
    spreads: dict[str, float] = field(default_factory=dict)
    """By stage, the mean squared distance of the training rows from their mean, in feature space."""

    @classmethod
    def of(cls, stages: Stages, at_train: Index, at_test: Index) -> "InnerProducts":
        """Keep the rows at some positions."""
        assert stages.kernel is not None
        return cls(stages.kernel, stages.rows[at_train], stages.rows[at_test])

    @property
    def d(self) -> int:
        """Width of the rows."""
        return int(self.of_train.shape[1])

    def train(self, stage: str, settings: Settings) -> Array:  # noqa: ARG002 (one view)
        """Return the inner products `[n, n]` of the training rows."""
        gram = self._products(stage, self.of_train)
        spread = float(np.trace(gram)) / len(gram) - float(gram.mean())
        self.spreads[stage] = spread if spread > 0 else 1.0
        return gram / self.spreads[stage]

    def test(self, stage: str, settings: Settings) -> Array:
        """Return the inner products `[m, n]` of the test rows with the training rows."""
        if stage not in self.spreads:
            self.train(stage, settings)
        return self._products(stage, self.of_test) / self.spreads[stage]

    def _products(self, stage: str, rows: NDArray[Any]) -> Array:
        if stage == "before":
            return self.eraser.kernel.gram(rows, self.of_train)
        return self.eraser.erased_gram(rows, self.of_train)
