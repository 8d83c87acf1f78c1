"""`Sums`: the statistics of rows that came in parts, with the labels of all of them; what `partial_fit` adds up."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.blocks import Block, widening
from salcli.data.labels import Attribute, GuardedLabels, smallest_code
from salcli.data.source import Source
from salcli.erasers.base import Eraser, Fit, SummedMethod
from salcli.streaming.engine import current_engine
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Silent
from salcli.streaming.sums import fold


@dataclass(frozen=True, eq=False)
class Sums:
    """Statistics of labelled rows, numbers in standard deviations; a monoid but for the order of rows."""

    statistics: Any
    """Of the rows that have a label, and of the Z of `blocks`; None of no rows."""
    blocks: tuple[Block, ...]
    """The columns of Z."""
    tables: tuple[GuardedLabels, ...]
    """The labels of all rows, part by part: some bytes a row, by which an artifact names its rows."""
    is_centred: bool
    """Whether numbers are measured from their mean."""

    @classmethod
    def of(cls, source: Source, table: GuardedLabels, method: SummedMethod, parameters: Any) -> Self:
        """Return the sums of the rows of `source` and the labels `table`, as `parameters` of the `method` have them."""
        fitted, is_centred = np.flatnonzero(table.is_labelled), method.centres(parameters)
        labels = method.summed(table.restricted_to(fitted))
        blocks = tuple(map(Block.of, labels.attributes))
        if not len(fitted):
            return cls(None, blocks, (table,), is_centred)
        rows = LabelledSource.of(source, labels, fitted)
        found = fold(rows, method.Statistics, current_engine(), Silent(), is_centred=is_centred)
        return cls(found, blocks, (table,), is_centred)

    @classmethod
    def of_fit(cls, fit: Fit[Eraser], table: GuardedLabels, method: SummedMethod, parameters: Any) -> Self:
        """Return the sums that a `fit` to the labels `table` was computed from (see `of`)."""
        labels = method.summed(table.restricted_to(np.flatnonzero(table.is_labelled)))
        blocks = tuple(map(Block.of, labels.attributes))
        return cls(fit.statistics, blocks, (table,), method.centres(parameters))

    def __add__(self, other: "Sums") -> "Sums":
        """Return the sums of the rows of both, those of `other` last.

        Raises
        ------
        ValueError : they are of other attributes, or centred otherwise
        """
        names = [[block.name for block in sums.blocks] for sums in (self, other)]
        if names[0] != names[1] or self.is_centred != other.is_centred:
            raise ValueError(f"sums of {', '.join(names[0])} and of {', '.join(names[1])} do not add up")
        blocks = tuple(mine + theirs for mine, theirs in zip(self.blocks, other.blocks, strict=True))
        parts = [sums._in(blocks) for sums in (self, other) if sums.statistics is not None]
        found = parts[0] + parts[1] if len(parts) == 2 else parts[0] if parts else None
        return replace(self, statistics=found, blocks=blocks, tables=(*self.tables, *other.tables))

    def _in(self, blocks: tuple[Block, ...]) -> Any:
        """Return the statistics with the columns of the Z of `blocks`, which have all classes of these sums."""
        labels = widening(self.blocks, blocks, is_centred=self.is_centred)
        return self.statistics if labels is None else self.statistics.relabelled(labels)

    def table(self) -> GuardedLabels:
        """Return the labels of all rows."""
        first, *rest = self.tables
        if not rest:
            return first
        columns = zip(*(table.attributes for table in self.tables), strict=True)
        tasks = [table.task for table in self.tables]
        task = joined([each for each in tasks if each is not None]) if first.task is not None else None
        return replace(first, attributes=tuple(map(joined, columns)), task=task)


def joined(parts: Any) -> Attribute:
    """Return one attribute of the rows of several, in their order; `parts` have one name."""
    name, classes = parts[0].name, parts[0].classes
    if classes is None:
        return Attribute(name, np.concatenate([part.values for part in parts]), None)
    union = sorted({one for part in parts for one in part.classes or ()})
    place = {one: code for code, one in enumerate(union)}
    kind = smallest_code(len(union))
    values: list[NDArray[Any]] = []
    for part in parts:
        codes = np.array([*(place[one] for one in part.classes or ()), -1], kind)  # −1 is the last
        values.append(codes[part.values])
    return Attribute(name, np.concatenate(values), tuple(union))
