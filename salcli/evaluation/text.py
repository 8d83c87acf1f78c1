"""Strings and numbers of a report as text."""

from collections.abc import Iterable, Mapping

ABSENT = "–"
"""Shown where a number is undefined or was not measured."""


def visible(text: str) -> str:
    r"""Return `text` on one line, with every unprintable character replaced by its escape (`\x1b`, `\u202e`).

    Control characters, line ends, bidi overrides, joiners and surrogates (bytes that were not UTF-8) could hide or
    reorder their neighbours, or could not be encoded at all.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, limit: int) -> str:
    """Return `text` visible and at most `limit` characters long; the middle is cut, since names differ at both ends."""
    shown = visible(text)
    if len(shown) <= limit:
        return shown
    tail = (limit - 1) // 3
    return f"{shown[: limit - 1 - tail]}…{shown[len(shown) - tail :]}"


def decimal(value: float | None) -> str:
    """Return `value` with three decimals, which is finer than any confidence interval of a report; None: `ABSENT`."""
    if value is None:
        return ABSENT
    return f"{value:.3f}".replace("-", "−") if round(abs(value), 3) else "0.000"


def beside(value: float | None, limit: float) -> str:
    """Return `value` with three decimals, or as many as distinguish it from `limit`; None: `ABSENT`."""
    if value is None or value == limit:
        return decimal(value)
    digits = next((n for n in range(3, 12) if round(value, n) != round(limit, n)), 12)
    return f"{value:.{digits}f}".replace("-", "−")


def general(value: float, digits: int = 6) -> str:
    """Return `value` with at most `digits` significant digits, six of which show a limit as it was set."""
    return f"{value:.{digits}g}".replace("-", "−")


def count(value: int | None) -> str:
    """Return the number `value` with thousands separators; None: `ABSENT`."""
    return ABSENT if value is None else f"{value:,}"


def percent(value: float | None) -> str:
    """Return the share `value` in per cent, for prose; None: `ABSENT`."""
    return ABSENT if value is None else f"{100 * value:.1f}%".replace("-", "−")


def interval(bounds: tuple[float, float] | None) -> str:
    """Return the `bounds` of a confidence interval; "to" replaces the dash where one is negative; None: `ABSENT`."""
    if bounds is None:
        return ABSENT
    return f"{decimal(bounds[0])}{'–' if min(bounds) >= 0 else ' to '}{decimal(bounds[1])}"


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return the first `most` of `names`, separated by commas, and the number of the others."""
    shown = [visible(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most:,} more" if len(shown) > most else "")


def listed_counts(counts: Mapping[str, int], most: int = 6) -> str:
    """Return the first `most` names in `counts` with their counts: "clerk (12), judge (3) and 2 more"."""
    return listed((f"{name} ({n:,})" for name, n in counts.items()), most)
