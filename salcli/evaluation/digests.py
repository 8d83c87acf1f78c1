"""Which rows these are and what their labels, as a SHA-256 over lines of JSON that anyone can write again.

`["key"]` or `["key", "label"]` a line, sorted by key, or by number where rows have no keys: no order of the label CSV,
and no code of a class, shows in it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index, Selection, as_index

LINES_AT_ONCE = 1 << 13
MAX_TAIL = 64  # bytes of a label that a table of them holds

Bytes = NDArray[np.uint8]


def rows_digest(labels: GuardedLabels, index: Selection) -> str:
    """Hash which rows these are (their keys, or their numbers), whatever their order."""
    parts = _in_order(labels, index)
    if labels.keys is None:
        return _sha256(_numbered(part, [b'"]\n'], np.zeros(len(part), np.int8)) for part in parts)
    return _sha256(_written("[%s]\n", [_names(labels, part)]) for part in parts)


def labels_digest(labels: GuardedLabels, attribute: Attribute, index: Selection) -> str:
    """Hash which rows these are and the label of each, whatever their order."""
    parts = _in_order(labels, index)
    if attribute.classes is None:
        line = f'[{_name_format(labels)}, "%r"]\n'
        return _sha256(_written(line, [_names(labels, part), attribute.values[part].tolist()]) for part in parts)
    told = list(map(encode_basestring_ascii, attribute.classes))
    tails = [f'", {label}]\n'.encode() for label in told]
    if labels.keys is None and max(map(len, tails), default=0) <= MAX_TAIL:
        return _sha256(_numbered(part, tails, attribute.values[part]) for part in parts)

    def columns(part: Index) -> list[Iterable[Any]]:
        return [_names(labels, part), map(told.__getitem__, attribute.values[part].tolist())]

    return _sha256(_written(f"[{_name_format(labels)}, %s]\n", columns(part)) for part in parts)


def _in_order(labels: GuardedLabels, index: Selection) -> Iterator[Index]:
    """Put labels into an order that is theirs alone, and give them part by part: as text they take much memory."""
    keys, order = labels.keys, index
    if keys is not None:
        order = np.array(sorted(as_index(index).tolist(), key=keys.__getitem__), np.int64)
    elif not isinstance(order, range) and not bool(np.all(order[1:] > order[:-1])):  # a sort copies
        order = np.sort(order)
    return (as_index(order[start : start + LINES_AT_ONCE]) for start in range(0, len(order), LINES_AT_ONCE))


def _name_format(labels: GuardedLabels) -> str:
    return '"%d"' if labels.keys is None else "%s"


def _names(labels: GuardedLabels, part: Index) -> Iterable[Any]:
    """Name each label by its row number, or by the JSON of its key."""
    if labels.keys is None:
        numbers: list[int] = part.tolist()
        return numbers
    return map(encode_basestring_ascii, map(labels.keys.__getitem__, part.tolist()))


def _written(line: str, columns: list[Iterable[Any]]) -> bytes:
    """Write lines, all at once: `line` says how one is spelt, `columns` what its fields hold."""
    first, *others = map(list, columns)
    fields = first * (1 + len(others))
    for i, column in enumerate((first, *others)):
        fields[i :: 1 + len(others)] = column
    return (line * len(first) % tuple(fields)).encode()


def _numbered(numbers: Index, tails: list[bytes], codes: NDArray[Any]) -> bytes:
    """Write `["`, a number and the tail of its code, for ascending numbers: much faster than text is formatted."""
    longest = max(map(len, tails))
    table = np.frombuffer(b"".join(tail.ljust(longest) for tail in tails), np.uint8).reshape(-1, longest)
    lengths, are_even = np.array(list(map(len, tails))), len(set(map(len, tails))) == 1
    pieces, start, codes = [], 0, codes.astype(np.intp)
    while start < len(numbers):
        n_digits = len(str(int(numbers[start])))
        stop = int(np.searchsorted(numbers, 10**n_digits))
        head = 2 + n_digits
        lines = np.empty((stop - start, head + longest), np.uint8)
        _spell(numbers[start:stop], lines[:, :head])
        for place, held in enumerate(table.T, head):  # byte by byte: numpy is slow on rows that are so short
            lines[:, place] = held[0] if len(held) == 1 else held.take(codes[start:stop])
        if not are_even:
            lines = lines[np.arange(head + longest) < head + lengths[codes[start:stop], None]]
        pieces.append(lines.tobytes())
        start = stop
    return b"".join(pieces)


def _spell(numbers: Index, lines: Bytes) -> None:
    """Fill lines `[n, 2 + digits]` with `["` and numbers of so many digits."""
    lines[:, 0], lines[:, 1], rest = ord("["), ord('"'), numbers
    for place in reversed(range(2, lines.shape[1])):
        quotient = rest // 10
        lines[:, place] = rest - 10 * quotient + ord("0")
        rest = quotient


def _sha256(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
