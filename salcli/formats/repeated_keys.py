"""Keys that occur twice in a label CSV: with the same label the first row counts, with another the file is refused."""

from collections.abc import Sequence

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels
from salcli.errors import LabelError, warn
from salcli.formats.label_columns import Lines


def without_repeats(labels: GuardedLabels, lines: Lines) -> GuardedLabels:
    """Return the labels, of equal ones for one key the first; different labels for one key raise."""
    if labels.keys is None or _are_distinct(labels.keys):
        return labels
    first: dict[str, int] = {}
    kept = []
    again = None
    for i, key in enumerate(labels.keys):
        j = first.setdefault(key, i)
        if j == i:
            kept.append(i)
            continue
        both = f"{lines.place(j)} and {lines.place(i)}" if lines.parts else f"{lines.unit}s {lines[j]} and {lines[i]}"
        again = again or f"{key[:40]!r} on {both}"
        for attribute in (*labels.attributes, *(a for a in (labels.task, labels.groups) if a is not None)):
            one, other = attribute.values[j], attribute.values[i]
            if one != other and not (attribute.classes is None and np.isnan(one) and np.isnan(other)):
                raise LabelError(
                    f"{labels.path}: key {key!r} is {_shown(attribute, j)} on {lines.place(j)} "
                    f"and {_shown(attribute, i)} on {lines.place(i)}"
                )
        if labels.splits is not None and labels.splits[i] != labels.splits[j]:
            raise LabelError(
                f"{labels.path}: key {key!r} is in {labels.splits[j]!r} on {lines.place(j)} "
                f"and in {labels.splits[i]!r} on {lines.place(i)}"
            )
    n_again = len(labels.keys) - len(kept)
    which = again if n_again == 1 else f"{again} among them"
    warn(f"{labels.path}: {n_again:,} keys occur twice with the same label ({which}); the first is used")
    index = np.array(kept)
    task, groups = labels.task, labels.groups
    return GuardedLabels(
        labels.path,
        tuple(Attribute(a.name, a.values[index], a.classes) for a in labels.attributes),
        tuple(labels.keys[i] for i in kept),
        None if labels.splits is None else tuple(labels.splits[i] for i in kept),
        labels.split_column,
        labels.key_column,
        None if task is None else Attribute(task.name, task.values[index], task.classes),
        None if labels.index is None else labels.index[index],
        None if groups is None else Attribute(groups.name, groups.values[index], groups.classes),
    )


def _are_distinct(keys: Sequence[str]) -> bool:
    """Return whether no key occurs twice; sorting their hashes is faster than filling a set with millions of them."""
    hashes = np.sort(np.fromiter(map(hash, keys), np.int64, len(keys)))
    return bool(np.all(hashes[1:] != hashes[:-1])) or len(set(keys)) == len(keys)


def _shown(attribute: Attribute, index: int) -> str:
    value = attribute.values[index]
    if attribute.classes is None:
        return repr(float(value))
    return repr(attribute.classes[int(value)]) if value >= 0 else "unlabelled"
