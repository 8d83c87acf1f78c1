"""What the fuzz tests share."""

import pytest

from .forked import Commands


@pytest.fixture(scope="session")
def commands() -> Commands:
    return Commands()
