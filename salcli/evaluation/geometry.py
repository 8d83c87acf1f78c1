"""The shape of the embeddings before and after: cosines within and between classes, and the variance removed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.cosine import PLACES, unit_rows
from salcli.evaluation.section import Row, Section, Table, filled, names, numbers
from salcli.evaluation.text import decimal, interval, percent, visible

BLOCK_ROWS = 4096
MANY_ROWS = 12
"""Rows of the table above which it is folded."""
MOST_CLASSES = 8
"""Classes of an attribute above which pairs of classes are not listed one by one."""
FEW_ROWS = 10
"""Rows of a class below which its mean cosines have no interval."""
STAGES = ("before", "after")
Codes = NDArray[np.integer[Any]]
Index = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A number before and after erasure; None where it is undefined."""

    before: float | None
    after: float | None


@dataclass(frozen=True)
class ClassPair:
    """ρ of two classes: the mean cosine over pairs of rows, one of either class (Shao et al. 2023, figure 1)."""

    classes: tuple[str, str]
    """Twice the same: pairs of different rows of that class."""
    n: int
    """Pairs of rows, at least one."""
    before: float
    after: float
    ci95: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By stage: interval of the mean, over draws of other rows; none where a class has fewer than `FEW_ROWS`."""


@dataclass(frozen=True)
class Cluster:
    """Mean cosines over pairs of different rows, of the same class and of different classes."""

    attribute: str
    task_class: str | None
    """The class of the main task that both rows of a pair have; None: any."""
    within: Change
    between: Change
    pairs: tuple[ClassPair, ...] = ()
    """Of every two classes that have pairs of rows; empty for more than `MOST_CLASSES` classes."""


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
            codes, classes = attribute.codes(index), attribute.classes or ()
            found += clusters(before, after, codes, attribute.name, classes, task_codes, task_names)
        # the variances of rows in different units cannot be compared
        return Geometry(tuple(found), None if stages.is_foreign else variance_removed(before, after))

    def section(self, record: Geometry) -> Section:
        """Return the clusters of each attribute (see `Measure.section`)."""
        sentences = []
        if record.variance_removed is not None:
            sentences.append(f"Erasure removes {percent(record.variance_removed)} of the variance.")
        sentences.append(
            "ρ is the mean cosine of pairs of rows, of the same class and of different classes (larger is nearer). "
            "Where pairs of one class are nearer than pairs of different ones, the classes form clusters."
        )
        columns = (
            *names("attribute", "task class", "pairs of"),
            *numbers("ρ before", "ρ after"),
            *numbers("95% interval before", "after", are_spare=True),
        )
        rows = tuple(row for cluster in record.clusters for row in _rows(cluster))
        caption = "Clusters of the attribute's classes: mean cosine ρ"
        table = Table(caption, columns, rows, is_detail=len(rows) > MANY_ROWS)
        return Section(self.name, "Geometry", (" ".join(sentences),), filled([table]))


GEOMETRY = ClassGeometry()


def pair_name(classes: tuple[str, str]) -> str:
    """Return the name of a pair of `classes` as readers see it."""
    return " × ".join(map(visible, classes))


def _rows(cluster: Cluster) -> Iterator[Row]:
    """Yield the means of pairs of classes, after the two that sum them up where there are more than two classes."""
    start = visible(cluster.attribute), "all" if cluster.task_class is None else visible(cluster.task_class)
    if len({name for pair in cluster.pairs for name in pair.classes}) not in (1, 2):
        for name, mean in (("the same class", cluster.within), ("different classes", cluster.between)):
            if mean.before is not None:
                yield (*start, name, decimal(mean.before), decimal(mean.after), interval(None), interval(None))
    for pair in cluster.pairs:
        bounds = (interval(pair.ci95.get(stage)) for stage in STAGES)
        yield (*start, pair_name(pair.classes), decimal(pair.before), decimal(pair.after), *bounds)


def clusters(
    before: NDArray[Any],
    after: NDArray[Any],
    codes: Codes,
    attribute: str,
    class_names: Sequence[str],
    task_codes: Codes | None = None,
    task_names: Sequence[str] = (),
) -> tuple[Cluster, ...]:
    """Return mean cosines within and between the classes of a guarded attribute, from sums of unit vectors.

    Rows without a class, and rows that are zero in either stage, are left out of both.

    Parameters
    ----------
    before, after : `[n, d]` and `[n, d']`
    codes : `[n]` positions in `class_names`, -1: none
    attribute : its name
    class_names : of its classes
    task_codes : `[n]` positions in `task_names`, -1: none; each class of the task is then measured by itself too
    task_names : of the classes of the task
    """
    n_classes = len(class_names)
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
        within, between = (Change(*pair) for pair in zip(*(_mean_cosines(each, n) for each in totals), strict=True))
        pairs: tuple[ClassPair, ...] = ()
        if n_classes <= MOST_CLASSES:
            rows = np.flatnonzero(is_in & (codes >= 0))
            pairs = _class_pairs((before, after), rows, codes, class_names, totals, n)
        found.append(Cluster(attribute, name, within, between, pairs))
    return tuple(found)


def _class_pairs(
    stages: tuple[NDArray[Any], NDArray[Any]],
    rows: Index,
    codes: Codes,
    class_names: Sequence[str],
    sums: list[Array],
    n: Index,
) -> tuple[ClassPair, ...]:
    """Return the mean cosine of every two classes that have pairs of rows, with its interval.

    The mean is a U-statistic, whose error is found by leaving out each row in turn (jackknife, Arvesen 1969): what
    counts is its mean cosine with the (other) rows of the other class. t quantiles, by the rows of the smaller class.
    """
    n_pairs = np.outer(n, n) - np.diag(n)  # those within a class twice
    means = [_ratios(each @ each.T - np.diag(n), n_pairs) for each in sums]
    squares = [np.zeros((len(n), len(n))) for _ in sums]  # what rows of class i deviate from the mean of (i, j)
    for start in range(0, len(rows), BLOCK_ROWS):
        at = rows[start : start + BLOCK_ROWS]
        units = [unit_rows(x[at]) for x in stages]
        is_used = units[0][1] & units[1][1]
        own = codes[at][is_used]
        others = n - np.eye(len(n), dtype=np.int64)[own]
        for (unit, _), total, mean, square in zip(units, sums, means, squares, strict=True):
            products = unit[is_used] @ total.T
            products[np.arange(len(own)), own] -= 1  # each row with itself
            np.add.at(square, own, (_ratios(products, others) - mean[own]) ** 2)
    errors = []
    for square in squares:
        across, within = _ratios(square, (n * (n - 1))[:, None]), np.diag(square) * (n - 1) * 4
        errors.append(np.sqrt(across + across.T))
        np.fill_diagonal(errors[-1], np.sqrt(_ratios(within, n * (n - 2) ** 2)))
    found = []
    for i, j in combinations_with_replacement(range(len(n)), 2):
        if n_pairs[i, j] == 0:
            continue
        smaller = int(min(n[i], n[j]))
        rho = {stage: float(mean[i, j]) for stage, mean in zip(STAGES, means, strict=True)}
        bounds = {
            stage: _interval(rho[stage], float(error[i, j]), smaller)
            for stage, error in zip(STAGES, errors, strict=True)
            if smaller >= FEW_ROWS
        }
        n_each = int(n_pairs[i, j]) // (2 if i == j else 1)
        before_after = round(rho["before"], PLACES), round(rho["after"], PLACES)
        found.append(ClassPair((class_names[i], class_names[j]), n_each, *before_after, bounds))
    return tuple(found)


def _interval(mean: float, error: float, n: int) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, 0.975)) * error
    return round(mean - half, PLACES), round(mean + half, PLACES)


def _ratios(totals: Array, n: Index) -> Array:
    """Return totals over numbers, 0 where there is nothing."""
    return np.divide(totals, n, out=np.zeros(totals.shape), where=np.broadcast_to(n, totals.shape) > 0)


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


def _mean_cosines(sums: Array, counts: NDArray[np.int64]) -> tuple[float | None, float | None]:
    """Return means within and between classes: |Σu|² has the cosine of each pair twice, and of each row with itself."""
    n = int(counts.sum())
    own = float(np.sum(sums**2))
    n_same, n_within = int(np.sum(counts**2)), int(np.sum(counts * (counts - 1)))
    between = float(np.sum(sums.sum(axis=0) ** 2)) - own
    return _mean(own - n, n_within), _mean(between, n * n - n_same)


def _mean(total: float, n_pairs: int) -> float | None:
    return round(total / n_pairs, PLACES) if n_pairs else None
