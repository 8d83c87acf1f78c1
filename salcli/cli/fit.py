"""`salcli fit`."""

from typing import Annotated

import typer

from salcli.cli import options as o


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
    fit_split: Annotated[
        str | None,
        typer.Option(
            "--fit-split", metavar="NAME", help="Part of the split that is fitted; default: train.", show_default=False
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", metavar="N", help="Directions to remove; default: all of the rank.", show_default=False),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", metavar="A", help="Instead of -k: the least k with σ₁/σₖ₊₁ > A.", show_default=False),
    ] = None,
    center: Annotated[
        bool, typer.Option("--center/--no-center", help="Centre X and Z first; the paper does not.")
    ] = True,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", help="Fit on N rows, stratified by class.", show_default=False),
    ] = None,
    holdout: Annotated[
        float, typer.Option("--holdout", metavar="F", help="Share of labelled rows kept out, by a seeded hash.")
    ] = 0.0,
    method: Annotated[str, typer.Option("--method", metavar="M", help="sal.")] = "sal",
    dataset: o.Dataset = None,
    keys_dataset: o.KeysDataset = None,
    keys: o.Keys = None,
    format: o.Format = None,
    allow_nonfinite: o.AllowNonfinite = False,
    batch_rows: o.BatchRows = None,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Learn an eraser from embeddings and a label CSV (SAL)."""
    from salcli import workflow
    from salcli.cli import console
    from salcli.options import FitOptions, LabelOptions, ReadOptions

    options = FitOptions(
        ReadOptions(format, dataset, keys_dataset, keys, batch_rows, allow_nonfinite),
        LabelOptions(tuple(attribute or ()), tuple(numeric or ()), key, by_row, split_column, no_split),
        fit_split, holdout, sample, seed, k, alpha, center, method,
    )  # fmt: skip
    made = workflow.fit(embeddings, labels, output, options, console.ConsoleProgress(is_quiet=quiet))
    if json:
        console.print_json(
            {
                "schema": "salcli.fit/1",
                "output": output,
                **made.header,
                "singular_values": made.singular_values.tolist(),
            }
        )
    elif not quiet:
        console.print_fit(output, made.header, made.singular_values.tolist())
