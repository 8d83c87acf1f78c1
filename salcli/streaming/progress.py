"""`Progress`: how long work tells where it is, without knowing who listens."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Hears of stages and of rows done."""

    def stage(self, name: str, total: int, unit: str = "rows") -> AbstractContextManager[Advance]:
        """Open a stage of so many rows, or other units; the value is called with how many each step has done."""

    def tell(self, message: str) -> None:
        """Say what a reader should know before waiting."""


class Silent:
    """Hears nothing."""

    @contextmanager
    def stage(self, name: str, total: int, unit: str = "rows") -> Iterator[Advance]:  # noqa: ARG002 (the protocol has them)
        """Open a stage that nobody watches."""
        yield lambda _: None

    def tell(self, message: str) -> None:
        """Say nothing."""
