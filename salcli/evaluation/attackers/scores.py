"""Accuracy, recall and area under the ROC curve of predictions and scores, with their standard errors."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, Index
from salcli.evaluation.attackers.base import Array

Z95 = 1.959963984540054  # standard normal quantile of .975
LEAST_ROWS = 10
"""Fewest test rows of a class, and of all other classes, for an AUC of it."""
Classes = NDArray[Any]


@dataclass(frozen=True)
class Areas:
    """Areas under ROC curves of each class against the rest, averaged."""

    mean: float
    """Macro average."""
    error: float
    """Standard error of `mean`."""
    strength: float
    """Mean of |2 AUC − 1|: how far the areas are from chance, on either side."""
    strength_error: float
    chance: float
    """What `strength` would be on average if no class could be read."""


def wilson(n_right: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of the share of `n_right` among `n` rows (Wilson 1927): 0…1 if `n` is 0."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = n_right / n, Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def within_0_1(share: float, error: float) -> tuple[float, float] | None:
    """Return the 95 % interval, clipped to 0…1, of `share` with standard error `error`; None if that is not finite."""
    return (max(0.0, share - Z95 * error), min(1.0, share + Z95 * error)) if np.isfinite(error) else None


def recalls(predicted: Classes, true: Classes) -> tuple[Array, Array]:
    """Return the recall of each class.

    Parameters
    ----------
    predicted, true : `[m]` classes

    Returns
    -------
    recalls `[c]` of the classes that occur in `true`, ascending, and their numbers of rows `[c]`
    """
    values, counts = np.unique(true, return_counts=True)
    return np.array([np.mean(predicted[true == value] == value) for value in values]), counts.astype(np.float64)


def balanced_accuracy(predicted: Classes, true: Classes) -> float:
    """Return the mean recall over the classes that occur in `true` (`predicted` and `true`: `[m]` classes)."""
    return float(np.mean(recalls(predicted, true)[0]))


def errors(predicted: Classes, true: Classes) -> tuple[float, float]:
    """Return the standard errors of the accuracy and of the balanced accuracy, for fixed numbers of rows of each class.

    Each class is given two rows more, one of them right (Agresti and Coull 1998), so that few rows that are all right
    prove little. Where every row is predicted to be of the most frequent class, the accuracy hardly varies.

    Parameters
    ----------
    predicted, true : `[m]` classes
    """
    shares, counts = recalls(predicted, true)
    shares = (shares * counts + 1) / (counts + 2)
    variances = shares * (1 - shares) / (counts + 2)
    of_all = counts / counts.sum()
    return float(np.sqrt(np.sum(of_all**2 * variances))), float(np.sqrt(np.sum(variances)) / len(counts))


def rated_classes(true: Classes) -> Classes:
    """Return the classes of `true` `[m]` with `LEAST_ROWS` rows or more, and as many of other classes."""
    values, counts = np.unique(true, return_counts=True)
    found: Classes = values[(counts >= LEAST_ROWS) & (len(true) - counts >= LEAST_ROWS)]
    return found


@dataclass(frozen=True, eq=False)
class Answers:
    """One attacker's predictions of its test rows."""

    labels: Index
    """`[m]` which labels."""
    true: Classes
    """`[m]`"""
    predicted: Classes
    """`[m]`"""
    scores: Array
    """`[m]` for two classes, or `[m, c]`, as `Classifier.decision` returns them."""
    classes: Classes
    """`[c]` the classes that were trained on, ascending."""
    names: tuple[str, ...]
    """Of all classes, by their codes."""


def areas(scores: Array, true: Classes, classes: Classes) -> Areas | None:
    """Return areas under the ROC curves with the standard error of DeLong et al. (1988) of their mean.

    Parameters
    ----------
    scores : `[m]` for two classes, or `[m, c]`, as `Classifier.decision` returns them
    true : `[m]` classes
    classes : `[c]` the classes of the training rows, ascending

    Returns
    -------
    None where no class has enough rows
    """
    return pooled_areas([(scores, true, classes)])


