"""The features that attackers are trained on: scaled vectors, whitened or not, or inner products of a kernel eraser."""

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

FARTHEST = 1e6  # in units of the spread of the rows before erasure
WIDEST = 2_048
"""Dimensions above which rows are not whitened, as that takes the eigenvectors of their covariance."""
LEAST_SPREAD, MOST_LEFT_OUT = 1e-13, 1e-5
"""Shares of the largest standard deviation: rounding of float64, and the most that whitening leaves out."""


class Reading(Protocol):
    """The features of training and test rows at each stage."""

    @property
    def can_whiten(self) -> bool:
        """Whether the rows can be read whitened."""

    @property
    def stages(self) -> Sequence[str]:
        """Names of the stages, in order."""

    @property
    def d(self) -> int:
        """Width of the rows."""

    def train(self, stage: str, settings: Settings) -> Array:
        """Return the training rows `[n, d]`, or their inner products `[n, n]`.

        Parameters
        ----------
        stage : before or after
        settings : of the attacker; `WHITENED` decides whether rows are whitened
        """

    def test(self, stage: str, settings: Settings) -> Array:
        """Return the test rows `[m, d]`, or their inner products `[m, n]` with the training rows.

        Parameters
        ----------
        stage : before or after
        settings : of the attacker; `WHITENED` decides whether rows are whitened
        """


def reading_of(attacker: Attacker, stages: Stages, at_train: Index, at_test: Index) -> Reading:
    """Return the features that an attacker is trained and tested on.

    Parameters
    ----------
    attacker : reads vectors or the eraser's kernel
    stages : rows before and after
    at_train, at_test : `[n]`, `[m]` positions among the rows of the stages

    Raises
    ------
    AlignmentError : erased rows are farther away than `FARTHEST`
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
    def of(cls, x: Array, dtype: np.dtype[Any] | None = None) -> "Whitening":
        """Return the whitening of rows `x` `[n, d]`, whose numbers were rounded to `dtype`; default: float64.

        Directions that vary less than such rounding are left out.

        Singular values of the rows themselves show far smaller spreads than eigenvalues of their covariance: what an
        eraser left of a direction by a strength of .999995 is read.
        """
        mean = x.mean(axis=0)
        _, sizes, directions = np.linalg.svd(np.linalg.qr(x - mean, mode="r"))
        spreads = sizes / np.sqrt(len(x))
        if not spreads[0] > 1e-150:  # equal rows keep one coordinate, as classifiers need one
            return cls(mean, directions[:1].T)
        kind = np.dtype(dtype or np.float64)  # int8 and signs are coarser than any float
        rounding = 2 * float(np.finfo(kind).eps) if kind.kind == "f" else MOST_LEFT_OUT
        least = min(max(rounding, LEAST_SPREAD), MOST_LEFT_OUT)
        is_kept = spreads > least * spreads[0]
        return cls(mean, directions[is_kept].T / spreads[is_kept])

    def __call__(self, x: Array) -> Array:
        """Return rows `x` `[m, d]` whitened, `[m, r]`."""
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
        """Return the rows of the stages, scaled as the rows before, or each by itself if the units differ.

        Parameters
        ----------
        stages : rows before and after
        at_train, at_test : `[n]`, `[m]` positions among the rows of the stages

        Raises
        ------
        AlignmentError : erased rows are farther away than `FARTHEST`
        """
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
        """Return the training rows `[n, d]` (see `Reading.train`)."""
        return self._read(stage, self.at_train, settings)

    def test(self, stage: str, settings: Settings) -> Array:
        """Return the test rows `[m, d]` (see `Reading.test`)."""
        return self._read(stage, self.at_test, settings)

    def _read(self, stage: str, at: Index, settings: Settings) -> Array:
        scaled = self.scalings[stage](self.rows[stage][at])
        if not settings.get(WHITENED):
            return scaled
        if stage not in self.whitenings:
            rows = self.rows[stage][self.at_train]
            self.whitenings[stage] = Whitening.of(self.scalings[stage](rows), rows.dtype)
        return self.whitenings[stage](scaled)


def _require_same_scale(scaled: Array) -> None:
    """Check that erased rows are no farther away than `FARTHEST`: no solver would converge on them.

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
        """Return the inner products of rows, computed when they are needed.

        Parameters
        ----------
        stages : with a kernel
        at_train, at_test : `[n]`, `[m]` positions among the rows of the stages
        """
        assert stages.kernel is not None
        return cls(stages.kernel, stages.rows[at_train], stages.rows[at_test])

    @property
    def d(self) -> int:
        """Width of the rows."""
        return int(self.of_train.shape[1])

    def train(self, stage: str, settings: Settings) -> Array:  # noqa: ARG002 (one view)
        """Return the inner products `[n, n]` of the training rows (see `Reading.train`)."""
        gram = self._products(stage, self.of_train)
        spread = float(np.trace(gram)) / len(gram) - float(gram.mean())
        self.spreads[stage] = spread if spread > 0 else 1.0
        return gram / self.spreads[stage]

    def test(self, stage: str, settings: Settings) -> Array:
        """Return the inner products `[m, n]` of the test rows with the training rows (see `Reading.test`)."""
        if stage not in self.spreads:
            self.train(stage, settings)
        return self._products(stage, self.of_test) / self.spreads[stage]

    def _products(self, stage: str, rows: NDArray[Any]) -> Array:
        if stage == "before":
            return self.eraser.kernel.gram(rows, self.of_train)
        return self.eraser.erased_gram(rows, self.of_train)
