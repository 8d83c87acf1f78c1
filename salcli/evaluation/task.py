"""The main task as a measure: its section of the report, its main figures, and its figures in sweeps."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from salcli.data.groups import RowGroups
from salcli.data.labels import Index
from salcli.errors import UsageError
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.clusters import cluster_effect
from salcli.evaluation.gaps import FEW_POSITIVES
from salcli.evaluation.group_rates import Codes, Guarded
from salcli.evaluation.main_task import Task, TaskAnswers, Trained, task_answers, task_of
from salcli.evaluation.section import Fact, Figure, Section, Table, filled, names
from salcli.evaluation.task_tables import (
    caption_of,
    chance_table,
    edges,
    long_rates_table,
    overview,
    rates_of,
    rates_table,
)
from salcli.evaluation.text import count, decimal, listed_counts, shortened, visible

NOT_MEASURED = "its training rows are of fewer than two classes, or no test row has one of them"
NOT_TRUSTED = "its figures are not to be trusted"
MOST_GROUPS_ACROSS = 3
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
        """Return the classifiers' predictions of the test rows; None if they cannot be trained, or there are none.

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
        left_out, tables = list(edges(record)), [overview(record), chance_table(record)]
        for by_group in record.every:
            aside = visible(record.aside(by_group))
            for of_kind, kind in ((by_group.tpr, "TPR"), (by_group.fpr, "FPR")):
                groups, rates = rates_of(record, by_group, of_kind)
                across = rates_table if len(groups) <= MOST_GROUPS_ACROSS else long_rates_table
                table = across(caption_of(groups, aside, kind), groups, rates)
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
