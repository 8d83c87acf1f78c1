"""Gates: limits that a release must keep. What is missing, undefined or unconverged does not pass."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from salcli.evaluation.report import Gate, ProbeResult
from salcli.evaluation.shares import difference
from salcli.evaluation.similarity import SimilarityChange
from salcli.evaluation.task import Task
from salcli.evaluation.text import listed

LEAST_USABLE = 0.8
"""Share of the test rows that must be of classes which were trained on."""


@dataclass(frozen=True)
class Asked:
    """What the gates expect to have been measured."""

    attackers: tuple[tuple[str, str, str], ...] = ()
    """Each attribute, adversary and probe."""
    unread: tuple[str, ...] = ()
    """Guarded attributes that no attacker reads."""


def accuracy_gate(limit: float, probe: str | None, wanted: Asked, results: tuple[ProbeResult, ...], stage: str) -> Gate:
    """Judge the worst probe (or the one named): all must be there, converged, and of an accuracy of at most `limit`.

    For two classes an attacker may flip its predictions, so that an accuracy below ½ counts as its complement.
    """
    return _probe_gate("max-accuracy", limit, probe, wanted, results, stage, {r: r.leakage for r in results})


def gain_gate(limit: float, probe: str | None, wanted: Asked, results: tuple[ProbeResult, ...], stage: str) -> Gate:
    """Judge, as `accuracy_gate`, the accuracy of the worst probe less the majority rate."""
    gains = {r: difference(r.leakage, r.majority) for r in results}
    return _probe_gate("max-gain", limit, probe, wanted, results, stage, gains)


def tpr_gap_gate(limit: float, task: Task | None, stage: str) -> Gate:
    """Judge the TPR gap of the main task: of two classes the gap, of more its root mean square.

    Of several guarded attributes the widest gap counts.
    """
    name = "max-tpr-gap"
    if task is None:
        return Gate(name, limit, None, False, "the main task was not measured")
    gaps: dict[str, float] = {}
    for of in task.every:
        gap = of.tpr_gap or of.tpr_gap_rms
        value = None if gap is None else gap.at(stage)
        if value is None:
            reason = f"the TPR gap between the groups of {of.guarded} is undefined: no class has positives in all"
            return Gate(name, limit, None, False, reason)
        gaps[of.guarded] = value
    widest = max(gaps, key=gaps.__getitem__)
    value = gaps[widest]
    if not task.converged:
        return Gate(name, limit, value, False, "the main task did not converge")
    is_kept = value <= limit
    return Gate(name, limit, value, is_kept, "" if is_kept or len(gaps) < 2 else f"between the groups of {widest}")


def similarity_gate(limit: float, changes: Iterable[SimilarityChange]) -> Gate:
    """Judge the share of word similarity that is kept, Spearman after over before, of the worst set."""
    name = "min-similarity-kept"
    shares: list[float] = []
    for change in changes:
        if change.before is None or change.after is None or change.before <= 0:
            return Gate(name, limit, None, False, f"{change.name}: undefined, or not positive before erasure")
        shares.append(change.after / change.before)
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
        return Gate(name, limit, value, False, _missing_reason(missing))
    if wanted.unread:
        reason = f"no attacker reads {wanted.unread[0]}, which is numeric: name the others alone (`attributes`)"
        return Gate(name, limit, value, False, reason)
    if any(not r.converged for r in judged):
        return Gate(name, limit, value, False, "a probe did not converge")
    if one := next((r.attribute for r in judged if r.majority == 1), None):
        return Gate(name, limit, value, False, f"the test rows are all of one class of {one}")
    if unknown := next((r for r in judged if r.usable < LEAST_USABLE), None):
        return Gate(name, limit, value, False, _untrained_reason(unknown))
    if value is None or worst is None:
        return Gate(name, limit, None, False, "nothing to judge")
    flipped = f"{worst.probe}, {worst.adversary}: right in {worst.accuracy:.3g}, so turned round in {worst.leakage:.3g}"
    return Gate(name, limit, value, value <= limit, flipped if worst.is_flipped and value > limit else "")


def _missing_reason(missing: Iterable[tuple[str, str, str]]) -> str:
    """Return what was not measured, attribute by attribute."""
    by_attribute: dict[str, list[str]] = {}
    for attribute, adversary, probe in missing:
        by_attribute.setdefault(attribute, []).append(f"{adversary} {probe}")
    return "; ".join(f"no result for {name}: {', '.join(each)}" for name, each in by_attribute.items())


def _untrained_reason(of: ProbeResult) -> str:
    return (
        f"{of.n_left_out} of {of.n_left_out + of.n_test} test rows are of classes of {of.attribute} that the "
        f"{of.adversary} attacker was not trained on ({listed(of.untrained_classes, 3)}): at most "
        f"{1 - LEAST_USABLE:.0%} may be"
    )
