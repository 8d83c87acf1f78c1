"""Memory that is at hand while a work is timed, on hosts that take back what their guests leave free.

With free page reporting, as virtual machines have it, a host takes memory that has been free for two seconds. Whoever
touches it next waits until it is given again, and whether a work meets such memory is a matter of when others freed
theirs. So memory is touched and kept until the host has taken what else was free, then
freed: for two seconds works find it as on a machine of one's own.
"""

import time
from dataclasses import dataclass, field

import numpy as np

TAKEN_SECONDS = 2.0  # the delay of Linux (mm/page_reporting.c)
MARGIN = 0.15
PROBE_BYTES = 256 << 20
FRESH = 3.0  # touching memory that was taken costs so many times more, at the least


def is_taken_back() -> bool:
    """Find out whether memory that was free for a while is slower to touch than memory that was just freed."""
    _touch(PROBE_BYTES)
    at_once = _seconds_to_touch()
    time.sleep(TAKEN_SECONDS + MARGIN)
    return _seconds_to_touch() > FRESH * at_once


@dataclass
class AtHand:
    """Has memory touched, and free, whenever a work begins."""

    is_needed: bool
    """Whether the host takes free memory back."""
    _until: float = field(default=0.0, init=False)
    _n_bytes: float = field(default=0.0, init=False)

    def __call__(self, n_bytes: float, seconds: float) -> None:
        """Prepare for a work that will touch so many bytes and probably take so many seconds."""
        is_there = n_bytes <= self._n_bytes and time.perf_counter() + seconds < self._until
        if not self.is_needed or is_there:
            return
        taken = _touch(n_bytes)
        time.sleep(TAKEN_SECONDS + MARGIN)
        del taken
        self._n_bytes, self._until = n_bytes, time.perf_counter() + TAKEN_SECONDS - MARGIN


def _touch(n_bytes: float) -> "np.ndarray":
    return np.ones(int(n_bytes), np.uint8)


def _seconds_to_touch() -> float:
    start = time.perf_counter()
    _touch(PROBE_BYTES)
    return time.perf_counter() - start
