"""Pickled work and items. What `SentOnce` marks, and shards of many bytes, travel once as parcels."""

import io
import pickle
import threading
import uuid
from dataclasses import dataclass
from typing import Any

from salcli.data.source import Shard
from salcli.streaming.engine import SentOnce

INLINE_BYTES = 16 << 10  # shards up to this size travel with each item


class Parcel:
    """A pickled value, unpickled once in each process that uses it."""

    def __init__(self, data: bytes) -> None:
        self._data, self._lock = data, threading.Lock()

    def __reduce__(self) -> Any:
        return Parcel, (self._data,)

    def __sizeof__(self) -> int:
        return 2 * len(self._data)

    @property
    def value(self) -> Any:
        """The value; threads share it."""
        with self._lock:
            if not hasattr(self, "_value"):
                self._value = pickle.loads(self._data)  # noqa: S301 (the client is trusted as far as the scheduler is)
            return self._value


@dataclass(frozen=True)
class Packed:
    """A pickled item, and what it refers to."""

    data: bytes
    parcels: dict[str, Any]
    """By token, the values that are left out of `data`."""
    shards: tuple[Shard, ...]
    """Every shard that the item reads, in the order in which they are met."""


class Packer:
    """Pickles items of one pass."""

    def __init__(self) -> None:
        self._tokens: dict[int, tuple[Any, str]] = {}
        """By identity, a value that travels once (kept, so that no other takes its place) and its token."""
        self._sizes: dict[str, int] = {}

    def pack(self, item: Any) -> Packed:
        """Return `item` pickled, with tokens in place of values that travel once."""
        import cloudpickle

        parcels, shards = dict[str, Any](), dict[str, Shard]()
        packer = self

        class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
            def persistent_id(self, value: Any) -> str | None:
                """Return the token of a value that is left out; None: it is pickled."""
                if isinstance(value, Shard):
                    shards[value.token] = value
                    if packer._size(value) <= INLINE_BYTES:
                        return None
                elif not isinstance(value, SentOnce):
                    return None
                token = packer._token(value)
                parcels[token] = value
                return token

        buffer = io.BytesIO()
        Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(item)
        return Packed(buffer.getvalue(), parcels, tuple(shards.values()))

    def forget(self, token: str) -> None:
        """Forget a value, so that its memory is freed."""
        self._tokens = {at: each for at, each in self._tokens.items() if each[1] != token}

    def _token(self, value: Any) -> str:
        return self._tokens.setdefault(id(value), (value, f"salcli_{uuid.uuid4().hex}"))[1]

    def _size(self, shard: Shard) -> int:
        if shard.token not in self._sizes:
            self._sizes[shard.token] = len(whole(shard))
        return self._sizes[shard.token]


def whole(value: Any) -> bytes:
    """Return `value` pickled, nothing left out."""
    import cloudpickle

    data: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return data


def unpacked(data: bytes, parcels: dict[str, Parcel]) -> Any:
    """Return an item from its bytes.

    Parameters
    ----------
    data : of `Packer.pack`
    parcels : by token, what it refers to
    """

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, token: str) -> Any:
            """Return the value that was left out."""
            return parcels[token].value

    return Unpickler(io.BytesIO(data)).load()
