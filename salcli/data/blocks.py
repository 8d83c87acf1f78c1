"""`Block`: the columns of Z that one attribute makes, and those that rows of two parts have in common."""

import math
from dataclasses import dataclass
from typing import Self

from salcli.data.labels import Attribute


@dataclass(frozen=True)
class Block:
    """The classes of an attribute, or the mean and spread of its numbers, over n labelled rows."""

    name: str
    classes: tuple[str, ...] | None
    """Sorted by code point, the empty name last; None for numbers."""
    n: int
    mean: float = 0.0
    spread: float = 0.0
    """Standard deviation."""

    @classmethod
    def of(cls, attribute: Attribute) -> Self:
        """Return the block of an `attribute` with a value in every row."""
        return cls(attribute.name, attribute.classes, attribute.n_labelled, *attribute.spread())

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
            return Block(self.name, tuple(union), n)
        if not self.n or not other.n:
            return other if not self.n else self
        step, share, rest = other.mean - self.mean, other.n / n, self.n / n
        between = math.sqrt(share * rest) * step
        spread = math.hypot(math.sqrt(rest) * self.spread, math.sqrt(share) * other.spread, between)
        return Block(self.name, None, n, self.mean + step * share, spread)

    def _described(self) -> str:
        return f"{self.name!r} ({'numbers' if self.classes is None else 'classes'})"
