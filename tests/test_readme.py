"""The README is executed: every console block is run in a real shell, and its stdout compared."""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from salcli.erasers.base import METHODS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
COMMANDS = ("label", "fit", "kfit", "apply", "evaluate", "inspect")
OF_METHODS = tuple(f"fit --method {name}" for name in METHODS)


def steps() -> list[tuple[str, str]]:
    """Give each command with the output that the README shows."""
    found = []
    for block in BLOCK.findall(README):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            found.append((command, output))
    return found


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "200"}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.slow
def test_every_command_prints_what_the_readme_shows(tmp_path: Path) -> None:
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    assert len(steps()) > 5
    for command, expected in steps():
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected, command


@pytest.mark.parametrize("command", [*COMMANDS, *OF_METHODS])
def test_every_option_of_a_command_is_in_the_readme(command: str) -> None:
    shown = run(f"salcli {command} --help", ROOT).stdout
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown)) - {"--help"}
    assert len(options) > 5
    assert not {option for option in options if f"`{option}" not in README}


def test_no_option_in_the_readme_is_unknown() -> None:
    shown = "".join(run(f"salcli {command} --help", ROOT).stdout for command in (*COMMANDS, *OF_METHODS)) + "--version"
    table = README[README.index("| option |") : README.index("Exit status")]
    assert not [option for option in re.findall(r"`(--?[a-z][a-z-]*)", table) if option not in shown]


def test_links_to_files_of_the_repository_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_test_that_shows_a_promise_exists() -> None:
    section = README[README.index("## What is promised") :]
    named = re.findall(r"`(tests/[\w/]+\.py)::([\w*]+)`", section[: section.index("\n## ", 3)])
    assert len(named) > 10
    for file, pattern in named:
        found = re.findall(r"^def (test_\w+)\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)
        assert fnmatch.filter(found, pattern), f"{file}::{pattern}"
