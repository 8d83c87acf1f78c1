"""The accuracy that an attacker with more rows would reach: an extrapolated learning curve."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from salcli.data.groups import RowGroups
from salcli.data.labels import GuardedLabels, Index
from salcli.data.sampling import stratified_parts
from salcli.data.split_parts import TEST
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.attackers import attacker_of
from salcli.evaluation.attackers.base import Array
from salcli.evaluation.attackers.scores import Z95, balanced_accuracy, errors, recalls, silence_convergence_warnings
from salcli.evaluation.clusters import cluster_effect
from salcli.evaluation.forms import in_form
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.readings import reading_of
from salcli.evaluation.report import LearningCurve, LearningPoint
from salcli.evaluation.stages import Stages
from salcli.streaming.engine import map_in_threads
from salcli.streaming.progress import Progress

SHARES = (1 / 8, 1 / 4, 1 / 2)
DRAWS = 4
"""Samples of each share."""
LEAST_ROWS = 40
"""Training rows of the smallest share, below which there is no curve."""
LEAST_GROUPS = 16
"""Groups of the training rows, where they have any, below which there is no curve: two for the smallest share."""
BEYOND = 10
"""How many times the rows the curve is extrapolated to."""
POWERS = (0.25, 0.5, 1.0)
"""b of a − c n^(−b), the curves that are fitted."""
RESAMPLES = 200
FEW_DRAWS = 1.15
"""Quantile of Student's t of 9 degrees of freedom, those of the draws, over the normal one."""


def learning_curves(
    stages: Stages,
    labels: GuardedLabels,
    split: EvaluationSplit,
    results: Sequence[ProbeResult],
    seed: int,
    progress: Progress,
) -> tuple[LearningCurve, ...]:
    """Train the attacker of the largest leak, of each attribute, on parts of its rows too, with the same settings.

    Parameters
    ----------
    results : those that are judged, all of one stage

    Returns
    -------
    a curve for each guarded attribute (products have none) whose strongest attacker has rows enough
    """
    strongest: dict[str, ProbeResult] = {}
    guarded = {attribute.name for attribute in labels.attributes}
    for result in results:
        if result.attribute not in guarded:
            continue
        if result.attribute not in strongest or result.leak > strongest[result.attribute].leak:
            strongest[result.attribute] = result
    chosen = [result for result in strongest.values() if result.n_train * SHARES[0] >= LEAST_ROWS]
    if labels.groups is not None:
        chosen = [each for each in chosen if _n_groups(stages, labels, split, each) >= LEAST_GROUPS]
    found = []
    with silence_convergence_warnings(), progress.stage("learning curve", len(chosen) * _N_FITS, "fits") as advance:
        for result in chosen:
            found.append(_curve(stages, labels, split, result, seed))
            advance(_N_FITS)
    return tuple(found)


_N_FITS = len(SHARES) * DRAWS


def _n_groups(stages: Stages, labels: GuardedLabels, split: EvaluationSplit, result: ProbeResult) -> int:
    attribute = next(each for each in labels.attributes if each.name == result.attribute)
    index = stages.labels[stages.at(split.having(attribute, result.adversary, labels))]
    return len(RowGroups.of(labels, index).names)


def _groups(labels: GuardedLabels, index: Index) -> Index | None:
    return None if labels.groups is None else RowGroups.of(labels, index).codes


def _curve(
    stages: Stages, labels: GuardedLabels, split: EvaluationSplit, result: ProbeResult, seed: int
) -> LearningCurve:
    attribute = next(each for each in labels.attributes if each.name == result.attribute)
    at_train, at_test = (stages.at(split.having(attribute, name, labels)) for name in (result.adversary, TEST))
    y, true = (attribute.codes(stages.labels[at]) for at in (at_train, at_test))
    is_known = np.isin(true, y)
    at_test, true = at_test[is_known], true[is_known]
    attacker = attacker_of(result.probe)
    rows = in_form(stages.read_by(result.adversary), result.form, split.fitted)
    reading = reading_of(attacker, rows, at_train, at_test)
    x, new = (read(result.stage, result.hyperparameters) for read in (reading.train, reading.test))
    is_kernel = attacker.reads == "kernel"

    def right(draw: NDArray[np.int64]) -> float:
        if len(np.unique(y[draw])) < 2:
            return 1 / len(np.unique(true))
        among, to = (x[np.ix_(draw, draw)], new[:, draw]) if is_kernel else (x[draw], new)
        return balanced_accuracy(attacker.fit(among, y[draw], result.hyperparameters, seed).predict(to), true)

    draws = list(_draws(y, seed, _groups(labels, stages.labels[at_train])))
    values = list(map_in_threads(right, draws))
    points = []
    for i in range(len(SHARES)):
        of_share = slice(i * DRAWS, (i + 1) * DRAWS)
        n_train = round(float(np.mean([len(draw) for draw in draws[of_share]])))
        points.append(LearningPoint(n_train, tuple(values[of_share])))
    predicted = attacker.fit(x, y, result.hyperparameters, seed).predict(new)
    points.append(LearningPoint(len(y), (balanced_accuracy(predicted, true),)))
    n = BEYOND * len(y)
    expected, low, high = extrapolated(points, n, seed)
    margin = Z95 * _balanced_error(predicted, true, _groups(labels, stages.labels[at_test]))
    interval = (
        max(0.0, expected - np.hypot(expected - low, margin)),
        min(1.0, expected + np.hypot(high - expected, margin)),
    )
    about = result.attribute, result.probe, result.adversary, result.stage
    return LearningCurve(*about, tuple(points), n, expected, interval, result.form)


