"""What the test rows could have shown: the smallest leak that would have been found in 8 of 10 draws of test rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from salcli.data.groups import RowGroups
from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.split_parts import TEST
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attackers.scores import majority_rate, rated_classes
from salcli.evaluation.clusters import independent_rows
from salcli.evaluation.intersections import LEAST_ROWS, Product, attacked
from salcli.evaluation.json_fields import OPTIONAL
from salcli.evaluation.stages import Stages
from salcli.evaluation.text import decimal
from salcli.options import EvaluateOptions, Limit

POWER = 0.8
Codes = NDArray[np.integer]


@dataclass(frozen=True)
class Detectable:
    """The smallest true figures that one attacker, with these test rows, would be found above chance by.

    An attacker is found where the one-sided lower bound of its figure is above chance. Figures are those that are found
    with probability `POWER`, each by its own measure; None where no figure would be. Rows of a group count as if they
    were all alike, so that with groups less may be found in truth.
    """

    attribute: str
    n_test: int
    confidence: float
    """Of the one-sided bound."""
    is_numeric: bool = False
    power: float = field(default=POWER, init=False)
    accuracy: float | None = None
    """Share of the test rows that are right (exact binomial)."""
    gain: float | None = None
    """The same above the majority."""
    leak: float | None = None
    """By the AUC, or by balanced accuracy where no class has rows enough for it."""
    r2: float | None = None
    """Of a numeric attribute."""
    n_effective: float | None = field(default=None, metadata=OPTIONAL)
    """Independent rows that the test rows are worth at least, where they have groups; None: `n_test`."""


def detectable(
    stages: Stages, labels: GuardedLabels, split: EvaluationSplit, options: EvaluateOptions
) -> tuple[Detectable, ...]:
    """Return what the test rows of each attribute, and of each product of attributes, could have shown.

    Parameters
    ----------
    stages : with the rows in memory
    labels : with the guarded attributes
    split : with the test rows
    options : with `confidence` and `intersections`
    """

    def found() -> Iterator[Detectable]:
        for attribute in attacked(labels, options):
            index = _index(attribute, stages, labels, split)
            codes = attribute.codes(index)
            if isinstance(attribute, Product):
                values, counts = np.unique(codes, return_counts=True)
                is_used = np.isin(codes, values[counts >= LEAST_ROWS])
                index, codes = index[is_used], codes[is_used]
            if len(np.unique(codes)) > 1:
                yield of_classes(attribute.name, codes, options.confidence, _groups(labels, index))
        for attribute in labels.attributes:
            index = _index(attribute, stages, labels, split)
            if attribute.classes is None and len(index):
                yield of_numbers(attribute.name, len(index), options.confidence, _groups(labels, index))

    return tuple(found())


def _index(attribute: Attribute, stages: Stages, labels: GuardedLabels, split: EvaluationSplit) -> NDArray[np.int64]:
    found: NDArray[np.int64] = stages.labels[stages.at(split.having(attribute, TEST, labels))]
    return found


def _groups(labels: GuardedLabels, index: Index) -> Index | None:
    return None if labels.groups is None else RowGroups.of(labels, index).codes


def of_classes(attribute: str, codes: Codes, confidence: float, groups: Index | None = None) -> Detectable:
    """Return what test rows of these classes could have shown.

    Parameters
    ----------
    attribute : its name
    codes : `[n]` classes of the test rows, at least two
    confidence : of the one-sided bound
    groups : `[n]` the group of each row; None: all rows are independent
    """
    majority, level, n = majority_rate(codes), 1 - confidence, len(codes)
    worth = independent_rows(groups, np.ones(n, np.bool_))
    accuracy = smallest_share(majority, int(worth), level)
    gain = None if accuracy is None else accuracy - majority
    leak, n_effective = smallest_leak(codes, level, groups), worth if worth < n else None
    return Detectable(attribute, n, confidence, accuracy=accuracy, gain=gain, leak=leak, n_effective=n_effective)


def of_numbers(attribute: str, n: int, confidence: float, groups: Index | None = None) -> Detectable:
    """Return what so many test rows of a numeric attribute could have shown (see `of_classes`, `smallest_r2`)."""
    worth = n if groups is None else independent_rows(groups, np.ones(n, np.bool_))
    r2, n_effective = smallest_r2(worth, 1 - confidence), worth if worth < n else None
    return Detectable(attribute, n, confidence, is_numeric=True, r2=r2, n_effective=n_effective)


def smallest_share(chance: float, n: int, level: float) -> float | None:
    """Return the smallest share of rows that an exact binomial test distinguishes from chance with probability `POWER`.

    The test finds what has at least c right of n, where c is the smallest number with P(X ≥ c | chance) ≤ level. The
    share p has P(X ≥ c | p) = I_p(c, n − c + 1) = `POWER`.

    Parameters
    ----------
    chance : share that is right by chance
    n : test rows
    level : of the test, one-sided

    Returns
    -------
    None where not even n right of n would be found
    """
    from scipy.special import betaincinv
    from scipy.stats import binom

    least = int(binom.isf(level, n, chance)) + 1
    return None if least > n else float(betaincinv(least, n - least + 1, POWER))


def smallest_leak(codes: Codes, level: float, groups: Index | None = None) -> float | None:
    """Return the smallest leak by the AUC, (z_level + z_power) standard errors above what chance adds.

    By chance 2·AUC − 1 of a class with n₁ rows against n₀ others has a standard error of √((n₁ + n₀ + 1) / (3 n₁ n₀))
    (Mann and Whitney 1947). Of more than two classes it is averaged over them, as if they were independent, and chance
    adds √(2/π) standard errors to each. An attacker whose ROC curve is concave leaks no more by accuracy or by balanced
    accuracy. Where no class has rows enough for an AUC, balanced accuracy is used. Where rows have groups, n₁ and n₀
    are the independent rows that they are worth at least.

    Parameters
    ----------
    codes : `[n]` classes of the test rows, at least two
    level : of the one-sided bound
    groups : `[n]` the group of each row; None: all rows are independent

    Returns
    -------
    None where a leak of 1 would not be found
    """
    values = np.unique(codes)
    rated = rated_classes(codes)
    n_classes, distance = len(values), _quantile(level) + _quantile(1 - POWER)

    def worth(is_in: NDArray[np.bool_]) -> float:
        return independent_rows(groups, is_in)

    if not len(rated):  # recalls of 1 / c on average
        counts = np.array([worth(codes == value) for value in values])
        variances = (1 - 1 / n_classes) / n_classes / counts
        leak = distance * sqrt(float(variances.sum())) / n_classes / (1 - 1 / n_classes)
        return leak if leak < 1 else None
    rated = rated[:1] if n_classes == 2 else rated
    ones, others = (np.array([worth(is_in) for is_in in side]) for side in _sides(codes, rated))
    errors = np.sqrt((ones + others + 1) / (3 * ones * others))
    chance = sqrt(2 / pi) * float(errors.mean()) if len(rated) > 1 else 0.0
    leak = chance + distance * float(np.sqrt(np.sum(errors**2))) / len(rated)
    return leak if leak < 1 else None


def _sides(codes: Codes, values: NDArray[np.integer]) -> tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]]:
    """Return which rows are of each class, and which are not."""
    return [codes == value for value in values], [codes != value for value in values]


def smallest_r2(n: float, level: float) -> float | None:
    """Return the smallest R² whose lower bound is above 0 with probability `POWER`: (z + √(z² + 1))² / n.

    z is z_level + z_power. Near 0 the standard error of log(1 − R²) is 2 √(R² / n), and on average 1 / n is lost, since
    deviations are from the mean of the test rows: R² − 1/n = 2 z √(R² / n).

    Parameters
    ----------
    n : test rows, or the independent ones that they are worth
    level : of the one-sided bound

    Returns
    -------
    None where no R² would be found
    """
    distance = _quantile(level) + _quantile(1 - POWER)
    r2 = (distance + sqrt(distance**2 + 1)) ** 2 / n
    return r2 if r2 < 1 else None


def blind_spots(found: tuple[Detectable, ...], options: EvaluateOptions) -> tuple[str, ...]:
    """Return a warning for each attribute and limit that is below what the test rows could have shown.

    Parameters
    ----------
    found : of each attribute
    options : with the limits of the gates
    """
    notes = []
    for name in ("accuracy", "gain", "leak", "r2"):
        limits: tuple[Limit, ...] = getattr(options, f"max_{name}")
        least = min((limit.limit for limit in limits), default=None)
        for each in found:
            if least is None or each.is_numeric != (name == "r2"):
                continue
            smallest = getattr(each, name)
            if smallest is None or smallest > least:
                what = "no leak at all" if smallest is None else f"nothing below {decimal(smallest)}"
                alike = "" if each.n_effective is None else ", if those of a group were all alike,"
                notes.append(
                    f"{each.attribute}: {each.n_test:,} test rows{alike} could have shown {what} (power {POWER:g}), "
                    f"so they say little about `max_{name}={least:g}`"
                )
    return tuple(notes)


def _quantile(level: float) -> float:
    """Return the standard normal quantile of 1 − level."""
    from scipy.special import ndtri

    return -float(ndtri(level))
