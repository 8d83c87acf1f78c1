"""SHA-256 of the fitted rows and of their labels, independent of the order of the label CSV.

Rows without keys are hashed as little-endian int64 row numbers, ascending; each is followed by the label's code (int64)
or number (float64), behind the JSON of the class names. Rows with keys are hashed as lines of JSON, `["key"]` or
`["key", "label"]`, sorted by key. The first schema of artifacts spelled row numbers out in lines of JSON too.

Rows of several shards have a digest that is composed of those of the shards (`joint_digest`), each of which counts its
rows from 0. It finds mistakes, and is no proof against labels that were made to have the same digest.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels, Index, Selection, as_index

ROWS_AT_ONCE = 1 << 16
SUM_BYTES = 64  # of the sum of the hashes of lines


def rows_digest(
    labels: GuardedLabels, index: Selection, *, spells_numbers: bool = False, shards: Sequence[int] = ()
) -> str:
    """Return the SHA-256 of rows: of their keys, or of their numbers.

    Parameters
    ----------
    labels : with the keys, if there are any
    index : `[n]` positions among the labels, in any order
    spells_numbers : hash numbers as text, as artifacts of the first schema do
    shards : rows of each shard, of several
    """
    return _digest(labels, None, index, spells_numbers, shards)


def labels_digest(
    labels: GuardedLabels,
    attribute: Attribute,
    index: Selection,
    *,
    spells_numbers: bool = False,
    shards: Sequence[int] = (),
) -> str:
    """Return the SHA-256 of rows and of the label of each.

    Parameters
    ----------
    labels, index, spells_numbers, shards : see `rows_digest`
    attribute : its labels are hashed, with the classes that occur at `index`
    """
    return _digest(labels, attribute, index, spells_numbers, shards)


def part_digest(labels: GuardedLabels, attribute: Attribute | None, index: Selection, first: int = 0) -> str:
    """Return what the rows of one shard add to a `joint_digest`, in hexadecimal digits.

    With keys it is the sum of the SHA-512 of the lines modulo 2^512, so that a key may be in any shard; without, the
    SHA-256 of the rows' numbers in the shard.

    Parameters
    ----------
    labels, index : see `rows_digest`
    attribute : see `labels_digest`; None: of the rows alone
    first : the shard's first row, for labels of several shards without keys
    """
    if labels.keys is None:
        return _of_numbers(attribute, _in_order(labels, index), first)
    total = 0
    for part in _parts(index):
        for line in _key_lines(labels, attribute, part):
            total += int.from_bytes(hashlib.sha512(line.encode()).digest(), "little")
    return (total % (1 << 8 * SUM_BYTES)).to_bytes(SUM_BYTES, "little").hex()


def joint_digest(parts: Sequence[str], *, has_keys: bool) -> str:
    """Return the digest of the rows of several shards.

    Parameters
    ----------
    parts : `part_digest` of each, in order
    has_keys : whether rows have keys: then parts are added up, and otherwise listed, one a line
    """
    if not has_keys:
        return _sha256(f"{part}\n".encode() for part in parts)
    total = sum(int.from_bytes(bytes.fromhex(part), "little") for part in parts) % (1 << 8 * SUM_BYTES)
    return _sha256([total.to_bytes(SUM_BYTES, "little")])


def _digest(
    labels: GuardedLabels, attribute: Attribute | None, index: Selection, spells_numbers: bool, shards: Sequence[int]
) -> str:
    if len(shards) > 1 and labels.keys is not None:
        return joint_digest([part_digest(labels, attribute, index)], has_keys=True)
    order = _in_order(labels, index)
    if labels.keys is not None or spells_numbers:
        return _sha256("".join(_key_lines(labels, attribute, part)).encode() for part in _parts(order))
    if len(shards) <= 1:
        return _of_numbers(attribute, order, 0)
    edges = (0, *itertools.accumulate(shards))
    spans = itertools.pairwise(np.searchsorted(as_index(order), edges).tolist())
    parts = [_of_numbers(attribute, order[a:b], first) for (a, b), first in zip(spans, edges, strict=False)]
    return joint_digest(parts, has_keys=False)


def _of_numbers(attribute: Attribute | None, order: Selection, first: int) -> str:
    """Return the SHA-256 of the numbers of rows, counted from `first`, and of their labels."""
    if attribute is None:
        return _sha256((part - first).astype("<i8").tobytes() for part in _parts(order))
    chosen = attribute.restricted_to(order)  # other classes of the file do not count
    parts = zip(_parts(order), _parts(range(len(order))), strict=True)
    head = json.dumps(chosen.classes).encode() + b"\n"
    return _sha256(itertools.chain([head], (_pairs(chosen, rows - first, at) for rows, at in parts)))


def _in_order(labels: GuardedLabels, index: Selection) -> Selection:
    """Return the labels sorted by key, or by number."""
    if labels.keys is not None:
        return np.array(sorted(as_index(index).tolist(), key=labels.keys.__getitem__), np.int64)
    if isinstance(index, range) or bool(np.all(index[1:] > index[:-1])):  # a sort copies
        return index
    return np.sort(index)


def _parts(order: Selection) -> Iterator[Index]:
    return (as_index(order[start : start + ROWS_AT_ONCE]) for start in range(0, len(order), ROWS_AT_ONCE))


def _pairs(attribute: Attribute, rows: Index, at: Index) -> bytes:
    """Return row numbers and labels in turn, eight bytes each."""
    pairs = np.empty((len(rows), 2), "<i8")
    pairs[:, 0] = rows
    values = attribute.values[at]
    pairs[:, 1] = values.astype("<f8").view("<i8") if attribute.classes is None else values
    return pairs.tobytes()


def _key_lines(labels: GuardedLabels, attribute: Attribute | None, part: Index) -> Iterator[str]:
    """Yield a line of JSON for each label: its key or number, and its label if there is an attribute."""
    names = [labels.identity(i) for i in part.tolist()]
    if attribute is None:
        return (f"{json.dumps([name])}\n" for name in names)
    return (f"{json.dumps(pair)}\n" for pair in zip(names, _texts(attribute, part), strict=True))


def _texts(attribute: Attribute, part: Index) -> list[str]:
    values, classes = attribute.values[part].tolist(), attribute.classes
    return [repr(float(value)) if classes is None else classes[int(value)] for value in values]


def _sha256(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
