"""Keys: bytes to text and back without loss, and the census that finds duplicates in flat memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

import numpy as np
from numpy.typing import NDArray

from salcli.errors import FormatError, warn
from salcli.formats import text_rows

MAX_KEY = 1 << 20


def decoded(words: Sequence[bytes]) -> tuple[str, ...]:
    """Decode UTF-8 words; bytes that are not UTF-8 travel as surrogates. No word holds a line feed."""
    if not words:
        return ()
    return tuple(b"\n".join(words).decode("utf-8", "surrogateescape").split("\n"))


def encoded(keys: Iterable[str]) -> list[bytes]:
    """Undo `decoded`.

    Raises
    ------
    FormatError : a key holds half of a surrogate pair, which no UTF-8 file can hold
    """
    words = []
    for key in keys:
        try:
            words.append(key.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError as error:
            raise FormatError(f"key {key[:40]!a} holds half of a surrogate pair: it has no UTF-8 form") from error
    return words


def is_utf8(key: str) -> bool:
    """Tell whether a key came from proper UTF-8."""
    return not any(0xDC80 <= ord(letter) <= 0xDCFF for letter in key) if not key.isascii() else True


class KeyCensus:
    """Finds keys that occur twice, keeping 8 bytes a key."""

    def __init__(self) -> None:
        self._hashes: list[NDArray[np.int64]] = []

    def add(self, keys: Sequence[str]) -> None:
        """Take the next keys, in file order."""
        self._hashes.append(np.fromiter(map(hash, keys), dtype=np.int64, count=len(keys)))

    def repeated(self) -> list[tuple[int, int]]:
        """Pair each row whose key occurred before with the first row that had it."""
        hashes = np.concatenate([*self._hashes, np.zeros(0, np.int64)])
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(np.diff(hashes[order]) == 0)
        if not len(same):
            return []
        starts = np.concatenate([[True], np.diff(hashes[order]) != 0])
        first = order[np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))]
        return sorted((int(order[i + 1]), int(first[i + 1])) for i in same)

    def tell(self, path: str, key_batches: Callable[[], Iterator[tuple[str, ...]]], place: Callable[[int], str]) -> int:
        """Warn of duplicates, naming the first three with both places.

        Returns
        -------
        how many rows repeat an earlier key
        """
        repeated = self.repeated()
        if not repeated:
            return 0
        keys = _keys_at({row for row, _ in repeated[:3]}, key_batches())
        named = "; ".join(
            f"{text_rows.shown(encoded([keys[row]])[0])} ({place(first)} and {place(row)})"
            for row, first in repeated[:3]
        )
        more = " …" if len(repeated) > 3 else ""
        plural = "s" if len(repeated) > 1 else ""
        warn(f"{path}: {len(repeated)} duplicate key{plural}, kept in place; labels join the first: {named}{more}")
        return len(repeated)


def _keys_at(rows: set[int], batches: Iterable[tuple[str, ...]]) -> dict[int, str]:
    found: dict[int, str] = {}
    start = 0
    for keys in batches:
        found |= {row: keys[row - start] for row in rows if start <= row < start + len(keys)}
        start += len(keys)
        if len(found) == len(rows):
            break
    return found


def read_key_lines(path: str) -> tuple[str, ...]:
    """Read a text file with one key a line.

    Raises
    ------
    FormatError : it cannot be read, or a line is empty
    """
    try:
        with open(path, "rb") as handle:
            lines = list(_bounded_lines(path, handle))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from error
    lines = lines or [b""]
    lines[0] = lines[0].removeprefix(text_rows.BOM)
    if all(line.endswith(b"\r") for line in lines):
        lines = [line[:-1] for line in lines]
    if b"" in lines:
        raise FormatError(f"{path}: line {lines.index(b'') + 1}: an empty line, expected a key")
    return decoded(lines)


def _bounded_lines(path: str, handle: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while line := handle.readline(MAX_KEY + 1):
        number += 1
        if len(line) > MAX_KEY:
            raise FormatError(f"{path}: line {number}: more than {MAX_KEY >> 20} MiB without a line feed: not keys")
        yield line.removesuffix(b"\n")
