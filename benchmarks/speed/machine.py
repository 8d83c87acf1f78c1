"""What machine and which versions a run was made on."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "numpy", "scipy", "h5py", "pyarrow", "orjson", "gensim", "scikit-learn", "scikit-learn-intelex", "torch",
    "concept-erasure",
)  # fmt: skip


def machine() -> dict[str, str]:
    """Name processor, cores, memory, system and kernel, and how busy it is before we start."""
    return {
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{_memory_bytes() / 1e9:.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def versions() -> dict[str, str]:
    """Name Python, BLAS, and the packages that took part, as far as they are installed."""
    found = {"Python": platform.python_version(), "salcli": metadata.version("salcli"), "BLAS": _blas()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def available_bytes() -> int:
    """Ask how much memory is free for files and processes."""
    said = _field(Path("/proc/meminfo"), "MemAvailable")
    return int(said.split()[0]) * 1024 if said else _memory_bytes()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _blas() -> str:
    import scipy.linalg.blas  # noqa: F401 (loads the library that is asked for)
    from threadpoolctl import threadpool_info

    libraries: list[dict[str, Any]] = [part for part in threadpool_info() if part["user_api"] == "blas"]
    named = {f"{part['internal_api']} {part['version']} ({part.get('architecture', '?')})" for part in libraries}
    return ", ".join(sorted(named))


def _field(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
