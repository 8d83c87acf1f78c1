"""`salcli label`."""

from typing import Annotated

import typer

from salcli.cli import options as o


def label(
    embeddings: o.EmbeddingsArg,
    output: o.TextOutput,
    direction: Annotated[
        list[str],
        typer.Option(
            "--direction",
            metavar="A:B",
            help="Seed pair, such as he:she (repeatable: the mean difference).",
            show_default=False,
        ),
    ],
    top: Annotated[int, typer.Option("--top", metavar="N", help="Words to label at each end.")] = 1000,
    by: Annotated[str, typer.Option("--by", help="cosine or dot.")] = "cosine",
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Choose among the first N rows only.", show_default=False)
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            "--split", metavar="T,D,T", help="Shares of train, dev and test, stratified; `none`: no split column."
        ),
    ] = "0.49,0.21,0.30",
    name: Annotated[
        str, typer.Option("--name", metavar="COL", help="Name of the label column.", callback=o.in_utf8)
    ] = "label",
    scores: Annotated[bool, typer.Option("--scores", help="Add the score as a column.")] = False,
    dataset: o.Dataset = None,
    keys_dataset: o.KeysDataset = None,
    keys: o.Keys = None,
    format: o.Format = None,
    allow_nonfinite: o.AllowNonfinite = False,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Make a label CSV from seed words: the words nearest to one and to the other."""
    from salcli.cli import console
    from salcli.commands import label as labelling
    from salcli.options import LabelCommandOptions, ReadOptions

    o.require_one_use_of_stdout(output, is_json=json)
    read = ReadOptions(format, dataset, keys_dataset, keys, None, allow_nonfinite)
    shares = LabelCommandOptions.parse_split(split)
    options = LabelCommandOptions(read, tuple(o.in_utf8(direction)), top, by, limit, shares, seed, name, scores)
    made = labelling.label(embeddings, output, options)
    if json:
        console.print_json({"schema": "salcli.label/1", **made.to_dict()})
    elif not quiet and output != "-":
        console.print_fields(made.lines())
