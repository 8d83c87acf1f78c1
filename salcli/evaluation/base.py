"""`Measure`: figures that compare the rows before and after erasure; `BeforeAfter`: its input.

A measure is one object in one file: it computes a frozen record, whose fields are those of the JSON report, and
defines how the record is shown. It is entered in `evaluation.measures`.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.source import Source
from salcli.data.splits import EvaluationSplit
from salcli.evaluation.section import Fact, Figure, Section
from salcli.evaluation.stages import Erasure, Stages
from salcli.options import EvaluateOptions
from salcli.streaming.progress import Progress, Silent

R = TypeVar("R")
T = TypeVar("T")


def _ignore(_: str) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled rows of a file, before and after erasure."""

    labels: GuardedLabels
    plan: EvaluationSplit
    """Which rows train and which are tested."""
    stages: Stages
    """The rows of the plan, in memory."""
    row_of_label: Index | None = None
    """`[m]` row of the file of each label, -1 where there is none; None: not known."""


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """What a measure compares: the rows of a file before and after erasure."""

    source: Source
    """The file as it is."""
    erasure: Erasure
    """How they are erased."""
    options: EvaluateOptions
    labelled: Labelled | None = None
    progress: Progress = field(default_factory=Silent)
    note: Callable[[str], None] = _ignore
    """Adds a note to the report."""
    cache: dict[Hashable, Any] = field(default_factory=dict)
    """Results of `once`, shared by all erasures of the same file."""

    def once(self, read: Callable[[Source, EvaluateOptions], T]) -> T:
        """Return `read(source, options)`, computed once for each `read`, however often the rows are erased."""
        return self.shared(read, lambda: read(self.source, self.options))

    def shared(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` returns for the rows before erasure, computed once for each `key`."""
        if key not in self.cache:
            self.cache[key] = compute()
        found: T = self.cache[key]
        return found

    @property
    def labels(self) -> GuardedLabels:
        """The labels; for measures that need them."""
        return self._labelled.labels

    @property
    def plan(self) -> EvaluationSplit:
        """Which rows train and which are tested; for measures that need labels."""
        return self._labelled.plan

    @property
    def stages(self) -> Stages:
        """The labelled rows; for measures that need labels."""
        return self._labelled.stages

    @property
    def classified(self) -> tuple[Attribute, ...]:
        """The guarded attributes that have classes."""
        return tuple(attribute for attribute in self.labels.attributes if attribute.classes is not None)

    @property
    def _labelled(self) -> Labelled:
        assert self.labelled is not None, "the measure needs labels, but its `needs_labels` is False"
        return self.labelled


class Measure(Protocol[R]):
    """Figures before and after erasure: how they are computed, and how their record is shown."""

    name: ClassVar[str]
    """Its key in the JSON report."""
    needs_labels: ClassVar[bool] = True
    """Whether it compares labelled rows; the others are measured first, and without labels too."""
    swept: ClassVar[tuple[str, str] | None] = None
    """Title and quantity of its curves along a sweep; None: it is measured once."""

    def run(self, rows: BeforeAfter) -> R | None:
        """Return a frozen record of what was found in `rows`; None if it was not requested, or cannot be measured."""
        ...

    def section(self, record: R) -> Section | None:
        """Return what reports show of `record`."""
        ...

    def facts(self, record: R) -> Iterable[Fact]:  # noqa: ARG002 -- most measures have none
        """Return the figures of `record` that a reader looks for first."""
        return ()

    def figures(self, record: R) -> Iterable[Figure]:  # noqa: ARG002
        """Return the figures of `record` after erasure that are defined, for sweeps and repeated fits."""
        return ()
