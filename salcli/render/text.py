"""Strings and numbers of a report as a reader may safely see them."""

import math
from collections.abc import Iterable
from typing import Any

ABSENT = "–"
"""Stands where a number is undefined or was not asked for."""


def visible(text: object) -> str:
    r"""Give `text` on one line, each character that has no shape of its own as its escape (`\x1b`, `\u202e`).

    Control characters, line ends, bidi overrides, joiners and surrogates (bytes that were no UTF-8) could hide or
    reorder what stands beside them, or could not be written at all.
    """
    shown = "" if text is None else str(text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def shortened(text: object, limit: int) -> str:
    """Give `text` visible and at most `limit` characters long, cut in the middle: both ends tell names apart."""
    shown = visible(text)
    if len(shown) <= limit:
        return shown
    tail = (limit - 1) // 3
    return f"{shown[: limit - 1 - tail]}…{shown[len(shown) - tail :]}"


def number(value: object) -> float | None:
    """Give `value` if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer of more than 308 digits
        return None
    return found if math.isfinite(found) else None


def decimal(value: object) -> str:
    """Give three decimals, which is finer than any interval here."""
    found = number(value)
    if found is None:
        return ABSENT
    return f"{found:.3f}".replace("-", "−") if round(abs(found), 3) else "0.000"


def beside(value: object, limit: object) -> str:
    """Give three decimals of a value, or as many more as tell it from a limit."""
    found, other = number(value), number(limit)
    if found is None or other is None or found == other:
        return decimal(value)
    digits = next((n for n in range(3, 12) if round(found, n) != round(other, n)), 12)
    return f"{found:.{digits}f}".replace("-", "−")


def general(value: object, digits: int = 6) -> str:
    """Give a limit or a parameter as it was asked for, or (with fewer digits) about as large."""
    found = number(value)
    return ABSENT if found is None else f"{found:.{digits}g}".replace("-", "−")


def count(value: object) -> str:
    """Give a number of rows, in groups of three digits."""
    found = number(value)
    return ABSENT if found is None else f"{int(found):,}"


def percent(value: object) -> str:
    """Give a share in hundredths, for prose."""
    found = number(value)
    return ABSENT if found is None else f"{100 * found:.1f}%".replace("-", "−")


def interval(bounds: object) -> str:
    """Give a confidence interval."""
    pair = ends(bounds)
    if pair is None:
        return ABSENT
    return f"{decimal(pair[0])}{'–' if min(pair) >= 0 else ' to '}{decimal(pair[1])}"


def ends(bounds: object) -> tuple[float, float] | None:
    """Give both ends of an interval, if it has two."""
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2:
        return None
    low, high = number(bounds[0]), number(bounds[1])
    return None if low is None or high is None else (low, high)


def listed(names: Iterable[object], most: int = 12) -> str:
    """Give names parted by commas, the first `most` of them."""
    shown = [visible(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most:,} more" if len(shown) > most else "")


def records(value: object) -> list[dict[str, Any]]:
    """Give the JSON objects of a list that may be absent."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, (list, tuple)) else []


def record(value: object) -> dict[str, Any]:
    """Give a JSON object that may be absent, as an empty one then."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Give a list that may be absent, as an empty one then."""
    return list(value) if isinstance(value, (list, tuple)) else []
