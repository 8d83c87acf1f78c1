"""Available memory, which is checked before work starts, so that it does not fail midway."""

import functools
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from salcli.errors import NotEnoughMemory

GIB = 1 << 30
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of mallopt(3)
KEPT_BYTES = 32 << 20  # the most that M_MMAP_THRESHOLD may be
CGROUP = Path("/sys/fs/cgroup")
OF_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
FILE_CACHE = ("inactive_file", "active_file")
MEMINFO, STATM = Path("/proc/meminfo"), Path("/proc/self/statm")


def available_bytes(cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> int | None:
    """Return the bytes of memory that are free, or None where that is not known.

    It is the least of what the system, the process's limit (ulimit -v) and its control group leave.

    Parameters
    ----------
    cgroup : folder of the control group
    meminfo : file of the system's memory
    """
    return min((n for n in _answers(cgroup, meminfo) if n >= 0), default=None)


def require_memory(n_bytes: int, purpose: str, remedy: str) -> None:
    """Check that work fits into memory.

    Parameters
    ----------
    n_bytes : memory that the work takes
    purpose : beginning of the message
    remedy : end of the message, what needs less memory

    Raises
    ------
    NotEnoughMemory : it needs more than there is; the message names both
    """
    free = available_bytes()
    if free is not None and n_bytes > free:
        raise NotEnoughMemory(f"{purpose} takes {in_gib(n_bytes)}, but {in_gib(free)} of memory are free: {remedy}")


def in_gib(n_bytes: int) -> str:
    """Return `n_bytes` as text in GiB, with three digits."""
    return f"{n_bytes / GIB:.3g} GiB"


def _answers(cgroup: Path, meminfo: Path) -> Iterator[int]:
    for line in _lines(meminfo):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        used = next((int(line.split()[0]) for line in _lines(STATM)), 0) * os.sysconf("SC_PAGE_SIZE")
        yield max(0, limit - used)
    for folder, names in ((cgroup, ("memory.max", "memory.current")), (cgroup / "memory", OF_VERSION_1)):
        most, used_now = (next(iter(_lines(folder / name)), "") for name in names)
        if most.isdigit() and used_now.isdigit():
            stat = (line.split() for line in _lines(folder / "memory.stat"))
            cached = sum(int(n) for name, n in stat if name in FILE_CACHE)  # reclaimed when needed
            yield max(0, int(most) - int(used_now) + cached)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").splitlines()
    except OSError:
        return []


def release_freed_memory() -> None:
    """Return freed blocks to the system, before a stage with blocks of other sizes; nothing without glibc."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@functools.cache
def keep_freed_memory() -> None:
    """Make glibc keep freed blocks of up to 32 MiB for the next chunk, instead of returning them to the system.

    New memory costs a page fault for each page, which takes longer than the work on it. All threads take blocks from
    one place: each would keep its own otherwise, which no other thread can use, and which `release_freed_memory` cannot
    return. Does nothing without glibc.
    """
    import ctypes

    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_ARENA_MAX, 1)
        for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
            mallopt(option, KEPT_BYTES)
