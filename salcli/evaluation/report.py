"""`Report`: everything an evaluation found, in one frozen record that every rendering draws from."""

from dataclasses import dataclass, field
from typing import Any

from salcli.evaluation.probes import ProbeResult

SCHEMA = "salcli.report/1"


@dataclass(frozen=True)
class Gate:
    """A limit, and whether it was kept."""

    name: str
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


@dataclass(frozen=True)
class Report:
    """What was measured, on what, and the verdict."""

    inputs: dict[str, dict[str, Any]]
    """embeddings and labels: path, sha256, n, d."""
    eraser: dict[str, Any] | None
    """path, sha256, method, k, rank; None when the file was looked at as it is."""
    probes: tuple[ProbeResult, ...]
    gates: tuple[Gate, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What a reader must know to read the figures right."""
    deviation: dict[str, Any] | None = None
    """γ/ρ of a kernel's eraser, and on how many rows."""

    @property
    def verdict(self) -> str:
        """pass, fail, or none without a gate."""
        if not self.gates:
            return "none"
        return "pass" if all(gate.passed for gate in self.gates) else "fail"

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object: the same input and seed give the same bytes."""
        return {
            "schema": SCHEMA,
            "inputs": self.inputs,
            "eraser": self.eraser,
            "probes": [probe.to_dict() for probe in self.probes],
            "deviation": self.deviation,
            "gates": [gate.to_dict() for gate in self.gates],
            "notes": list(self.notes),
            "verdict": self.verdict,
        }


def judged_stage(report_eraser: dict[str, Any] | None) -> str:
    """Name the stage that gates judge: after erasure, or the file as it is when there is no eraser."""
    return "after" if report_eraser is not None else "before"


def accuracy_gate(
    limit: float,
    probe: str | None,
    wanted: tuple[tuple[str, str, str], ...],
    results: tuple[ProbeResult, ...],
    stage: str,
) -> Gate:
    """Judge the worst probe (or the one named): all must be there, converged, and read at most `limit`.

    `wanted` names each (attribute, adversary, probe) that must have been measured.

    For two classes an attacker may flip its answers, so accuracy below ½ counts from the other side.
    """
    name = "max-accuracy" + (f" {probe}" if probe else "")
    judged = [r for r in results if r.stage == stage and probe in (None, r.probe)]
    measured = {(r.attribute, r.adversary, r.probe) for r in judged}
    due = [each for each in wanted if probe in (None, each[2])]
    missing = dict.fromkeys(each[:2] for each in due if each not in measured)
    value = max((r.leakage for r in judged), default=None)
    if not due:
        return Gate(name, limit, value, False, f"the {probe} probe was not asked for" if probe else "nothing to judge")
    if missing:
        named = " and no ".join(f"{adversary} result for {attribute}" for attribute, adversary in missing)
        return Gate(name, limit, value, False, f"no {named}")
    if any(not r.converged for r in judged):
        return Gate(name, limit, value, False, "a probe did not converge")
    return Gate(name, limit, value, value is not None and value <= limit)
