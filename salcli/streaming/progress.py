"""`Progress`: how long-running work reports its progress; the command line shows a bar."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Receives the stages of work and the rows done."""

    def stage(self, name: str, total: int, unit: str = "rows") -> AbstractContextManager[Advance]:
        """Open a stage of work; the value of the block is called with the number of units that each step has done.

        Parameters
        ----------
        name : of the stage, for display
        total : units in all
        unit : their name
        """

    def say(self, message: str) -> None:
        """Show `message`."""


class Silent:
    """Progress that is not shown."""

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Advance]:  # noqa: ARG002 (the protocol has them)
        """Open a stage that is not shown (see `Progress.stage`)."""
        yield lambda _: None

    def say(self, message: str) -> None:
        """Discard the message (see `Progress.say`)."""
