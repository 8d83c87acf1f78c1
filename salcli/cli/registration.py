"""How a function becomes a command: its options, and errors that belong to one command."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import typer

from salcli.cli.help import HELP_FLAGS, GroupedCommand
from salcli.cli.options import expanded, flags_of
from salcli.errors import UsageError
from salcli.options import CompareOptions, EvaluateOptions, FitOptions, MomentsOptions, options_of


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
        cls = _MomentsCommand if self.record is MomentsOptions else cls
        cls = _by_method(self) if self.record is FitOptions else cls
        app.command(self.run.__name__, cls=cls, short_help=short, context_settings=HELP_FLAGS)(self.expanded())

    def expanded(self, **nested: type) -> Callable[..., None]:
        """Return the function with a parameter for each option (see `cli.options.expanded`)."""
        if self.record is None:
            return self.run
        whole: Callable[..., None] = expanded(self.run, self.record, self.defaults, nested)
        return whole


class _EvaluateCommand(GroupedCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; an extra argument is refused with a hint at --eraser and --against."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if "unexpected extra argument" in str(getattr(error, "message", "")):
                error.message += ": an eraser is given by --eraser, an erased file by --against"  # type: ignore[attr-defined]
            raise


class _MomentsCommand(GroupedCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; `--sample` of `fit` is refused with the reason."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "option_name", None) == "--sample":
                raise UsageError(
                    "--sample: a sample is drawn from the labelled rows of all shards, which are not known here: mark "
                    "rows in a split column instead (--fit-split)"
                ) from error
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
