"""Keys: lossless conversion of bytes to text, their place in files, and detection of duplicates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from salcli.errors import FormatError, warn
from salcli.formats import text_rows

MAX_KEY = 1 << 20
KEY_NAMES = frozenset({"keys", "words", "vocab", "vocabulary", "tokens", "ids", "key", "word", "token", "id", "index"})
OTHER_KEY_NAMES = frozenset({"labels"})  # of keys in some files, of classes in others


def choose_keys(path: str, lists: Mapping[str, int], n: int, matrix: str, *, may_lack: bool = False) -> str | None:
    """Return the name of the list of strings that are the keys of a matrix.

    Parameters
    ----------
    path : for messages
    lists : the length of each list of strings in the file, by its name (of which the part behind the last `/` counts)
    n : rows of the matrix
    matrix : its name, for messages
    may_lack : whether there need not be any, since keys come from elsewhere

    Returns
    -------
    the only list of n strings; of several, the only one that is named as keys are; None if there is no list

    Raises
    ------
    FormatError : several lists fit, or a list that is named as keys are has another length
    """
    fitting = [name for name, length in lists.items() if length == n]
    named, others = (
        [name for name in lists if has_key_name(name)],
        [name for name in fitting if _last(name) in OTHER_KEY_NAMES],
    )
    for candidates in (fitting, [name for name in fitting if name in named], others):
        if len(candidates) == 1:
            return candidates[0]
    if may_lack:
        return None
    if fitting:
        raise FormatError(f"{path}: several lists of {n} strings, {listed(fitting)}: choose one with `keys_dataset`")
    for name in named:
        raise FormatError(f"{path}: {lists[name]:,} keys in {shortened(name)}, {n:,} rows in {matrix}")
    if lists:
        warn(f"{path}: {listed(list(lists))} does not have one string for each of {n:,} rows: not taken as keys")
    return None


def has_key_name(name: str) -> bool:
    """Return whether `name`, of an array, is one that keys have."""
    return _last(name) in KEY_NAMES


def _last(name: str) -> str:
    return name.rpartition("/")[2].lower()


def shortened(name: str) -> str:
    """Return `name` shortened for a message; a file may hold a long one."""
    return name if len(name) <= 80 else f"{name[:79]}…"


def listed(names: Sequence[str]) -> str:
    """Return the first eight of `names` as text for a message."""
    return ", ".join(map(shortened, names[:8])) + (" …" if len(names) > 8 else "")


def decoded(words: Sequence[bytes]) -> tuple[str, ...]:
    """Return `words` decoded from UTF-8, with other bytes as surrogates; no word holds a line feed."""
    if not words:
        return ()
    return tuple(b"\n".join(words).decode("utf-8", "surrogateescape").split("\n"))


def encoded(keys: Iterable[str]) -> list[bytes]:
    """Return `keys` as bytes, the inverse of `decoded`.

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
    """Return whether `key`, as `decoded` returned it, was valid UTF-8."""
    return not any(0xDC80 <= ord(letter) <= 0xDCFF for letter in key) if not key.isascii() else True


class KeyCensus:
    """Finds keys that occur twice, keeping 8 bytes a key."""

    def __init__(self) -> None:
        self._hashes: list[NDArray[np.int64]] = []

    def add(self, keys: Sequence[str]) -> None:
        """Add the next `keys`, in file order."""
        self._hashes.append(np.fromiter(map(hash, keys), dtype=np.int64, count=len(keys)))

    def extend(self, other: "KeyCensus") -> None:
        """Add the keys of another census, which follow."""
        self._hashes += other._hashes

    def repeated(self) -> list[tuple[int, int]]:
        """Return each row whose key occurred before, paired with the first row that had it.

        Keys are compared by their 64-bit hashes.
        """
        hashes = np.concatenate([*self._hashes, np.zeros(0, np.int64)])
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(np.diff(hashes[order]) == 0)
        if not len(same):
            return []
        starts = np.concatenate([[True], np.diff(hashes[order]) != 0])
        first = order[np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))]
        return sorted((int(order[i + 1]), int(first[i + 1])) for i in same)

    def warn(self, path: str, key_batches: Callable[[], Iterator[tuple[str, ...]]], place: Callable[[int], str]) -> int:
        """Warn of duplicates, naming the first three with both places.

        Parameters
        ----------
        path : of the file
        key_batches : yields all keys again, in file order
        place : names a row, for the message

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
