"""`--help` and the completion of shells: every option once, in a group, and examples that are right."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from salcli.cli.app import app
from salcli.cli.commands import COMMANDS
from salcli.cli.complete import VALUES
from salcli.cli.console import rate_text
from salcli.cli.help import EXAMPLES, GENERAL, GROUPS, grouped
from salcli.cli.options import flags_of
from salcli.erasers.base import METHODS
from salcli.formats.registry import FORMATS
from salcli.options import EvaluateOptions, ReadOptions, options_of

from .helpers import SCRIPT

NAMES = [command.run.__name__ for command in COMMANDS]
FLAG = re.compile(r"^  (-.*?)(?:  |$)", re.MULTILINE)


def shown(*args: str) -> str:
    done = CliRunner().invoke(app, args, env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert done.exit_code == 0, done.output
    return done.output


def context(*args: str) -> typer.Context:
    """Parse arguments of a command as far as running it."""
    group = typer.main.get_command(app)
    name, command, rest = group.resolve_command(typer.Context(group), list(args))  # type: ignore[attr-defined]
    return command.make_context(name, rest)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_help_names_each_option_once_and_ends_with_two_examples(name: str) -> None:
    said = shown(name, "-h")
    assert said == shown(name, "--help")
    flags = FLAG.findall(said)
    assert len(flags) == len(set(flags))
    params = [p for p in typer.main.get_command(app).commands[name].params if p.param_type_name == "option"]  # type: ignore[attr-defined]
    assert all(any(param.opts[-1] in flag for flag in flags) for param in params)
    assert flags[-1] == "-h, --help"
    examples = said[said.index("Examples:\n") :].splitlines()[1:]
    assert [line.strip() for line in examples] == list(EXAMPLES[name])
    assert len(examples) == 2
    assert all(len(line) <= 80 for line in said.splitlines())


@pytest.mark.parametrize("example", [each for name in NAMES for each in EXAMPLES[name]])
def test_examples_are_right(example: str) -> None:
    program, *args = shlex.split(example)
    assert program == "salcli"
    if "--help" in args:
        shown(*args)
    else:
        assert context(*args).params


def test_groups_name_options_that_exist_and_gates_stand_with_gates() -> None:
    known = {
        "output",
        "eraser",
        "moments",
        *(name for each in METHODS for name in options_of(METHODS[each].Parameters)),
    }
    for command in COMMANDS:
        if command.record is not None:
            of_record = set(flags_of(command.record))
            for _, names in GROUPS[command.run.__name__]:
                assert set(names) <= known | of_record
    groups = dict(grouped("evaluate", [*options_of(EvaluateOptions), "max_new", "help"]))
    assert "max_new" in groups["Gates"]
    assert groups[GENERAL][-1] == "help"
    assert not [name for name in options_of(EvaluateOptions) if name.startswith("min_") and name not in groups["Gates"]]


def test_numbers_have_separators() -> None:
    assert "[default: 10,000]" in re.sub(r"\s+", " ", shown("evaluate", "--help"))


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag: str) -> None:
    assert shown(flag).startswith("salcli ")


def completed(shell: str, line: str) -> str:
    """Return what a shell is answered at the end of a line."""
    variables = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    env = os.environ | variables | {"_SALCLI_COMPLETE": f"complete_{shell}"}
    return subprocess.run([SCRIPT], env=env, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_options_methods_and_formats(shell: str, tmp_path: Path) -> None:
    assert "evaluate" in completed(shell, "salcli ev")
    assert "--max-accuracy" in completed(shell, "salcli evaluate x y --max-a")
    assert all(method in completed(shell, "salcli fit --method ") for method in METHODS)
    assert "--landmarks" in completed(shell, "salcli fit --method ksal --la")
    assert all(each.name in completed(shell, "salcli evaluate --format ") for each in FORMATS)
    assert "linear,rbf" in completed(shell, "salcli evaluate --probes linear,r")
    env = os.environ | {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    subprocess.run([SCRIPT, "--install-completion", shell], env=env, check=True, capture_output=True)
    assert any("_SALCLI_COMPLETE" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_what_is_completed_is_an_option_and_has_values() -> None:
    records = (*(each.record for each in COMMANDS if each.record), ReadOptions)
    names = {name for record in records for name in options_of(record)}
    for name, values in VALUES.items():
        assert name in names
        assert list(values())


def test_bars_show_what_is_done_and_how_fast() -> None:
    assert rate_text(1_200_000, 2_000_000, "rows", 345_678.9) == "1,200,000 of 2,000,000 rows, 345,679 rows/s"
    assert rate_text(1, 8, "probes", 0.53) == "1 of 8 probes, 0.53 probes/s"
    assert rate_text(0, 8, "probes", None) == "0 of 8 probes"
