"""The commands: each takes its arguments and its options as a record, runs the command and prints the result.

A command imports what it runs when it runs, so that `salcli --help` answers at once.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from salcli.cli.options import flags_of, in_flags
from salcli.cli.registration import Command
from salcli.errors import UsageError
from salcli.options import (
    ApplyOptions,
    CompareOptions,
    EvaluateOptions,
    ExportOptions,
    FitOptions,
    InspectOptions,
    LabelCommandOptions,
    MomentsOptions,
    options_of,
)

if TYPE_CHECKING:
    from salcli.evaluation.comparison import Comparison
    from salcli.evaluation.report import Report

GATE_FAILED = 1
STDOUT = "-"


def _dash_for_stdout(path: str | None) -> str | None:
    """Return `-` for `/dev/stdout` and other names of stdout, else the path."""
    from salcli.formats.atomic import is_stdout

    return STDOUT if path is not None and is_stdout(path) else path


def _output(help: str, metavar: str = "FILE") -> Any:
    return typer.Option("-o", "--output", metavar=metavar, help=help, show_default=False, callback=_dash_for_stdout)


OF_EMBEDDINGS = "Embedding file, or a folder or quoted glob of shards; `-`: text vectors on stdin."
OF_LABELS = "Label CSV (or table), or a folder or quoted glob of one a shard."
Embeddings = Annotated[str, typer.Argument(metavar="EMBEDDINGS", help=OF_EMBEDDINGS)]
Labels = Annotated[str, typer.Argument(metavar="LABELS", help=OF_LABELS)]
Eraser = Annotated[str, typer.Argument(metavar="ERASER", help="Artifact that `fit` or `kfit` wrote.")]
Output = Annotated[str, _output("Written whole or not at all.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary; warnings and errors stay.")]


def label(
    embeddings: Embeddings,
    output: Annotated[str, _output("Written whole or not at all; `-`: stdout.")],
    options: LabelCommandOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a label CSV, from seed words (the words nearest to one and to the other) or from the sizes of classes."""
    from salcli.cli import console
    from salcli.commands import label as command

    _require_one_use_of_stdout(output, is_json=json)
    summary = command.label(embeddings, output, options, console.ConsoleProgress(is_quiet=quiet))
    if json:
        console.print_json({"schema": "salcli.label/1", **summary.to_dict()})
    elif not quiet and output != STDOUT:
        console.print_fields(summary.lines())


