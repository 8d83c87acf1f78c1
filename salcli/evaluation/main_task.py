"""The main task: what the same classifier still does after erasure, and for whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index
from salcli.evaluation.fairness import Outcomes, excluded
from salcli.evaluation.probes import LinearProbe, Scaling, majority_rate

Codes = NDArray[np.integer[Any]]
Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TaskResult:
    """A linear classifier of the task's classes, before and after erasure."""

    column: str
    guarded: str
    class_names: Sequence[str]
    group_names: Sequence[str]
    majority: float
    """Share of the most frequent class among the test rows."""
    n_train: int
    n_test: int
    accuracy: dict[str, float | None]
    """before, after, and not_retrained: trained before, used after (None if the widths differ)."""
    outcomes: dict[str, Outcomes]
    """By stage, on the test rows that have a group."""
    converged: bool
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        rates = {stage: outcomes.rates() for stage, outcomes in self.outcomes.items()}
        intervals = self.outcomes["after"].intervals(self.seed)
        n_groups = int(np.sum(self.outcomes["before"].counts.sum(axis=(0, 1)) > 0))
        is_binary = len(self.class_names) == 2 and n_groups == 2
        return {
            "column": self.column,
            "guarded": self.guarded,
            "classes": list(self.class_names),
            "groups": list(self.group_names),
            "majority": self.majority,
            "n_train": self.n_train,
            "n_test": self.n_test,
            "accuracy": self.accuracy,
            "converged": self.converged,
            "tpr": [
                {"stage": stage, "class": name, "group": group, "tpr": float(tpr[i, j]), "n": int(n[i, j])}
                for stage, (tpr, n) in rates.items()
                for i, name in enumerate(self.class_names)
                for j, group in enumerate(self.group_names)
                if n[i, j]
            ],
            "tpr_gap": self._gap("gap", intervals[0]) if is_binary else None,
            "tpr_gap_rms": self._gap("rms_gap", intervals[1]),
            "excluded": excluded(rates["before"][0], self.class_names, self.group_names),
        }

    def _gap(self, name: str, interval: tuple[float, float] | None) -> dict[str, Any] | None:
        values = {stage: getattr(outcomes, name)() for stage, outcomes in self.outcomes.items()}
        return None if None in values.values() else {**values, "ci95": interval and list(interval)}


def main_task(
    before: Floats,
    after: Floats,
    y: Codes,
    groups: Codes,
    train: Index,
    test: Index,
    *,
    column: str,
    guarded: str,
    class_names: Sequence[str],
    group_names: Sequence[str],
    seed: int,
    is_foreign: bool = False,
) -> TaskResult | None:
    """Train the same linear classifier before and after, and use the first one after without retraining.

    Parameters
    ----------
    before : `[m, d]`
    after : `[m, d']`
    y : `[m]` classes of the task, −1 where there is none: such rows are left out
    groups : `[m]` guarded classes, −1 where there is none: such rows count for accuracy, not for rates
    train, test : positions
    is_foreign : the rows after may be in units of their own: they are then scaled by themselves

    Returns
    -------
    TaskResult; None if the training rows have fewer than two classes, or no test row has one
    """
    train, test = train[y[train] >= 0], test[y[test] >= 0]
    if len(np.unique(y[train])) < 2 or not len(test):
        return None
    scaling = Scaling.of(before[train])
    is_same = before.shape[1] == after.shape[1]
    later = scaling if is_same and not is_foreign else Scaling.of(after[train])
    first = LinearProbe.train(scaling(before[train]), y[train], seed=seed)
    second = LinearProbe.train(later(after[train]), y[train], seed=seed)
    predicted = {"before": first.predict(scaling(before[test])), "after": second.predict(later(after[test]))}
    accuracy: dict[str, float | None] = {name: float(np.mean(p == y[test])) for name, p in predicted.items()}
    kept = float(np.mean(first.predict(later(after[test])) == y[test])) if is_same else None
    has_group = groups[test] >= 0
    outcomes = {
        stage: Outcomes.of(
            y[test][has_group], p[has_group], groups[test][has_group], len(class_names), len(group_names)
        )
        for stage, p in predicted.items()
    }
    return TaskResult(
        column,
        guarded,
        class_names,
        group_names,
        majority_rate(y[test]),
        len(train),
        len(test),
        accuracy | {"not_retrained": kept},
        outcomes,
        first.converged and second.converged,
        seed,
    )
