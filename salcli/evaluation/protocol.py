"""Which rows do what: the fitted rows, the fresh attacker's, and the test rows."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels, Index, Selection, as_index
from salcli.data.selection import RowRule, marked, seeded_shares

TEST, DEV = "test", "dev"
LINES_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class EvaluationRows:
    """Labels by their part in the evaluation. Fresh and test rows took no part in the fit."""

    fitted: Index
    """Rows the eraser was fitted on; they train the in-sample attacker."""
    fresh: Index
    """Rows that train the fresh attacker; empty if there are none."""
    test: Index
    """Rows that both are measured on; the fitted rows themselves if nothing was held out."""
    has_held_out: bool
    """Whether test rows took no part in the fit."""


def divide_rows(labels: GuardedLabels, matched: Index, rule: RowRule) -> EvaluationRows:
    """Divide the matched labels as the eraser's rule says (see the design, "Which rows do what").

    With a split column: dev rows train the fresh attacker (no dev: a seeded half of test), the other test rows are
    the test. With a hold-out: a seeded half of it trains the fresh attacker, the other half is the test.
    """
    fitted = as_index(rule.fitted(labels, matched))
    if rule.fit_split is not None:
        test = np.setdiff1d(marked(labels, matched, TEST), fitted)
        fresh = np.setdiff1d(marked(labels, matched, DEV), fitted)
        if not len(fresh):
            fresh, test = _halves(labels, test, rule.seed)
    else:
        fresh, test = _halves(labels, np.setdiff1d(rule.held_out(labels, matched), fitted), rule.seed)
    if not len(test):
        return EvaluationRows(fitted, fresh[:0], fitted, has_held_out=False)
    return EvaluationRows(fitted, fresh, test, has_held_out=True)


def _halves(labels: GuardedLabels, index: Index, seed: int) -> tuple[Index, Index]:
    in_first = seeded_shares(labels, index, seed, "fresh attacker") < 0.5
    return index[in_first], index[~in_first]


def rows_digest(labels: GuardedLabels, index: Selection) -> str:
    """Hash which rows these are (their keys, or their numbers), whatever their order."""
    return _digest(f"[{_name_format(labels)}]\n", ([_names(labels, part)] for part in _in_order(labels, index)))


def labels_digest(labels: GuardedLabels, attribute: Attribute, index: Selection) -> str:
    """Hash which rows these are and the label of each, whatever their order."""
    told = None if attribute.classes is None else list(map(encode_basestring_ascii, attribute.classes))

    def columns(part: Index) -> list[Iterable[Any]]:
        values = attribute.values[part].tolist()
        return [_names(labels, part), values if told is None else map(told.__getitem__, values)]

    label_format = '"%r"' if told is None else "%s"
    return _digest(f"[{_name_format(labels)}, {label_format}]\n", (columns(part) for part in _in_order(labels, index)))


def _in_order(labels: GuardedLabels, index: Selection) -> Iterator[Index]:
    """Put labels into an order that is theirs alone, and give them part by part: as text they take much memory."""
    keys, order = labels.keys, index
    if keys is not None:
        order = np.array(sorted(as_index(index).tolist(), key=keys.__getitem__), np.int64)
    elif not isinstance(order, range):
        order = np.sort(order)
    return (as_index(order[start : start + LINES_AT_ONCE]) for start in range(0, len(order), LINES_AT_ONCE))


def _name_format(labels: GuardedLabels) -> str:
    return '"%d"' if labels.keys is None else "%s"


def _names(labels: GuardedLabels, part: Index) -> Iterable[int] | Iterable[str]:
    """Name each label by its row number, or by the JSON of its key."""
    if labels.keys is None:
        numbers: list[int] = part.tolist()
        return numbers
    return map(encode_basestring_ascii, map(labels.keys.__getitem__, part.tolist()))


def _digest(line: str, parts: Iterable[list[Iterable[Any]]]) -> str:
    """Hash lines of JSON, many at a time.

    Parameters
    ----------
    line : how one is spelt
    parts : its fields, column by column
    """
    digest = hashlib.sha256()
    for columns in parts:
        first, *others = map(list, columns)
        fields = first * (1 + len(others))
        for i, column in enumerate((first, *others)):
            fields[i :: 1 + len(others)] = column
        digest.update((line * len(first) % tuple(fields)).encode())
    return digest.hexdigest()
