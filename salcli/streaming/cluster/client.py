"""Connections: to the scheduler of an existing cluster, or to processes of this machine that end with the command."""

import logging
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from salcli.errors import ClusterError, ParameterError, UsageError, first_line
from salcli.options import ClusterOptions
from salcli.streaming.cluster.versions import compare, versions
from salcli.streaming.engine import running_on

if TYPE_CHECKING:
    from distributed import Client

    from salcli.streaming.cluster.engine import Cluster

ADDRESS = "DASK_SCHEDULER_ADDRESS"
ADDRESSES = re.compile(r"(\w+://)?[^/\s]+:\d{1,5}/?")
CONNECT, FIRST_WORKER, REACH = 10, 60, 2  # seconds
P = ParamSpec("P")
R = TypeVar("R")


def runs_on_cluster(command: Callable[P, R]) -> Callable[P, R]:
    """Return a command that runs on the cluster that its options name, if they name one."""

    @wraps(command)
    def run(*args: P.args, **named: P.kwargs) -> R:
        records = (getattr(each, "cluster", None) for each in (*args, *named.values()))
        options = next((each for each in records if isinstance(each, ClusterOptions)), ClusterOptions())
        if options.scheduler is None and options.workers is None and not os.environ.get(ADDRESS):
            return command(*args, **named)
        address = options.scheduler or os.environ.get(ADDRESS)
        with cluster(address if options.workers is None else None, options.workers) as engine, running_on(engine):
            return command(*args, **named)

    return run


@contextmanager
def cluster(address: str | None, n_workers: int | None = None) -> Iterator["Cluster"]:
    """Connect to a cluster for the time of the block, after comparing the versions on its workers.

    Parameters
    ----------
    address : of its scheduler; None: start workers here
    n_workers : processes to start here, with one thread each

    Raises
    ------
    UsageError : Dask is not installed, or `address` is none
    ClusterError : no scheduler answers, it has no workers, or they have another salcli
    """
    if find_spec("distributed") is None:
        raise UsageError("a cluster needs Dask: pip install 'salcli[dask]'")
    import distributed  # noqa: F401 (sets the levels of its loggers)

    from salcli.streaming.cluster.engine import Cluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are reported as one line
    with ExitStack() as stack:
        client = stack.enter_context(_local(n_workers or 1) if address is None else _connected(address))
        name = address or "the local cluster"
        compare(versions(), _versions_of_workers(client, name))
        yield Cluster(client, name)


@contextmanager
def _local(n_workers: int) -> Iterator["Client"]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,  # none: tasks are bounded, and what they read is small
            silence_logs=logging.CRITICAL,
            preload=["salcli.streaming.cluster.interrupts"],
            security=find_spec("cryptography") is not None,  # TLS: else any user of this machine can run code
        ) as local,
        Client(local, set_as_default=False, direct_to_workers=True) as client,
    ):
        yield client


@contextmanager
def _connected(address: str) -> Iterator["Client"]:
    from distributed import Client

    if not ADDRESSES.fullmatch(address):
        raise ParameterError("scheduler", address, "expected tcp://HOST:PORT or tls://HOST:PORT, also in " + ADDRESS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions are compared below
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False, name="salcli")
        except (OSError, ValueError) as error:
            raise ClusterError(f"{address}: no Dask scheduler answers ({first_line(error)})") from error
    with closing(client):
        client.direct_to_workers = _is_reachable(client) or None
        yield client


def _is_reachable(client: "Client") -> bool:
    """Return whether this machine can connect to workers: results then do not pass through the scheduler."""
    for address in client.scheduler_info()["workers"]:
        found = urlsplit(address)
        try:
            with socket.create_connection((found.hostname, found.port), REACH):
                return True
        except (OSError, ValueError):
            return False
    return False


def _versions_of_workers(client: "Client", name: str) -> dict[str, Any]:
    from distributed import TimeoutError as NoWorkers

    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except NoWorkers as error:
        raise ClusterError(f"{name}: no worker within {FIRST_WORKER} s") from error
    try:
        found: dict[str, Any] = client.run(versions, on_error="return")
    except Exception as error:  # noqa: BLE001 (whatever unpickling meets where there is no salcli)
        return {name: error}
    return found
