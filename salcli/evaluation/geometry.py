"""The shape of the embeddings before and after: cosines within and between classes, and the variance removed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.cosine import PLACES, unit_rows

BLOCK_ROWS = 4096
Codes = NDArray[np.integer[Any]]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """A number before and after erasure; None where it is undefined."""

    before: float | None
    after: float | None

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {"before": self.before, "after": self.after}


@dataclass(frozen=True)
class Cluster:
    """Mean cosines over pairs of different rows, of the same class and of different classes."""

    attribute: str
    task_class: str | None
    """The class of the main task that both rows of a pair are of; None: any."""
    within: Stage
    between: Stage

    @property
    def ratio(self) -> Stage:
        """Within over between; None where that is undefined or between is 0."""
        return Stage(
            _ratio(self.within.before, self.between.before),
            _ratio(self.within.after, self.between.after),
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {
            "attribute": self.attribute,
            "task_class": self.task_class,
            "within": self.within.to_dict(),
            "between": self.between.to_dict(),
            "ratio": self.ratio.to_dict(),
        }


@dataclass(frozen=True)
class Geometry:
    """Cluster similarity of a guarded attribute, and how much variance erasure took."""

    clusters: tuple[Cluster, ...]
    """Over all rows first, then within each class of the task."""
    variance_removed: float | None

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        return {
            "clusters": [cluster.to_dict() for cluster in self.clusters],
            "variance_removed": self.variance_removed,
        }


def geometry(
    before: NDArray[Any],
    after: NDArray[Any],
    codes: Codes,
    attribute: str,
    task_codes: Codes | None = None,
    task_names: tuple[str, ...] = (),
    *,
    is_foreign: bool = False,
) -> Geometry:
    """Compare cosines within and between the classes of a guarded attribute, from sums of unit vectors.

    Rows without a class, and rows that are zero in either stage, are left out of both.

    Parameters
    ----------
    before, after : `[n, d]` and `[n, d']`
    codes : `[n]` classes of the attribute, -1: none
    attribute : its name
    task_codes : `[n]` positions in `task_names`, -1: none; each class of the task is then looked at by itself too
    is_foreign : the rows after may be in units of their own, in which they do not vary more or less than those before
    """
    n_classes = int(codes.max(initial=-1)) + 1
    tasks = np.full(len(codes), -1) if task_codes is None else task_codes.astype(np.int64)
    groups = np.where(codes >= 0, (tasks + 1) * n_classes + codes, -1)
    sums, counts = _unit_sums(before, after, groups, (len(task_names) + 1) * n_classes)
    shape = (len(task_names) + 1, n_classes)
    stages = [each.reshape(*shape, each.shape[1]) for each in sums]
    n_rows = counts.reshape(shape)
    clusters = [_cluster(attribute, None, [each.sum(axis=0) for each in stages], n_rows.sum(axis=0))]
    for i, name in enumerate(task_names, 1):
        clusters.append(_cluster(attribute, name, [each[i] for each in stages], n_rows[i]))
    return Geometry(tuple(clusters), None if is_foreign else variance_removed(before, after))


def variance_removed(before: NDArray[Any], after: NDArray[Any]) -> float | None:
    """Give 1 − tr cov(after) / tr cov(before) over all rows.

    Negative if erasure added variance. None if nothing varied before, and if the widths differ: other coordinates may
    be on another scale, which makes the traces incomparable.
    """
    if before.shape[1] != after.shape[1] or not before.size:
        return None
    unit = max(abs(float(edge)) for x in (before, after) for edge in (x.min(), x.max()))
    if unit == 0:
        return None
    total = _scatter(before, unit)
    return 1 - _scatter(after, unit) / total if total > 0 else None


def _scatter(x: NDArray[Any], unit: float) -> float:
    """Sum squared distances from the mean; `unit` is taken out first, so that no square overflows."""
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(x), BLOCK_ROWS)]
    origin = x[0].astype(np.float64) / unit  # equal rows then vary by exactly nothing
    mean = sum((x[at].astype(np.float64) / unit - origin).sum(axis=0) for at in blocks) / len(x)
    return float(sum(np.sum((x[at].astype(np.float64) / unit - origin - mean) ** 2) for at in blocks))


def _unit_sums(
    before: NDArray[Any], after: NDArray[Any], groups: NDArray[np.int64], n_groups: int
) -> tuple[tuple[Array, Array], NDArray[np.int64]]:
    """Sum unit vectors by group: `[g, d]` and `[g, d']`, and count them."""
    sums = np.zeros((n_groups, before.shape[1])), np.zeros((n_groups, after.shape[1]))
    counts = np.zeros(n_groups, dtype=np.int64)
    for start in range(0, len(groups), BLOCK_ROWS):
        at = slice(start, start + BLOCK_ROWS)
        (one, is_one), (other, is_other) = unit_rows(before[at]), unit_rows(after[at])
        is_used = is_one & is_other & (groups[at] >= 0)
        used = groups[at][is_used]
        np.add.at(sums[0], used, one[is_used])
        np.add.at(sums[1], used, other[is_used])
        counts += np.bincount(used, minlength=n_groups)
    return sums, counts


def _cluster(attribute: str, task_class: str | None, sums: list[Array], counts: NDArray[np.int64]) -> Cluster:
    means = [_mean_cosines(each, counts) for each in sums]
    within, between = (Stage(*pair) for pair in zip(*means, strict=True))
    return Cluster(attribute, task_class, within, between)


def _mean_cosines(sums: Array, counts: NDArray[np.int64]) -> tuple[float | None, float | None]:
    """Average within and between classes: |Σu|² holds the cosine of every pair twice, and of each row with itself."""
    n = int(counts.sum())
    own = float(np.sum(sums**2))
    n_same, n_within = int(np.sum(counts**2)), int(np.sum(counts * (counts - 1)))
    between = float(np.sum(sums.sum(axis=0) ** 2)) - own
    return _mean(own - n, n_within), _mean(between, n * n - n_same)


def _mean(total: float, n_pairs: int) -> float | None:
    return round(total / n_pairs, PLACES) if n_pairs else None


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other
