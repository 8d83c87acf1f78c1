"""Seeded draws that depend on keys, not on the order of rows: hashed shares, stratified samples and parts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from salcli.data.groups import group_shares, hashed_shares
from salcli.data.labels import GuardedLabels, Index


def capped(labels: GuardedLabels, index: Index, most: int, seed: int) -> Index:
    """Return a stratified sample of the labels at `index` if they are more than `most`, else `index`.

    Parameters
    ----------
    labels : of the CSV
    index : `[n]` positions among them
    most : rows
    seed : of the sample
    """
    return index if len(index) <= most else stratified_sample(labels, index, most, seed)


def seeded_shares(labels: GuardedLabels, index: Index, seed: int, purpose: str = "holdout") -> NDArray[np.float64]:
    """Return a hash in [0, 1) of each label's key or row number: the same on every machine, in any row order.

    Where labels have groups, all rows of a group have one share (see `group_shares`).

    Parameters
    ----------
    labels : of the CSV
    index : `[n]` positions among them
    seed : of the hash
    purpose : hashes of different purposes are independent

    Returns
    -------
    `[n]` shares
    """
    if labels.groups is not None:
        return group_shares(labels, index, seed, purpose)
    return hashed_shares(map(labels.identity, index.tolist()), seed, purpose)


def stratified_sample(labels: GuardedLabels, index: Index, size: int, seed: int) -> Index:
    """Return a sample of the labels at `index` that has every stratum in proportion (largest remainder).

    Which ones does not depend on the order of the label CSV.

    Parameters
    ----------
    labels : of the CSV
    index : `[n]` positions among them
    size : labels to draw, at most n
    seed : of the sample

    Returns
    -------
    `[size]`, in the order of `index`
    """
    order = np.arange(len(index))
    if labels.keys is not None:
        keys = [labels.keys[i] for i in index.tolist()]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    (drawn,) = stratified_parts(labels.strata(index[order]), [size / len(index)], seed, sizes=[size])
    return index[np.sort(order[drawn])]


def stratified_parts(
    strata: Index, shares: Sequence[float], seed: int, *, sizes: Sequence[int] | None = None
) -> list[Index]:
    """Return positions 0…n-1 divided at random into parts of these shares, each stratum in proportion.

    Parameters
    ----------
    strata : `[n]` stratum of each position
    shares : of each part, sum at most 1
    seed : of the shuffle
    sizes : the exact size of each part; default: the shares of n, by largest remainder

    Returns
    -------
    one array of positions for each part; the positions left over belong to none
    """
    rng = np.random.default_rng(seed)
    n = len(strata)
    totals = _apportion(np.asarray(shares) * n, round(sum(shares) * n)) if sizes is None else np.asarray(sizes)
    members = [rng.permutation(np.flatnonzero(strata == s)) for s in range(int(strata.max(initial=-1)) + 1)]
    taken = np.zeros(len(members), dtype=np.int64)
    parts = []
    for total in totals:
        left = np.array([len(m) for m in members]) - taken
        quota = _apportion(np.array([len(m) for m in members]) * (total / n), int(total), limit=left)
        chosen = [m[t : t + q] for m, t, q in zip(members, taken, quota, strict=True)]
        parts.append(np.concatenate([*chosen, np.zeros(0, np.int64)]))
        taken += quota
    return parts


def apportioned(shares: Sequence[float], n: int) -> Index:
    """Return `n` rows divided in proportion to `shares`, as whole numbers: the largest remainders are rounded up."""
    return _apportion(np.asarray(shares, np.float64) * (n / sum(shares)), n)


def _apportion(quotas: NDArray[np.float64], total: int, limit: Index | None = None) -> Index:
    """Return quotas as whole numbers that add up to `total` (largest remainder first), none above its limit."""
    limit = np.full(len(quotas), np.iinfo(np.int64).max) if limit is None else limit
    whole = np.minimum(np.floor(quotas).astype(np.int64), limit)
    while (missing := total - int(whole.sum())) > 0:
        open_ = np.flatnonzero(whole < limit)
        order = open_[np.argsort(-(quotas - whole)[open_], kind="stable")]
        whole[order[:missing]] += 1
    return whole
