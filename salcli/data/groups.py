"""Groups of rows that belong together, such as those of one author: each lies in one part of a split."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index
from salcli.errors import LabelError


def hashed_shares(names: Iterable[str], seed: int, purpose: str) -> NDArray[np.float64]:
    """Return a hash in [0, 1) of each name: the same on every machine, in any order.

    Parameters
    ----------
    names : n texts
    seed : of the hash
    purpose : hashes of different purposes are independent

    Returns
    -------
    `[n]` shares
    """
    salt = hashlib.sha256(f"salcli {purpose} {seed}".encode()).digest()
    digests = (
        hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8, key=salt).digest() for name in names
    )
    return np.array([(int.from_bytes(digest, "big") >> 11) / 2.0**53 for digest in digests], np.float64)


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Some rows by their group; a row without one is a group of its own."""

    codes: Index
    """`[n]` the group of each row, 0…g − 1."""
    names: tuple[str, ...]
    """`[g]` distinct texts, in no order that means anything."""

    @classmethod
    def of(cls, labels: GuardedLabels, index: Index) -> "RowGroups":
        """Return the groups of the labels at `index` `[n]`; `labels` has a column of groups."""
        assert labels.groups is not None
        codes = labels.groups.codes(index)
        is_in = codes >= 0
        found, numbers = np.unique(codes[is_in], return_inverse=True)
        alone = np.flatnonzero(~is_in)
        codes[is_in], codes[alone] = numbers, len(found) + np.arange(len(alone))
        names = [f"group {(labels.groups.classes or ())[code]}" for code in found.tolist()]
        return cls(codes, (*names, *(f"row {labels.identity(i)}" for i in index[alone].tolist())))

    @property
    def sizes(self) -> Index:
        """`[g]` rows of each group."""
        return np.bincount(self.codes, minlength=len(self.names))


def group_shares(labels: GuardedLabels, index: Index, seed: int, purpose: str) -> NDArray[np.float64]:
    """Return a share in (0, 1) of each row, the same for all rows of a group.

    Groups stand in the order of their hashes; the share of one is the middle of its rows, counted through all. So about
    a share F of the rows is below F, and of two groups and more the first is below ½ and the last is not.

    Parameters
    ----------
    labels : with a column of groups
    index : `[n]` positions among them
    seed, purpose : of the hash

    Returns
    -------
    `[n]` shares
    """
    groups = RowGroups.of(labels, index)
    order = np.argsort(hashed_shares(groups.names, seed, purpose), kind="stable")
    sizes = groups.sizes[order]
    middles = np.empty(len(order))
    middles[order] = (np.cumsum(sizes) - sizes / 2) / max(1, len(index))
    found: NDArray[np.float64] = middles[groups.codes]
    return found


def grouped_parts(groups: RowGroups, strata: Index, shares: Sequence[float], seed: int) -> list[Index]:
    """Return rows 0…n − 1 divided into parts of these shares, each group in one part, strata in proportion if possible.

    The largest group comes first; groups of one size are in the order of a hash. Each goes to the part that has most
    room left for its strata, of those parts that are not full. So a part has less than one group more than its share.

    Parameters
    ----------
    groups : of n rows
    strata : `[n]` stratum of each row
    shares : of each part, sum at most 1; what is left over belongs to none
    seed : of the hash

    Returns
    -------
    one ascending array of rows for each share
    """
    room = np.append(shares, max(0.0, 1 - sum(shares)))
    room[room < 1e-9] = 0.0
    totals = np.bincount(strata).astype(np.float64)
    table = np.zeros((len(groups.names), len(totals)))
    np.add.at(table, (groups.codes, strata), 1.0)
    counts, found = np.zeros((len(room), len(totals))), np.empty(len(table), np.int64)
    order = np.lexsort((hashed_shares(groups.names, seed, "label"), -groups.sizes))
    for group in order.tolist():
        left = room * len(strata) - counts.sum(axis=1)
        open_ = np.flatnonzero(left > 1e-6)
        used = counts[open_] @ (table[group] / np.maximum(totals, 1)) / room[open_]
        found[group] = open_[np.lexsort((-left[open_], np.round(used, 9)))[0]]
        counts[found[group]] += table[group]
    return [np.flatnonzero(found[groups.codes] == part) for part in range(len(shares))]


def require_filled(labels: GuardedLabels, index: Index, sizes: Mapping[str, int]) -> None:
    """Check that every part of a division by groups has rows.

    Parameters
    ----------
    labels : with a column of groups, or without one: then nothing is checked
    index : `[n]` the labels that were divided
    sizes : rows of each part, by what messages call it

    Raises
    ------
    LabelError : a part is empty; the message names the largest group
    """
    empty = [name for name, size in sizes.items() if not size]
    if labels.groups is None or not empty:
        return
    groups = RowGroups.of(labels, index)
    place = int(np.argmax(groups.sizes)) if len(index) else 0
    largest = f", {groups.names[place]!r} with {groups.sizes[place]:,} of them" if len(index) else ""
    raise LabelError(
        f"{labels.path}: column {labels.groups.name!r} has {len(groups.names):,} groups on {len(index):,} rows"
        f"{largest}: no row is left for {empty[0]}; more groups, or smaller ones, are needed"
    )


def require_whole(labels: GuardedLabels, index: Index, parts: Mapping[str, str]) -> None:
    """Check that a split column has each group in one part.

    Parameters
    ----------
    labels : with columns of groups and of parts, or without: then nothing is checked
    index : `[n]` the labels that are used
    parts : the part that each name of the split column stands for; rows of other names are not used

    Raises
    ------
    LabelError : a group has rows in two parts
    """
    if labels.groups is None or labels.splits is None:
        return
    kinds = sorted(set(parts.values()))
    found, codes = labels.split_codes
    kind_of = np.array([kinds.index(parts[name]) if name in parts else -1 for name in found], np.int64)
    groups, kind = labels.groups.codes(index), kind_of[codes[index]]
    is_used = (groups >= 0) & (kind >= 0)
    pairs = np.unique(np.stack([groups[is_used], kind[is_used]], axis=1), axis=0)
    torn, counts = np.unique(pairs[:, 0], return_counts=True)
    torn = torn[counts > 1]
    if len(torn):
        named = (labels.groups.classes or ())[int(torn[0])]
        where = " and ".join(kinds[k] for k in pairs[pairs[:, 0] == torn[0], 1].tolist())
        raise LabelError(
            f"{labels.path}: column {labels.groups.name!r} (`groups`): {named[:40]!r} has rows in {where} of column "
            f"{labels.split_column!r}, and so have {len(torn) - 1:,} more groups; each must lie in one part"
        )
