"""Settings for all tests, and a cluster that they share."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from salcli.streaming.engine import one_blas_thread

settings.register_profile("salcli", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("salcli")


@pytest.fixture(scope="session")
def scheduler() -> Iterator[str]:
    """Start two worker processes, and return the address of their scheduler."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0, silence_logs=50
    ) as local:
        yield local.scheduler_address


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Run parts of commands as commands run them: BLAS threads of several tests would wait for each other's cores."""
    with one_blas_thread():
        yield
