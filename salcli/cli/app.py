"""The command line: its commands, and the one place where errors become a line and an exit status.

A command imports what it runs when it runs, and help is plain text, so that `salcli --help` answers at once.
"""

import errno
import io
import os
import re
import signal
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import salcli
from salcli.cli.commands import COMMANDS
from salcli.cli.help import HELP_FLAGS
from salcli.cli.options import error_line
from salcli.errors import OutputError, SalcliError, UsageError

STDOUT_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of writes alone: an input can have other faults
OUR_BUG, INTERRUPTED, TERMINATED, PIPE_CLOSED = 70, 130, 143, 141


class ReportingGroup(TyperGroup):
    """Reports errors that the user can correct as one line and an exit code, in one place."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Parse the command line; `--help` and `--version` print here already."""
        try:
            try:
                return super().make_context(*args, **extra)
            finally:
                sys.stdout.flush()
        except OSError as error:
            raise _refused(error) from error
        except Exception as error:
            if not _is_shown(error, "salcli"):
                raise
            raise typer.Exit(UsageError.exit_code) from error

    def invoke(self, ctx: Any) -> Any:
        """Run the command of `ctx`; an error of the user's becomes one line on stderr and an exit code."""
        from salcli.cli import console

        console.show_warnings()
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
            return value
        except SalcliError as error:
            console.show_error(error_line(error))
            raise typer.Exit(error.exit_code) from error
        except OSError as error:
            raise _refused(error) from error
        except KeyboardInterrupt as error:
            console.show_error("interrupted")
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            if not _is_shown(error, f"salcli {ctx.invoked_subcommand or ''}".strip()):
                raise
            raise typer.Exit(UsageError.exit_code) from error


app = typer.Typer(
    cls=ReportingGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_FLAGS,
    rich_markup_mode=None,
    help="Remove a guarded attribute from embeddings, and measure with freshly trained attackers how much is left.",
    epilog="Exit status: 0 done and every gate passed, 1 a gate failed or is undecided, 2 usage, "
    "3 an input is not usable, 4 the output could not be written.",
)


def _print_version(value: bool) -> None:
    if value:
        print(f"salcli {salcli.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for command in COMMANDS:
    command.register(app)


def _use_utf8() -> None:
    """Set the encoding of stdout and stderr to UTF-8 in any locale, with escapes for what cannot be encoded."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _close_stdout() -> None:
    """Redirect stdout to /dev/null after the reader closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError) -> BaseException:
    """Return the exit that an OSError leads to: of stdout, as errors of files are reported where they are written.

    Any other error is our bug and returned itself.
    """
    from salcli.cli import console

    if not isinstance(error, BrokenPipeError) and error.errno not in STDOUT_FULL:
        return error
    _close_stdout()
    if isinstance(error, BrokenPipeError):
        return typer.Exit(PIPE_CLOSED)
    console.show_error(f"<stdout>: could not be written: {error.strerror}")
    return typer.Exit(OutputError.exit_code)


def _is_shown(error: Exception, command: str) -> bool:
    """Print an error of the parser of command lines as one line; return False for any other, and for help.

    Parameters
    ----------
    error : of any kind
    command : as it was called, for errors without it
    """
    from salcli.cli import console

    message = getattr(error, "format_message", None)  # its class is in another module from version to version
    if message is None or type(error).__name__ == "NoArgsIsHelpError":
        return False
    context = getattr(error, "ctx", None)
    command = command if context is None else context.command_path
    line = usage_line(message())
    console.show_error(f"{command}: {line}" + ("" if line.endswith("?") else f"; see {command} -h"))
    return True


def usage_line(message: str) -> str:
    """Return a `message` of the command line's parser as ours are: one line, with hints behind semicolons."""
    line = " ".join(message.split()).removesuffix(".")
    line = re.sub(r" \(Possible options: (.*)\)$", r"; did you mean \1?", line)
    line = re.sub(r"\.? Did you mean ", "; did you mean ", line)
    return line[:1].lower() + line[1:]


def _open_closed_streams() -> None:
    """Open closed standard streams on /dev/null: files opened later would get their descriptors."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 (open as long as we run)


def _terminate(*_: object) -> None:
    raise SystemExit(TERMINATED)


def main() -> None:
    """Run the command line; SIGTERM raises SystemExit, so that temporary files are removed."""
    _open_closed_streams()
    signal.signal(signal.SIGTERM, _terminate)
    _use_utf8()
    try:
        app()
    except Exception:  # noqa: BLE001 (our bug: shown whole, and never with the status of a failed gate)
        traceback.print_exc()
        sys.exit(OUR_BUG)
