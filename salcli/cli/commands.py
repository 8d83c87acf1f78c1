"""The commands: each takes its arguments and its options as a record, runs the command and prints the result.

A command imports what it runs when it runs, so that `salcli --help` answers at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from salcli.cli.help import HELP_FLAGS, GroupedCommand
from salcli.cli.options import expanded, flags_of, in_flags
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


@dataclass(frozen=True)
class Command:
    """A command of the command line."""

    run: Callable[..., None]
    record: type | None = None
    """Of its argument `options`."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Those that are not the record's."""

    def register(self, app: typer.Typer) -> None:
        """Add the command to the typer application `app`."""
        short = (self.run.__doc__ or "").partition("\n")[0]  # whole: it would be cut to one line
        cls = _EvaluateCommand if self.record in (EvaluateOptions, CompareOptions) else GroupedCommand
        cls = _by_method(self) if self.record is FitOptions else cls
        app.command(self.run.__name__, cls=cls, short_help=short, context_settings=HELP_FLAGS)(self.expanded())

    def expanded(self, **nested: type) -> Callable[..., None]:
        """Return the function with a parameter for each option (see `cli.options.expanded`)."""
        if self.record is None:
            return self.run
        whole: Callable[..., None] = expanded(self.run, self.record, self.defaults, nested)
        return whole


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


class _EvaluateCommand(GroupedCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; an extra argument is refused with a hint at --eraser and --against."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if "unexpected extra argument" in str(getattr(error, "message", "")):
                error.message += ": an eraser is given by --eraser, an erased file by --against"  # type: ignore[attr-defined]
            raise


def _by_method(command: Command) -> type[GroupedCommand]:
    """Return the class of a command whose options are the common ones and those of the requested method."""
    default = command.defaults.get("method", options_of(FitOptions)["method"][1])

    class ByMethod(GroupedCommand):
        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            """Parse the command line with the options of its method."""
            from salcli.erasers.base import find_method

            method = find_method(_value_of("--method", args) or default)
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            about = f"{command.run.__doc__}\n\nMethod {method.name}: {method.summary}."
            app.command(cls=GroupedCommand, help=about, context_settings=HELP_FLAGS)(
                command.expanded(parameters=method.Parameters)
            )
            try:
                return typer.main.get_command(app).make_context(info_name, args, parent, **extra)
            except Exception as error:
                if type(error).__name__ == "NoSuchOption":  # whose class is in another module from version to version
                    _require_option_of(method.name, error.option_name)  # type: ignore[attr-defined]
                raise

    return ByMethod


def _value_of(flag: str, args: list[str]) -> str | None:
    """Return the last value that the command line has for a flag."""
    found = None
    for i, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if arg == "--":
            break
        if name == flag:
            found = value if equals else next(iter(args[i + 1 :]), None)
    return found


def _require_option_of(method: str, flag: str) -> None:
    """Check that a flag does not belong to other methods only.

    Raises
    ------
    UsageError : it names them
    """
    from salcli.erasers.base import METHODS

    others = [name for name in METHODS if any(flag in flags for flags in flags_of(METHODS[name].Parameters).values())]
    if others:
        have = "has" if len(others) == 1 else "have"
        raise UsageError(f"{flag}: method {method} has no such option; {', '.join(others)} {have} it")
