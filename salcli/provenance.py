"""Where an eraser came from, as the artifact's header says it."""

from functools import partial
from typing import Any

import numpy as np

import salcli
from salcli.data.labels import GuardedLabels, Selection
from salcli.data.selection import RowRule
from salcli.engine.local import ordered_map
from salcli.evaluation.digests import labels_digest, rows_digest
from salcli.formats.finite import FiniteSource
from salcli.formats.label_table import file_name
from salcli.options import FitOptions
from salcli.spectral.eraser import LinearEraser
from salcli.spectral.kernel_eraser import AnyEraser, KernelEraser
from salcli.spectral.sal import SpectralFit


def describe_fit(
    options: FitOptions,
    source: FiniteSource,
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
