"""The shape of the embeddings before and after: cosines within and between classes, and the variance removed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.cosine import PLACES, unit_rows
from salcli.evaluation.section import Section, Table, filled, names, numbers
from salcli.evaluation.text import decimal, percent, visible

BLOCK_ROWS = 4096
MANY_ROWS = 12
"""Rows of the table above which it is folded."""
Z = 1.96
Codes = NDArray[np.integer[Any]]
Index = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A number before and after erasure; None where it is undefined."""

    before: float | None
    after: float | None


@dataclass(frozen=True)
class Cluster:
    """Mean cosines over pairs of different rows, of the same class and of different classes."""

    attribute: str
    task_class: str | None
    """The class of the main task that both rows of a pair have; None: any."""
    within: Change
    between: Change
    between_ci95: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By stage: interval of the mean between classes, over draws of other rows."""
    ratio: Change = field(init=False)
    """Within over between; None where that is undefined, or where the interval of between holds 0."""

    def __post_init__(self) -> None:
        ratios = {
            stage: None if low <= 0 <= high else _ratio(getattr(self.within, stage), getattr(self.between, stage))
            for stage in ("before", "after")
            for low, high in [self.between_ci95.get(stage, (1.0, 1.0))]
        }
        object.__setattr__(self, "ratio", Change(**ratios))

    @property
    def has_no_ratio(self) -> bool:
        """Whether a ratio is left out because of the interval of its denominator."""
        return any(low <= 0 <= high for low, high in self.between_ci95.values())


@dataclass(frozen=True)
class Geometry:
    """Cluster similarity of guarded attributes, and the share of the variance that erasure removed."""

    clusters: tuple[Cluster, ...]
    """Of each attribute over all rows first, then within each class of the task."""
    variance_removed: float | None


class ClassGeometry(Measure[Geometry]):
    """Cosines within and between classes on the test rows, and the variance removed."""

    name: ClassVar[str] = "geometry"

    def run(self, rows: BeforeAfter) -> Geometry | None:
        """Return the geometry; None where nothing was erased, or no attribute has classes (see `Measure.run`)."""
        stages, task = rows.stages, rows.labels.task
        if stages.after is None or not rows.classified:
            return None
        at = stages.at(rows.plan.test)
        before, after, index = stages.before[at], stages.after[at], stages.labels[at]
        task_codes, task_names = (None, ()) if task is None else (task.codes(index), task.classes or ())
        found: list[Cluster] = []
        for attribute in rows.classified:
            found += clusters(before, after, attribute.codes(index), attribute.name, task_codes, task_names)
        # the variances of rows in different units cannot be compared
        return Geometry(tuple(found), None if stages.is_foreign else variance_removed(before, after))

    def section(self, record: Geometry) -> Section:
        """Return the clusters of each attribute (see `Measure.section`)."""
        sentences = []
        if record.variance_removed is not None:
            sentences.append(f"Erasure removes {percent(record.variance_removed)} of the variance.")
        sentences.append(
            "Mean cosines of pairs of rows within a class and of different classes (larger is nearer), and their "
            "ratio: the nearer they are to each other, the less the classes form clusters."
        )
        if any(cluster.has_no_ratio for cluster in record.clusters):
            sentences.append("There is no ratio where the interval of the mean between classes holds 0.")
        kinds = ("within", "between", "ratio")
        rows = tuple(
            (
                visible(cluster.attribute),
                "all" if cluster.task_class is None else visible(cluster.task_class),
                *(
                    decimal(value)
                    for change in (cluster.within, cluster.between, cluster.ratio)
                    for value in (change.before, change.after)
                ),
            )
            for cluster in record.clusters
        )
        columns = (
            *names("attribute", "task class"),
            *numbers(*(f"{kind} {stage}" for kind in kinds for stage in ("before", "after"))),
        )
        caption = "Clusters of the attribute's classes"
        table = Table(caption, columns, rows, is_detail=len(rows) > MANY_ROWS)
        return Section(self.name, "Geometry", (" ".join(sentences),), filled([table]))


GEOMETRY = ClassGeometry()


def clusters(
    before: NDArray[Any],
    after: NDArray[Any],
    codes: Codes,
    attribute: str,
    task_codes: Codes | None = None,
    task_names: tuple[str, ...] = (),
) -> tuple[Cluster, ...]:
    """Return mean cosines within and between the classes of a guarded attribute, from sums of unit vectors.

    Rows without a class, and rows that are zero in either stage, are left out of both.

    Parameters
    ----------
    before, after : `[n, d]` and `[n, d']`
    codes : `[n]` classes of the attribute, -1: none
    attribute : its name
    task_codes : `[n]` positions in `task_names`, -1: none; each class of the task is then measured by itself too
    task_names : names of the classes of the task
    """
    n_classes = int(codes.max(initial=-1)) + 1
    tasks = np.full(len(codes), -1) if task_codes is None else task_codes.astype(np.int64)
    groups = np.where(codes >= 0, (tasks + 1) * n_classes + codes, -1)
    sums, counts = _unit_sums(before, after, groups, (len(task_names) + 1) * n_classes)
    shape = (len(task_names) + 1, n_classes)
    stages = [each.reshape(*shape, each.shape[1]) for each in sums]
    n_rows = counts.reshape(shape)
    parts: list[tuple[str | None, list[Array], Index, NDArray[np.bool_]]] = [
        (None, [each.sum(axis=0) for each in stages], n_rows.sum(axis=0), np.ones(len(codes), bool))
    ]
    parts += [(name, [each[i] for each in stages], n_rows[i], tasks == i - 1) for i, name in enumerate(task_names, 1)]
    found = []
    for name, totals, n, is_in in parts:
        used = is_in & (codes >= 0)
        errors = _between_errors((before, after), used, codes, totals, n)
        found.append(_cluster(attribute, name, totals, n, errors))
    return tuple(found)


def _between_errors(
    stages: tuple[NDArray[Any], NDArray[Any]], is_used: NDArray[np.bool_], codes: Codes, sums: list[Array], n: Index
) -> list[float]:
    """Return the standard error of the mean cosine between classes at both stages.

    The mean is a U-statistic: its error is that of the mean over rows of what each row adds, its mean cosine with the
    rows of other classes (Hoeffding 1948), class by class.
    """
    rows, total = np.flatnonzero(is_used), int(n.sum())
    others = total - n
    n_pairs = int(np.sum(n * others))
    if not n_pairs or not len(rows):
        return [0.0, 0.0]
    added = [np.zeros(len(rows)) for _ in sums]
    is_nonzero = np.zeros(len(rows), bool)
    for start in range(0, len(rows), BLOCK_ROWS):
        at = slice(start, start + BLOCK_ROWS)
        own = codes[rows[at]]
        units = [unit_rows(x[rows[at]]) for x in stages]
        is_nonzero[at] = units[0][1] & units[1][1]
        for stage, (each, _) in enumerate(units):
            rest = sums[stage].sum(axis=0) - sums[stage]
            added[stage][at] = np.einsum("nd,nd->n", each, rest[own])
    kept = codes[rows[is_nonzero]]
    return [_spread(each[is_nonzero], kept, n_pairs) for each in added]


def _spread(added: Array, codes: Codes, n_pairs: int) -> float:
    """Return the standard error from the contribution of each row to the sum over pairs, about its class mean."""
    n = np.bincount(codes)
    means = np.bincount(codes, added) / np.maximum(n, 1)
    return float(2 * np.sqrt(np.sum((added - means[codes]) ** 2)) / n_pairs)


def variance_removed(before: NDArray[Any], after: NDArray[Any]) -> float | None:
    """Return 1 − tr cov(after) / tr cov(before) over all rows, negative if erasure added variance.

    None if nothing varied before, and if the widths differ: other coordinates may be on another scale, which makes the
    traces incomparable.

    Parameters
    ----------
    before : `[n, d]`
    after : `[n, d']`
    """
    if before.shape[1] != after.shape[1] or not before.size:
        return None
    unit = max(abs(float(edge)) for x in (before, after) for edge in (x.min(), x.max()))
    if unit == 0:
        return None
    total = _scatter(before, unit)
    return 1 - _scatter(after, unit) / total if total > 0 else None


def _scatter(x: NDArray[Any], unit: float) -> float:
    """Return the sum of squared distances from the mean; values are divided by `unit`, so that no square overflows."""
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(x), BLOCK_ROWS)]
    origin = x[0].astype(np.float64) / unit  # equal rows then vary by exactly nothing
    mean = sum((x[at].astype(np.float64) / unit - origin).sum(axis=0) for at in blocks) / len(x)
    return float(sum(np.sum((x[at].astype(np.float64) / unit - origin - mean) ** 2) for at in blocks))


def _unit_sums(
    before: NDArray[Any], after: NDArray[Any], groups: NDArray[np.int64], n_groups: int
) -> tuple[tuple[Array, Array], NDArray[np.int64]]:
    """Return sums of unit vectors by group, `[g, d]` and `[g, d']`, and the number of rows of each group."""
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


def _cluster(
    attribute: str, task_class: str | None, sums: list[Array], counts: NDArray[np.int64], errors: list[float]
) -> Cluster:
    means = [_mean_cosines(each, counts) for each in sums]
    within, between = (Change(*pair) for pair in zip(*means, strict=True))
    bounds = {
        stage: (round(mean - Z * error, PLACES), round(mean + Z * error, PLACES))
        for stage, (_, mean), error in zip(("before", "after"), means, errors, strict=True)
        if mean is not None
    }
    return Cluster(attribute, task_class, within, between, bounds)


def _mean_cosines(sums: Array, counts: NDArray[np.int64]) -> tuple[float | None, float | None]:
    """Return means within and between classes: |Σu|² has the cosine of each pair twice, and of each row with itself."""
    n = int(counts.sum())
    own = float(np.sum(sums**2))
    n_same, n_within = int(np.sum(counts**2)), int(np.sum(counts * (counts - 1)))
    between = float(np.sum(sums.sum(axis=0) ** 2)) - own
    return _mean(own - n, n_within), _mean(between, n * n - n_same)


def _mean(total: float, n_pairs: int) -> float | None:
    return round(total / n_pairs, PLACES) if n_pairs else None


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other
