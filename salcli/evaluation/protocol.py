"""Which rows do what: the fitted rows, the fresh attacker's, and the test rows."""

import hashlib
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
    return _digest(map("[%s]\n".__mod__, _named(labels, part)) for part in _in_order(labels, index))


def labels_digest(labels: GuardedLabels, attribute: Attribute, index: Index) -> str:
    """Hash which rows these are and the label of each, whatever their order."""
    told = (
        '"%r"'.__mod__
        if attribute.classes is None
        else list(map(encode_basestring_ascii, attribute.classes)).__getitem__
    )

    def lines(part: Index) -> Iterable[str]:
        pairs = zip(_named(labels, part), map(told, attribute.values[part].tolist()), strict=True)
        return map("[%s, %s]\n".__mod__, pairs)

    return _digest(lines(part) for part in _in_order(labels, index))


def _in_order(labels: GuardedLabels, index: Index) -> Iterator[Index]:
    """Put labels into an order that is theirs alone, and give them part by part: as text they take much memory."""
    keys = labels.keys
    order = np.sort(index) if keys is None else np.array(sorted(index.tolist(), key=keys.__getitem__), np.int64)
    return (order[start : start + LINES_AT_ONCE] for start in range(0, len(order), LINES_AT_ONCE))


def _named(labels: GuardedLabels, part: Index) -> Iterable[str]:
    """Give the JSON of each label's key or row number."""
    if labels.keys is None:
        return map('"%d"'.__mod__, part.tolist())
    return map(encode_basestring_ascii, map(labels.keys.__getitem__, part.tolist()))


def _digest(parts: Iterable[Iterable[str]]) -> str:
    """Hash lines of JSON, many at a time."""
    digest = hashlib.sha256()
    for lines in parts:
        digest.update("".join(lines).encode())
    return digest.hexdigest()
