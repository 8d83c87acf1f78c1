"""The task that the embeddings are used for: its accuracy, and true positive rates by group."""

from dataclasses import dataclass
from typing import Any

from salcli.render.table import Row, Section, Table, filled, names, numbers
from salcli.render.text import ABSENT, count, decimal, interval, items, number, record, records, visible

STAGES = ("before", "after")
MOST_GROUPS_ACROSS = 3
FEW = 12  # cells that are told in a sentence
GAPS = {"tpr_gap": "TPR gap", "tpr_gap_rms": "TPR gap (RMS)"}


@dataclass(frozen=True)
class Compared:
    """What was measured between the groups of one guarded attribute."""

    guarded: str
    figures: dict[str, Any]
    aside: str
    """Names the attribute where there are several."""


def compared(task: dict[str, Any]) -> tuple[Compared, ...]:
    """Give each guarded attribute whose groups the task was compared between."""
    every = [of for of in (task, *records(task.get("others"))) if of]
    names = [visible(of.get("guarded") or "the guarded attribute") for of in every]
    return tuple(
        Compared(name, of, f", {name}," if len(every) > 1 else "") for name, of in zip(names, every, strict=True)
    )


@dataclass(frozen=True)
class ClassRates:
    """True positive rates of one task class, by (stage, group)."""

    name: str
    rates: dict[tuple[str, str], float]
    counts: dict[str, float]
    """Test rows of each group."""

    def gap(self, stage: str, groups: tuple[str, ...]) -> float | None:
        """Give the first group's rate less the second's, signed; of more groups, the largest less the smallest.

        Where a group has no rate there is none: such a class is left out of the gaps.
        """
        rates = [self.rates[stage, group] for group in groups if (stage, group) in self.rates]
        if len(groups) < 2 or len(rates) < len(groups):
            return None
        return rates[0] - rates[1] if len(groups) == 2 else max(rates) - min(rates)


def class_rates(task: dict[str, Any]) -> tuple[tuple[str, ...], tuple[ClassRates, ...]]:
    """Give the groups, and each class's rates in the task's order; classes without any rate are left out."""
    cells = [
        (visible(cell.get("class")), visible(cell.get("group")), str(cell.get("stage")), cell)
        for cell in records(task.get("tpr"))
    ]
    there = {group for _, group, _, cell in cells if number(cell.get("tpr")) is not None}
    named = [*map(visible, items(task.get("groups"))), *(group for _, group, _, _ in cells)]
    groups = tuple(group for group in dict.fromkeys(named) if group in there)
    found: dict[str, ClassRates] = {
        visible(name): ClassRates(visible(name), {}, {}) for name in items(task.get("classes"))
    }
    for name, group, stage, cell in cells:
        rates = found.setdefault(name, ClassRates(name, {}, {}))
        if (rate := number(cell.get("tpr"))) is not None:
            rates.rates[stage, group] = rate
        if (n := number(cell.get("n"))) is not None:
            rates.counts[group] = n
    return groups, tuple(rates for rates in found.values() if rates.rates or rates.counts)


def gap_name(groups: tuple[str, ...]) -> str:
    """Say what a gap is here."""
    return f"TPR of {groups[0]} less TPR of {groups[1]}" if len(groups) == 2 else "largest TPR less the smallest"


def task_section(report: dict[str, Any]) -> Section | None:
    """Tell how well the task is still done, and how evenly."""
    task = record(report.get("task"))
    if not task:
        return None
    n_train, n_test = count(task.get("n_train")), count(task.get("n_test"))
    every = compared(task)
    lead = (
        f"The task is to predict {visible(task.get('column') or 'the task column')} "
        f"({len(items(task.get('classes'))):,} classes; {n_train} training rows, {n_test} test rows). "
        f"The true positive rate (TPR) of a class is the share of its rows that are recognised; it is compared between "
        f"the groups of {' and of '.join(of.guarded for of in every)}. A gap of 0 is parity."
    )
    if number(record(task.get("accuracy")).get("not_retrained")) is not None:
        lead += " Not retrained means: the classifier of the original embeddings, applied to the erased ones."
    left_out, tables = [], [_overview(task, every)]
    for of in every:
        groups, rates = class_rates({"classes": task.get("classes"), **of.figures})
        across = _rates_table if len(groups) <= MOST_GROUPS_ACROSS else _long_rates_table
        tables.append(across(_caption(groups, of.aside), groups, rates))
        cells = [f"{visible(c.get('class'))} × {visible(c.get('group'))}" for c in records(of.figures.get("excluded"))]
        if 0 < len(cells) <= FEW:
            left_out.append(f"Left out of the gaps{of.aside} because no test row is there: {', '.join(cells)}.")
        elif cells:
            caption = f"The {len(cells):,} cells without a test row, whose classes are left out of the gaps{of.aside}"
            rows = tuple((cell,) for cell in cells)
            tables.append(Table(caption.rstrip(","), names("class × group"), rows, is_detail=True))
    return Section("task", "Task", (lead, *left_out), filled(tables))


def _overview(task: dict[str, Any], every: tuple[Compared, ...]) -> Table:
    accuracy = record(task.get("accuracy"))
    measures = [("accuracy", accuracy, decimal(accuracy.get("not_retrained")), decimal(task.get("majority")))]
    for of in every:
        gaps = (("TPR gap", "tpr_gap"), ("TPR gap, RMS over classes", "tpr_gap_rms"))
        measures += [(name + of.aside.rstrip(","), record(of.figures.get(key)), ABSENT, ABSENT) for name, key in gaps]
    rows: list[Row] = [
        (name, *(decimal(figures.get(stage)) for stage in STAGES), interval(figures.get("ci95")), *others)
        for name, figures, *others in measures
        if figures
    ]
    is_after = number(accuracy.get("after")) is not None
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
    return Table(caption, columns, rows, is_detail=len(rows) > 8)


def _long_rates_table(caption: str, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    rows = tuple(
        (of.name, group, *(decimal(of.rates.get((stage, group))) for stage in STAGES), count(of.counts.get(group)))
        for of in rates
        for group in groups
    )
    return Table(caption, (*names("class", "group"), *numbers("before", "after", "n")), rows, is_detail=True)


def _caption(groups: tuple[str, ...], aside: str) -> str:
    rates = f"True positive rates{aside.rstrip(',')}"
    return f"{rates} by class and group; gap: {gap_name(groups)}" if len(groups) > 1 else rates
