"""The header of an artifact: what was fitted, as plain values, without keys and times."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

import salcli
from salcli.data.blocks import Block
from salcli.data.digests import labels_digest, rows_digest
from salcli.data.hashes import FileHash
from salcli.data.labels import GuardedLabels, Selection
from salcli.data.source import Source
from salcli.data.splits import SplitRule
from salcli.erasers.base import Eraser, Fit
from salcli.formats.files import file_name
from salcli.options import FitOptions
from salcli.streaming.engine import map_in_threads


def describe_fit(
    options: FitOptions,
    labels: GuardedLabels,
    fitted: Selection,
    fit: Fit[Eraser],
    rule: SplitRule,
    shards: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the header of the artifact: method, rows and versions as plain values, without keys and times.

    The record of the files is added later.

    Parameters
    ----------
    options : of the command, with the parameters of the method
    labels : all labels of the CSV
    fitted : `[n]` positions of those that were fitted
    fit : the result
    rule : by which the fitted rows were chosen
    shards : rows of each shard, of several
    """
    chosen = labels.restricted_to(fitted)
    digest_of = [partial(rows_digest, labels, fitted, shards=shards)]
    digest_of += [partial(labels_digest, labels, each, fitted, shards=shards) for each in labels.attributes]
    of_rows, *of_labels = map_in_threads(lambda digest: digest(), digest_of)  # each takes as long as reading the labels
    attributes = [
        describe_attribute(Block.of(each), digest) for each, digest in zip(chosen.attributes, of_labels, strict=True)
    ]
    rows = {**describe_rows(labels, rule), "n_fitted": len(fitted), "sha256": of_rows}
    return header_of(options, fit, attributes, rows | ({"shards": list(shards)} if len(shards) > 1 else {}))


def describe_attribute(block: Block, digest: str) -> dict[str, Any]:
    """Return a guarded attribute in an artifact's header, `block` in brief; `digest`: of its labels."""
    classes, counts = (None, None) if block.classes is None else (list(block.classes), list(block.counts))
    return {"name": block.name, "classes": classes, "counts": counts, "sha256": digest}


def describe_rows(labels: GuardedLabels, rule: SplitRule) -> dict[str, Any]:
    """Return how rows were joined to all `labels`, and by which `rule` they were chosen, in an artifact's header."""
    return {
        "rule": rule.to_dict(),
        "joined_by": "row" if labels.keys is None else "key",
        "key_column": labels.key_column,
        "split_column": labels.split_column,
        **({} if labels.groups is None else {"group_column": labels.groups.name}),
    }


def header_of(
    options: FitOptions, fit: Fit[Eraser], attributes: list[dict[str, Any]], rows: dict[str, Any]
) -> dict[str, Any]:
    """Return the header of an artifact without `inputs`.

    Parameters
    ----------
    options : of the command, with the parameters of the method
    fit : the result
    attributes, rows : what was fitted (see `describe_attribute`, `describe_rows`)
    """
    return {
        "method": options.method,
        "parameters": asdict(options.parameters),
        "eraser": fit.eraser.kind,
        "is_orthogonal": fit.eraser.is_orthogonal,
        "attributes": attributes,
        "is_centred": fit.is_centred,
        "d": fit.eraser.d,
        "k": fit.eraser.k,
        "k_rule": fit.k_rule,
        "rank": fit.rank,
        "rows": rows,
        "versions": versions(),
        **fit.header,
    }


def describe_inputs(source: Source, labels: GuardedLabels) -> dict[str, dict[str, Any]]:
    """Return the record of the files in the header of the artifact, without their hashes.

    Parameters
    ----------
    source : the embeddings
    labels : all labels of the CSV
    """
    embeddings = {
        "name": joint_name([shard.reader.path for shard in source.shards]),
        "format": source.format,
        "n": source.n,
        "d": source.d,
        "dtype": str(source.dtype),
    }
    files = [path for path, _ in labels.parts] or [labels.path]
    return {"embeddings": embeddings, "labels": {"name": joint_name(files), "n": len(labels)}}


def joint_name(paths: Sequence[str]) -> str:
    """Return the names of the first and the last of some files; the same whether a folder or a glob names them."""
    names = [file_name(path) for path in paths]
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)} files)"


def recorded(hashed: FileHash | None) -> dict[str, Any]:
    """Return the fields of a hash in the record of a file."""
    if hashed is None:
        return {"hash": None}
    return {"hash": asdict(hashed)} | ({} if hashed.sha256 is None else {"sha256": hashed.sha256})


def versions() -> dict[str, str]:
    """Return the versions of the packages that wrote a file, by package."""
    return {"salcli": salcli.__version__, "numpy": np.__version__}
