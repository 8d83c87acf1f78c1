"""What attackers read of numeric attributes, recall by class, and what the test rows could have shown, as tables."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from salcli.evaluation.explained import NumericResult
from salcli.evaluation.power import Detectable
from salcli.evaluation.probe_result import reader
from salcli.evaluation.recalls import Recalls
from salcli.evaluation.report import Report
from salcli.evaluation.section import Fact, Row, Table, names, numbers
from salcli.evaluation.text import ABSENT, count, decimal, general, interval, percent, shortened, visible

STAGES = ("before", "after")
MANY_CLASSES = 8
"""Classes above which a table of recalls is folded."""
R2_IN_WORDS = (
    "Of a numeric attribute, R² is the share of its variance that an attacker explains on the test rows: 1 is all, "
    "0 and less is nothing."
)


@dataclass(frozen=True)
class NumericPair:
    """One attacker of one numeric attribute by one adversary: its result at one stage or at both."""

    attribute: str
    """Visible."""
    stages: dict[str, NumericResult]

    @property
    def latest(self) -> NumericResult:
        """The result that is judged: after erasure, or before it when there is no after."""
        return self.stages.get("after") or self.stages["before"]

    @property
    def reader(self) -> str:
        """The probe, and the form of the rows unless they are raw."""
        return reader(self.latest.probe, self.latest.form)


def numeric_pairs(results: Iterable[NumericResult]) -> tuple[NumericPair, ...]:
    """Return each attacker's results at both stages as a pair, in the order of the `results`."""
    pairs: dict[tuple[str, str, str], NumericPair] = {}
    for result in results:
        name = (result.attribute, reader(result.probe, result.form), result.adversary)
        pairs.setdefault(name, NumericPair(visible(result.attribute), {})).stages[result.stage] = result
    return tuple(pairs.values())


def numeric_table(results: Iterable[NumericResult]) -> Table:
    """Return a table of `results`, those of attackers of numeric attributes, one a row, before and after."""
    columns = (
        *names("attribute", "probe", "adversary"),
        *numbers("R² before", "R² after", "95% interval of after"),
        *numbers("n train", "n test", are_spare=True),
        *names("remarks"),
    )
    caption = "Share of the variance of a numeric attribute that the attacker explains on the test rows"
    return Table(caption, columns, tuple(_numeric_row(pair) for pair in numeric_pairs(results)))


def _numeric_row(pair: NumericPair) -> Row:
    latest = pair.latest
    remarks = [] if latest.converged else ["not converged"]
    remarks += ["rows capped"] if latest.capped else []
    remarks += [f"{name}={general(value, 3)}" for name, value in sorted(latest.hyperparameters.items())]
    return (
        *(pair.attribute, pair.reader, latest.adversary),
        *(decimal(pair.stages[stage].r2) if stage in pair.stages else ABSENT for stage in STAGES),
        *(interval(latest.ci95), count(latest.n_train), count(latest.n_test), ", ".join(remarks)),
    )


def best_regression(pairs: Iterable[NumericPair]) -> dict[str, NumericPair]:
    """Return the one of `pairs` that explains most, of each attribute by its name: a fresh one, else any."""
    found: dict[str, NumericPair] = {}
    for pair in pairs:
        known = found.get(pair.attribute)
        if known is None or _rank(pair) > _rank(known):
            found[pair.attribute] = pair
    return found


def _rank(pair: NumericPair) -> tuple[bool, float]:
    return pair.latest.adversary == "fresh", pair.latest.r2


def numeric_findings(report: Report) -> Iterator[str]:
    """Yield for each numeric attribute of a `report` how much the best attacker still explains."""
    for name, pair in best_regression(numeric_pairs(report.numeric)).items():
        when = "after erasure" if "after" in pair.stages else "as the file is"
        before = f" (before: {percent(_share(pair.stages['before']))})" if len(pair.stages) > 1 else ""
        yield (
            f"{shortened(name, 60)}, {when}: the best attacker ({pair.reader}, {pair.latest.adversary}) explains "
            f"{percent(_share(pair.latest))} of its variance{before}."
        )


def _share(result: NumericResult) -> float:
    return max(0.0, result.r2)


def numeric_facts(report: Report) -> Iterator[Fact]:
    """Yield the largest R² of each numeric attribute of a `report`."""
    for name, pair in best_regression(numeric_pairs(report.numeric)).items():
        before, after = (decimal(pair.stages[stage].r2) if stage in pair.stages else ABSENT for stage in STAGES)
        title = f"R² of {shortened(name, 40)} ({pair.reader}, {pair.latest.adversary})"
        yield Fact(title, before, after, "0: nothing is read, 1: all")


def recall_table(recalls: Recalls) -> Table:
    """Return a table of `recalls`, by class before and after, of one adversary's strongest attacker."""
    rows = tuple(
        (visible(each.name), count(each.n), decimal(each.before), decimal(each.after)) for each in recalls.classes
    )
    caption = (
        f"Recall by class of {visible(recalls.attribute)}: {recalls.probe}, {recalls.adversary}, the strongest attacker"
    )
    columns = (*names("class"), *numbers("n test", "recall before", "recall after"))
    return Table(caption, columns, rows, is_detail=len(rows) > MANY_CLASSES)


def detectable_table(found: Iterable[Detectable]) -> Table | None:
    """Return a table of what the test rows could have shown, one of `found` a row; None if there is none."""
    rows, first = [], None
    for smallest in found:
        first = first or smallest
        figures = (smallest.accuracy, smallest.leak, smallest.r2)
        rows.append((visible(smallest.attribute), _worth(smallest), *map(decimal, figures)))
    if first is None:
        return None
    caption = (
        f"The smallest figures that the test rows could have shown (power {general(first.power)}, one-sided "
        f"{percent(first.confidence)} bound of one attacker)"
    )
    return Table(caption, (*names("attribute"), *numbers("n test", "accuracy", "leak", "R²")), tuple(rows))


def _worth(smallest: Detectable) -> str:
    """Return the number of test rows, and of the independent ones that they are worth."""
    worth = "" if smallest.n_effective is None else f" (worth {count(int(smallest.n_effective))} or more)"
    return count(smallest.n_test) + worth


def detectable_lines(found: Iterable[Detectable]) -> Iterator[str]:
    """Yield a line on what the test rows could have shown for each of `found`."""
    for smallest in found:
        named = (
            {"accuracy": smallest.accuracy, "leak": smallest.leak} if not smallest.is_numeric else {"R²": smallest.r2}
        )
        figures = ", ".join(f"{name} {decimal(value)}" for name, value in named.items() if value is not None)
        yield (
            f"smallest that {_worth(smallest)} test rows of {visible(smallest.attribute)} could have shown "
            f"(power {general(smallest.power)}): {figures or 'nothing'}"
        )
