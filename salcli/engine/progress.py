"""`Progress`: how long work tells where it is, without knowing who listens."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Hears of stages and of rows done."""

    def stage(self, name: str, n_rows: int) -> AbstractContextManager[Advance]:
        """Open a stage of `n_rows`; the value is called with the rows of each step done."""


class Silent:
    """Hears nothing."""

    @contextmanager
    def stage(self, name: str, n_rows: int) -> Iterator[Advance]:  # noqa: ARG002 (the protocol has them)
        """Open a stage that nobody watches."""
        yield lambda _: None
