"""Folds: the rows of a label CSV are divided into parts that take turns as fit, attack and test."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from salcli.data.groups import RowGroups, hashed_shares, require_filled
from salcli.data.labels import GuardedLabels, Index
from salcli.data.sampling import stratified_sample
from salcli.data.splits import FRESH, IN_SAMPLE, POOLED, WHITE_BOX, EvaluationSplit, trainers_of
from salcli.errors import LabelError


def fold_numbers(labels: GuardedLabels, index: Index, n: int, seed: int) -> Index:
    """Return the part 0…n − 1 of each label at `index`, each stratum in proportion.

    Which part does not depend on the order of the rows, but on their keys or numbers alone. Of groups of rows each lies
    in one part, and strata are in proportion as far as groups allow.

    Parameters
    ----------
    labels : of the CSV
    index : `[m]` positions among them
    n : parts
    seed : of the division

    Returns
    -------
    `[m]`

    Raises
    ------
    LabelError : a part would be empty
    """
    if len(index) < n:
        raise LabelError(f"{labels.path}: {len(index):,} labelled rows cannot be divided into `folds={n}` parts")
    strata = labels.strata(index)
    if labels.groups is not None:
        groups = RowGroups.of(labels, index)
        found = _of_groups(groups, strata, hashed_shares(groups.names, seed, "folds"), n)[groups.codes]
        sizes = np.bincount(found, minlength=n).tolist()
        require_filled(labels, index, {f"part {i + 1} of `folds={n}`": size for i, size in enumerate(sizes)})
        return found
    shares = hashed_shares(map(labels.identity, index.tolist()), seed, "folds")
    found = np.empty(len(index), np.int64)
    found[np.lexsort((shares, strata))] = np.arange(len(index)) % n  # strata follow each other, so all differ by 1
    return found


def _of_groups(groups: RowGroups, strata: Index, shares: NDArray[np.float64], n: int) -> Index:
    """Return the part of each group: the largest first, each where its strata are rarest."""
    totals = np.bincount(strata).astype(np.float64)
    table = np.zeros((len(groups.names), len(totals)))
    np.add.at(table, (groups.codes, strata), 1.0)
    counts, found = np.zeros((n, len(totals))), np.empty(len(table), np.int64)
    for group in np.lexsort((shares, -groups.sizes)).tolist():
        crowd = counts @ (table[group] / totals)
        found[group] = np.lexsort((counts.sum(axis=1), np.round(crowd, 9)))[0]
        counts[found[group]] += table[group]
    return found


def fold_splits(
    labels: GuardedLabels, index: Index, n: int, seed: int, *, complete: Index | None = None, sample: int | None = None
) -> Iterator[EvaluationSplit]:
    """Yield the split of each turn: part i tests, the parts after it train the fresh attacker, the others are fitted.

    Parameters
    ----------
    labels : of the CSV
    index : `[m]` positions of labels that have a row and a value
    n : parts, at least 3
    seed : of the division
    complete : those of them that may be fitted, with a value of every attribute; default: all
    sample : rows that are fitted at most, stratified; None: all

    Raises
    ------
    LabelError : a part would be empty
    """
    numbers = fold_numbers(labels, index, n, seed)
    offsets = _offsets(n)

    def rows(test: int, adversary: str) -> Index:
        return index[np.isin((numbers - test) % n, offsets[adversary])]

    for test in range(n):
        fitted, fresh = rows(test, IN_SAMPLE), rows(test, FRESH)
        fitted = fitted if complete is None else np.intersect1d(fitted, complete)
        if sample is not None and sample < len(fitted):
            fitted = stratified_sample(labels, fitted, sample, seed)
        yield EvaluationSplit.of(fitted, trainers_of(fitted, fresh), index[numbers == test], has_held_out=True)


def _offsets(n: int) -> dict[str, range]:
    """Return by adversary how far behind the test part the parts lie that train it."""
    n_fresh = (n - 1) // 2
    fresh = range(1, n_fresh + 1)
    return {IN_SAMPLE: range(n_fresh + 1, n), FRESH: fresh, POOLED: range(1, n), WHITE_BOX: fresh}


def reciprocity(n: int) -> dict[str, float]:
    """Return by adversary how much the variance of a pooled figure may be above that of independent rows.

    Two rows that train an attacker for each other are read right or wrong by the same chance. In the limit of a
    classifier that adds up what each training row contributes, the product of two rows counts for both of them, and the
    variance grows by the share of the training parts whose own attackers the test part trains: 1 + that share. Parts
    stand in a circle, and less than half of it trains the fresh attacker, so that no two parts train it for each other;
    of an odd number of parts the same holds for the fit.

    Parameters
    ----------
    n : parts
    """
    return {
        name: 1 + sum(n - each in offsets for each in offsets) / len(offsets) for name, offsets in _offsets(n).items()
    }
