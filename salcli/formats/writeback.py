"""Has the system write a growing file to the disk while it grows, so that the sync at the end has less to do."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

TURN_SECONDS = 0.01
SYNC_FILE_RANGE_WRITE = 2
TO_ITS_END = 0
Start = Callable[[int, int, int, int], int]  # file descriptor, offset, bytes, flags; 0 if the system does it


@contextlib.contextmanager
def written_meanwhile(path: Path) -> Iterator[None]:
    """Have what is new in the file at `path` written out, again and again on a thread, until the block ends.

    Nothing waits for the disk: where each turn synced instead, writers would wait for the journal of the file system.
    What the disk refuses is told to whoever syncs, at the end.
    """
    start = start_of_writing()
    if start is None:
        yield
        return
    is_done = threading.Event()

    def write_out() -> None:
        with contextlib.ExitStack() as stack:
            handle: BinaryIO | None = None
            while not is_done.wait(TURN_SECONDS):
                if handle is None:
                    with contextlib.suppress(OSError):  # it does not exist yet
                        handle = stack.enter_context(path.open("rb", buffering=0))
                elif start(handle.fileno(), 0, TO_ITS_END, SYNC_FILE_RANGE_WRITE):
                    return

    thread = threading.Thread(target=write_out, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


@functools.cache
def start_of_writing() -> Start | None:
    """Find sync_file_range(2), which starts to write what is in memory alone; None where there is no such call."""
    import ctypes

    try:
        found = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint], ctypes.c_int
    start: Start = found
    return start
