"""The main task: what the same classifier still does after erasure, and for whom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Index
from salcli.errors import UsageError
from salcli.evaluation.attackers import LinearSVM, Scaling, majority_rate
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.fairness import Outcomes, excluded
from salcli.evaluation.report import INLINE, named
from salcli.evaluation.section import Fact, Figure, Row, Section, Table, filled, names, numbers
from salcli.evaluation.text import ABSENT, count, decimal, interval, shortened, visible

Codes = NDArray[np.integer[Any]]
Floats = NDArray[Any]
Interval = tuple[float, float]
STAGES = ("before", "after")
NOT_MEASURED = "its training rows are of fewer than two classes, or no test row has one"
NOT_TRUSTED = "its figures are not to be trusted"
MOST_GROUPS_ACROSS = 3
MANY_CLASSES = 8
"""Classes above which the table of rates is folded."""
FEW = 12
"""Cells that are listed in a sentence."""


class Guarded(NamedTuple):
    """A guarded attribute, whose groups are compared."""

    name: str
    codes: Codes
    """`[m]`, −1 where there is none: such rows count for accuracy, not for rates."""
    groups: Sequence[str]


@dataclass(frozen=True)
class Accuracy:
    """Shares of the test rows whose class is predicted right."""

    before: float
    after: float | None
    """Trained again after erasure; None where nothing was erased."""
    not_retrained: float | None
    """Trained before, applied after; None if the widths differ."""


@dataclass(frozen=True)
class Rate:
    """The true positive rate of one class in one group."""

    stage: str
    class_name: str = field(metadata=named("class"))
    group: str
    tpr: float
    n: int
    """Test rows of this class and group."""


@dataclass(frozen=True)
class Gap:
    """A gap between the true positive rates of groups."""

    before: float
    after: float | None
    ci95: Interval | None
    """Of the gap after, or before where nothing was erased."""

    def at(self, stage: str) -> float | None:
        """Return the gap at a stage."""
        return self.after if stage == "after" else self.before


@dataclass(frozen=True)
class Cell:
    """A class and a group."""

    class_name: str = field(metadata=named("class"))
    group: str


@dataclass(frozen=True)
class GroupRates:
    """What was measured between the groups of one guarded attribute."""

    guarded: str
    groups: tuple[str, ...]
    tpr: tuple[Rate, ...]
    """Of the cells that have test rows."""
    tpr_gap: Gap | None
    """Of two classes and two groups: the mean gap."""
    tpr_gap_rms: Gap | None
    """Root mean square over the classes."""
    excluded: tuple[Cell, ...]
    """Cells without test rows, whose classes are left out of the gaps."""


@dataclass(frozen=True)
class Task:
    """A linear classifier of the task's classes, before erasure and (if there was one) after."""

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

    @property
    def every(self) -> tuple[GroupRates, ...]:
        """The rates by each guarded attribute."""
        return (self.first, *self.others)

    def aside(self, of: GroupRates) -> str:
        """Return the attribute's name, as it follows a figure where there are several attributes."""
        return f", {of.guarded}" if self.others else ""


def group_rates(guarded: Guarded, class_names: Sequence[str], outcomes: dict[str, Outcomes], seed: int) -> GroupRates:
    """Return rates and gaps of one attribute.

    Parameters
    ----------
    guarded : the attribute
    class_names : of the task
    outcomes : by stage, on the test rows that have a group
    seed : of the bootstrap
    """
    rates = {stage: of_stage.rates() for stage, of_stage in outcomes.items()}
    mean, rms = outcomes.get("after", outcomes["before"]).intervals(seed)
    n_groups = int(np.sum(outcomes["before"].counts.sum(axis=(0, 1)) > 0))
    is_binary = len(class_names) == 2 and n_groups == 2
    return GroupRates(
        guarded.name,
        tuple(guarded.groups),
        tuple(
            Rate(stage, name, group, float(tpr[i, j]), int(n[i, j]))
            for stage, (tpr, n) in rates.items()
            for i, name in enumerate(class_names)
            for j, group in enumerate(guarded.groups)
            if n[i, j]
        ),
        _gap({stage: of_stage.gap() for stage, of_stage in outcomes.items()}, mean) if is_binary else None,
        _gap({stage: of_stage.rms_gap() for stage, of_stage in outcomes.items()}, rms),
        tuple(Cell(class_names[i], guarded.groups[j]) for i, j in excluded(rates["before"][0])),
    )


