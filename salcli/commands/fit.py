"""`fit` and `kfit`: embeddings and labels → moments → eraser → artifact."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import salcli
from salcli.data.digests import labels_digest, rows_digest
from salcli.data.embeddings import Rows
from salcli.data.join import LabelledRows
from salcli.data.labels import GuardedLabels, Selection, as_index
from salcli.data.source import Source
from salcli.data.splits import RowRule
from salcli.erasers.artifact import Artifact, write_artifact
from salcli.erasers.kernel import AnyEraser, KernelEraser
from salcli.erasers.kernel_route import fit_by_landmarks, fit_exactly, kernel_of
from salcli.erasers.linear import LinearEraser
from salcli.erasers.sal import SpectralFit, fit_sal, require_choice
from salcli.errors import UsageError, located
from salcli.formats import atomic
from salcli.formats.label_table import file_name, read_labels
from salcli.formats.registry import open_source
from salcli.options import FitOptions, KernelFitOptions
from salcli.streaming.engine import one_blas_thread, ordered_map
from salcli.streaming.hashing import hashing
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import fold_moments, join_labels
from salcli.streaming.progress import Progress, Silent

Solve = Callable[[Source, GuardedLabels, Rows | range], SpectralFit[AnyEraser]]


def fit(embeddings: str, labels: str, output: str, options: FitOptions, progress: Progress | None = None) -> Artifact:
    """Learn an eraser from labelled embeddings and save it.

    Returns
    -------
    the artifact that lies at `output`
    """

    def solve(source: Source, chosen: GuardedLabels, rows: Rows | range) -> SpectralFit[AnyEraser]:
        moments = fold_moments(
            source, chosen, LabelledRows.of(rows), progress or Silent(), is_centred=options.is_centred
        )
        return fit_sal(moments, options.k, alpha=options.alpha, is_centred=options.is_centred)

    return _fit(embeddings, labels, output, options, solve)


def kfit(
    embeddings: str, labels: str, output: str, options: KernelFitOptions, progress: Progress | None = None
) -> Artifact:
    """Learn an eraser in a kernel's feature space and save it (see `fit`)."""
    kernel_of(options)

    def solve(source: Source, chosen: GuardedLabels, rows: Rows | range) -> SpectralFit[AnyEraser]:
        by = fit_exactly if options.landmarks is None else fit_by_landmarks
        return by(source, chosen, as_index(rows), options, progress or Silent())

    widened = replace(options.read, widened_bytes=8 * (options.landmarks or 0))
    return _fit(embeddings, labels, output, replace(options, read=widened), solve)


def _fit(embeddings: str, labels: str, output: str, options: FitOptions, solve: Solve) -> Artifact:
    if output == atomic.STDOUT:
        raise UsageError("-o -: an eraser is binary and goes into a file: give its name")
    require_choice(options.k, options.alpha)
    atomic.check_output(output, [embeddings, labels, options.read.keys_file])
    keep_freed_memory()
    table = read_labels(labels, options.labels)
    with (
        closing(open_source(embeddings, options.read)) as source,
        hashing(source if options.hashes_embeddings else None, labels) as digests,
        one_blas_thread(),
    ):
        join = join_labels(source, table)
        rule = options.rule(has_splits=table.splits is not None)
        fitted = rule.fitted(table, join.matched(table))
        chosen = table.restricted_to(fitted)
        chosen.require_variety()
        chosen.warn_of_single_rows()
        chosen = chosen.standardised(is_centred=options.is_centred)
        with located(embeddings):
            result = solve(source, chosen, join.rows_of(fitted))
        hashes = (digests[0].result(), digests[1].result())
        header = describe_fit(options, source, table, fitted, result, rule, hashes)
    artifact = Artifact(result.eraser, result.singular_values, header)
    write_artifact(output, artifact)
    return artifact


def describe_fit(
    options: FitOptions,
    source: Source,
    labels: GuardedLabels,
    fitted: Selection,
    fit: SpectralFit[AnyEraser],
    rule: RowRule,
    digests: tuple[str | None, str | None],
) -> dict[str, Any]:
    """Say what was fitted, on which rows of which files, by which versions: plain values, no row, key or time."""
    chosen = labels.restricted_to(fitted)
    digest_of = [partial(rows_digest, labels, fitted)]
    digest_of += [partial(labels_digest, labels, attribute, fitted) for attribute in labels.attributes]
    of_rows, *of_labels = ordered_map(lambda digest: digest(), digest_of)  # each takes as long as reading the labels
    return {
        "method": options.method,
        "attributes": [
            {
                "name": whole.name,
                "classes": None if part.classes is None else list(part.classes),
                "counts": None if part.classes is None else list(part.counts().values()),
                "sha256": digest,
            }
            for whole, part, digest in zip(labels.attributes, chosen.attributes, of_labels, strict=True)
        ],
        "is_centred": fit.is_centred,
        "d": fit.eraser.d,
        "k": fit.eraser.k,
        "k_rule": fit.k_rule,
        "rank": fit.rank,
        "rows": {
            "rule": rule.to_dict(),
            "joined_by": "row" if labels.keys is None else "key",
            "key_column": labels.key_column,
            "split_column": labels.split_column,
            "n_fitted": len(fitted),
            "sha256": of_rows,
        },
        "inputs": {
            "embeddings": {
                "name": file_name(source.path),
                "format": source.format,
                "n": source.n,
                "d": source.d,
                "dtype": str(source.dtype),
                "sha256": digests[0],
            },
            "labels": {"name": file_name(labels.path), "n": len(labels), "sha256": digests[1]},
        },
        "versions": versions(),
        **_describe_kernel(fit.eraser, len(fitted)),
    }


def _describe_kernel(eraser: AnyEraser, n_fitted: int) -> dict[str, Any]:
    if isinstance(eraser, LinearEraser):
        return {}
    if isinstance(eraser, KernelEraser):
        return {"kernel": eraser.kernel.to_dict(), "landmarks": {"n": len(eraser.landmarks), "rule": "all"}}
    features = eraser.features
    n = len(features.landmarks)
    about = {"n": n, "rule": "stratified" if n < n_fitted else "every fitted row", "n_features": features.width}
    return {"kernel": features.kernel.to_dict(), "landmarks": about}


def versions() -> dict[str, str]:
    """Name the versions that made a file."""
    return {"salcli": salcli.__version__, "numpy": np.__version__}
