"""Bands of rows that no label names, for `evaluate --bands`: those next to the labelled ones along the attribute.

A method may change labelled rows alone, and a label CSV may end where rows are still readable.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.source import Chunk, Source
from salcli.data.split_parts import in_bands
from salcli.data.splits import SplitRule
from salcli.errors import LabelError, UsageError
from salcli.linalg.seeds import direction_scores, seed_direction
from salcli.streaming.engine import ordered_map
from salcli.streaming.passes import gather_rows, join_labels
from salcli.streaming.progress import Progress


def with_bands(
    table: GuardedLabels, source: Source, rule: SplitRule, sizes: tuple[int, ...], progress: Progress
) -> GuardedLabels:
    """Return labels with those of further rows: the next ones at both ends, as the parts band1, band2 and so on.

    Rows are ordered by their cosine with the difference of the two classes' mean directions, over all labelled rows.
    The ends get the class whose mean is there.

    Parameters
    ----------
    table : m labels that join by key
    source : the embeddings
    rule : which labels were fitted
    sizes : rows of each band at each end, the nearest first
    progress : shows the pass over the rows

    Raises
    ------
    UsageError : the labels have no keys, no split column or bands already, or are not of one attribute with two classes
    LabelError : there are too few rows without a label
    RankError : the classes have the same mean direction
    """
    attribute = _attribute(table, rule)
    join = join_labels(source, table)
    matched = np.asarray(join.matched(table), np.int64)
    x, kept = gather_rows(source, np.asarray(join.rows_of(matched), np.int64), progress)
    codes = np.asarray(attribute.values)[matched[kept]]
    means = [_directions(x[codes == code]).mean(axis=0, keepdims=True) for code in (0, 1)]
    direction = seed_direction(means[1], means[0])
    found = _ends(source, direction, set(table.keys or ()), sum(sizes), progress)
    if found is None:
        raise LabelError(
            f"{source.path}: too few rows without a label for `bands={','.join(map(str, sizes))}`: expected "
            f"{2 * sum(sizes):,}"
        )
    return _extended(table, attribute, found, sizes)


def _attribute(table: GuardedLabels, rule: SplitRule) -> Attribute:
    if table.keys is None or table.splits is None or rule.fit_split is None:
        raise UsageError(f"{table.path}: `bands` needs labels with keys and a split column that the fit went by")
    if in_bands(table).any():
        raise UsageError(f"{table.path}: has bands of its own in {table.split_column!r}: leave `bands` out")
    attribute = table.attributes[0]
    if len(table.attributes) > 1 or attribute.classes is None or len(attribute.classes) != 2:
        raise UsageError(f"{table.path}: `bands` lie at the two ends of one attribute with two classes")
    return attribute


def _directions(x: NDArray[Any]) -> NDArray[np.float64]:
    exact = x.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1.0)


def _ends(
    source: Source, direction: NDArray[np.float64], named: set[str], most: int, progress: Progress
) -> tuple[list[str], list[str]] | None:
    """Return the keys of the `most` rows of the lowest and of the highest scores that are not named, the ends first.

    Returns
    -------
    None if there are fewer than twice as many
    """

    def scored(chunk: Chunk) -> tuple[int, list[tuple[float, int, str]]]:
        batch = chunk.read()
        scores = direction_scores(batch.vectors, direction, by_cosine=True).tolist()
        rows = zip(scores, batch.rows.tolist(), batch.keys or (), strict=True)
        free = sorted((each for each in rows if each[2] not in named and each[0] == each[0]), key=lambda each: each[:2])
        return len(batch), free if len(free) <= 2 * most else free[:most] + free[-most:]

    kept: list[tuple[float, int, str]] = []
    with progress.stage("bands", source.n) as advance:
        for n, some in ordered_map(scored, source.chunks()):
            kept = sorted([*kept, *some], key=lambda each: each[:2])
            kept = kept if len(kept) <= 2 * most else kept[:most] + kept[-most:]
            advance(n)
    keys = list(dict.fromkeys(key for _, _, key in kept))
    return (keys[:most], keys[::-1][:most]) if len(keys) >= 2 * most else None


def _extended(
    table: GuardedLabels, attribute: Attribute, ends: tuple[list[str], list[str]], sizes: tuple[int, ...]
) -> GuardedLabels:
    """Return `table` with the rows of the bands below its own."""
    parts = [f"band{number}" for number, size in enumerate(sizes, start=1) for _ in range(size)]
    n = len(parts)
    codes = np.repeat([0, 1], n).astype(attribute.values.dtype)

    def longer(other: Attribute | None) -> Attribute | None:
        if other is None:
            return None
        empty = np.full(2 * n, -1 if other.classes is not None else np.nan)
        return replace(other, values=np.concatenate([other.values, empty.astype(other.values.dtype)]))

    return replace(
        table,
        attributes=(replace(attribute, values=np.concatenate([attribute.values, codes])),),
        keys=(*(table.keys or ()), *ends[0], *ends[1]),
        splits=(*(table.splits or ()), *parts, *parts),
        task=longer(table.task),
        groups=longer(table.groups),
        index=None,
    )