def _gap(values: dict[str, float | None], interval: Interval | None) -> Gap | None:
    before = values["before"]
    return None if before is None or None in values.values() else Gap(before, values.get("after"), interval)


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
) -> Task | None:
    """Return what a linear classifier does that is trained before and after, and the first one after, not retrained.

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
    None if the training rows have fewer than two classes, or no test row has one
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

    def rates_of(attribute: Guarded) -> GroupRates:
        groups = attribute.codes[test]
        known = groups >= 0
        sizes = len(class_names), len(attribute.groups)
        outcomes = {s: Outcomes.of(y[test][known], p[known], groups[known], *sizes) for s, p in predicted.items()}
        return group_rates(attribute, class_names, outcomes, seed)

    of_first, *of_others = map(rates_of, guarded)
    return Task(
        column,
        tuple(class_names),
        majority_rate(y[test]),
        len(train),
        len(test),
        Accuracy(accuracy["before"], accuracy.get("after"), kept),
        converged,
        of_first,
        tuple(of_others),
    )


class MainTask(Measure[Task]):
    """The classifier of the main task, trained on the fitted rows and measured on the test rows."""

    name: ClassVar[str] = "task"
    swept: ClassVar[tuple[str, str] | None] = ("Task", "accuracy, gap")

    def run(self, rows: BeforeAfter) -> Task | None:
        """Return the task's figures; None if there is no task column, or it cannot be measured.

        Raises
        ------
        UsageError : no guarded attribute has classes
        """
        column, stages = rows.labels.task, rows.stages
        if column is None:
            return None
        if not rows.classified:
            raise UsageError("`task` compares groups: a guarded attribute with classes is needed")
        found = main_task(
            stages.before,
            stages.after,
            column.codes(stages.labels),
            [Guarded(a.name, a.codes(stages.labels), a.classes or ()) for a in rows.classified],
            stages.at(rows.plan.trainers["in-sample"]),
            stages.at(rows.plan.test),
            column=column.name,
            class_names=column.classes or (),
            seed=rows.options.seed,
            is_foreign=stages.is_foreign,
        )
        if found is None:
            rows.note(f"the main task {column.name} was not measured: {NOT_MEASURED}")
        elif not found.converged:
            rows.note(f"the main task {column.name} did not converge: {NOT_TRUSTED}")
        return found

    def section(self, record: Task) -> Section:
        """Return accuracy and gaps, and the true positive rates by class and group."""
        lead = (
            f"The task is to predict {visible(record.column)} "
            f"({len(record.classes):,} classes; {count(record.n_train)} training rows, {count(record.n_test)} test "
            f"rows). The true positive rate (TPR) of a class is the share of its rows that are recognised; it is "
            f"compared between the groups of {' and of '.join(visible(of.guarded) for of in record.every)}. "
            "A gap of 0 is parity."
        )
        if record.accuracy.not_retrained is not None:
            lead += " Not retrained means: the classifier of the original embeddings, applied to the erased ones."
        left_out, tables = [], [_overview(record)]
        for of in record.every:
            groups, rates = class_rates(record, of)
            aside = visible(record.aside(of))
            across = _rates_table if len(groups) <= MOST_GROUPS_ACROSS else _long_rates_table
            tables.append(across(_caption(groups, aside), groups, rates))
            cells = [f"{visible(cell.class_name)} × {visible(cell.group)}" for cell in of.excluded]
            if 0 < len(cells) <= FEW:
                between = f"{aside}," if aside else ""
                left_out.append(f"Left out of the gaps{between} because no test row is there: {', '.join(cells)}.")
            elif cells:
                caption = f"The {len(cells):,} cells without a test row, whose classes are left out of the gaps{aside}"
                tables.append(Table(caption, names("class × group"), tuple((cell,) for cell in cells), is_detail=True))
        return Section(self.name, "Task", (lead, *left_out), filled(tables))

    def facts(self, record: Task) -> Iterator[Fact]:
        """Return accuracy and gaps."""
        named, accuracy = shortened(record.column, 40), record.accuracy
        aside = f"majority {decimal(record.majority)}"
        yield Fact(f"accuracy of {named}", decimal(accuracy.before), decimal(accuracy.after), aside)
        for of in record.every:
            between = f"{visible(record.aside(of))}," if record.others else ""
            for gap, name in ((of.tpr_gap, "TPR gap"), (of.tpr_gap_rms, "TPR gap (RMS)")):
                if gap is not None:
                    yield Fact(f"{name}{between} of {named}", decimal(gap.before), decimal(gap.after), "0 is parity")

    def figures(self, record: Task) -> Iterator[Figure]:
        """Return accuracy and gaps."""
        start = f"task {record.column}: "
        if record.accuracy.after is not None:
            yield Figure(f"{start}accuracy", "accuracy", record.accuracy.after)
        for of in record.every:
            aside = record.aside(of) if of is not record.first else ""
            gaps = ((of.tpr_gap, "tpr_gap", "TPR gap"), (of.tpr_gap_rms, "tpr_gap_rms", "TPR gap (RMS)"))
            for gap, name, label in gaps:
                if gap is not None and gap.after is not None:
                    yield Figure(f"{start}{name}{aside}", f"{label}{record.aside(of)}", gap.after)


TASK = MainTask()


@dataclass(frozen=True)
class ClassRates:
    """True positive rates of one task class, by (stage, group)."""

    name: str
    """Visible."""
    rates: dict[tuple[str, str], float]
    counts: dict[str, int]
    """Test rows of each group."""

    def gap(self, stage: str, groups: tuple[str, ...]) -> float | None:
        """Return the first group's rate less the second's, signed; of more groups, the largest less the smallest.

        Where a group has no rate there is none: such a class is left out of the gaps.
        """
        rates = [self.rates[stage, group] for group in groups if (stage, group) in self.rates]
        if len(groups) < 2 or len(rates) < len(groups):
            return None
        return rates[0] - rates[1] if len(groups) == 2 else max(rates) - min(rates)


def class_rates(task: Task, of: GroupRates) -> tuple[tuple[str, ...], tuple[ClassRates, ...]]:
    """Return the groups that have rates, visible, and each class's rates in the task's order.

    Classes without any rate are left out.
    """
    found = {name: ClassRates(visible(name), {}, {}) for name in task.classes}
    for cell in of.tpr:
        rates, group = found[cell.class_name], visible(cell.group)
        rates.rates[cell.stage, group] = cell.tpr
        rates.counts[group] = cell.n
    there = {cell.group for cell in of.tpr}
    groups = tuple(visible(group) for group in of.groups if group in there)
    return groups, tuple(rates for rates in found.values() if rates.rates)


def gap_name(groups: tuple[str, ...]) -> str:
    """Return what a gap between these groups is."""
    return f"TPR of {groups[0]} less TPR of {groups[1]}" if len(groups) == 2 else "largest TPR less the smallest"


def _overview(task: Task) -> Table:
    accuracy = task.accuracy
    rows: list[Row] = [
        (
            "accuracy",
            *(decimal(accuracy.before), decimal(accuracy.after)),
            *(ABSENT, decimal(accuracy.not_retrained), decimal(task.majority)),
        )
    ]
    for of in task.every:
        for gap, name in ((of.tpr_gap, "TPR gap"), (of.tpr_gap_rms, "TPR gap, RMS over classes")):
            if gap is not None:
                label = name + visible(task.aside(of))
                rows.append((label, decimal(gap.before), decimal(gap.after), interval(gap.ci95), ABSENT, ABSENT))
    is_after = accuracy.after is not None
    columns = (
        *names("measure"),
        *numbers("before", "after", "95% interval of after" if is_after else "95% interval"),
        *numbers("after, not retrained", "majority"),
    )
    return Table("The task before and after" if is_after else "The task", columns, tuple(rows))


def _rates_table(caption: str, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    columns = (
        *names("class"),
        *numbers(*(f"{stage}, {group}" for stage in STAGES for group in groups)),
        *numbers("gap before", "gap after"),
        *numbers(*(f"n {group}" for group in groups)),
    )
    rows = tuple(
        (
            of.name,
            *(decimal(of.rates.get((stage, group))) for stage in STAGES for group in groups),
            *(decimal(of.gap(stage, groups)) for stage in STAGES),
            *(count(of.counts.get(group)) for group in groups),
        )
        for of in rates
    )
    return Table(caption, columns, rows, is_detail=len(rows) > MANY_CLASSES)


def _long_rates_table(caption: str, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    rows = tuple(
        (of.name, group, *(decimal(of.rates.get((stage, group))) for stage in STAGES), count(of.counts.get(group)))
        for of in rates
        for group in groups
    )
    return Table(caption, (*names("class", "group"), *numbers("before", "after", "n")), rows, is_detail=True)


def _caption(groups: tuple[str, ...], aside: str) -> str:
    rates = f"True positive rates{aside}"
    return f"{rates} by class and group; gap: {gap_name(groups)}" if len(groups) > 1 else rates
