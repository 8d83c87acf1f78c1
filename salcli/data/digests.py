"""Which rows these are and what their labels, as a SHA-256 over lines of JSON that anyone can write again.

`["key"]` or `["key", "label"]` a line, sorted by key, or by number where rows have no keys: no order of the label CSV,
and no code of a class, shows in it.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index, Selection, as_index

ROUND = 10**4  # for so many numbers all digits but the last four stay the same
LINES_AT_ONCE = ROUND
SIZES = (4, 2, 1)  # digits that are put at once, as one number of so many bytes
MAX_TAIL = 64  # bytes of a label that a table of them holds
INT32_DIGITS = 10  # from so many on a number may be too large for 32 bits


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
    pieces, start = [], 0
    while start < len(numbers):
        first = int(numbers[start])
        longer = 10 ** len(str(first))
        if numbers[-1] - first == len(numbers) - 1 - start:  # they follow each other
            stop = min(len(numbers), start + min(ROUND - first % ROUND, longer - first))
        else:
            stop = int(np.searchsorted(numbers, longer))
        pieces.append(_of_one_length(numbers[start:stop], tails, codes[start:stop]))
        start = stop
    return b"".join(pieces)


def _of_one_length(numbers: Index, tails: list[bytes], codes: NDArray[Any]) -> bytes:
    """Write numbers of as many digits."""
    n, digits = len(numbers), b"%d" % numbers[0]
    lengths = np.array(list(map(len, tails)))
    width = 2 + len(digits) + int(lengths.max())
    templates = [(b'["' + digits + tail).ljust(width) for tail in tails]
    if len(tails) == 1:
        lines = np.frombuffer(bytearray(templates[0] * n), f"V{width}")
    else:
        lines = np.frombuffer(b"".join(templates), f"V{width}").take(codes)
    _spell(numbers, lines, len(digits))
    if lengths.min() == lengths.max():
        return lines.tobytes()
    is_used = np.arange(width) < (width - lengths.max() + lengths)[codes][:, None]
    used: NDArray[np.uint8] = lines.view(np.uint8).reshape(-1, width)[is_used]
    return used.tobytes()


def _spell(numbers: Index, lines: NDArray[np.void], n_digits: int) -> None:
    """Put ascending numbers of so many digits behind the first two bytes of each line, which hold the first of them."""
    first, last, n_last = int(numbers[0]), int(numbers[-1]), next(size for size in SIZES if size <= n_digits)
    if last - first == len(numbers) - 1 and last // 10**n_last == first // 10**n_last:
        at = first % 10**n_last
        _place(lines, 2 + n_digits - n_last, n_last)[:] = _spellings(n_last)[at : at + len(lines)]
        return
    stop, rest = 2 + n_digits, numbers.astype(np.int32) if n_digits < INT32_DIGITS else numbers
    while stop > 2:
        size = next(size for size in SIZES if size <= stop - 2)
        quotient = rest // 10**size
        _place(lines, stop - size, size)[:] = _spellings(size)[rest - 10**size * quotient]
        stop, rest = stop - size, quotient


def _place(lines: NDArray[np.void], offset: int, size: int) -> NDArray[Any]:
    """Show a few bytes of each line as one number."""
    return np.ndarray(len(lines), f"u{size}", lines, offset=offset, strides=lines.strides)


@functools.cache
def _spellings(n_digits: int) -> NDArray[Any]:
    """Give the bytes of all numbers of so many digits, with zeros in front, as items of that size."""
    return np.frombuffer(b"".join(b"%0*d" % (n_digits, i) for i in range(10**n_digits)), f"u{n_digits}")


def _sha256(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
