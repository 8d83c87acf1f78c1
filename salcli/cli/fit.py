"""`salcli fit`."""

from dataclasses import fields
from typing import Annotated

import typer

from salcli.cli import options as o
from salcli.errors import UsageError


def fit(
    embeddings: o.EmbeddingsArg,
    labels: o.LabelsArg,
    output: o.Output,
    attribute: o.Attribute = None,
    numeric: o.Numeric = None,
    key: o.Key = None,
    by_row: o.ByRow = False,
    split_column: o.SplitColumn = None,
    no_split: o.NoSplit = False,
    fit_split: o.FitSplit = None,
    k: o.K = None,
    alpha: o.Alpha = None,
    center: o.Center = True,
    sample: o.Sample = None,
    holdout: o.Holdout = 0.0,
    method: Annotated[str, typer.Option("--method", metavar="M", help="sal.")] = "sal",
    dataset: o.Dataset = None,
    keys_dataset: o.KeysDataset = None,
    keys: o.Keys = None,
    format: o.Format = None,
    allow_nonfinite: o.AllowNonfinite = False,
    batch_rows: o.BatchRows = None,
    sha256: o.Sha256 = True,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Learn an eraser from embeddings and a label CSV (SAL)."""
    from salcli.cli import console
    from salcli.commands import fit as command
    from salcli.erasers.base import METHODS
    from salcli.options import FitOptions, LabelOptions, ReadOptions

    offered = {"k": k, "alpha": alpha, "center": center}
    if method not in METHODS:
        raise UsageError(f"--method {method}: expected {' or '.join(METHODS)}")
    kind = METHODS[method].Parameters
    given = kind(**{f.name: offered[f.name] for f in fields(kind) if f.name in offered})
    options = FitOptions(
        ReadOptions(format, dataset, keys_dataset, keys, batch_rows, allow_nonfinite),
        LabelOptions(tuple(attribute or ()), tuple(numeric or ()), key, by_row, split_column, no_split),
        fit_split, holdout, sample, seed, method, given, sha256,
    )  # fmt: skip
    made = command.fit(embeddings, labels, output, options, console.ConsoleProgress(is_quiet=quiet))
    console.show_fit(output, made.header, made.singular_values.tolist(), made.n_bytes, is_json=json, is_quiet=quiet)
