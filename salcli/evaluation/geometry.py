"""Cluster similarity: cosines within and between classes, before and after erasure, without an n×n matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Geometry:
    """How the classes of one attribute lie, and how much of the variance is gone."""

    clusters: tuple[dict[str, Any], ...]
    """Over all rows, then within each class of the main task."""
    variance_removed: float | None
    """1 − tr cov(after) / tr cov(before); None where there is no variance before, or the widths differ."""

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {"clusters": list(self.clusters), "variance_removed": self.variance_removed}


def geometry(
    before: Floats,
    after: Floats,
    codes: Codes,
    attribute: str,
    task_codes: Codes | None = None,
    task_names: Sequence[str] = (),
) -> Geometry:
    """Compare mean cosines within classes and between them.

    Parameters
    ----------
    before, after : `[n, d]`, `[n, d']`; zero rows are left out
    codes : `[n]` classes of the attribute, −1 where there is none: such rows are left out
    task_codes, task_names : classes of the main task, within each of which clusters are looked at too
    """
    parts: list[tuple[str | None, Any]] = [(None, codes >= 0)]
    if task_codes is not None:
        parts += [(name, (codes >= 0) & (task_codes == i)) for i, name in enumerate(task_names)]
    clusters = []
    for name, chosen in parts:
        found = {stage: _cosines(x[chosen], codes[chosen]) for stage, x in (("before", before), ("after", after))}
        columns = {
            column: {stage: values[i] for stage, values in found.items()}
            for i, column in enumerate(("within", "between", "ratio"))
        }
        clusters.append({"attribute": attribute, "task_class": name, **columns})
    return Geometry(tuple(clusters), _variance_removed(before, after))


def _cosines(x: Floats, codes: Codes) -> tuple[float | None, float | None, float | None]:
    """Give the mean cosine of different rows within a class, of rows of different classes, and their ratio.

    Sums of unit vectors are enough: Σᵢⱼ uᵢᵀuⱼ = ‖Σ uᵢ‖².
    """
    is_there = x.any(axis=1)
    unit = x[is_there].astype(np.float64)
    unit /= np.abs(unit).max(axis=1, initial=0.0, keepdims=True)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    _, at, sizes = np.unique(codes[is_there], return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), x.shape[1]))
    np.add.at(sums, at, unit)
    within_total = float(np.sum(sums**2)) - float(sizes.sum())
    n_within = float(np.sum(sizes * (sizes - 1.0)))
    between_total = float(np.sum(sums.sum(axis=0) ** 2) - np.sum(sums**2))
    n_between = float(sizes.sum()) ** 2 - float(np.sum(sizes.astype(np.float64) ** 2))
    within = within_total / n_within if n_within else None
    between = between_total / n_between if n_between else None
    ratio = within / between if within is not None and between else None
    return within, between, ratio


def _variance_removed(before: Floats, after: Floats) -> float | None:
    if before.shape[1] != after.shape[1] or not len(before):
        return None
    powers = [float(np.var(x.astype(np.float64), axis=0).sum()) for x in (before, after)]
    return 1 - powers[1] / powers[0] if powers[0] else None
