"""Rates of a classifier by class and group, and the gaps and ratios between the groups of a guarded attribute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salcli.evaluation.fairness import Cells, Outcomes, excluded
from salcli.evaluation.gaps import FEW_POSITIVES, GapTest, Statistic, mean, root_mean_square
from salcli.evaluation.json_fields import UNWRITTEN, named

Codes = NDArray[np.integer[Any]]
Interval = tuple[float, float]
MOST_CLASSES_OF_RATIOS = 2
"""Of more, intervals of a mean ratio hold the true one too rarely (18 classes with 60 rows a group: 83 in 100)."""
NO_TEST_ROW, NOT_TRAINED, NO_OTHER = "no test row", "no training row", "no test row of another class"


class Guarded(NamedTuple):
    """A guarded attribute, whose groups are compared."""

    name: str
    codes: Codes
    """`[m]`, −1 where there is none: such rows count for accuracy, not for rates."""
    groups: Sequence[str]


@dataclass(frozen=True)
class Rate:
    """The true positive rate of one class in one group."""

    stage: str
    class_name: str = field(metadata=named("class"))
    group: str
    tpr: float
    n: int
    """Test rows of this class and group."""

    @property
    def value(self) -> float:
        """The rate."""
        return self.tpr


@dataclass(frozen=True)
class FalseRate:
    """The false positive rate of one class in one group: the share of the other rows that are taken for the class."""

    stage: str
    class_name: str = field(metadata=named("class"))
    group: str
    fpr: float
    n: int
    """Test rows of other classes in this group."""

    @property
    def value(self) -> float:
        """The rate."""
        return self.fpr


@dataclass(frozen=True)
class Gap:
    """A gap between the rates of groups; at a stage where it is undefined it is None."""

    before: float | None
    after: float | None
    ci95: Interval | None
    """Of the gap after, or before where nothing was erased."""
    debiased: Mapping[str, float] = field(default_factory=dict)
    """By stage: the root of the squared gap minus the mean squared gap by chance."""
    expected: Mapping[str, float] = field(default_factory=dict)
    """By stage: the mean gap if groups are permuted within classes."""
    p_value: Mapping[str, float] = field(default_factory=dict)
    """By stage: of such permutations, the share whose gap is at least as wide."""
    tests: Mapping[str, GapTest] = field(default_factory=dict, compare=False, repr=False, metadata=UNWRITTEN)
    """By stage: the test that gives a gate its bounds."""

    def at(self, stage: str) -> float | None:
        """Return the gap at `stage`: before or after; None where it is undefined."""
        return self.after if stage == "after" else self.before


@dataclass(frozen=True)
class Ratio:
    """The lowest over the highest rate of the groups, the mean over classes: 1 is parity; None where undefined."""

    before: float | None
    after: float | None
    ci95: Interval | None
    """Of the ratio after, or before where nothing was erased; None for more than `MOST_CLASSES_OF_RATIOS` classes."""
    expected: Mapping[str, float] = field(default_factory=dict)
    """By stage: the mean ratio if groups are permuted within classes."""
    p_value: Mapping[str, float] = field(default_factory=dict)
    """By stage: of such permutations, the share whose ratio is at least as low."""


@dataclass(frozen=True)
class Cell:
    """A class and a group."""

    class_name: str = field(metadata=named("class"))
    group: str
    why: str = NO_TEST_ROW
    """Why it is left out."""


@dataclass(frozen=True)
class FewRows:
    """A class and a group with fewer than `FEW_POSITIVES` test rows."""

    class_name: str = field(metadata=named("class"))
    group: str
    n: int


@dataclass(frozen=True)
class GroupRates:
    """Rates, gaps and ratios between the groups of one guarded attribute."""

    guarded: str
    groups: tuple[str, ...]
    tpr: tuple[Rate, ...]
    """Of the cells that have test rows."""
    tpr_gap: Gap | None
    """Of two classes and two groups: the mean gap."""
    tpr_gap_rms: Gap | None
    """Root mean square over the classes."""
    excluded: tuple[Cell, ...]
    """Cells without test rows, or of classes without training rows: their classes are left out of the gaps."""
    fpr: tuple[FalseRate, ...] = ()
    """Of the cells that have test rows of other classes."""
    fpr_gap: Gap | None = None
    fpr_gap_rms: Gap | None = None
    tpr_ratio: Ratio | None = None
    fpr_ratio: Ratio | None = None
    few_positives: tuple[FewRows, ...] = field(init=False)
    """Cells whose true positive rate is measured on few rows."""

    def __post_init__(self) -> None:
        few = {(r.class_name, r.group): FewRows(r.class_name, r.group, r.n) for r in self.tpr if r.n < FEW_POSITIVES}
        object.__setattr__(self, "few_positives", tuple(few.values()))


def group_rates(
    guarded: Guarded,
    class_names: Sequence[str],
    outcomes: dict[str, Outcomes],
    undefined: Mapping[str, str],
    seed: int,
    effects: Mapping[str, float] | None = None,
) -> GroupRates:
    """Return rates, gaps and ratios of one attribute.

    Parameters
    ----------
    guarded : the attribute
    class_names : of the task
    outcomes : by stage, on the test rows that have a group
    undefined : the stages at which there is no gap and no ratio
    seed : of permutations and draws
    effects : by stage, how much larger the variance of true positive rates is than that of independent rows
    """
    true = {stage: of_stage.true_positives for stage, of_stage in outcomes.items()}
    false = {stage: of_stage.false_positives for stage, of_stage in outcomes.items()}
    n_groups = int(np.sum(true["before"].n.sum(axis=0) > 0))
    is_binary = len(class_names) == 2 and n_groups == 2
    latest = "after" if "after" in outcomes else "before"

    def gaps_of(cells: dict[str, Cells], wider: Mapping[str, float]) -> tuple[Gap | None, Gap | None, Ratio | None]:
        defined = {stage: of_stage for stage, of_stage in cells.items() if stage not in undefined}
        of_mean = {stage: of_stage.gap() for stage, of_stage in defined.items()}
        of_square = {stage: of_stage.rms_gap() for stage, of_stage in defined.items()}
        return (
            _gap(of_mean, defined, mean, latest, seed, wider) if is_binary else None,
            _gap(of_square, defined, root_mean_square, latest, seed, wider),
            _ratio(defined, latest, seed, wider),
        )

    tpr_gap, tpr_gap_rms, tpr_ratio = gaps_of(true, effects or {})
    fpr_gap, fpr_gap_rms, fpr_ratio = gaps_of(false, {})
    places = list(product(outcomes, enumerate(class_names), enumerate(guarded.groups)))
    return GroupRates(
        guarded.name,
        tuple(guarded.groups),
        tuple(
            Rate(stage, name, group, float(true[stage].rates[i, j]), int(true[stage].n[i, j]))
            for stage, (i, name), (j, group) in places
            if true[stage].n[i, j]
        ),
        tpr_gap,
        tpr_gap_rms,
        (
            *(Cell(class_names[i], guarded.groups[j]) for i, j in excluded(true["before"])),
            *(
                Cell(class_names[i], guarded.groups[j], NO_OTHER)
                for i, j in excluded(false["before"])
                if true["before"].n[i].any()
            ),
        ),
        tuple(
            FalseRate(stage, name, group, float(false[stage].rates[i, j]), int(false[stage].n[i, j]))
            for stage, (i, name), (j, group) in places
            if false[stage].n[i, j]
        ),
        fpr_gap,
        fpr_gap_rms,
        tpr_ratio,
        fpr_ratio,
    )


def with_untrained(
    found: GroupRates, attribute: Guarded, class_names: Sequence[str], classes: Codes, groups: Codes
) -> GroupRates:
    """Return the rates with what the cells lack whose test rows are left out, of classes without training rows.

    Parameters
    ----------
    found : the rates
    attribute : whose groups are compared
    class_names : of the task
    classes, groups : `[s]` of the test rows that are left out
    """
    pairs = zip(classes.tolist(), groups.tolist(), strict=True)
    cells = {(class_names[code], attribute.groups[group]) for code, group in pairs if group >= 0}
    others = (cell for cell in found.excluded if (cell.class_name, cell.group) not in cells)
    return replace(found, excluded=(*others, *(Cell(*cell, NOT_TRAINED) for cell in sorted(cells))))


def _gap(
    values: dict[str, float | None],
    cells: dict[str, Cells],
    statistic: Statistic,
    latest: str,
    seed: int,
    wider: Mapping[str, float],
) -> Gap | None:
    each = {stage: of_stage.test(statistic, seed, wider.get(stage, 1.0)) for stage, of_stage in cells.items()}
    tests = {stage: test for stage, test in each.items() if test is not None}
    if not tests:
        return None
    return Gap(
        values.get("before"),
        values.get("after"),
        (tests[latest].lower(0.025), tests[latest].upper(0.025)) if latest in tests else None,
        {stage: test.debiased for stage, test in tests.items()},
        {stage: test.expected for stage, test in tests.items()},
        {stage: test.p_value for stage, test in tests.items()},
        tests,
    )


def _ratio(cells: dict[str, Cells], latest: str, seed: int, wider: Mapping[str, float]) -> Ratio | None:
    each = {stage: of_stage.ratio_test(seed, wider.get(stage, 1.0)) for stage, of_stage in cells.items()}
    tests = {stage: test for stage, test in each.items() if test is not None}
    if not tests:
        return None
    values = {stage: cells[stage].ratio() for stage in tests}
    last = tests.get(latest)
    return Ratio(
        values.get("before"),
        values.get("after"),
        (1 - last.upper(0.025), 1 - last.lower(0.025)) if last and len(last.n) <= MOST_CLASSES_OF_RATIOS else None,
        {stage: 1 - test.expected for stage, test in tests.items()},
        {stage: test.p_value for stage, test in tests.items()},
    )
