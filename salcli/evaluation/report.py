"""`Report`: everything an evaluation found, in one frozen record that every rendering draws from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from salcli.evaluation.attackers import ProbeResult
from salcli.evaluation.gates import Gate

SCHEMA = "salcli.report/1"
Fields = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """What was measured, on what, and the verdict."""

    inputs: dict[str, Fields]
    """embeddings and labels: path, sha256, n, d."""
    eraser: Fields | None
    """path, sha256, method, k, rank; None when the file was looked at as it is."""
    probes: tuple[ProbeResult, ...] = ()
    similarity: tuple[Fields, ...] = ()
    """By gold set: Spearman before and after, the random control, what was out of the vocabulary."""
    task: Fields | None = None
    """Accuracy and TPR gaps of the main task."""
    neighbors: Fields | None = None
    geometry: Fields | None = None
    """Cluster similarity, and the share of variance removed."""
    deviation: Fields | None = None
    """γ/ρ of a kernel's eraser, and on how many rows."""
    scatter: Fields | None = None
    """Some test rows in two dimensions, before and after."""
    sweep: tuple[Fields, ...] = ()
    repeats: Fields | None = None
    gates: tuple[Gate, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know to read the figures right."""

    @property
    def verdict(self) -> str:
        """pass, fail, or none without a gate."""
        if not self.gates:
            return "none"
        return "pass" if all(gate.passed for gate in self.gates) else "fail"

    def worded(self, wording: Callable[[str], str]) -> "Report":
        """Return the report with `wording` applied to every note and to the reason of every gate."""
        gates = tuple(replace(gate, reason=wording(gate.reason)) for gate in self.gates)
        return replace(self, gates=gates, notes=tuple(map(wording, self.notes)))

    def to_dict(self) -> Fields:
        """Give the JSON object: the same input and seed give the same bytes."""
        return {
            "schema": SCHEMA,
            "inputs": self.inputs,
            "eraser": self.eraser,
            "probes": [probe.to_dict() for probe in self.probes],
            "similarity": list(self.similarity),
            "task": self.task,
            "neighbors": self.neighbors,
            "geometry": self.geometry,
            "deviation": self.deviation,
            "scatter": self.scatter,
            "sweep": list(self.sweep),
            "repeats": self.repeats,
            "gates": [gate.to_dict() for gate in self.gates],
            "notes": list(self.notes),
            "verdict": self.verdict,
        }


def judged_stage(report_eraser: Fields | None) -> str:
    """Name the stage that gates judge: after erasure, or the file as it is when there is no eraser."""
    return "after" if report_eraser is not None else "before"
