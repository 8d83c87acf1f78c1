"""Numbers that stand for keys: whether two shards have a key in common is seen without the keys themselves."""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
MOST_LISTED = 1 << 20  # of a shard: 8 MiB
MOST_COMPARED = 1 << 22  # of all shards: 64 MiB in memory
EVERY = 1 << 63


def key_numbers(keys: Iterable[str], most: int = MOST_LISTED) -> Numbers:
    """Return 63 bits of the BLAKE2b of each key, ascending, each once; of many keys, the least.

    Two of n different keys have one number with a probability of about n² / 2⁶⁴.

    Parameters
    ----------
    keys : in any order
    most : numbers that are returned
    """
    hashes = (hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8).digest() for key in keys)
    found: Numbers = np.unique(np.frombuffer(b"".join(hashes), "<i8") & (EVERY - 1))
    return found[:most].astype(np.int64)


def shared_keys(
    shards: Iterable[Numbers], listed: int = MOST_LISTED, compared: int = MOST_COMPARED
) -> tuple[tuple[int, int, int] | None, float]:
    """Return two shards that have a key in common, and what share of all keys was compared.

    Where there are too many, only keys with numbers below a limit are compared, which is the same one for all shards.

    Parameters
    ----------
    shards : `key_numbers` of each
    listed : numbers of a shard; where it has as many, it may have more keys
    compared : numbers of all shards that are in memory at once

    Returns
    -------
    the first two shards that share keys, and how many these two share; None if no two do
    the share, 0…1
    """
    limit, kept, total = EVERY, list[Numbers](), 0
    for numbers in shards:
        if len(numbers) >= listed:
            limit = min(limit, int(numbers[-1]) + 1)
        kept.append(_below(numbers, limit))
        total += len(kept[-1])
        while total > compared:
            limit //= 2
            kept = [_below(each, limit) for each in kept]
            total = sum(map(len, kept))
    kept = [_below(each, limit) for each in kept]
    every = np.sort(np.concatenate(kept)) if kept else np.zeros(0, np.int64)
    repeated = every[1:][every[1:] == every[:-1]]
    found: tuple[int, int, int] | None = None
    if len(repeated):
        first, second = [i for i, numbers in enumerate(kept) if np.isin(repeated[0], numbers)][:2]
        found = first, second, len(np.intersect1d(kept[first], kept[second]))
    return found, limit / EVERY


def _below(numbers: Numbers, limit: int) -> Numbers:
    n = len(numbers) if limit == EVERY else int(np.searchsorted(numbers, limit))
    return numbers if n == len(numbers) else numbers[:n].copy()  # a view keeps the memory of all
