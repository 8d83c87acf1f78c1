"""How a gate is judged: by confidence bounds of its figures, or by the figures alone.

A gate passes if every bound, each with the stated confidence, is within the limit: all must be, so none is corrected.
It fails if one bound on the other side, corrected for their number (Bonferroni), is beyond the limit: a file exactly at
its limit then fails with probability 1 − confidence at most. Else it is undecided.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from salcli.evaluation.evidence import Evidence, rows_needed
from salcli.evaluation.intersections import LEAST_ROWS
from salcli.evaluation.report import Gate
from salcli.evaluation.text import decimal, listed

LEAST_USABLE = 0.8
"""Share of the test rows that must be of classes which were trained on."""


@dataclass(frozen=True)
class Expected:
    """What the gates expect to have been measured."""

    attackers: tuple[tuple[str, str, str], ...] = ()
    """Each attribute, adversary and probe."""
    unjudged: tuple[str, ...] = ()
    """Numeric attributes that no limit judges."""
    doubts: tuple[str, ...] = ()
    """Why no gate on labelled rows can pass."""
    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By probe, the forms of the rows that it reads; raw alone where none is named."""
    of_numbers: tuple[tuple[str, str, str], ...] = ()
    """Each numeric attribute, adversary and probe, which `max_r2` judges."""
    doubts_of_numbers: tuple[str, ...] = ()
    """Why no gate on numeric attributes can pass."""
    unit: str = "test rows"
    """Of numbers of rows that would decide: those of groups come in groups."""


NOTHING_DUE = Expected()


@dataclass(frozen=True)
class Judge:
    """How gates are judged."""

    confidence: float | None = 0.95
    """Of bounds; None: the figures themselves are compared with the limit."""
    min_pairs: int = 30
    """Pairs that a similarity set must have in the vocabulary."""
    n_settings: int = 1
    """How many fits or steps are judged by the same gate."""

    def gate(self, name: str, limit: float, measured: Sequence["Measured"], *, n_tests: int | None = None) -> Gate:
        """Return the gate on the worst of what was measured, at least one figure.

        Parameters
        ----------
        n_tests : ways to fail by chance; default: one for each figure
        """
        is_upper = name.startswith("max")
        worst = (max if is_upper else min)(measured, key=lambda each: each.value)
        is_kept = worst.value <= limit if is_upper else worst.value >= limit
        beside = () if is_kept else (worst.reason,)
        if self.confidence is None:
            return Gate(name, limit, worst.value, "passed" if is_kept else "failed", beside)
        level = 1 - self.confidence
        corrected = level / ((n_tests or len(measured)) * self.n_settings)
        open_ = [each for each in measured if not _is_within(each.of, limit, level, is_upper=is_upper)]
        if not open_:
            return Gate(name, limit, worst.value, "passed")
        if any(_is_beyond(each.of, limit, corrected, is_upper=is_upper) for each in open_):
            return Gate(name, limit, worst.value, "failed", beside)
        needed = [rows_needed(each.of, limit, each.n, level, corrected, is_upper=is_upper) for each in open_]
        n_needed = None if None in needed else max(n for n in needed if n is not None)
        most = max(each.n for each in open_)
        bounds = worst.of.lower(corrected), worst.of.upper(level)
        why = f"{self.confidence:.0%} bounds {decimal(bounds[0])} and {decimal(bounds[1])}"
        if not all(map(isfinite, bounds)):
            why = "its error is not known"
        decides = "no number of" if n_needed is None else f"about {n_needed:,}"
        here = f"all {most:,} were taken" if most == worst.n_all else f"{most:,} here"
        return Gate(
            name,
            limit,
            worst.value,
            "undecided",
            (*beside, why, f"{decides} {worst.unit} would decide ({here})"),
            n_needed,
        )


@dataclass(frozen=True)
class Measured:
    """One figure that a gate judges."""

    of: Evidence
    value: float
    """As reports show it."""
    n: int
    """Rows that gave it."""
    reason: str = ""
    """Reason in the report if it is the worst figure and beyond the limit."""
    unit: str = "test rows"
    n_all: int | None = None
    """Rows that there are; None: not known."""


def _is_within(evidence: Evidence, limit: float, level: float, *, is_upper: bool) -> bool:
    return evidence.upper(level) <= limit if is_upper else evidence.lower(level) >= limit


def _is_beyond(evidence: Evidence, limit: float, level: float, *, is_upper: bool) -> bool:
    return evidence.lower(level) > limit if is_upper else evidence.upper(level) < limit


def failed(name: str, limit: float, *reasons: str, value: float | None = None) -> Gate:
    """Return a gate that fails for reasons other than its figure.

    Parameters
    ----------
    name : begins with max- or min-
    limit : that was set
    reasons : why it fails
    value : the figure, if there is one
    """
    return Gate(name, limit, value, "failed", reasons)


def untrained_reason(
    n_left_out: int,
    n_test: int,
    column: str,
    who: str,
    classes: Iterable[str],
    rare: Collection[str] = (),
    rows: str = "test rows",
) -> str:
    """Return why too few test rows are of classes that were trained on.

    Parameters
    ----------
    n_left_out, n_test : rows of other classes, and the rows that were tested
    column : of the classes
    who : what was trained
    classes : the other classes
    rare : those of them that were left out because they have few rows
    rows : what the rows are called
    """
    or_rare = f"or that have fewer than {LEAST_ROWS} of them " if rare else ""
    return (
        f"{n_left_out} of {n_left_out + n_test} {rows} are of classes of {column} that the {who} was not trained on "
        f"{or_rare}"
        f"({listed(classes, 3)}): at most {1 - LEAST_USABLE:.0%} may be"
    )