def pooled_areas(
    parts: Sequence[tuple[Array, Classes, Classes]], effect: Callable[[Array], float] = lambda _: 1.0
) -> Areas | None:
    """Return areas of the rows of several attackers, whose scores are compared among the rows of each alone.

    Parameters
    ----------
    parts : of each attacker scores, true classes and trained classes (see `areas`)
    effect : returns how much larger the variance is than that of independent rows, by how much each row moves an area
        `[m]`

    Returns
    -------
    None where no class has enough rows
    """
    true, trained = np.concatenate([t for _, t, _ in parts]), np.unique(np.concatenate([c for *_, c in parts]))
    rated = rated_classes(true)
    if len(trained) == 2:
        rated = rated[rated == trained[1]]
    found, influences, spreads = [], [], []
    for value in rated:
        pairs = np.array([_n_pairs(t, c, value) for _, t, c in parts], np.float64)
        if not pairs.any():
            continue
        weights = (pairs / pairs.sum()).tolist()
        each = [
            _area(_scores_of(s, c, value), t == value) if weight else (0.0, np.zeros(len(t)))
            for weight, (s, t, c) in zip(weights, parts, strict=True)
        ]
        influence = np.concatenate([weight * moved for weight, (_, moved) in zip(weights, each, strict=True)])
        found.append(sum(weight * area for weight, (area, _) in zip(weights, each, strict=True)))
        influences.append(influence)
        spreads.append(np.sqrt(effect(influence) * _variance(influence)))
    if not found:
        return None
    mean = np.mean(influences, axis=0)
    mean_error = np.sqrt(effect(mean) * _variance(mean))
    signs = [1.0 if area >= 0.5 else -1.0 for area in found]
    signed = np.mean([s * i for s, i in zip(signs, influences, strict=True)], axis=0)
    strength_error = 2 * np.sqrt(effect(signed) * _variance(signed))
    chance = 2 * np.sqrt(2 / np.pi) * float(np.mean(spreads)) if len(found) > 1 else 0.0
    strength = float(np.mean([abs(2 * area - 1) for area in found]))
    return Areas(float(np.mean(found)), float(mean_error), strength, float(strength_error), chance)


def _n_pairs(true: Classes, classes: Classes, value: Any) -> int:
    """Return how many pairs of a row of a class and another row there are, if the class was trained on."""
    n_in = int(np.sum(true == value))
    return n_in * (len(true) - n_in) if value in classes else 0


def _scores_of(scores: Array, classes: Classes, value: Any) -> Array:
    if scores.ndim > 1:
        return scores[:, int(np.searchsorted(classes, value))]
    return scores if value == classes[1] else -scores


def _variance(influence: Array) -> float:
    # A perfect curve has no spread: as if one row more were wrong.
    return float(np.sum(influence**2)) + 1 / len(influence) ** 2


def _area(scores: Array, is_of: NDArray[np.bool_]) -> tuple[float, Array]:
    """Return the area under the curve, and by how much each row moves it `[m]`."""
    inside, outside = np.sort(scores[is_of]), np.sort(scores[~is_of])

    def below(sorted_: Array, values: Array) -> Array:
        both = np.searchsorted(sorted_, values, "left") + np.searchsorted(sorted_, values, "right")
        shares: Array = both / (2 * len(sorted_))
        return shares

    area = float(below(outside, scores[is_of]).mean())
    influence = np.empty(len(scores))
    influence[is_of] = (below(outside, scores[is_of]) - area) / len(inside)
    influence[~is_of] = (1 - below(inside, scores[~is_of]) - area) / len(outside)
    return area, influence


def r_squared(predicted: Array, true: Array) -> float:
    """Return 1 − mean squared error of `predicted` / variance of `true`, both `[n]`; 0 where `true` is constant."""
    spread = float(np.sum((true - true.mean()) ** 2))
    return 1 - float(np.sum((true - predicted) ** 2)) / spread if spread > 0 else 0.0


def majority_rate(true: Classes) -> float:
    """Return the share of the most frequent class of `true` `[m]`."""
    return float(np.unique(true, return_counts=True)[1].max() / len(true))


def class_counts(attribute: Attribute, codes: Classes) -> dict[str, int]:
    """Return the number of rows of each class that occurs, by its name.

    Parameters
    ----------
    attribute : its classes have the names
    codes : `[n]` positions in `attribute.classes`
    """
    found, counts = np.unique(codes, return_counts=True)
    return {(attribute.classes or ())[code]: n for code, n in zip(found.tolist(), counts.tolist(), strict=True)}


@contextmanager
def silence_convergence_warnings() -> Iterator[None]:
    """Ignore scikit-learn's warnings of each fit: results have `converged`, and many classes may be meant."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes", category=UserWarning)
        yield
