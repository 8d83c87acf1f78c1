"""What must be alike on every worker: another salcli or Python is refused, another numpy or BLAS is warned of."""

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import salcli
from salcli.errors import ClusterError, warn
from salcli.linalg.blas import blas_product

REFUSED = {"salcli": "salcli", "python": "Python"}
WARNED = {"numpy": "numpy", "blas": "BLAS"}
NAMED = 3  # workers in a message


def versions() -> dict[str, str]:
    """Return the versions of this process: `salcli`, `python`, `numpy`, and library and kernel of `blas`."""
    from threadpoolctl import threadpool_info

    blas_product()  # loads scipy's library
    found = [each for each in threadpool_info() if each["user_api"] == "blas"]
    ours = [each for each in found if "numpy" in each["filepath"] or "scipy" in each["filepath"]]
    kernels = {
        f"{each['internal_api']} {each['version']} {each.get('architecture') or ''}".strip() for each in ours or found
    }
    return {
        "salcli": salcli.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": np.__version__,
        "blas": ", ".join(sorted(kernels)),
    }


def compare(ours: Mapping[str, str], by_worker: Mapping[str, Any]) -> None:
    """Compare the versions of all workers with those of this process.

    Parameters
    ----------
    ours : of `versions`
    by_worker : by address, those of each worker, or the exception where there is no salcli

    Raises
    ------
    ClusterError : a worker has no salcli, or another salcli or Python; the message names all such workers
    """
    lacking = {address: found for address, found in by_worker.items() if not isinstance(found, dict)}
    if lacking:
        fault = next(iter(lacking.values()))
        raise ClusterError(
            f"{_workers(lacking)}: no salcli {ours['salcli']} runs there ({type(fault).__name__}: {fault})"
        )
    refused = _differences(REFUSED, ours, by_worker)
    if refused:
        raise ClusterError(f"{refused}: install the same there")
    differs = _differences(WARNED, ours, by_worker)
    if differs:
        warn(f"{differs}: outputs may differ in their last bits from those of this machine, and from run to run")


def _differences(names: Mapping[str, str], ours: Mapping[str, str], by_worker: Mapping[str, dict[str, str]]) -> str:
    found: dict[str, list[str]] = {}
    for address, theirs in by_worker.items():
        other = [
            f"{title} {theirs[name]}, here {ours[name]}" for name, title in names.items() if theirs[name] != ours[name]
        ]
        if other:
            found.setdefault("; ".join(other), []).append(address)
    return "; ".join(f"{_workers(addresses)}: {what}" for what, addresses in found.items())


def _workers(addresses: Any) -> str:
    named = list(addresses)
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"worker{'s' if len(named) > 1 else ''} {', '.join(named[:NAMED])}{more}"
