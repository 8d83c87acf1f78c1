"""Gates: limits that a release must keep. What is missing, undefined or unconverged does not pass."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from salcli.evaluation.attackers import ProbeResult
from salcli.evaluation.shares import difference


@dataclass(frozen=True)
class Asked:
    """What the gates expect to have been measured."""

    attackers: tuple[tuple[str, str, str], ...] = ()
    """Each attribute, adversary and probe."""
    unread: tuple[str, ...] = ()
    """Guarded attributes that no attacker reads."""


@dataclass(frozen=True)
class Gate:
    """A limit, and whether it was kept."""

    name: str
    """What is judged; it begins with max- or min-."""
    limit: float
    value: float | None
    """The worst value found; None where there was nothing valid to judge, which fails."""
    passed: bool
    reason: str = ""
    """Why it failed, when the value alone does not say."""

    def to_dict(self) -> dict[str, Any]:
        """Give the fields of the report's JSON."""
        told = {"reason": self.reason} if self.reason else {}
        return {"name": self.name, "limit": self.limit, "value": self.value, "passed": self.passed, **told}


def accuracy_gate(limit: float, probe: str | None, wanted: Asked, results: tuple[ProbeResult, ...], stage: str) -> Gate:
    """Judge the worst probe (or the one named): all must be there, converged, and read at most `limit`.

    For two classes an attacker may flip its answers, so accuracy below ½ counts from the other side.
    """
    return _probe_gate("max-accuracy", limit, probe, wanted, results, stage, {r: r.leakage for r in results})


def gain_gate(limit: float, probe: str | None, wanted: Asked, results: tuple[ProbeResult, ...], stage: str) -> Gate:
    """Judge, as `accuracy_gate`, what the worst probe reads over the majority rate."""
    gains = {r: difference(r.leakage, r.majority) for r in results}
    return _probe_gate("max-gain", limit, probe, wanted, results, stage, gains)


def tpr_gap_gate(limit: float, task: Mapping[str, Any] | None, stage: str) -> Gate:
    """Judge the TPR gap of the main task: of two classes the gap, of more its root mean square.

    Of several guarded attributes the widest gap counts.
    """
    name = "max-tpr-gap"
    if task is None:
        return Gate(name, limit, None, False, "the main task was not measured")
    gaps: dict[str, float] = {}
    for measured in (task, *task.get("others", ())):
        gap = measured["tpr_gap"] or measured["tpr_gap_rms"]
        if gap is None or gap[stage] is None:
            told = (
                f"the TPR gap between the groups of {measured['guarded']} is undefined: no class has positives in all"
            )
            return Gate(name, limit, None, False, told)
        gaps[measured["guarded"]] = gap[stage]
    widest = max(gaps, key=gaps.__getitem__)
    value = gaps[widest]
    if not task["converged"]:
        return Gate(name, limit, value, False, "the main task did not converge")
    is_kept = value <= limit
    return Gate(name, limit, value, is_kept, "" if is_kept or len(gaps) < 2 else f"between the groups of {widest}")


def similarity_gate(limit: float, scores: Iterable[Mapping[str, Any]]) -> Gate:
    """Judge the share of word similarity that is kept, Spearman after over before, of the worst set."""
    name = "min-similarity-kept"
    shares: list[float] = []
    for score in scores:
        before, after = score["before"], score["after"]
        if before is None or after is None or before <= 0:
            return Gate(name, limit, None, False, f"{score['set']}: undefined, or not positive before erasure")
        shares.append(after / before)
    if not shares:
        return Gate(name, limit, None, False, "no similarity set was measured")
    return Gate(name, limit, min(shares), min(shares) >= limit)


def _probe_gate(
    kind: str,
    limit: float,
    probe: str | None,
    wanted: Asked,
    results: tuple[ProbeResult, ...],
    stage: str,
    values: Mapping[ProbeResult, float],
) -> Gate:
    name = kind + (f" {probe}" if probe else "")
    judged = [r for r in results if r.stage == stage and probe in (None, r.probe)]
    measured = {(r.attribute, r.adversary, r.probe) for r in judged}
    due = [each for each in wanted.attackers if probe in (None, each[2])]
    missing = [each for each in due if each not in measured]
    worst = max(judged, key=lambda r: values[r], default=None)
    value = None if worst is None else values[worst]
    if not due:
        return Gate(name, limit, value, False, f"the {probe} probe was not asked for" if probe else "nothing to judge")
    if missing:
        return Gate(name, limit, value, False, _told_missing(missing))
    if wanted.unread:
        told = f"no attacker reads {wanted.unread[0]}, which is numeric: name the others alone (`attributes`)"
        return Gate(name, limit, value, False, told)
    if any(not r.converged for r in judged):
        return Gate(name, limit, value, False, "a probe did not converge")
    if one := next((r.attribute for r in judged if r.majority == 1), None):
        return Gate(name, limit, value, False, f"the test rows are all of one class of {one}")
    if value is None or worst is None:
        return Gate(name, limit, None, False, "nothing to judge")
    turned = f"{worst.probe}, {worst.adversary}: right in {worst.accuracy:.3g}, so turned round in {worst.leakage:.3g}"
    return Gate(name, limit, value, value <= limit, turned if worst.accuracy < worst.leakage and value > limit else "")


def _told_missing(missing: Iterable[tuple[str, str, str]]) -> str:
    """Say what was not measured, attribute by attribute."""
    by_attribute: dict[str, list[str]] = {}
    for attribute, adversary, probe in missing:
        by_attribute.setdefault(attribute, []).append(f"{adversary} {probe}")
    return "; ".join(f"no result for {name}: {', '.join(each)}" for name, each in by_attribute.items())
