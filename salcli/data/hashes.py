"""`FileHash`: the hash of a file, and the algorithms that compute it."""

import functools
import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from salcli.data.embeddings import empty_aligned

HASH_ALGORITHMS = ("blake3", "sha256")
"""The first is the default."""
HASHED_BYTES = 2 << 20  # read at once; fewer are hashed more slowly


class Hasher(Protocol):
    """What `hashlib` and `blake3` have in common."""

    def update(self, data: Any, /) -> Any:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the hash of all bytes so far, as hexadecimal digits."""


def hasher(algorithm: str) -> Hasher:
    """Return a new hasher.

    Parameters
    ----------
    algorithm : one of `HASH_ALGORITHMS`
    """
    if algorithm == "sha256":
        return hashlib.sha256()
    assert algorithm == "blake3", algorithm
    from blake3 import blake3  # other commands start without it

    return blake3()


class HashInStep:
    """The hash of a file that is read or written in pieces, of each while it is in the processor's cache.

    Several threads add pieces, in about their order. One that is early, or meets another thread that hashes, is read
    from the file when its turn comes: nobody waits.
    """

    def __init__(self, algorithm: str, fill: Callable[[memoryview, int], int], header_bytes: int = 0) -> None:
        """Start at the first byte.

        Parameters
        ----------
        algorithm : one of `HASH_ALGORITHMS`
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
            is_next = offset == self._at or self._at < offset <= self._at + self._header_bytes
            if self._is_busy or not is_next:
                if offset > self._at or self._is_busy:
                    self._early[offset] = len(piece)
                return
            self._is_busy = True
        try:
            self._read(offset)
            self._hasher.update(piece)
            self._at += len(piece)
            while (stop := self._next_stop()) is not None:
                self._read(stop)
        except BaseException:
            self._is_busy = False
            raise

    def finish(self, is_wanted: Callable[[], bool] | None = None) -> str:
        """Return the hash of the whole file, after reading what is left; nothing is added meanwhile.

        Parameters
        ----------
        is_wanted : called between reads; where it returns False, the hash is that of a part
        """
        self._read(None, is_wanted)
        return self._hasher.hexdigest()

    def _next_stop(self) -> int | None:
        """Return the end of the piece whose turn it is; None, and nothing is hashed any more, if there is none."""
        with self._lock:
            n_bytes = self._early.pop(self._at, 0)
            self._is_busy = n_bytes > 0
            return self._at + n_bytes if n_bytes else None

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


def digest_of(digests: Sequence[str], algorithm: str) -> str:
    """Return the hash of several files: that of their `digests`, one a line; of one file its own."""
    if len(digests) == 1:
        return digests[0]
    found = hasher(algorithm)
    found.update("".join(f"{digest}\n" for digest in digests).encode("ascii"))
    return found.hexdigest()


@dataclass(frozen=True)
class FileHash:
    """The hash of a file's bytes."""

    algorithm: str
    """One of `HASH_ALGORITHMS`."""
    digest: str
    """Hexadecimal digits."""

    @property
    def title(self) -> str:
        """The algorithm's name in messages."""
        return "SHA-256" if self.algorithm == "sha256" else "BLAKE3"

    @property
    def sha256(self) -> str | None:
        """The digest if it is SHA-256, for readers of the reports of earlier versions, which had no other."""
        return self.digest if self.algorithm == "sha256" else None

    @classmethod
    def recorded(cls, record: dict[str, Any]) -> Self | None:
        """Return the hash in an artifact's `record` of a file, or None if it has none.

        Its field is `hash`, or `sha256` (of labels, and in artifacts of salcli 0.1).
        """
        if (found := record.get("hash")) is not None:
            return cls(found["algorithm"], found["digest"])
        return None if record.get("sha256") is None else cls("sha256", record["sha256"])


def is_hash(value: Any) -> bool:
    """Return whether `value`, of any type, is the `hash` of a record."""
    return (
        isinstance(value, dict) and value.get("algorithm") in HASH_ALGORITHMS and isinstance(value.get("digest"), str)
    )
