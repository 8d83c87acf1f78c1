"""`Progress`: how long work reports where it is; the command line shows it as a bar."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Hears of stages and of rows done."""

    def stage(self, name: str, total: int, unit: str = "rows") -> AbstractContextManager[Advance]:
        """Open a stage of so many rows, or other units; the value is called with how many each step has done."""

    def say(self, message: str) -> None:
        """Say what a reader should know before waiting."""


class Silent:
    """Hears nothing."""

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Advance]:  # noqa: ARG002 (the protocol has them)
        """Open a stage that nobody watches."""
        yield lambda _: None

    def say(self, message: str) -> None:
        """Say nothing."""
