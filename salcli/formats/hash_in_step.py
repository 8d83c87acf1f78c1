"""`HashInStep`: the hash of a local file that several threads read or write, of each piece while it is in a cache."""

import functools
import threading
from collections.abc import Callable

import numpy as np

from salcli.data.embeddings import empty_aligned
from salcli.data.hashes import hasher

HASHED_BYTES = 2 << 20  # read at once; fewer are hashed more slowly
AT_MOST = 2  # pieces that a thread hashes before it goes on with its own work


class HashInStep:
    """The hash of a file that is read or written in pieces, of each while it is in the processor's cache.

    Several threads add pieces, in about their order. One that is early, or meets another thread that hashes, is read
    from the file when its turn comes: nobody waits.
    """

    def __init__(self, algorithm: str, fill: Callable[[memoryview, int], int], header_bytes: int = 0) -> None:
        """Start at the first byte.

        Parameters
        ----------
        algorithm : of `hasher`
        fill : reads from a place in the file into memory, and returns how many bytes there were, 0 only at the end
        header_bytes : the file may begin with so many that nobody adds, at most
        """
        self.algorithm, self._fill, self._header_bytes = algorithm, fill, header_bytes
        self._hasher, self._at, self._is_busy = hasher(algorithm), 0, False
        self._early: dict[int, int] = {}
        """Bytes of the pieces whose turn it is later, by their place."""
        self._lock = threading.Lock()

    @functools.cached_property
    def _memory(self) -> memoryview:
        memory: memoryview = empty_aligned(1, HASHED_BYTES, np.dtype(np.uint8))[0].data
        return memory

    def add(self, piece: memoryview, offset: int) -> None:
        """Add a piece that is in the file from the byte `offset`; safe on any thread."""
        with self._lock:
            is_next = not self._is_busy and 0 <= offset - self._at <= self._header_bytes
            if not is_next and (self._is_busy or offset > self._at):
                self._early[offset] = len(piece)
            if self._is_busy:
                return
            self._is_busy = True
        try:
            if is_next:
                self._read(offset)
                self._hasher.update(piece)
                self._at += len(piece)
            for _ in range(AT_MOST - is_next):
                with self._lock:
                    n_bytes = self._early.pop(self._at, 0)
                self._read(self._at + n_bytes)
        finally:
            with self._lock:
                self._is_busy = False

    def finish(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the whole file, after reading what is left; nothing is added meanwhile.

        Parameters
        ----------
        is_wanted : called between reads; where it returns False, the hash is that of a part
        """
        self._read(None, is_wanted)
        return self._hasher.hexdigest()

    def _read(self, stop: int | None, is_wanted: Callable[[], bool] | None = None) -> None:
        """Hash what is in the file up to the byte `stop` (exclusive; None: to its end)."""
        if stop is not None and stop <= self._at:
            return
        memory = self._memory
        while (stop is None or self._at < stop) and (is_wanted is None or is_wanted()):
            n = self._fill(memory if stop is None else memory[: stop - self._at], self._at)
            if not n:
                return
            self._hasher.update(memory[:n])
            self._at += n
