"""Recall by class: whose attribute is read, of the strongest attackers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from salcli.evaluation.json_fields import named

if TYPE_CHECKING:
    from salcli.evaluation.probe_result import ProbeResult


@dataclass(frozen=True)
class ClassRecall:
    """The share of a class's test rows that an attacker names right."""

    name: str = field(metadata=named("class"))
    n: int
    """Test rows."""
    before: float | None
    """None where this stage was not measured, or none of its rows is a test row there."""
    after: float | None


@dataclass(frozen=True)
class Recalls:
    """The recalls of the attacker of the largest leak of an attribute, by one adversary."""

    attribute: str
    probe: str
    adversary: str
    classes: tuple[ClassRecall, ...]


def strongest_recalls(probes: "Iterable[ProbeResult]", stage: str) -> tuple[Recalls, ...]:
    """Return the recalls of the strongest attacker of each attribute and adversary, on rows in the first form.

    Parameters
    ----------
    probes : results of both stages
    stage : at which the largest leak is looked for
    """
    every = tuple(probes)
    by_name = {(r.attribute, r.adversary, r.probe, r.stage): r for r in every if r.form == every[0].form}
    strongest: dict[tuple[str, str], ProbeResult] = {}
    for result in by_name.values():
        known = strongest.get((result.attribute, result.adversary))
        if result.stage == stage and (known is None or result.leak > known.leak):
            strongest[result.attribute, result.adversary] = result
    found = []
    for (attribute, adversary), result in strongest.items():
        stages = {
            name: each.recalls
            for name in ("before", "after")
            if (each := by_name.get((attribute, adversary, result.probe, name))) is not None
        }
        classes = tuple(
            ClassRecall(name, n, *(stages.get(each, {}).get(name, (None, 0))[0] for each in ("before", "after")))
            for name, (_, n) in result.recalls.items()
        )
        if classes:
            found.append(Recalls(attribute, result.probe, adversary, classes))
    return tuple(found)
