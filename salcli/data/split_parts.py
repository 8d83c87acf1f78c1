"""Parts of the split column by their names: train, dev, test and bands."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index

TRAIN, TEST, DEV = "train", "test", "dev"
PARTS = (TRAIN, DEV, TEST)
BAND = re.compile(r"band[1-9]\d*")
"""Names of parts that are near the labelled rows: nothing is trained on them."""
DEV_NAMES = (DEV, "val", "valid", "validation")


def marked(labels: GuardedLabels, index: Index, *names: str) -> Index:
    """Return those of the `labels` at `index` `[n]` whose split has one of these `names`."""
    found, codes = labels.split_codes
    is_wanted = np.array([name in names for name in found], np.bool_)
    return np.asarray(index[is_wanted[codes[index]]], dtype=np.int64) if len(found) else index[:0]


def in_bands(labels: GuardedLabels) -> NDArray[np.bool_]:
    """Return which of the `labels` are in a part that is a band: `[m]`."""
    names, codes = labels.split_codes
    is_band = np.array([BAND.fullmatch(name) is not None for name in names], np.bool_)
    return is_band[codes] if len(names) else np.zeros(len(labels), np.bool_)


def split_counts(labels: GuardedLabels, index: Index) -> dict[str, int]:
    """Return how many of the `labels` at `index` `[n]` have each name in the split column, by name."""
    names, codes = labels.split_codes
    counts = np.bincount(codes[index], minlength=len(names)).tolist()
    return {name: n for name, n in sorted(zip(names, counts, strict=True)) if n}


def part_names(parts: Sequence[Index], n: int) -> list[str]:
    """Return the part of each of `n` positions: train, dev, test, or "" for those in none of the three `parts`."""
    names = [""] * n
    for name, part in zip(PARTS, parts, strict=False):
        for position in part.tolist():
            names[position] = name
    return names
