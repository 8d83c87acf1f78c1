"""The main task: the accuracy of its classifier after erasure, and its true positive rates by group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.attackers.scores import balanced_accuracy, majority_rate, wilson
from salcli.evaluation.fairness import Outcomes, influence_on_gap
from salcli.evaluation.group_rates import Codes, GroupRates, Guarded, Interval, group_rates, with_untrained
from salcli.evaluation.json_fields import INLINE, OPTIONAL, named
from salcli.evaluation.logistic import Logistic, fit_logistic
from salcli.evaluation.text import decimal, interval

Floats = NDArray[Any]
Effect = Callable[[Floats], float]


def independent(influence: Floats) -> float:  # noqa: ARG001 (others use it)
    """Return 1: rows are independent of each other, whatever their `influence`."""
    return 1.0


@dataclass(frozen=True)
class Accuracy:
    """Shares of the test rows whose class is predicted right, or the same averaged over the classes."""

    before: float
    after: float | None
    """Trained again after erasure; None where nothing was erased."""
    not_retrained: float | None
    """Trained before, applied after; None if the widths differ."""

    def at(self, stage: str) -> float | None:
        """Return the figure at `stage`: before or after; None where it is not measured."""
        return self.after if stage == "after" else self.before


@dataclass(frozen=True)
class Task:
    """A classifier of the task's classes, before erasure and (if there was one) after."""

    column: str
    classes: tuple[str, ...]
    majority: float
    """Share of the most frequent class among the test rows."""
    n_train: int
    n_test: int
    accuracy: Accuracy
    converged: bool
    first: GroupRates = field(metadata=INLINE)
    """By the first guarded attribute."""
    others: tuple[GroupRates, ...]
    balanced_accuracy: Accuracy | None = field(default=None, metadata=OPTIONAL)
    accuracy_ci95: Mapping[str, Interval] = field(default_factory=dict)
    """By stage: Wilson intervals."""
    penalties: Mapping[str, float] = field(default_factory=dict, metadata=named("C"))
    """By stage: C of the logistic regression."""
    undefined: Mapping[str, str] = field(default_factory=dict)
    """By stage: why there is no TPR gap."""
    untrained: Mapping[str, int] = field(default_factory=dict)
    """Test rows that are left out, by their class, of which there are no training rows."""
    both_right: float | None = field(default=None, metadata=OPTIONAL)
    """Share of the test rows that are right before and after."""
    n_effective: Mapping[str, float] | None = field(default=None, metadata=OPTIONAL)
    """By stage, independent test rows that would give as fine an interval, where rows go together; else `n_test`."""

    @property
    def every(self) -> tuple[GroupRates, ...]:
        """The rates by each guarded attribute."""
        return (self.first, *self.others)

    @property
    def usable(self) -> float:
        """The share of the test rows that is of classes which were trained on."""
        return self.n_test / max(1, self.n_test + sum(self.untrained.values()))

    def aside(self, rates: GroupRates) -> str:
        """Return the name of the attribute of `rates`, as it follows a figure if there are several; else ""."""
        return f", {rates.guarded}" if self.others else ""


@dataclass(frozen=True, eq=False)
class Trained:
    """The classifier of the rows before, and the scale of its rows."""

    scaling: Scaling
    classifier: Logistic

    @classmethod
    def of(cls, x: Floats, y: Codes, seed: int) -> "Trained":
        """Return a classifier that is trained on rows, and their scale.

        Parameters
        ----------
        x : `[n, d]`
        y : `[n]` classes, at least two
        seed : of the cross-validation
        """
        scaling = Scaling.of(x)
        return cls(scaling, fit_logistic(scaling(x), y, seed))


@dataclass(frozen=True, eq=False)
class TaskAnswers:
    """Predictions of the test rows by the classifiers of the main task."""

    true: Codes
    """`[m]`"""
    predicted: dict[str, Codes]
    """`[m]` by stage."""
    kept: Codes | None
    """`[m]` by the classifier of the rows before, applied to those after."""
    groups: tuple[Codes, ...]
    """Of each guarded attribute the group `[m]` of each row, −1: none."""
    n_train: int
    converged: bool
    penalties: dict[str, float]
    """By stage."""
    untrained: Codes
    """`[s]` classes of the test rows that are left out, as no training row is of their class."""
    untrained_groups: tuple[Codes, ...]
    """Their groups `[s]`."""
    test: Index
    """`[m]` positions of the test rows."""


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
    trained: Trained | None = None,
) -> Task | None:
    """Return what a classifier does that is trained before and after, and the first one after, not retrained.

    Parameters
    ----------
    before, after, y, guarded, train, test, seed, is_foreign, trained : see `task_answers`
    column : name of the task
    class_names : of the task

    Returns
    -------
    None if the training rows have fewer than two classes, or no test row has one of them
    """
    found = task_answers(before, after, y, guarded, train, test, seed=seed, is_foreign=is_foreign, trained=trained)
    return None if found is None else task_of([found], guarded, column=column, class_names=class_names, seed=seed)


