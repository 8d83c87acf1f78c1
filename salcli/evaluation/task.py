"""The main task as a measure: its section of the report, its main figures, and its figures in sweeps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from salcli.data.groups import RowGroups
from salcli.data.labels import Index
from salcli.errors import UsageError
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.clusters import cluster_effect
from salcli.evaluation.gaps import FEW_POSITIVES
from salcli.evaluation.group_rates import Codes, FalseRate, Gap, GroupRates, Guarded, Rate, Ratio
from salcli.evaluation.main_task import Task, TaskAnswers, Trained, task_answers, task_of
from salcli.evaluation.section import Fact, Figure, Row, Section, Table, filled, names, numbers
from salcli.evaluation.text import ABSENT, count, decimal, interval, listed_counts, shortened, visible

STAGES = ("before", "after")
NOT_MEASURED = "its training rows are of fewer than two classes, or no test row has one of them"
NOT_TRUSTED = "its figures are not to be trusted"
MOST_GROUPS_ACROSS = 3
MANY_CLASSES = 8
"""Classes above which the table of rates is folded."""
FEW = 12
"""Cells that are listed in a sentence."""


class MainTask(Measure[Task]):
    """The classifier of the main task, trained on the fitted rows and measured on the test rows."""

    name: ClassVar[str] = "task"
    swept: ClassVar[tuple[str, str] | None] = ("Task", "accuracy, gap")

    def run(self, rows: BeforeAfter) -> Task | None:
        """Return the task's figures; None if there is no task column, or it cannot be measured (see `Measure.run`).

        Raises
        ------
        UsageError : no guarded attribute has classes
        """
        if rows.labels.task is None:
            return None
        found = self.answers(rows)
        return self.pooled(rows, [] if found is None else [found])

    def answers(self, rows: BeforeAfter) -> TaskAnswers | None:
        """Return what the classifiers say of the test rows; None if they cannot be trained, or there are none.

        Parameters
        ----------
        rows : with a task column

        Raises
        ------
        UsageError : no guarded attribute has classes
        """
        column, stages = rows.labels.task, rows.stages
        assert column is not None
        if not rows.classified:
            raise UsageError("`task` compares groups: a guarded attribute with classes is needed")
        y, train = column.codes(stages.labels), stages.at(rows.plan.trainers["in-sample"])
        found = task_answers(
            stages.before,
            stages.after,
            y,
            _guarded(rows, stages.labels),
            train,
            stages.at(rows.plan.test),
            seed=rows.options.seed,
            is_foreign=stages.is_foreign,
            trained=_trained_once(rows, y, train),
        )
        return None if found is None else replace(found, test=stages.labels[found.test])

    def pooled(self, rows: BeforeAfter, answers: Sequence[TaskAnswers], *, effect: float = 1.0) -> Task | None:
        """Return the task's figures on the test rows of all answers; None without any.

        Parameters
        ----------
        rows : with a task column
        answers : of one turn, or of several
        effect : how much larger the variance is than that of independent rows
        """
        column = rows.labels.task
        assert column is not None
        found = None
        if answers:
            index = np.concatenate([each.test for each in answers])
            groups = None if rows.labels.groups is None else RowGroups.of(rows.labels, index).codes
            found = task_of(
                answers,
                _guarded(rows, index),
                column=column.name,
                class_names=column.classes or (),
                seed=rows.options.seed,
                effect=lambda influence: effect * cluster_effect(influence, groups),
                of_groups=lambda influence: cluster_effect(influence, groups),
            )
        if found is None:
            rows.note(f"the main task {column.name} was not measured: {NOT_MEASURED}")
            return None
        if not found.converged:
            rows.note(f"the main task {column.name} did not converge: {NOT_TRUSTED}")
        if n := sum(found.untrained.values()):
            rows.note(
                f"{column.name}: {n:,} of {n + found.n_test:,} test rows are left out, of classes that the main task's "
                f"classifier was not trained on: {listed_counts(found.untrained)}"
            )
        for why in found.undefined.values():
            rows.note(f"the TPR gap of {column.name} is undefined: {why}")
        if rows.labels.groups is not None:
            rows.note(f"intervals of false positive rates of {column.name} take the rows of one group as independent")
        for by_group in found.every:
            if by_group.few_positives:
                cells = {f"{cell.class_name} × {cell.group}": cell.n for cell in by_group.few_positives}
                rows.note(
                    f"{column.name}{found.aside(by_group)}: {len(cells):,} of the compared groups have fewer than "
                    f"{FEW_POSITIVES} test rows of a class: {listed_counts(cells, 3)}"
                )
        return found

    def section(self, record: Task) -> Section:
        """Return accuracy and gaps, and the true positive rates by class and group (see `Measure.section`)."""
        lead = (
            f"The task is to predict {visible(record.column)} "
            f"({len(record.classes):,} classes; {count(record.n_train)} training rows, {count(record.n_test)} test "
            f"rows). The true positive rate (TPR) of a class is the share of its rows that are recognised; it is "
            f"compared between the groups of {' and of '.join(visible(each.guarded) for each in record.every)}. "
            "The false positive rate (FPR) is the share of the other rows that are taken for the class. A gap of 0 is "
            "parity, and so is a ratio of 1 (the lowest over the highest rate, averaged over the classes). Rates on "
            "few rows differ by chance: the gap that chance alone gives is estimated by permuting groups within "
            "classes."
        )
        if record.accuracy.not_retrained is not None:
            lead += " Not retrained means: the classifier of the original embeddings, applied to the erased ones."
        left_out, tables = list(_edges(record)), [_overview(record), _chance_table(record)]
        for by_group in record.every:
            aside = visible(record.aside(by_group))
            for of_kind, kind in ((by_group.tpr, "TPR"), (by_group.fpr, "FPR")):
                groups, rates = rates_of(record, by_group, of_kind)
                across = _rates_table if len(groups) <= MOST_GROUPS_ACROSS else _long_rates_table
                table = across(_caption(groups, aside, kind), groups, rates)
                tables.append(replace(table, is_detail=table.is_detail or kind == "FPR"))
            few = [f"{visible(c.class_name)} × {visible(c.group)} ({c.n})" for c in by_group.few_positives]
            if 0 < len(few) <= FEW:
                left_out.append(f"Measured on fewer than {FEW_POSITIVES} test rows{aside}: {', '.join(few)}.")
            elif few:
                caption = f"The {len(few):,} cells with fewer than {FEW_POSITIVES} test rows{aside}"
                tables.append(Table(caption, names("class × group (n)"), tuple((c,) for c in few), is_detail=True))
            for why in dict.fromkeys(cell.why for cell in by_group.excluded):
                cells = [f"{visible(c.class_name)} × {visible(c.group)}" for c in by_group.excluded if c.why == why]
                if len(cells) <= FEW:
                    between = f"{aside}," if aside else ""
                    left_out.append(f"Left out of the gaps{between} because {why} is there: {', '.join(cells)}.")
                    continue
                lacking = why.replace("no ", "a ", 1)
                caption = f"The {len(cells):,} cells without {lacking}, whose classes are left out of the gaps{aside}"
                tables.append(Table(caption, names("class × group"), tuple((cell,) for cell in cells), is_detail=True))
        return Section(self.name, "Task", (lead, *left_out), filled(tables))

    def facts(self, record: Task) -> Iterator[Fact]:
        """Yield accuracy and gaps (see `Measure.facts`)."""
        named, accuracy = shortened(record.column, 40), record.accuracy
        aside = f"majority {decimal(record.majority)}"
        yield Fact(f"accuracy of {named}", decimal(accuracy.before), decimal(accuracy.after), aside)
        for by_group in record.every:
            between = f"{visible(record.aside(by_group))}," if record.others else ""
            for gap, name in ((by_group.tpr_gap, "TPR gap"), (by_group.tpr_gap_rms, "TPR gap (RMS)")):
                if gap is not None:
                    yield Fact(f"{name}{between} of {named}", decimal(gap.before), decimal(gap.after), "0 is parity")

    def figures(self, record: Task) -> Iterator[Figure]:
        """Yield accuracy and gaps (see `Measure.figures`)."""
        start = f"task {record.column}: "
        if record.accuracy.after is not None:
            yield Figure(f"{start}accuracy", "accuracy", record.accuracy.after, record.accuracy_ci95.get("after"))
        if record.accuracy.not_retrained is not None:
            label = "accuracy, not retrained"
            yield Figure(f"{start}{label}", label, record.accuracy.not_retrained)
        for by_group in record.every:
            aside = record.aside(by_group) if by_group is not record.first else ""
            gaps = ((by_group.tpr_gap, "tpr_gap", "TPR gap"), (by_group.tpr_gap_rms, "tpr_gap_rms", "TPR gap (RMS)"))
            for gap, name, label in gaps:
                if gap is not None and gap.after is not None:
                    yield Figure(f"{start}{name}{aside}", f"{label}{record.aside(by_group)}", gap.after, gap.ci95)


TASK = MainTask()


def _guarded(rows: BeforeAfter, index: Index) -> list[Guarded]:
    """Return the attributes with classes, on the labels at `index`."""
    return [Guarded(a.name, a.codes(index), a.classes or ()) for a in rows.classified]


def _trained_once(rows: BeforeAfter, y: Codes, train: Index) -> Trained | None:
    """Return the classifier of the rows before, trained once however often the same rows are erased."""
    before, y = rows.stages.before[train], y[train]
    known = rows.cache.get(Trained)
    if known is None or known[0] is not rows.stages.before:
        is_there = y >= 0
        if len(np.unique(y[is_there])) < 2:
            return None
        trained = Trained.of(before[is_there], y[is_there], rows.options.seed)
        known = rows.cache[Trained] = (rows.stages.before, trained)
    found: Trained = known[1]
    return found


@dataclass(frozen=True)
class ClassRates:
    """Rates of one task class, by (stage, group)."""

    name: str
    """Visible."""
    rates: dict[tuple[str, str], float]
    counts: dict[str, int]
    """Test rows of each group that the rate is measured on."""

    def gap(self, stage: str, groups: tuple[str, ...]) -> float | None:
        """Return the first group's rate less the second's, signed; of more groups, the largest less the smallest.

        Parameters
        ----------
        stage : before or after
        groups : that are compared, visible

        Returns
        -------
        None where a group has no rate: such a class is left out of the gaps
        """
        rates = [self.rates[stage, group] for group in groups if (stage, group) in self.rates]
        if len(groups) < 2 or len(rates) < len(groups):
            return None
        return rates[0] - rates[1] if len(groups) == 2 else max(rates) - min(rates)

    def ratio(self, stage: str, groups: tuple[str, ...]) -> float | None:
        """Return the lowest over the highest rate at `stage` among `groups`; None if one has none, or all are 0."""
        rates = [self.rates[stage, group] for group in groups if (stage, group) in self.rates]
        if len(groups) < 2 or len(rates) < len(groups) or max(rates) == 0:
            return None
        return min(rates) / max(rates)


def class_rates(task: Task, of: GroupRates) -> tuple[tuple[str, ...], tuple[ClassRates, ...]]:
    """Return the groups that have true positive rates, visible, and each class's rates in the task's order.

    Classes without any rate are left out.

    Parameters
    ----------
    task : the figures of the main task
    of : its rates by one attribute
    """
    return rates_of(task, of, of.tpr)


def rates_of(
    task: Task, of: GroupRates, cells: Sequence[Rate | FalseRate]
) -> tuple[tuple[str, ...], tuple[ClassRates, ...]]:
    """Return what `class_rates` does of a `task` and the rates `of` groups, of those in `cells`."""
    found = {name: ClassRates(visible(name), {}, {}) for name in task.classes}
    for cell in cells:
        rates, group = found[cell.class_name], visible(cell.group)
        rates.rates[cell.stage, group] = cell.value
        rates.counts[group] = cell.n
    there = {cell.group for cell in cells}
    groups = tuple(visible(group) for group in of.groups if group in there)
    return groups, tuple(rates for rates in found.values() if rates.rates)


def gap_name(groups: tuple[str, ...], kind: str = "TPR") -> str:
    """Return the definition of the gap between `groups` as text; `kind`: TPR or FPR."""
    if len(groups) == 2:
        return f"{kind} of {groups[0]} less {kind} of {groups[1]}"
    return f"largest {kind} less the smallest"


def _overview(task: Task) -> Table:
    is_after = task.accuracy.after is not None
    latest, majority = "after" if is_after else "before", decimal(task.majority)
    rows: list[Row] = []
    for name, accuracy, bounds in (
        ("accuracy", task.accuracy, task.accuracy_ci95.get(latest)),
        ("balanced accuracy", task.balanced_accuracy, None),
    ):
        if accuracy is not None:
            beside = (decimal(accuracy.not_retrained), majority if accuracy is task.accuracy else ABSENT)
            rows.append((name, decimal(accuracy.before), decimal(accuracy.after), interval(bounds), *beside))
    figures: list[tuple[str, Gap | Ratio]] = [*_gaps(task), *_ratios(task)]
    for name, figure in figures:
        rows.append((name, decimal(figure.before), decimal(figure.after), interval(figure.ci95), ABSENT, ABSENT))
    columns = (
        *names("measure"),
        *numbers("before", "after", "95% interval of after" if is_after else "95% interval"),
        *numbers("after, not retrained", "majority"),
    )
    return Table("The task before and after" if is_after else "The task", columns, tuple(rows))


def _chance_table(task: Task) -> Table:
    figures = [(name, gap.debiased, gap.expected, gap.p_value) for name, gap in _gaps(task)]
    figures += [(name, {}, ratio.expected, ratio.p_value) for name, ratio in _ratios(task)]
    rows = tuple(
        (name, *(decimal(figure.get(stage)) for figure in (debiased, expected, p) for stage in STAGES))
        for name, debiased, expected, p in figures
        if expected
    )
    columns = (
        *names("measure"),
        *numbers(*(f"{figure} {stage}" for figure in ("debiased", "by chance", "p") for stage in STAGES)),
    )
    return Table("The gaps and chance", columns, rows)


def _gaps(task: Task) -> Iterator[tuple[str, Gap]]:
    """Return the gaps of each guarded attribute, under the name that tables give them."""
    for by_group in task.every:
        for gap, name in (
            (by_group.tpr_gap, "TPR gap"),
            (by_group.tpr_gap_rms, "TPR gap, RMS over classes"),
            (by_group.fpr_gap, "FPR gap"),
            (by_group.fpr_gap_rms, "FPR gap, RMS over classes"),
        ):
            if gap is not None:
                yield name + visible(task.aside(by_group)), gap


def _ratios(task: Task) -> Iterator[tuple[str, Ratio]]:
    """Return the ratios of each guarded attribute, under the name that tables give them."""
    for by_group in task.every:
        for ratio, name in ((by_group.tpr_ratio, "TPR ratio"), (by_group.fpr_ratio, "FPR ratio")):
            if ratio is not None:
                yield name + visible(task.aside(by_group)), ratio


def _edges(task: Task) -> Iterator[str]:
    """Yield why a gap lies at an end of its interval, or outside it."""
    for name, gap in _gaps(task):
        latest = gap.before if gap.after is None else gap.after
        if name.startswith("TPR") and latest and gap.ci95 is not None and decimal(latest) in map(decimal, gap.ci95):
            yield f"The {name} lies at an end of its interval, which is of the true gap: few rows widen a measured one."


def _rates_table(caption: str, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    columns = (
        *names("class"),
        *numbers(*(f"{stage}, {group}" for stage in STAGES for group in groups)),
        *numbers("gap before", "gap after"),
        *numbers(*(f"n {group}" for group in groups)),
        *numbers("ratio before", "ratio after", are_spare=True),
    )
    rows = tuple(
        (
            by_class.name,
            *(decimal(by_class.rates.get((stage, group))) for stage in STAGES for group in groups),
            *(decimal(by_class.gap(stage, groups)) for stage in STAGES),
            *(count(by_class.counts.get(group)) for group in groups),
            *(decimal(by_class.ratio(stage, groups)) for stage in STAGES),
        )
        for by_class in rates
    )
    return Table(caption, columns, rows, is_detail=len(rows) > MANY_CLASSES)


def _long_rates_table(caption: str, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    rows = tuple(
        (
            by_class.name,
            group,
            *(decimal(by_class.rates.get((stage, group))) for stage in STAGES),
            count(by_class.counts.get(group)),
        )
        for by_class in rates
        for group in groups
    )
    return Table(caption, (*names("class", "group"), *numbers("before", "after", "n")), rows, is_detail=True)


def _caption(groups: tuple[str, ...], aside: str, kind: str) -> str:
    rates = f"{'True' if kind == 'TPR' else 'False'} positive rates{aside}"
    return f"{rates} by class and group; gap: {gap_name(groups, kind)}" if len(groups) > 1 else rates
