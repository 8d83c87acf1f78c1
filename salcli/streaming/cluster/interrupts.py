"""Loaded by the local workers: Ctrl-C reaches them too, but it is the client that ends them."""

import signal
from typing import Any


def dask_setup(worker: Any) -> None:  # noqa: ARG001 (Dask calls it)
    """Ignore Ctrl-C in the process of a worker that has started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
