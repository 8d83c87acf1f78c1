"""How far covariances are shrunk: chosen by the worst of several readers on rows that the map was not fitted on.

Too little, and the map itself writes the class into the rows; too much, and it does nothing. No reader alone sees both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.base import Eraser
from salcli.erasers.transport.gaussians import IDENTITY, POOLED, Shrinkage
from salcli.erasers.transport.readers import readings
from salcli.streaming.memory import release_freed_memory
from salcli.streaming.progress import Progress

CANDIDATES = (
    *(Shrinkage(share, POOLED) for share in (1.0, 0.6, 0.3)),
    *(Shrinkage(share, IDENTITY) for share in (0.6, 0.4, 0.2, 0.1, 0.05)),
)
"""Gentle ones first, the first of which moves class means alone: of equals the first is taken."""


@dataclass(frozen=True)
class Trial:
    """What readers read of held-out rows after a map."""

    shrinkage: Shrinkage
    readings: dict[str, float]
    """Balanced accuracy by reader."""

    @property
    def worst(self) -> float:
        """The most that any of them reads."""
        return max(self.readings.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**self.shrinkage.to_dict(), **{name: round(value, 4) for name, value in self.readings.items()}}


def try_all(
    fit: Callable[[Shrinkage], Eraser],
    x: NDArray[Any],
    codes: NDArray[np.int64],
    n_classes: int,
    progress: Progress,
    candidates: Sequence[Shrinkage] = CANDIDATES,
) -> tuple[Trial, ...]:
    """Return what readers read after the map of each candidate.

    Parameters
    ----------
    fit : a map to other rows
    x : `[n, d]` held-out rows, in a random order
    codes : `[n]` class of each
    n_classes : c
    progress : shows the stage
    candidates : shrinkages, gentle ones first
    """

    def tried(shrinkage: Shrinkage) -> Trial:
        release_freed_memory()  # of other stages, also before readers
        moved = fit(shrinkage)(x, dtype=np.float32)
        release_freed_memory()
        return Trial(shrinkage, readings(moved, codes, n_classes))

    trials = []
    with progress.stage("choose shrinkage", len(candidates), "maps") as advance:
        for shrinkage in candidates:  # on one thread: LAPACK holds the GIL, and each takes a dozen matrices
            trials.append(tried(shrinkage))
            advance(1)
    return tuple(trials)


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the one of the `trials` whose worst classifier is least accurate, of equals the first."""
    return min(trials, key=lambda trial: trial.worst)
