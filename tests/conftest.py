"""Settings for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from salcli.streaming.engine import one_blas_thread

settings.register_profile("salcli", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("salcli")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Run parts of commands as commands run them: BLAS threads of several tests would wait for each other's cores."""
    with one_blas_thread():
        yield
