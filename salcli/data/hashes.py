"""`FileHash`: the hash of a file, and the algorithms that compute it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

HASH_ALGORITHMS = ("blake3", "sha256")
"""Those of artifacts, by which nobody can pass one file off as another; the first is the default."""
CHECKSUM = "xxh3_128"
"""As fast as memory; it shows that a file was changed, but not by whom: other files with one hash can be made."""


class Hasher(Protocol):
    """What `hashlib`, `blake3` and `xxhash` have in common."""

    def update(self, data: Any, /) -> Any:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the hash of all bytes so far, as hexadecimal digits."""


def hasher(algorithm: str) -> Hasher:
    """Return a new hasher.

    Parameters
    ----------
    algorithm : one of `HASH_ALGORITHMS`, or `CHECKSUM`
    """
    if algorithm == "sha256":
        return hashlib.sha256()
    if algorithm == CHECKSUM:
        from xxhash import xxh3_128

        return xxh3_128()
    assert algorithm == "blake3", algorithm
    from blake3 import blake3  # other commands start without it

    return blake3()


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
