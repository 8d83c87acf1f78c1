"""Intersections of guarded attributes: the product of several is attacked as one attribute more.

Two attributes may each be unreadable and their product not: after SAL of either, which class *and* which group a row is
of together can still be predicted (Kearns et al., "Preventing Fairness Gerrymandering", ICML 2018, on groups).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels, smallest_code
from salcli.options import EvaluateOptions

LEAST_ROWS = 10
"""Test rows of a class of a product below which it is left out."""
TIMES = " × "


@dataclass(frozen=True, eq=False)
class Product(Attribute):
    """An attribute whose classes are combinations of the classes of others."""

    factors: tuple[str, ...] = ()
    """Their names."""


def attacked(labels: GuardedLabels, options: EvaluateOptions) -> tuple[Attribute, ...]:
    """Return the attributes of classes that are attacked: the guarded ones, each pair of them, and all together.

    A product whose classes are those of one of its factors is left out, as it adds nothing.

    Parameters
    ----------
    labels : with the guarded attributes
    options : with `intersections`
    """
    guarded = tuple(attribute for attribute in labels.attributes if attribute.classes is not None)
    if not options.intersections:
        return guarded
    factors = [*combinations(guarded, 2), *([guarded] if len(guarded) > 2 else [])]
    products = [(product(of), of) for of in factors]
    names = {attribute.name for attribute in labels.attributes}
    return guarded + tuple(
        found
        for found, of in products
        if found.name not in names and len(found.classes or ()) > max(_n_present(each, found) for each in of)
    )


def product(attributes: Sequence[Attribute]) -> Product:
    """Return the attribute whose classes are the combinations that occur of the classes of several attributes.

    Parameters
    ----------
    attributes : of classes, each with `m` values

    Returns
    -------
    with a value for each label that has one of every attribute
    """
    has_all = np.logical_and.reduce([attribute.is_labelled for attribute in attributes])
    at = np.flatnonzero(has_all)
    codes, first = np.zeros(len(at), np.int64), np.zeros(0, np.int64)
    for attribute in attributes:
        joint = codes * len(attribute.classes or ()) + attribute.values[at].astype(np.int64)
        _, first, codes = np.unique(joint, return_index=True, return_inverse=True)
    names = tuple(TIMES.join((a.classes or ())[int(a.values[at[row]])] for a in attributes) for row in first.tolist())
    values = np.full(len(has_all), -1, smallest_code(len(names)))
    values[at] = codes
    factors = tuple(attribute.name for attribute in attributes)
    return Product(TIMES.join(factors), values, names, factors)


def least_rows(n: int, options: EvaluateOptions) -> int:
    """Return the fewest test rows that count where `n` are needed in all: with folds in `options`, of a turn."""
    return n if options.folds is None else max(1, n // options.folds)


def _n_present(factor: Attribute, whole: Attribute) -> int:
    """Return how many classes of an attribute occur where its product with others has a value."""
    return len(np.unique(factor.values[whole.is_labelled]))
