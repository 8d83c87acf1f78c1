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

LINES_AT_ONCE = 1 << 14
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
    longest, pieces, start = max(map(len, tails)), [], 0
    lengths, are_even = np.array(list(map(len, tails))), len(set(map(len, tails))) == 1
    while start < len(numbers):
        n_digits = len(str(int(numbers[start])))
        stop = int(np.searchsorted(numbers, 10**n_digits))
        head, some = b'["' + b"0" * n_digits, codes[start:stop]
        width = len(head) + longest
        templates = np.frombuffer(b"".join(head + tail.ljust(longest) for tail in tails), f"V{width}")
        lines = templates.take(some) if len(tails) > 1 else templates.repeat(stop - start)
        _spell(numbers[start:stop], lines, n_digits)
        if are_even:
            pieces.append(lines.tobytes())
        else:
            is_used = np.arange(width) < len(head) + lengths[some][:, None]
            pieces.append(lines.view(np.uint8).reshape(-1, width)[is_used].tobytes())
        start = stop
    return b"".join(pieces)


def _spell(numbers: Index, lines: NDArray[np.void], n_digits: int) -> None:
    """Put ascending numbers of so many digits behind the first two bytes of each line, up to four digits at once."""
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        _spell_run(int(numbers[0]), lines, n_digits)
        return
    stop, rest = 2 + n_digits, numbers.astype(np.int32) if n_digits < INT32_DIGITS else numbers
    while stop > 2:
        size = next(size for size in (4, 2, 1) if size <= stop - 2)
        quotient = rest // 10**size
        place = np.ndarray(len(lines), f"u{size}", lines, offset=stop - size, strides=lines.strides)
        place[:] = _spellings(size)[rest - 10**size * quotient]
        stop, rest = stop - size, quotient


def _spell_run(first: int, lines: NDArray[np.void], n_digits: int) -> None:
    """Put numbers that follow each other: the last digits go round, and those before them change once in a round."""
    n_last = next(size for size in (4, 2, 1) if size <= n_digits)
    n_first = n_digits - n_last
    heads = np.ndarray(len(lines), f"V{n_first}", lines, offset=2, strides=lines.strides) if n_first else None
    ends = np.ndarray(len(lines), f"u{n_last}", lines, offset=2 + n_first, strides=lines.strides)
    done = 0
    while done < len(lines):
        head, at = divmod(first + done, 10**n_last)
        part = slice(done, min(len(lines), done + 10**n_last - at))
        ends[part] = _spellings(n_last)[at : at + part.stop - part.start]
        if heads is not None:
            heads[part] = np.void(b"%d" % head)
        done = part.stop


@functools.cache
def _spellings(n_digits: int) -> NDArray[Any]:
    """Give the bytes of all numbers of so many digits, with zeros in front, as items of that size."""
    return np.frombuffer(b"".join(b"%0*d" % (n_digits, i) for i in range(10**n_digits)), f"u{n_digits}")


def _sha256(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
