"""Options that several commands share, each written once."""

import os
from typing import Annotated, Any

import typer

from salcli.errors import UsageError
from salcli.formats import registry

FORMAT_HELP = registry.names(last=" or ")
STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def require_one_use_of_stdout(output: str | None, *, is_json: bool) -> None:
    """Refuse --json beside `-o -`: both would fill stdout."""
    if output in STDOUT and is_json:
        raise UsageError(f"--json and -o {output} both write to stdout: choose one")


def in_utf8(given: Any) -> Any:
    """Read names of columns and words as files are read, as UTF-8, whatever the locale took their bytes for."""
    if isinstance(given, list):
        return [in_utf8(one) for one in given]
    return os.fsencode(given).decode("utf-8", "surrogateescape") if isinstance(given, str) else given


EmbeddingsArg = Annotated[str, typer.Argument(metavar="EMBEDDINGS", help="Embedding file; `-`: text vectors on stdin.")]
LabelsArg = Annotated[str, typer.Argument(metavar="LABELS", help="Label CSV.")]
EraserArg = Annotated[str, typer.Argument(metavar="ERASER", help="Artifact that `fit` or `kfit` wrote.")]
Output = Annotated[
    str, typer.Option("-o", "--output", metavar="FILE", help="Written whole or not at all.", show_default=False)
]
TextOutput = Annotated[
    str,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Written whole or not at all; `-`: stdout.", show_default=False
    ),
]

FitSplit = Annotated[
    str | None,
    typer.Option(
        "--fit-split",
        metavar="NAME",
        help="Part of the split that is fitted; default: train.",
        show_default=False,
        callback=in_utf8,
    ),
]
K = Annotated[
    int | None,
    typer.Option("-k", metavar="N", help="Directions to remove; default: all of the rank.", show_default=False),
]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", metavar="A", help="Instead of -k: the least k with σ₁/σₖ₊₁ > A.", show_default=False),
]
Center = Annotated[bool, typer.Option("--center/--no-center", help="Centre X and Z first; the paper does not.")]
Sample = Annotated[
    int | None,
    typer.Option("--sample", metavar="N", help="Fit on N rows, stratified by class.", show_default=False),
]
Holdout = Annotated[
    float, typer.Option("--holdout", metavar="F", help="Share of labelled rows kept out, by a seeded hash.")
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary; warnings and errors stay.")]
NoProgress = Annotated[bool, typer.Option("--quiet", help="No progress; figures, warnings and errors stay.")]
Sha256 = Annotated[
    bool,
    typer.Option(
        "--sha256/--no-sha256",
        help="Record the embeddings' SHA-256 in the eraser, by which evaluate tells another file. It takes longer than "
        "the fit of a large file.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of every random choice.", min=0, max=2**32 - 1)]

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="F",
        help=f"Force the input's format: {FORMAT_HELP}; default: by content.",
        show_default=False,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="PATH",
        help="Matrix inside an HDF5 or npz file; default: the only one.",
        show_default=False,
    ),
]
KeysDataset = Annotated[
    str | None,
    typer.Option(
        "--keys-dataset",
        metavar="PATH",
        help="Keys inside an HDF5 or npz file; default: the only list of strings that fits.",
        show_default=False,
    ),
]
Keys = Annotated[
    str | None,
    typer.Option("--keys", metavar="FILE", help="Keys of a file that has none: text, one a line.", show_default=False),
]
BatchRows = Annotated[
    int | None,
    typer.Option(
        "--batch-rows",
        metavar="N",
        help="Most rows read at once; default: by format, 1.5…32 MiB.",
        min=1,
        show_default=False,
    ),
]
AllowNonfinite = Annotated[
    bool, typer.Option("--allow-nonfinite", help="Drop rows with NaN or Inf instead of refusing the file.")
]

Attribute = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        callback=in_utf8,
        metavar="COL",
        help="Column of classes to guard (repeatable); default: the only column that is neither key nor split.",
        show_default=False,
    ),
]
Numeric = Annotated[
    list[str] | None,
    typer.Option(
        "--numeric",
        metavar="COL",
        help="Column of numbers to guard (repeatable).",
        show_default=False,
        callback=in_utf8,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="COL",
        help="Column that joins by key; default: word, key, id or token.",
        show_default=False,
        callback=in_utf8,
    ),
]
ByRow = Annotated[bool, typer.Option("--by-row", help="Join by row number, even if there is a key column.")]
SplitColumn = Annotated[
    str | None,
    typer.Option(
        "--split-column",
        callback=in_utf8,
        metavar="COL",
        help="Column of row parts (train, dev, test); default: `split`, if there is one.",
        show_default=False,
    ),
]
NoSplit = Annotated[bool, typer.Option("--no-split", help="Take no column as the split.")]
