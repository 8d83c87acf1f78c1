"""The task that the embeddings are used for: its accuracy, and true positive rates by group."""

from dataclasses import dataclass
from typing import Any

from salcli.render.table import Row, Section, Table, filled, names, numbers
from salcli.render.text import ABSENT, count, decimal, interval, items, number, record, records, visible

STAGES = ("before", "after")
MOST_GROUPS_ACROSS = 3


@dataclass(frozen=True)
class ClassRates:
    """True positive rates of one task class, by (stage, group)."""

    name: str
    rates: dict[tuple[str, str], float]
    counts: dict[str, float]
    """Test rows of each group."""

    def gap(self, stage: str, groups: tuple[str, ...]) -> float | None:
        """Give the first group's rate less the second's, signed; of more groups, the largest less the smallest."""
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
    groups = tuple(dict.fromkeys([*map(visible, items(task.get("groups"))), *(group for _, group, _, _ in cells)]))
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
    groups, rates = class_rates(task)
    n_train, n_test = count(task.get("n_train")), count(task.get("n_test"))
    lead = (
        f"The task is to predict {visible(task.get('column') or 'the task column')} "
        f"({len(items(task.get('classes'))):,} classes; {n_train} training rows, {n_test} test rows). "
        f"The true positive rate (TPR) of a class is the share of its rows that are recognised; it is compared between "
        f"the groups of {visible(task.get('guarded') or 'the guarded attribute')}. A gap of 0 is parity. "
        "Not retrained means: the classifier of the original embeddings, applied to the erased ones."
    )
    cells = [f"{visible(cell.get('class'))} × {visible(cell.get('group'))}" for cell in records(task.get("excluded"))]
    few = 12
    left_out = (
        (f"Left out of the gaps, because too few test rows are there: {', '.join(cells)}.",)
        if 0 < len(cells) <= few
        else ()
    )
    tables = [
        _overview(task),
        _rates_table(groups, rates) if len(groups) <= MOST_GROUPS_ACROSS else _long_rates_table(groups, rates),
        Table(
            f"The {len(cells):,} cells left out of the gaps: too few test rows",
            names("class × group"),
            tuple((cell,) for cell in cells) if len(cells) > few else (),
            is_detail=True,
        ),
    ]
    return Section("task", "Task", (lead, *left_out), filled(tables))


def _overview(task: dict[str, Any]) -> Table:
    rows: list[Row] = []
    for key, name in (("accuracy", "accuracy"), ("tpr_gap", "TPR gap"), ("tpr_gap_rms", "TPR gap, RMS over classes")):
        if figures := record(task.get(key)):
            is_accuracy = key == "accuracy"
            rows.append(
                (
                    name,
                    *(decimal(figures.get(stage)) for stage in STAGES),
                    interval(figures.get("ci95")),
                    decimal(figures.get("not_retrained")) if is_accuracy else ABSENT,
                    decimal(task.get("majority")) if is_accuracy else ABSENT,
                )
            )
    columns = (
        *names("measure"),
        *numbers("before", "after", "95% interval of after", "after, not retrained", "majority"),
    )
    return Table("The task before and after", columns, tuple(rows))


def _rates_table(groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
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
    return Table(_caption(groups), columns, rows, is_detail=len(rows) > 8)


def _long_rates_table(groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    rows = tuple(
        (of.name, group, *(decimal(of.rates.get((stage, group))) for stage in STAGES), count(of.counts.get(group)))
        for of in rates
        for group in groups
    )
    return Table(_caption(groups), (*names("class", "group"), *numbers("before", "after", "n")), rows, is_detail=True)


def _caption(groups: tuple[str, ...]) -> str:
    return (
        f"True positive rates by class and group; gap: {gap_name(groups)}" if len(groups) > 1 else "True positive rates"
    )
