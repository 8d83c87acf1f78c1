"""`Block`: an attribute of some rows in brief, its columns of Z, and those that two parts have in common."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Self

import numpy as np

from salcli.errors import LabelError, warn
from salcli.linalg.relabelled import LabelMap

if TYPE_CHECKING:  # which has its own block
    from salcli.data.labels import Attribute


@dataclass(frozen=True)
class Block:
    """The classes of an attribute and their counts, or the mean and spread of its numbers, over n labelled rows."""

    name: str
    classes: tuple[str, ...] | None
    """Sorted by code point, the empty name last; None for numbers."""
    n: int
    counts: tuple[int, ...] = ()
    """Rows of each class; none for numbers."""
    mean: float = 0.0
    spread: float = 0.0
    """Standard deviation."""
    least: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, attribute: "Attribute") -> Self:
        """Return the block of the labelled rows of an `attribute`."""
        if attribute.classes is not None:
            return cls(attribute.name, attribute.classes, attribute.n_labelled, tuple(attribute.counts().values()))
        if not attribute.n_labelled:
            return cls(attribute.name, None, 0)
        ends = float(np.nanmin(attribute.values)), float(np.nanmax(attribute.values))
        return cls(attribute.name, None, attribute.n_labelled, (), *attribute.spread(), *ends)

    @property
    def width(self) -> int:
        """Number of columns."""
        return 1 if self.classes is None else len(self.classes)

    @property
    def unit(self) -> float:
        """What numbers are divided by."""
        return self.spread or 1.0

    def __add__(self, other: "Block") -> "Block":
        """Return the block of the rows of both (of numbers, Chan, Golub & LeVeque 1983).

        Raises
        ------
        ValueError : they are not of one attribute
        """
        if (self.name, self.classes is None) != (other.name, other.classes is None):
            raise ValueError(f"labels {self._described()} and {other._described()} do not add up")
        n = self.n + other.n
        if self.classes is not None and other.classes is not None:
            union = sorted({*self.classes, *other.classes}, key=lambda name: (name == "", name))
            total = dict.fromkeys(union, 0)
            for block in (self, other):
                for name, count in zip(block.classes or (), block.counts, strict=True):
                    total[name] += count
            return Block(self.name, tuple(total), n, tuple(total.values()))
        if not self.n or not other.n:
            return other if not self.n else self
        step, share, rest = other.mean - self.mean, other.n / n, self.n / n
        between = math.sqrt(share * rest) * step
        spread = math.hypot(math.sqrt(rest) * self.spread, math.sqrt(share) * other.spread, between)
        ends = min(self.least, other.least), max(self.most, other.most)
        return Block(self.name, None, n, (), self.mean + step * share, spread, *ends)

    def few(self, n: int) -> list[str]:
        """Return the classes with fewer than `n` rows, each with its number: `a (3)`."""
        counted = zip(self.classes or (), self.counts, strict=True)
        return [f"{name} ({count})" for name, count in counted if 0 < count < n]

    def _described(self) -> str:
        return f"{self.name!r} ({'numbers' if self.classes is None else 'classes'})"

    def require_variety(self, path: str) -> None:
        """Check that an attribute of the file at `path` varies.

        Raises
        ------
        LabelError : fewer than two classes, or a number that never changes
        """
        column = self._column(path)
        if self.classes is None:
            if self.n == 0 or self.least == self.most:
                raise LabelError(f"{column} has one value on {self.n} rows; nothing to remove")
            return
        if len(self.classes) < 2:
            named = f"one class ({self.classes[0]})" if self.classes else "no class"
            raise LabelError(f"{column} has {named} on {self.n} rows; two are needed, nothing to remove")
        if len(self._single()) == len(self.classes):
            raise LabelError(f"{column} has {len(self.classes)} classes on as many rows: every label is unique")

    def warn_of_single_rows(self, path: str) -> None:
        """Warn of classes with one row; `path` names the file in the message."""
        if single := self._single():
            more = f" and {len(single) - 3} more" if len(single) > 3 else ""
            warn(f"{self._column(path)}: a class with a single row: {', '.join(single[:3])}{more}")

    def _column(self, path: str) -> str:
        return f"{path}: {'numeric ' if self.classes is None else ''}column {self.name!r}"

    def _single(self) -> list[str]:
        return [name for name, count in zip(self.classes or (), self.counts, strict=True) if count == 1]


def widening(old: Sequence[Block], new: Sequence[Block], *, is_centred: bool) -> LabelMap | None:
    """Return how the columns of the Z of some blocks become those of others, which have all of their classes.

    Parameters
    ----------
    old, new : blocks of the same attributes
    is_centred : numbers are measured from their mean

    Returns
    -------
    None where the columns are the same
    """
    if all((a.classes, a.mean, a.spread) == (b.classes, b.mean, b.spread) for a, b in zip(old, new, strict=True)):
        return None
    firsts = (0, *accumulate(block.width for block in new))
    columns, scales, shifts, variances = list[int](), list[float](), list[float](), list[float]()
    for mine, other, first in zip(old, new, firsts, strict=False):
        if mine.classes is None or other.classes is None:
            columns.append(first)
            scales.append(mine.unit / other.unit)
            shifts.append((mine.mean - other.mean) / other.unit if is_centred else 0.0)
            variances.append(1.0 if mine.spread else 0.0)
        else:
            place = {name: first + i for i, name in enumerate(other.classes)}
            columns += [place[name] for name in mine.classes]
            scales += [1.0] * mine.width
            shifts += [0.0] * mine.width
            variances += [0.0] * mine.width
    numbers = np.array([scales, shifts, variances]).reshape(3, -1)
    return LabelMap(np.array(columns, np.int64), numbers[0], numbers[1], numbers[2], firsts[-1])
