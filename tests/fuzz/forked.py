"""Run the command many times, each in a process of its own that a warm parent forks; measure the memory of each."""

from dataclasses import dataclass
from pathlib import Path

from tests.warm import warm

MOST_MEMORY = 300 << 20


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

    def run(self, *args: object) -> Measured:
        code, out, err, peak = warm().run(*args, cwd=Path.cwd())
        return Measured(code, out.decode(), err.decode(), peak)

    def refuse(self, *args: object, says: str) -> None:
        """Run a command that must end with one line on stderr, after little memory."""
        done = self.run(*args)
        assert (done.code, done.out) == (3, ""), done
        errors = [line for line in done.err.splitlines() if not line.startswith("warning: ")]
        assert len(errors) == 1, done
        assert errors[0].startswith("error: "), done
        assert says in errors[0], done
        assert done.peak < MOST_MEMORY, f"{done.peak >> 20} MiB"
