"""docs/reference/cli.md, made from the commands and their option records."""

from collections.abc import Iterator
from typing import Any

import typer

from salcli.cli.app import app
from salcli.cli.commands import COMMANDS
from salcli.cli.registration import Command
from salcli.erasers.base import METHODS
from salcli.options import FitOptions, options_of

HEAD = """\
# The command line

<!-- Made from the code by `make docs`; a test compares it. Change the help texts in salcli/ instead. -->

Results go to stdout; progress, warnings and errors go to stderr. `salcli --version` prints the version, and
`salcli COMMAND --help` prints what is below. What the exit status means: [exit-codes.md](exit-codes.md). Lists with
commas (`P,…`) add up where their option is repeated.

| command | what it does |
|---|---|
"""
FITS = """\
Every method has these options, and those of its own that follow. An option that only another method has is a usage
error, which names the methods that have it.

"""
OF_ANOTHER = """\
The same as [`salcli {}`](#salcli-{}), with `{}` as the default of `--{}`.
"""


def cli_reference() -> str:
    """Return the page: every command with its arguments and options."""
    commands = {command.run.__name__: command for command in COMMANDS}
    listed = (f"| [`salcli {name}`](#salcli-{name}) | {_about(command)} |\n" for name, command in commands.items())
    return "".join([HEAD, *listed, *(_section(name, command) for name, command in commands.items())])


def _about(command: Command) -> str:
    return _cell((command.run.__doc__ or "").partition("\n")[0])


def _section(name: str, command: Command) -> str:
    params = _params(command.expanded())
    arguments = [each for each in params if each.param_type_name == "argument"]
    options = [each for each in params if each.param_type_name == "option"]
    usage = " ".join([f"salcli {name}", *(each.metavar for each in arguments), "[OPTIONS]"])
    parts = [f"\n## salcli {name}\n\n{command.run.__doc__}\n\n```text\n{usage}\n```\n\n"]
    if arguments:
        parts += ["| argument | meaning |\n|---|---|\n", *map(_row_of_argument, arguments), "\n"]
    if command.defaults:
        ((option, value),) = command.defaults.items()
        parts.append(OF_ANOTHER.format("fit", "fit", value, option))
    elif command.record is FitOptions:
        parts += [FITS, *_table(options), *_of_methods(command)]
    else:
        parts += _table(options)
    return "".join(parts)


def _of_methods(command: Command) -> Iterator[str]:
    for method in METHODS.values():
        own = options_of(method.Parameters)
        of_method = [p for p in _params(command.expanded(parameters=method.Parameters)) if p.name in own]
        yield f"\n### Options of method {method.name}\n\n`{method.name}`: {_cell(method.summary)}.\n\n"
        yield from _table(of_method)


def _params(run: Any) -> list[Any]:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(run)
    return [each for each in typer.main.get_command(alone).params if each.name != "help"]


def _table(options: list[Any]) -> Iterator[str]:
    yield "| option | default | meaning |\n|---|---|---|\n"
    for each in options:
        flags = ", ".join(f"`{flag}`" for flag in [*each.opts, *each.secondary_opts])
        value = "" if each.metavar is None or each.is_flag else f" {_cell(each.metavar)}"
        yield f"| {flags}{value} | {_default(each)} | {_cell(each.help)} |\n"


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if not option.show_default or option.default in (None, "") or (option.is_flag and not option.secondary_opts):
        return ""
    if option.is_flag:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    default = option.default
    return f"`{','.join(default) if isinstance(default, list) else default}`"


def _row_of_argument(argument: Any) -> str:
    return f"| `{argument.metavar}` | {_cell(argument.help)} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def every_flag() -> set[str]:
    """Return all options of all commands and methods."""
    found = {"--version", "--help"}
    for command in COMMANDS:
        nested = [{"parameters": m.Parameters} for m in METHODS.values()] if command.record is FitOptions else [{}]
        for each in nested:
            options = (p for p in _params(command.expanded(**each)) if p.param_type_name == "option")
            found |= {flag for p in options for flag in [*p.opts, *p.secondary_opts]}
    return found


def every_command() -> set[str]:
    """Return the names of all commands."""
    return set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
