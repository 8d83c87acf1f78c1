"""The pages of a file that the system has in memory, looked at where they are."""

import mmap
import os

LEAST_BYTES = 1 << 20  # fewer are copied sooner
PROBES = 2  # places where the system is asked


def mapped(handle: int, offset: int, size: int) -> memoryview | None:
    """Map bytes of an open file that the system has at hand, without a copy; None where it has not, or cannot tell.

    Pages that must be fetched first are better read in large pieces than one by one as they are touched. Should another
    program cut the file short meanwhile, the system sends SIGBUS.
    """
    if size < LEAST_BYTES or not hasattr(os, "RWF_NOWAIT"):
        return None
    first, byte = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY, bytearray(1)
    try:
        for place in range(offset, offset + size, -(-size // PROBES)):
            if os.preadv(handle, [byte], place, os.RWF_NOWAIT) != 1:
                return None
        pages = mmap.mmap(handle, offset + size - first, offset=first, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    return memoryview(pages)[offset - first :]
