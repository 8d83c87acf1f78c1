"""Which rows do what: the fitted rows, the fresh attacker's, and the test rows."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels, Index
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
    fitted = rule.fitted(labels, matched)
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


def rows_digest(labels: GuardedLabels, index: Index) -> str:
    """Hash which rows these are (their keys, or their numbers), whatever their order."""
    return _digest(f"[{name}]\n" for name, _ in _by_identity(labels, index))


def labels_digest(labels: GuardedLabels, attribute: Attribute, index: Index) -> str:
    """Hash which rows these are and the label of each, whatever their order."""
    values = attribute.values
    if attribute.classes is None:
        return _digest(f'[{name}, "{float(values[i])!r}"]\n' for name, i in _by_identity(labels, index))
    classes = [encode_basestring_ascii(name) for name in attribute.classes]
    return _digest(f"[{name}, {classes[values[i]]}]\n" for name, i in _by_identity(labels, index))


def _by_identity(labels: GuardedLabels, index: Index) -> Iterator[tuple[str, int]]:
    """Give the JSON of each label's key or row number and the label, in an order that is theirs alone."""
    if labels.keys is None:
        return ((f'"{i}"', i) for i in np.sort(index).tolist())
    keys = labels.keys
    return ((encode_basestring_ascii(keys[i]), i) for i in sorted(index.tolist(), key=keys.__getitem__))


def _digest(records: Iterable[str]) -> str:
    """Hash lines of JSON, many at a time."""
    digest = hashlib.sha256()
    records = iter(records)
    while lines := "".join(itertools.islice(records, LINES_AT_ONCE)):
        digest.update(lines.encode())
    return digest.hexdigest()