def _balanced_error(predicted: NDArray[np.integer], true: NDArray[np.integer], groups: Index | None) -> float:
    """Return the standard error of the balanced accuracy, of rows of which those of a group go together."""
    shares, counts = recalls(predicted, true)
    codes = np.unique(true, return_inverse=True)[1]
    effect = cluster_effect(((predicted == true) - shares[codes]) / counts[codes], groups)
    return float(errors(predicted, true)[1] * np.sqrt(effect))


def _draws(y: NDArray[np.integer], seed: int, groups: Index | None = None) -> Iterator[NDArray[np.int64]]:
    """Yield stratified samples of the rows, `DRAWS` of each share; of rows with `groups` `[n]`, whole groups."""
    strata = np.unique(y, return_inverse=True)[1].astype(np.int64)
    for place, share in enumerate(SHARES):
        for draw in range(DRAWS):
            number = seed + 100 * place + draw
            if groups is None:
                size = round(share * len(y))
                yield np.sort(stratified_parts(strata, [size / len(y)], number, sizes=[size])[0])
            else:
                yield _of_groups(strata, groups, share, number)


def _of_groups(strata: Index, groups: Index, share: float, seed: int) -> Index:
    """Return the rows `[m]` of random groups: of those with one most frequent class about a share of the rows."""
    rng, n_groups = np.random.default_rng(seed), int(groups.max()) + 1
    table = np.zeros((n_groups, int(strata.max()) + 1), np.int64)
    np.add.at(table, (groups, strata), 1)
    kinds, sizes = table.argmax(axis=1), table.sum(axis=1)
    is_drawn = np.zeros(n_groups, np.bool_)
    for kind in np.unique(kinds):
        order = rng.permutation(np.flatnonzero(kinds == kind))
        middles = np.cumsum(sizes[order]) - sizes[order] / 2  # a group counts if more than half of it is wanted
        is_drawn[order[middles <= share * sizes[order].sum()]] = True
        is_drawn[order[0]] = True
    return np.flatnonzero(is_drawn[groups])


def extrapolated(points: Sequence[LearningPoint], n: int, seed: int) -> tuple[float, float, float]:
    """Return the balanced accuracy with more rows, and its 95 % interval over draws and over the forms of the curve.

    a − c n^(−b) is fitted by least squares for each b of `POWERS`, with c ≥ 0: more rows do not harm. The result is the
    value of the best fit; the interval covers those of all forms, each with resampled draws.

    Parameters
    ----------
    points : measured, in ascending order of rows
    n : training rows
    seed : of the resampling

    Returns
    -------
    value, lower and upper bound, each 0…1
    """
    rng = np.random.default_rng(seed)
    sizes = np.array([point.n_train for point in points], float)
    means = np.array([point.mean for point in points])
    fits = [_fitted(sizes, means, n, power) for power in POWERS]
    best = min(fits, key=lambda fit: fit[1])[0]
    deviations = [value - point.mean for point in points for value in point.values]
    freedom = max(1, len(deviations) - len(points))
    spread = FEW_DRAWS * np.sqrt(np.sum(np.square(deviations)) / freedom)
    noise = np.array([spread / np.sqrt(len(point.values)) for point in points])
    drawn = means + noise * rng.standard_normal((RESAMPLES, len(points)))
    found = np.array([[_fitted(sizes, each, n, power)[0] for each in drawn] for power in POWERS])
    low, high = np.quantile(found, 0.025, axis=1).min(), np.quantile(found, 0.975, axis=1).max()
    return best, min(best, float(low)), max(best, float(high))


def _fitted(sizes: Array, means: Array, n: int, power: float) -> tuple[float, float]:
    """Return the value at n, at most 1, and the sum of squares."""
    design = np.column_stack([np.ones(len(sizes)), -(sizes**-power)])
    a, c = np.linalg.lstsq(design, means, rcond=None)[0]
    if c < 0:
        a, c = means.mean(), 0.0
    return float(np.clip(a - c * n**-power, 0, 1)), float(np.sum((design @ [a, c] - means) ** 2))