def task_answers(
    before: Floats,
    after: Floats | None,
    y: Codes,
    guarded: Sequence[Guarded],
    train: Index,
    test: Index,
    *,
    seed: int,
    is_foreign: bool = False,
    trained: Trained | None = None,
) -> TaskAnswers | None:
    """Train the task's classifiers and return their predictions of the test rows.

    Parameters
    ----------
    before : `[m, d]`
    after : `[m, d']`; None: nothing was erased
    y : `[m]` classes of the task, −1 where there is none: such rows are left out
    guarded : at least one attribute
    train, test : positions; test rows of classes that no training row has are left out and counted
    seed : of the cross-validation
    is_foreign : the rows after may be in units of their own: they are then scaled by themselves
    trained : `Trained.of` the training rows before, if it is known

    Returns
    -------
    None if the training rows have fewer than two classes, or no test row has one of them
    """
    train, test = train[y[train] >= 0], test[y[test] >= 0]
    is_known = np.isin(y[test], y[train])
    untrained, test = test[~is_known], test[is_known]
    if len(np.unique(y[train])) < 2 or not len(test):
        return None
    first = trained or Trained.of(before[train], y[train], seed)
    classifiers = {"before": first.classifier}
    predicted, kept = {"before": first.classifier.predict(first.scaling(before[test]))}, None
    if after is not None:
        is_same = before.shape[1] == after.shape[1]
        later = first.scaling if is_same and not is_foreign else Scaling.of(after[train])
        second = classifiers["after"] = fit_logistic(later(after[train]), y[train], seed)
        predicted["after"] = second.predict(later(after[test]))
        kept = first.classifier.predict(later(after[test])) if is_same else None
    return TaskAnswers(
        y[test],
        predicted,
        kept,
        tuple(attribute.codes[test] for attribute in guarded),
        len(train),
        all(each.converged for each in classifiers.values()),
        {stage: each.c for stage, each in classifiers.items()},
        y[untrained],
        tuple(attribute.codes[untrained] for attribute in guarded),
        test,
    )


def task_of(
    answers: Sequence[TaskAnswers],
    guarded: Sequence[Guarded],
    *,
    column: str,
    class_names: Sequence[str],
    seed: int,
    effect: Effect = independent,
    of_groups: Effect = independent,
) -> Task:
    """Return the figures of the main task on the test rows of one turn, or of several together.

    Parameters
    ----------
    answers : of each turn
    guarded : the attributes that `answers` has groups of
    column : name of the task
    class_names : of the task
    seed : of the tests of gaps
    effect : returns how much larger the variance of an accuracy is than that of independent rows, by how much each test
        row moves it `[m]`
    of_groups : the same of a TPR gap
    """
    whole = _joined(answers)
    true, predicted, kept = whole.true, whole.predicted, whole.kept
    majority, n = majority_rate(true), len(true)

    def figures(share: Any) -> Accuracy:
        found = {stage: share(p, true) for stage, p in predicted.items()}
        return Accuracy(found["before"], found.get("after"), None if kept is None else share(kept, true))

    accuracy = figures(lambda p, t: float(np.mean(p == t)))
    n_effective = {stage: n / effect((p == true) - float(np.mean(p == true))) for stage, p in predicted.items()}
    intervals = {
        stage: wilson(int(np.sum(p == true)) * (n_effective[stage] / n), n_effective[stage])
        for stage, p in predicted.items()
    }
    undefined = {
        stage: f"the task {stage} erasure is right in {decimal(accuracy.at(stage))} ({interval(intervals[stage])}) "
        f"of the test rows, which is not above the majority {decimal(majority)}"
        for stage in predicted
        if intervals[stage][0] <= majority
    }

    def rates_of(place: int) -> GroupRates:
        attribute, groups = guarded[place], whole.groups[place]
        known = groups >= 0
        sizes = len(class_names), len(attribute.groups)
        outcomes = {s: Outcomes.of(true[known], p[known], groups[known], *sizes) for s, p in predicted.items()}
        effects = {}
        for stage, of_stage in outcomes.items():
            moved = np.zeros(n)
            at = true[known], predicted[stage][known], groups[known]
            moved[known] = influence_on_gap(*at, of_stage.true_positives)
            effects[stage] = of_groups(moved)
        found = group_rates(attribute, class_names, outcomes, undefined, seed, effects)
        return with_untrained(found, attribute, class_names, whole.untrained, whole.untrained_groups[place])

    of_first, *of_others = map(rates_of, range(len(guarded)))
    codes, counts = np.unique(whole.untrained, return_counts=True)
    return Task(
        column,
        tuple(class_names),
        majority,
        whole.n_train,
        n,
        accuracy,
        whole.converged,
        of_first,
        tuple(of_others),
        figures(balanced_accuracy),
        intervals,
        whole.penalties,
        undefined,
        {class_names[code]: n for code, n in zip(codes.tolist(), counts.tolist(), strict=True)},
        float(np.mean((predicted["before"] == true) & (predicted["after"] == true))) if "after" in predicted else None,
        {stage: each for stage, each in n_effective.items() if each < n} or None,
    )


def _joined(answers: Sequence[TaskAnswers]) -> TaskAnswers:
    """Return the answers of several turns as one; settings that differ from turn to turn are left out."""
    first = answers[0]
    if len(answers) == 1:
        return first

    def joined(part: Callable[[TaskAnswers], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([part(each) for each in answers])

    places = range(len(first.groups))
    return TaskAnswers(
        joined(lambda each: each.true),
        {stage: joined(lambda each, stage=stage: each.predicted[stage]) for stage in first.predicted},  # type: ignore[misc]
        None if any(each.kept is None for each in answers) else joined(lambda each: np.asarray(each.kept)),
        tuple(joined(lambda each, i=i: each.groups[i]) for i in places),  # type: ignore[misc]
        round(float(np.mean([each.n_train for each in answers]))),
        all(each.converged for each in answers),
        {},
        joined(lambda each: each.untrained),
        tuple(joined(lambda each, i=i: each.untrained_groups[i]) for i in places),  # type: ignore[misc]
        joined(lambda each: each.test),
    )
