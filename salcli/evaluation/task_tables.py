"""The main task in tables: accuracy and gaps, chance, and the rates of each class by group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from salcli.evaluation.group_rates import FalseRate, Gap, GroupRates, Rate, Ratio
from salcli.evaluation.main_task import Task
from salcli.evaluation.section import Row, Table, names, numbers
from salcli.evaluation.text import ABSENT, count, decimal, interval, visible

STAGES = ("before", "after")
MANY_CLASSES = 8
"""Classes above which the table of rates is folded."""


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


def class_rates(task: Task, by_group: GroupRates) -> tuple[tuple[str, ...], tuple[ClassRates, ...]]:
    """Return the groups that have true positive rates, visible, and each class's rates in the task's order.

    Classes without any rate are left out.

    Parameters
    ----------
    task : the figures of the main task
    by_group : its rates by one attribute
    """
    return rates_of(task, by_group, by_group.tpr)


def rates_of(
    task: Task, by_group: GroupRates, cells: Sequence[Rate | FalseRate]
) -> tuple[tuple[str, ...], tuple[ClassRates, ...]]:
    """Return what `class_rates` does of a `task` and its rates `by_group`, of those in `cells`."""
    found = {name: ClassRates(visible(name), {}, {}) for name in task.classes}
    for cell in cells:
        rates, group = found[cell.class_name], visible(cell.group)
        rates.rates[cell.stage, group] = cell.value
        rates.counts[group] = cell.n
    there = {cell.group for cell in cells}
    groups = tuple(visible(group) for group in by_group.groups if group in there)
    return groups, tuple(rates for rates in found.values() if rates.rates)


def gap_name(groups: tuple[str, ...], kind: str = "TPR") -> str:
    """Return the definition of the gap between `groups` as text; `kind`: TPR or FPR."""
    if len(groups) == 2:
        return f"{kind} of {groups[0]} less {kind} of {groups[1]}"
    return f"largest {kind} less the smallest"


def overview(task: Task) -> Table:
    """Return accuracy, gaps and ratios of `task` before and after, with intervals."""
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


def chance_table(task: Task) -> Table:
    """Return the gaps and ratios of `task` beside those by chance alone."""
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
    """Return the gaps of each guarded attribute, under their name in tables."""
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
    """Return the ratios of each guarded attribute, under their name in tables."""
    for by_group in task.every:
        for ratio, name in ((by_group.tpr_ratio, "TPR ratio"), (by_group.fpr_ratio, "FPR ratio")):
            if ratio is not None:
                yield name + visible(task.aside(by_group)), ratio


def edges(task: Task) -> Iterator[str]:
    """Yield why a gap lies at an end of its interval, or outside it."""
    for name, gap in _gaps(task):
        latest = gap.before if gap.after is None else gap.after
        if name.startswith("TPR") and latest and gap.ci95 is not None and decimal(latest) in map(decimal, gap.ci95):
            yield f"The {name} lies at an end of its interval, which is of the true gap: few rows widen a measured one."


def rates_table(caption: str, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    """Return `rates` with a class a row and the `groups`, visible, side by side; `caption` is the table's."""
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


def long_rates_table(caption: str, groups: tuple[str, ...], rates: tuple[ClassRates, ...]) -> Table:
    """Return `rates` with a class and one of the `groups`, visible, a row; `caption` is the table's."""
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


def caption_of(groups: tuple[str, ...], aside: str, kind: str) -> str:
    """Return the caption of rates by the `groups`, visible; `aside`: what distinguishes tables, `kind`: TPR or FPR."""
    rates = f"{'True' if kind == 'TPR' else 'False'} positive rates{aside}"
    return f"{rates} by class and group; gap: {gap_name(groups, kind)}" if len(groups) > 1 else rates
