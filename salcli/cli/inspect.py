"""`salcli inspect`."""

from typing import Annotated

import typer

from salcli.cli import options as o


def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Embedding file or artifact.")],
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="CSV", help="Also describe its join with a label CSV.", show_default=False),
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            "--similarity",
            metavar="SET",
            help="Also score word similarity: simlex999, wordsim353, or a file of word1, word2, score.",
            show_default=False,
        ),
    ] = None,
    head: Annotated[int, typer.Option("--head", metavar="N", help="Rows to show.", min=0)] = 5,
    projection: Annotated[
        str | None,
        typer.Option("--projection", metavar="P.npy", help="Write an artifact's dense d×d matrix.", show_default=False),
    ] = None,
    attribute: o.Attribute = None,
    numeric: o.Numeric = None,
    key: o.Key = None,
    by_row: o.ByRow = False,
    split_column: o.SplitColumn = None,
    no_split: o.NoSplit = False,
    dataset: o.Dataset = None,
    keys_dataset: o.KeysDataset = None,
    keys: o.Keys = None,
    format: o.Format = None,
    allow_nonfinite: o.AllowNonfinite = False,
    json: o.Json = False,
) -> None:
    """Say what is in an embedding file, its join with labels, or an artifact."""
    from salcli.cli import console
    from salcli.commands import inspect as inspection
    from salcli.options import InspectOptions, LabelOptions, ReadOptions

    found = inspection.inspect(
        file,
        InspectOptions(
            ReadOptions(format, dataset, keys_dataset, keys, None, allow_nonfinite),
            labels,
            LabelOptions(tuple(attribute or ()), tuple(numeric or ()), key, by_row, split_column, no_split),
            similarity,
            head,
            projection,
        ),
    )
    console.print_json(found) if json else console.print_inspection(found)
