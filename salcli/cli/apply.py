"""`salcli apply`."""

from typing import Annotated

import typer

from salcli.cli import options as o


def apply(
    eraser: o.EraserArg,
    embeddings: o.EmbeddingsArg,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="Written whole or not at all; `-`: text on stdout. Its suffix chooses the format.",
            show_default=False,
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the input (by rename, when all is written).")
    ] = False,
    strength: Annotated[
        float, typer.Option("--strength", metavar="λ", help="Share of the way, 0…1; below 1 it can be undone.")
    ] = 1.0,
    reduce: Annotated[bool, typer.Option("--reduce", help="Write the d − k remaining coordinates instead.")] = False,
    kernel_matrix: Annotated[
        bool, typer.Option("--kernel-matrix", help="Of a kernel's eraser: write the inner products K̂ (n × n, HDF5).")
    ] = False,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="T",
            help="Numbers of the output: float16, float32, float64; default: the input's.",
            show_default=False,
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            "--output-format", metavar="F", help=f"Force the output's format: {o.FORMAT_HELP}.", show_default=False
        ),
    ] = None,
    dataset: o.Dataset = None,
    keys_dataset: o.KeysDataset = None,
    keys: o.Keys = None,
    format: o.Format = None,
    allow_nonfinite: o.AllowNonfinite = False,
    batch_rows: o.BatchRows = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Stream an embedding file through an eraser."""
    from salcli.cli import console
    from salcli.commands import apply as command
    from salcli.options import ApplyOptions, ReadOptions

    o.require_one_use_of_stdout(output, is_json=json)
    read = ReadOptions(format, dataset, keys_dataset, keys, batch_rows, allow_nonfinite)
    options = ApplyOptions(read, strength, reduce, dtype, output_format, in_place, kernel_matrix)
    done = command.apply(eraser, embeddings, output, options, console.ConsoleProgress(is_quiet=quiet))
    fields = {"output": done.output, "format": done.format, "n": done.n, "d": done.d, "dtype": done.dtype}
    if json:
        console.print_json({"schema": "salcli.apply/1", **fields})
    elif not quiet and done.output != "-":
        console.print_fields(
            {"wrote": done.output, "rows": f"{done.n:,} of {done.d} dimensions, {done.dtype}, {done.format}"}
        )
