"""Which rows do what: the fitted rows, the fresh attacker's, and the test rows."""

from dataclasses import dataclass

import numpy as np

from salcli.data.labels import GuardedLabels, Index, as_index
from salcli.data.selection import RowRule, marked, seeded_shares

TEST, DEV = "test", "dev"


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
