"""Results of one attacker before and after erasure, side by side, and the strongest of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.text import ABSENT, visible

STAGES = ("before", "after")
FRESH = "fresh"
"""The adversary whose figures decide about a release."""


@dataclass(frozen=True)
class ProbePair:
    """One probe by one adversary on one attribute: its result at one stage or at both."""

    attribute: str
    """Visible."""
    attacker: str
    """Its name within an attribute."""
    stages: dict[str, ProbeResult]
    """Results by stage."""

    @property
    def latest(self) -> ProbeResult:
        """The result that is judged: after erasure, or before it when there is no after."""
        return self.stages.get("after") or self.stages["before"]

    def both(self, show: Callable[[ProbeResult], str]) -> tuple[str, ...]:
        """Return what `show` returns for the results before and after; `ABSENT` where there is none."""
        return tuple(show(self.stages[stage]) if stage in self.stages else ABSENT for stage in STAGES)


def probe_pairs(probes: Iterable[ProbeResult]) -> tuple[ProbePair, ...]:
    """Return the results of `probes` at both stages, paired by attribute, attacker and adversary, in their order."""
    pairs: dict[tuple[str, str], ProbePair] = {}
    for probe in probes:
        name = (probe.attribute, probe.attacker)
        pair = pairs.setdefault(name, ProbePair(visible(probe.attribute), probe.attacker, {}))
        pair.stages[probe.stage] = probe
    return tuple(pairs.values())


def best_attacker(
    pairs: Iterable[ProbePair], stage: str, adversary: str = FRESH
) -> tuple[ProbePair, ProbeResult] | None:
    """Return the fresh attacker with the largest leakage, and its result; without a fresh one, the largest of all.

    Parameters
    ----------
    pairs : attackers on one attribute
    stage : before or after
    adversary : instead of fresh

    Returns
    -------
    None if none was measured at that stage
    """
    measured = [(pair, pair.stages[stage]) for pair in pairs if stage in pair.stages]
    fresh = [each for each in measured if each[1].adversary == adversary]
    return max(fresh or measured, key=lambda each: each[1].leakage, default=None)


def worst_leak(pairs: Iterable[ProbePair], stage: str) -> tuple[ProbePair, ProbeResult] | None:
    """Return the attacker with the largest leak, and its result.

    Parameters
    ----------
    pairs : attackers on one attribute
    stage : before or after

    Returns
    -------
    None if none was measured at that stage
    """
    measured = [(pair, pair.stages[stage]) for pair in pairs if stage in pair.stages]
    return max(measured, key=lambda each: each[1].leak, default=None)


def by_form(
    probes: Iterable[ProbeResult],
) -> tuple[tuple[ProbePair, ...], tuple[ProbePair, ...], tuple[ProbePair, ...]]:
    """Return `probes` as pairs: those of the first form, of each other form those that read most, and the rest.

    For each attribute and adversary, the attacker of the largest leak stands for a form; JSON reports have all.
    """
    pairs = probe_pairs(probes)
    first = pairs[0].latest.form if pairs else ""
    worst: dict[tuple[str, str, str], ProbePair] = {}
    others = [pair for pair in pairs if pair.latest.form != first]
    for pair in others:
        place = (pair.attribute, pair.latest.form, pair.latest.adversary)
        if place not in worst or pair.latest.leak > worst[place].latest.leak:
            worst[place] = pair
    most = tuple(worst.values())
    rest = tuple(pair for pair in others if not any(pair is each for each in most))
    return tuple(pair for pair in pairs if pair.latest.form == first), most, rest


def by_attribute(pairs: Iterable[ProbePair]) -> dict[str, list[ProbePair]]:
    """Return `pairs` grouped by the attribute they attack, in their order."""
    groups: dict[str, list[ProbePair]] = {}
    for pair in pairs:
        groups.setdefault(pair.attribute, []).append(pair)
    return groups


def shown_attributes(probes: Iterable[ProbeResult], stage: str) -> dict[str, list[ProbePair]]:
    """Return pairs by the attribute they attack: each guarded one, and of their products the one that leaks most.

    Parameters
    ----------
    probes : of both stages
    stage : at which products are compared
    """
    probes = tuple(probes)
    products = [probe for probe in probes if probe.factors and probe.stage == stage]
    worst = max(products, key=lambda probe: probe.leak, default=None)
    shown = (probe for probe in probes if not probe.factors or (worst and probe.attribute == worst.attribute))
    first, most, _ = by_form(shown)
    return by_attribute((*first, *most))
