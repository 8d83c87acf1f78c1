"""Values that options of `evaluate` take: attackers, forms of the rows, limits of gates, sweeps."""

from dataclasses import dataclass
from math import isfinite

ADVERSARIES, POOLED, WHITE_BOX = ("in-sample", "fresh"), "pooled", "white-box"
RAW = "raw"
FORMS = (RAW, "unit", "float16", "int8", "binary")
"""How rows are used: as they are, of length 1, rounded, quantized, or their signs."""
MOST_STEPS = 1000


@dataclass(frozen=True)
class Limit:
    """The limit of a gate on attackers: on one probe, or on all."""

    limit: float
    probe: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Limit":
        """Return the limit of a `text` `X` or `PROBE=X`.

        Raises
        ------
        ValueError : X is not a number from 0 to 1
        """
        probe, equals, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            raise ValueError("expected [PROBE=]X with a share X, such as 0.6") from None
        if not 0 <= limit <= 1:
            raise ValueError("not a share, 0…1")
        return cls(limit, probe if equals else None)


@dataclass(frozen=True)
class Sweep:
    """Values of one parameter, for each of which everything is measured again."""

    parameter: str
    """k or strength."""
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Return the sweep of a `text` such as `k=0:30`, `k=0:30:5` or `strength=0:1:0.1`.

        The last value is included if it is a whole number of steps from the first.

        Raises
        ------
        ValueError : it is another parameter, or the values make no sense for it
        """
        parameter, _, bounds = text.partition("=")
        if parameter not in ("k", "strength"):
            raise ValueError("expected k=FROM:TO[:STEP] or strength=FROM:TO:STEP")
        try:
            first, last, *rest = (float(part) for part in bounds.split(":"))
            step = rest[0] if rest else (1.0 if parameter == "k" else 0.1)
        except ValueError:
            raise ValueError("expected numbers FROM:TO or FROM:TO:STEP") from None
        finite = all(map(isfinite, (first, last, step))) and len(rest) < 2
        if not finite or step <= 0 or not 0 <= first <= last or (last - first) / step >= MOST_STEPS:
            raise ValueError(f"expected 0 ≤ FROM ≤ TO, a positive STEP, at most {MOST_STEPS} values")
        values = tuple(round(first + i * step, 10) for i in range(int((last - first) / step + 1e-9) + 1))
        if parameter == "k" and any(value != int(value) for value in values):
            raise ValueError("k is a whole number")
        if parameter == "strength" and last > 1:
            raise ValueError("strength is a share, 0…1")
        return cls(parameter, values)
