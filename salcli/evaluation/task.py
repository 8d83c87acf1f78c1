"""The main task: what the same classifier still does after erasure, and for whom."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index
from salcli.evaluation.attackers import LinearSVM, Scaling, majority_rate
from salcli.evaluation.fairness import Outcomes, excluded

Codes = NDArray[np.integer[Any]]
Floats = NDArray[Any]


class Guarded(NamedTuple):
    """A guarded attribute, whose groups are compared."""

    name: str
    codes: Codes
    """`[m]`, −1 where there is none: such rows count for accuracy, not for rates."""
    groups: Sequence[str]


@dataclass(frozen=True, eq=False)
class TaskResult:
    """A linear classifier of the task's classes, before erasure and (if there was one) after."""

    column: str
    class_names: Sequence[str]
    majority: float
    """Share of the most frequent class among the test rows."""
    n_train: int
    n_test: int
    accuracy: dict[str, float | None]
    """before, after, and not_retrained: trained before, used after (None if the widths differ)."""
    guarded: tuple[Guarded, ...]
    outcomes: tuple[dict[str, Outcomes], ...]
    """Of each guarded attribute, by stage, on the test rows that have a group."""
    converged: bool
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON: rates by the first guarded attribute, then by each other one."""
        first, *others = (self._of(*pair) for pair in zip(self.guarded, self.outcomes, strict=True))
        return {
            "column": self.column,
            "classes": list(self.class_names),
            "majority": self.majority,
            "n_train": self.n_train,
            "n_test": self.n_test,
            "accuracy": self.accuracy,
            "converged": self.converged,
            **first,
            "others": others,
        }

    def _of(self, guarded: Guarded, outcomes: dict[str, Outcomes]) -> dict[str, Any]:
        rates = {stage: of_stage.rates() for stage, of_stage in outcomes.items()}
        intervals = outcomes.get("after", outcomes["before"]).intervals(self.seed)
        n_groups = int(np.sum(outcomes["before"].counts.sum(axis=(0, 1)) > 0))
        is_binary = len(self.class_names) == 2 and n_groups == 2
        return {
            "guarded": guarded.name,
            "groups": list(guarded.groups),
            "tpr": [
                {"stage": stage, "class": name, "group": group, "tpr": float(tpr[i, j]), "n": int(n[i, j])}
                for stage, (tpr, n) in rates.items()
                for i, name in enumerate(self.class_names)
                for j, group in enumerate(guarded.groups)
                if n[i, j]
            ],
            "tpr_gap": _gap("gap", outcomes, intervals[0]) if is_binary else None,
            "tpr_gap_rms": _gap("rms_gap", outcomes, intervals[1]),
            "excluded": excluded(rates["before"][0], self.class_names, guarded.groups),
        }


def _gap(name: str, outcomes: dict[str, Outcomes], interval: tuple[float, float] | None) -> dict[str, Any] | None:
    values = {stage: getattr(of_stage, name)() for stage, of_stage in outcomes.items()}
    if None in values.values():
        return None
    return {"before": values["before"], "after": values.get("after"), "ci95": interval and list(interval)}


def main_task(
    before: Floats,
    after: Floats | None,
    y: Codes,
    guarded: Sequence[Guarded],
    train: Index,
    test: Index,
    *,
    column: str,
    class_names: Sequence[str],
    seed: int,
    is_foreign: bool = False,
) -> TaskResult | None:
    """Train the same linear classifier before and after, and use the first one after without retraining.

    Parameters
    ----------
    before : `[m, d]`
    after : `[m, d']`; None: nothing was erased
    y : `[m]` classes of the task, −1 where there is none: such rows are left out
    guarded : at least one attribute
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
    svm, settings = LinearSVM(), {"C": 1.0}
    first = svm.fit(scaling(before[train]), y[train], settings, seed)
    predicted, converged, kept = {"before": first.predict(scaling(before[test]))}, first.converged, None
    if after is not None:
        is_same = before.shape[1] == after.shape[1]
        later = scaling if is_same and not is_foreign else Scaling.of(after[train])
        second = svm.fit(later(after[train]), y[train], settings, seed)
        predicted["after"], converged = second.predict(later(after[test])), converged and second.converged
        kept = float(np.mean(first.predict(later(after[test])) == y[test])) if is_same else None
    accuracy = {stage: float(np.mean(p == y[test])) for stage, p in predicted.items()}

    def outcomes_of(attribute: Guarded) -> dict[str, Outcomes]:
        groups = attribute.codes[test]
        known = groups >= 0
        sizes = len(class_names), len(attribute.groups)
        return {stage: Outcomes.of(y[test][known], p[known], groups[known], *sizes) for stage, p in predicted.items()}

    return TaskResult(
        column,
        class_names,
        majority_rate(y[test]),
        len(train),
        len(test),
        {"before": accuracy["before"], "after": accuracy.get("after"), "not_retrained": kept},
        tuple(guarded),
        tuple(map(outcomes_of, guarded)),
        converged,
        seed,
    )
