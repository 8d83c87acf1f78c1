"""The pages of the documentation as sessions of a shell: their files are written, their commands run, outputs compared.

A fenced block whose first line says `file=NAME` is written to that file; a block of `console` holds commands after
`$ ` (continued after `> `) with what they print. All blocks of a page run in one folder, in their order. A line of
output that is `…` stands for any lines.
"""

import atexit
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.warm import warm

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (?P<command>.*(?:\n> .*)*)\n?", re.MULTILINE)
STEP = re.compile(r"^ +(?:- )?run: (?P<command>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A file that a page shows, or a command with its output."""

    command: str = ""
    output: str = ""
    file: str = ""
    content: str = ""


def steps(text: str) -> Iterator[Step]:
    """Yield the steps of a page. Of a workflow, the commands that do not install are run too."""
    for block in BLOCK.finditer(text):
        info, body = block["info"].split(), block["body"]
        for name in (word.removeprefix("file=") for word in info if word.startswith("file=")):
            yield Step(file=name, content=body)
            if info[0] == "yaml":
                commands = [step["command"] for step in STEP.finditer(body)]
                yield from (Step(command=one, output="…\n") for one in commands if "install" not in one)
        if info and info[0] == "console":
            found = list(COMMAND.finditer(body))
            for one, following in zip(found, [*found[1:], None], strict=True):
                end = len(body) if following is None else following.start()
                yield Step(one["command"].replace("\n> ", "\n"), body[one.end() : end])


@dataclass
class Session:
    """A folder in which the steps of a page run."""

    folder: Path
    failures: list[str] = field(default_factory=list)
    is_cold: bool = False
    """Whether each salcli is a new process; else a warm parent forks it (see `tests.warm`)."""

    def __post_init__(self) -> None:
        (self.folder / "sample_data").symlink_to(ROOT / "sample_data")

    def run(self, step: Step) -> str:
        """Run a step and return what it printed; commands that fail are listed in `failures`."""
        if step.file:
            path = self.folder / step.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.content, "utf-8")
            return ""
        done = run(step.command, self.folder, is_cold=self.is_cold)
        if done.returncode:
            self.failures.append(f"$ {step.command}\nexit status {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout


@cache
def forking() -> str:
    """Return a folder with a command `salcli` that a warm parent forks."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return str(warm().client(Path(folder.name)).parent)


def run(command: str, folder: Path, *, is_cold: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that finds this salcli."""
    places = [*([] if is_cold else [forking()]), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | {
        "LC_ALL": "C.UTF-8",
        "PATH": os.pathsep.join(places),
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "COLUMNS": "200",
    }
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def agrees(shown: str, printed: str) -> bool:
    """Return whether an output that is shown is what was printed, where `…` stands for any lines."""
    pattern = "".join("(?:.*\n)*?" if line == "…\n" else re.escape(line) for line in shown.splitlines(keepends=True))
    return re.fullmatch(pattern, printed) is not None


def shortened(shown: str, printed: str) -> str:
    """Return what was printed; where one `…` stood for lines, with as many lines around it as before."""
    lines, kept = printed.splitlines(keepends=True), shown.splitlines(keepends=True)
    if kept.count("…\n") != 1:
        return printed
    n_first = kept.index("…\n")
    n_last = len(kept) - n_first - 1
    return "".join([*lines[:n_first], "…\n", *lines[max(n_first, len(lines) - n_last) :]])


def renewed(text: str, folder: Path) -> tuple[str, list[str]]:
    """Run a page and return it with what its commands print now, and the commands that failed."""
    session, parts, at = Session(folder), list[str](), 0
    for step in steps(text):
        printed = session.run(step)
        if step.file or step.output == "…\n":
            continue
        shown = "$ " + step.command.replace("\n", "\n> ") + "\n" + step.output
        start = text.index(shown, at)
        at_output = start + len(shown) - len(step.output)
        parts += [text[at:at_output], step.output if agrees(step.output, printed) else shortened(step.output, printed)]
        at = start + len(shown)
    return "".join([*parts, text[at:]]), session.failures
