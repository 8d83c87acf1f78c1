"""Files of labels and the shards that they belong to, pair by pair."""

import os
import re
from collections.abc import Sequence

from salcli.data.labels import GuardedLabels
from salcli.data.source import Source
from salcli.errors import AlignmentError

SUFFIX = re.compile(r"\.[^.]*(\.(gz|bz2|xz))?$", re.IGNORECASE)


def require_paired(labels: GuardedLabels, source: Source) -> None:
    """Check that each shard has one file of labels, which belongs to it by name and has a label for each of its rows.

    Both are in natural order. A pair belongs together if the names are equal but for their suffixes, or if the numbers
    in them that differ from file to file are equal: `img_emb_7.npy` and `metadata_7.parquet`.

    Parameters
    ----------
    labels : of several files, which join by position
    source : the embeddings

    Raises
    ------
    AlignmentError : the numbers of files differ, names do not match, or counts differ; names the first such pair
    """
    files, paths = [path for path, _ in labels.parts], [shard.reader.path for shard in source.shards]
    if len(files) != len(paths):
        raise AlignmentError(
            f"{labels.path}: {len(files):,} files of labels, but {source.path} has {len(paths):,} shards: expected one "
            "for each, or one for all rows, or a key column"
        )
    by_numbers = zip(_numbers(files), _numbers(paths), strict=True)
    for file, path, (mine, other) in zip(files, paths, by_numbers, strict=True):
        if _stem(file) != _stem(path) and (mine != other or not mine):
            raise AlignmentError(
                f"{file} would be the labels of {path} by order, but their names do not say so: expected the same "
                "numbers, or the same name but for the suffix"
            )
    for (file, n), path, shard in zip(labels.parts, paths, source.shards, strict=True):
        if n != shard.reader.n:
            raise AlignmentError(
                f"{file} joins by row ({labels.why_by_row}): {n:,} labels, but {path} has {shard.reader.n:,} rows"
            )


def _stem(path: str) -> str:
    return SUFFIX.sub("", os.path.basename(path))


def _numbers(paths: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the numbers in each name that are not the same in all; none where names have other numbers of them."""
    found = [tuple(map(int, re.findall(r"[0-9]+", _stem(path)))) for path in paths]
    if len({len(numbers) for numbers in found}) > 1:
        return [()] * len(paths)
    varying = [i for i, column in enumerate(zip(*found, strict=True)) if len(set(column)) > 1]
    return [tuple(numbers[i] for i in varying) for numbers in found]
