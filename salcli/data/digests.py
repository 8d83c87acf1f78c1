"""SHA-256 of the fitted rows and of their labels, independent of the order of the label CSV.

Rows without keys are hashed as little-endian int64 row numbers, ascending; each is followed by the label's code (int64)
or number (float64), behind the JSON of the class names. Rows with keys are hashed as lines of JSON, `["key"]` or
`["key", "label"]`, sorted by key. The first schema of artifacts spelled row numbers out in lines of JSON too.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels, Index, Selection, as_index

ROWS_AT_ONCE = 1 << 16


def rows_digest(labels: GuardedLabels, index: Selection, *, spells_numbers: bool = False) -> str:
    """Return the SHA-256 of rows: of their keys, or of their numbers.

    Parameters
    ----------
    labels : with the keys, if there are any
    index : `[n]` positions among the labels, in any order
    spells_numbers : hash numbers as text, as artifacts of the first schema do
    """
    order = _in_order(labels, index)
    if labels.keys is None and not spells_numbers:
        return _sha256(part.astype("<i8").tobytes() for part in _parts(order))
    return _sha256(_lines([name] for name in _names(labels, part)) for part in _parts(order))


def labels_digest(
    labels: GuardedLabels, attribute: Attribute, index: Selection, *, spells_numbers: bool = False
) -> str:
    """Return the SHA-256 of rows and of the label of each.

    Parameters
    ----------
    labels, index, spells_numbers : see `rows_digest`
    attribute : its labels are hashed, with the classes that occur at `index`
    """
    order = _in_order(labels, index)
    chosen = attribute.restricted_to(order)  # other classes of the file do not count
    parts = zip(_parts(order), _parts(range(len(order))), strict=True)
    if labels.keys is None and not spells_numbers:
        head = json.dumps(chosen.classes).encode() + b"\n"
        return _sha256(itertools.chain([head], (_pairs(chosen, rows, at) for rows, at in parts)))
    return _sha256(_lines(zip(_names(labels, rows), _texts(chosen, at), strict=True)) for rows, at in parts)


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


def _names(labels: GuardedLabels, part: Index) -> list[str]:
    return [labels.identity(i) for i in part.tolist()]


def _texts(attribute: Attribute, part: Index) -> list[str]:
    values, classes = attribute.values[part].tolist(), attribute.classes
    return [repr(float(value)) if classes is None else classes[int(value)] for value in values]


def _lines(records: Iterable[Iterable[str]]) -> bytes:
    return "".join(json.dumps(list(record)) + "\n" for record in records).encode()


def _sha256(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
