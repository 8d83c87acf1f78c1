"""A warm parent of commands, one for each module."""

from collections.abc import Iterator

import pytest

from .forked import Commands, forked_commands


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with forked_commands() as found:
        yield found
