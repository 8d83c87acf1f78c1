"""`HashAsRead`: the hash of an object whose bytes are read once, by several threads, in any order.

Bytes that come before those in front of them wait in an unnamed temporary file.
"""

import heapq
import os
import tempfile
import threading
from collections.abc import Callable
from typing import IO

from salcli.data.hashes import hasher

SLOT_BYTES = 1 << 18  # of a temporary file, which is used again
SMALL_GAP = 1 << 16  # which is read at once, such as a header that was read before
MOST_WAITING = 1 << 30  # bytes of all objects of this process
HASHED_BYTES = 2 << 20  # read at once
Fetch = Callable[[int, int], bytes]
"""Return bytes of the object: how many at most, from which place."""

_waiting: "dict[HashAsRead, int]" = {}
"""Bytes that wait, by object; the one that has waited longest is first."""
_counting = threading.Lock()


class HashAsRead:
    """The hash of an object, to which every piece is added that is read of it."""

    def __init__(self, algorithm: str, n_bytes: int, fetch: Fetch) -> None:
        """Start at the first byte.

        Parameters
        ----------
        algorithm : of the hash
        n_bytes : of the object
        fetch : reads pieces that nobody else reads
        """
        self.algorithm, self._n_bytes, self._fetch, self._hasher = algorithm, n_bytes, fetch, hasher(algorithm)
        self._lock = threading.RLock()
        self._at = 0
        """The first byte that is not hashed."""
        self._early: list[tuple[int, int, int]] = []
        """A heap of pieces that wait: place in the object, bytes, slot."""
        self._sizes: dict[int, int] = {}
        """By place, the bytes of a piece that waits."""
        self._free: list[int] = []
        self._n_slots = 0
        self._spool: IO[bytes] | None = None

    def add(self, data: bytes | memoryview, offset: int) -> None:
        """Add a piece that was read from the byte `offset`; safe on any thread."""
        with self._lock:
            if self._at < offset <= self._at + SMALL_GAP:
                self._read(offset)
            if offset <= self._at:
                self._update(data, offset)
                self._take()
            else:
                self._keep(data, offset)
        while (oldest := self._counted()) is not None:
            oldest.fill()

    def fill(self) -> None:
        """Read what lies before the pieces that wait, so that none waits."""
        with self._lock:
            while self._early:
                stop = self._early[0][0]
                self._read(stop)
                if self._at < stop:  # it has become shorter
                    self.close()
                self._take()
        self._counted()

    def finish(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the whole object, after reading what has not been.

        Parameters
        ----------
        is_wanted : called between reads; where it returns False, the hash is that of a part
        """
        with self._lock:
            while self._at < self._n_bytes and (is_wanted is None or is_wanted()):
                before, stop = self._at, self._early[0][0] if self._early else self._n_bytes
                self._read(min(stop, before + HASHED_BYTES))
                self._take()
                if self._at == before:  # it has become shorter
                    break
            return self._hasher.hexdigest()

    def close(self) -> None:
        """Forget the pieces that wait."""
        with self._lock:
            self._early, self._sizes = [], {}
            self._empty()
        self._counted()

    def _update(self, data: bytes | memoryview, offset: int) -> None:
        if (end := offset + len(data)) > self._at:
            self._hasher.update(memoryview(data)[self._at - offset :])
            self._at = end

    def _read(self, stop: int) -> None:
        while self._at < stop and (data := self._fetch(min(HASHED_BYTES, stop - self._at), self._at)):
            self._update(data, self._at)

    def _take(self) -> None:
        """Hash the pieces that wait and whose turn it is."""
        while self._early and self._early[0][0] <= self._at:
            offset, size, slot = heapq.heappop(self._early)
            self._sizes.pop(offset, None)
            self._free.append(slot)
            if offset + size > self._at:
                assert self._spool is not None
                self._update(os.pread(self._spool.fileno(), size, slot * SLOT_BYTES), offset)
        if not self._early:
            self._empty()

    def _is_written(self, piece: memoryview, slot: int) -> bool:
        """Write a piece into a slot of the temporary file, and return whether the disk had space for it."""
        try:
            if self._spool is None:
                self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed when nothing waits)
            return os.pwrite(self._spool.fileno(), piece, slot * SLOT_BYTES) == len(piece)
        except OSError:
            return False

    def _keep(self, data: bytes | memoryview, offset: int) -> None:
        for start in range(0, len(data), SLOT_BYTES):
            piece, place = memoryview(data)[start : start + SLOT_BYTES], offset + start
            if self._sizes.get(place, 0) >= len(piece):
                continue
            if not self._free:
                self._free.append(self._n_slots)
                self._n_slots += 1
            slot = self._free.pop()
            if not self._is_written(piece, slot):
                self._free.append(slot)
                return  # what does not wait is read again
            heapq.heappush(self._early, (place, len(piece), slot))
            self._sizes[place] = len(piece)

    def _empty(self) -> None:
        self._free, self._n_slots = [], 0
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _counted(self) -> "HashAsRead | None":
        """Count what waits, and return the object that has waited longest if it is too much."""
        with _counting:
            if n_bytes := len(self._early) * SLOT_BYTES:
                _waiting[self] = n_bytes
            else:
                _waiting.pop(self, None)
            return next(iter(_waiting)) if sum(_waiting.values()) > MOST_WAITING else None
