"""Run the command many times, each in a process of its own that a warm parent forks; measure the memory of each."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MOST_MEMORY = 300 << 20
# Imports once what commands need, then forks for each line of arguments; `wait4` tells the peak of that child alone.
SERVER = """
import json, os, signal, sys
import salcli.cli.app, salcli.cli.console, salcli.formats.hdf5
import salcli.commands.apply, salcli.commands.evaluate, salcli.commands.fit, salcli.commands.inspect
for line in sys.stdin:
    arguments, out, err = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(60)
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv[1:] = arguments
        status = 0
        try:
            salcli.cli.app.main()
        except SystemExit as done:
            status = done.code or 0
        sys.stdout.flush()
        os._exit(status)
    _, status, usage = os.wait4(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10]), flush=True)
"""


@dataclass(frozen=True)
class Measured:
    """A command that has ended."""

    code: int
    out: str
    err: str
    peak: int
    """Bytes it held at most."""


class Commands:
    """Runs salcli by forking."""

    def __init__(self, server: "subprocess.Popen[str]", folder: Path) -> None:
        self._server, self._streams = server, (folder / "out", folder / "err")

    def run(self, *args: object) -> Measured:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([[str(arg) for arg in args], *map(str, self._streams)]) + "\n")
        self._server.stdin.flush()
        code, peak = json.loads(self._server.stdout.readline())
        out, err = (path.read_bytes().decode() for path in self._streams)
        return Measured(code, out, err, peak)

    def refuse(self, *args: object, says: str) -> None:
        """Run a command that must end with one line on stderr, after little memory."""
        done = self.run(*args)
        assert (done.code, done.out) == (3, ""), done
        errors = [line for line in done.err.splitlines() if not line.startswith("warning: ")]
        assert len(errors) == 1, done
        assert errors[0].startswith("error: "), done
        assert says in errors[0], done
        assert done.peak < MOST_MEMORY, f"{done.peak >> 20} MiB"


@contextmanager
def forked_commands() -> Iterator[Commands]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SERVER]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ}) as server:
            yield Commands(server, Path(folder))
            assert server.stdin is not None
            server.stdin.close()