def fit(
    output: Output,
    options: FitOptions,
    embeddings: Annotated[
        str | None, typer.Argument(metavar="EMBEDDINGS", help=OF_EMBEDDINGS, show_default=False)
    ] = None,
    labels: Annotated[str | None, typer.Argument(metavar="LABELS", help=OF_LABELS, show_default=False)] = None,
    moments: Annotated[
        list[str] | None,
        typer.Option(
            "--moments",
            metavar="GLOB",
            help="Instead of EMBEDDINGS and LABELS, what `salcli moments` wrote for each shard (repeatable).",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn an eraser from embeddings and a label CSV."""
    from salcli.cli import console
    from salcli.commands import fit as command
    from salcli.commands import fit_moments

    progress = console.ConsoleProgress(is_quiet=quiet)
    if moments:
        if embeddings is not None:
            raise UsageError(
                f"--moments stands instead of EMBEDDINGS and LABELS, but {embeddings} is given (quote a glob)"
            )
        fitted = fit_moments.fit_moments(moments, output, options, progress)
    elif embeddings is None or labels is None:
        raise UsageError(f"Missing argument '{'EMBEDDINGS' if embeddings is None else 'LABELS'}' (or --moments GLOB)")
    else:
        fitted = command.fit(embeddings, labels, output, options, progress)
    console.show_fit(
        output, fitted.header, fitted.singular_values.tolist(), fitted.n_bytes, is_json=json, is_quiet=quiet
    )


def moments(
    embeddings: Annotated[
        str, typer.Argument(metavar="EMBEDDINGS", help="Embedding file, one of several; `-`: text vectors on stdin.")
    ],
    labels: Annotated[str, typer.Argument(metavar="LABELS", help="Its label CSV (or table), or by key one of all.")],
    output: Output,
    options: MomentsOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add up the rows of one shard of many, from which fit makes the eraser of all."""
    from salcli.cli import console
    from salcli.commands import moments as command

    header = command.moments(embeddings, labels, output, options, console.ConsoleProgress(is_quiet=quiet))
    if json:
        console.print_json({**header, "schema": "salcli.moments/1", "output": output})
    elif not quiet:
        console.print_fields({"moments": output, **console.moments_fields(header)})


def kfit(
    embeddings: Embeddings,
    labels: Labels,
    output: Output,
    options: FitOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn an eraser in a kernel's feature space (kSAL), for what linear removal leaves."""
    fit(output, options, embeddings, labels, None, json, quiet)


def methods(json: Json = False) -> None:
    """List the methods of `fit`, and when to use which."""
    from salcli.cli import console
    from salcli.erasers.base import METHODS

    found = [METHODS[name] for name in METHODS]
    if json:
        listed = [{"name": m.name, "summary": m.summary, "parameters": _described(m.Parameters)} for m in found]
        console.print_json({"schema": "salcli.methods/1", "methods": listed})
    else:
        console.print_fields({method.name: method.summary for method in found})


def _described(record: type) -> list[dict[str, Any]]:
    flags = flags_of(record)
    return [
        {"name": name, "flags": list(flags[name]), "default": default, "help": in_flags(option.help)}
        for name, (option, default) in options_of(record).items()
    ]


def apply(
    eraser: Eraser,
    embeddings: Embeddings,
    options: ApplyOptions,
    output: Annotated[
        str | None,
        _output(
            "Written whole or not at all; `-`: text on stdout. Its suffix chooses the format. Of a folder or glob, a "
            "folder of the same names, which the same command completes, unless OUT has the suffix of a file.",
            "OUT",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Stream an embedding file through an eraser."""
    from salcli.cli import console
    from salcli.commands import apply as command

    _require_one_use_of_stdout(output, is_json=json)
    written = command.apply(eraser, embeddings, output, options, console.ConsoleProgress(is_quiet=quiet))
    fields = {
        "output": written.output,
        "format": written.format,
        "n": written.n,
        "d": written.d,
        "dtype": written.dtype,
    }
    shards = {} if written.n_shards is None else {"shards": written.n_shards, "kept": written.n_kept}
    if json:
        console.print_json({"schema": "salcli.apply/1", **fields, **shards})
    elif not quiet and written.output != STDOUT:
        rows = f"{written.n:,} of {written.d} dimensions, {written.dtype}, {written.format}"
        kept = f", {written.n_kept:,} of them kept from an earlier run" if written.n_kept else ""
        of_folder = {} if written.n_shards is None else {"shards": f"{written.n_shards:,}{kept}"}
        console.print_fields({"wrote": written.output, "rows": rows, **of_folder})


def evaluate(
    context: typer.Context,
    embeddings: Embeddings,
    options: EvaluateOptions,
    labels: Annotated[
        str | None,
        typer.Argument(
            metavar="[LABELS]", help="Label CSV; --similarity, --bias and --neighbors do without.", show_default=False
        ),
    ] = None,
    eraser: Annotated[
        str | None,
        typer.Option(
            "--eraser",
            metavar="ERASER",
            help="Evaluate before and after this eraser; default: the file as it is.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress; figures, warnings and errors stay.")] = False,
) -> None:
    """Train attackers before and after erasure, and gate on what they read."""
    from salcli.cli import console
    from salcli.cli.command_line import command_line
    from salcli.commands import evaluate as command

    progress = console.ConsoleProgress(is_quiet=quiet)
    report = command.evaluate(embeddings, labels, eraser, options, progress, in_flags, command_line(context))
    _show_evaluation(report, is_json=json)


def compare(
    context: typer.Context,
    embeddings: Embeddings,
    labels: Labels,
    options: CompareOptions,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress; figures, warnings and errors stay.")] = False,
) -> None:
    """Compare erasers on the same rows, by the same attackers: what each leaves, and what it keeps."""
    from salcli.cli import console
    from salcli.cli.command_line import command_line
    from salcli.commands import compare as command

    progress = console.ConsoleProgress(is_quiet=quiet)
    report = command.compare(embeddings, labels, options, progress, in_flags, command_line(context))
    _show_evaluation(report, is_json=json)


def _show_evaluation(report: "Report | Comparison", *, is_json: bool) -> None:
    """Print a report, and exit with 1 if its gates keep the release back."""
    from salcli.cli import console

    if is_json:
        from salcli.evaluation.json_fields import to_json

        console.print_json(to_json(report))
    else:
        from salcli.render.terminal import terminal

        print(terminal(report, console.results(), with_notes=False), end="")
    if report.is_refused:
        raise typer.Exit(GATE_FAILED)


def export(
    eraser: Eraser,
    output: Annotated[str, _output("Written whole or not at all. Its suffix chooses the target.", "OUT")],
    options: ExportOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write an eraser for ONNX, or as a matrix for PyTorch, numpy, or into a sentence-transformers model."""
    from salcli.cli import console
    from salcli.commands import export as command

    found = command.export(eraser, output, options)
    if json:
        console.print_json({"schema": "salcli.export/1", **found.to_dict()})
    elif not quiet:
        map_ = f"{found.target}, {found.d_out} x {found.d}, {found.to_dict()['dtype']}"
        console.print_fields({"wrote": ", ".join(found.files), "map": map_})


def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Embedding file or artifact.")],
    options: InspectOptions,
    json: Json = False,
) -> None:
    """Show what is in an embedding file, its join with labels, or an artifact."""
    from salcli.cli import console
    from salcli.commands import inspect as command

    found = command.inspect(file, options)
    console.print_json(found) if json else console.print_inspection(found)


def _require_one_use_of_stdout(output: str | None, *, is_json: bool) -> None:
    """Check that --json and `-o -` are not combined: both write to stdout."""
    if output == STDOUT and is_json:
        raise UsageError(f"--json and -o {output} both write to stdout: choose one")


COMMANDS = (
    Command(label, LabelCommandOptions),
    Command(fit, FitOptions),
    Command(kfit, FitOptions, {"method": "ksal"}),
    Command(moments, MomentsOptions),
    Command(methods),
    Command(apply, ApplyOptions),
    Command(evaluate, EvaluateOptions),
    Command(compare, CompareOptions),
    Command(export, ExportOptions),
    Command(inspect, InspectOptions),
)
