"""`Baseline`: the leaks of an earlier release, from its JSON report."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from salcli.errors import FormatError
from salcli.evaluation.report import reader
from salcli.options import RAW


@dataclass(frozen=True)
class WorstLeak:
    """The largest leak of an attribute."""

    leak: float
    error: float
    """Its standard error."""
    attackers: frozenset[str]
    """Adversary and probe of all that were measured."""


@dataclass(frozen=True)
class Baseline:
    """The worst leaks of an earlier report, after erasure if something was erased."""

    path: str
    leaks: Mapping[str, WorstLeak]
    """By attribute."""

    @classmethod
    def read(cls, path: str) -> "Baseline":
        """Return the worst leaks of the JSON report at `path`.

        Raises
        ------
        FormatError : the file cannot be read, or is no report that has leaks
        """
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise FormatError(f"`baseline={path}`: {error.strerror}") from error
        try:
            record = json.loads(text)
            return cls(path, _leaks([*record["probes"], *record.get("bands", ())]))
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"`baseline={path}`: expected a JSON report of `evaluate`, of 0.2 or later, whose probes have a leak"
            ) from error


def _leaks(probes: list[dict[str, Any]]) -> dict[str, WorstLeak]:
    stage = "after" if any(probe["stage"] == "after" for probe in probes) else "before"
    found: dict[str, WorstLeak] = {}
    for probe in probes:
        if probe["stage"] != stage:
            continue
        leak, error = float(probe["leak"]), float(probe["leak_error"] or 0.0)
        if not isfinite(leak + error) or not 0 <= leak <= 1:
            raise ValueError("no number")
        known = found.get(str(probe["attribute"]), WorstLeak(-1.0, 0.0, frozenset()))
        names = known.attackers | {_name(probe)}
        worst = (leak, error) if leak > known.leak else (known.leak, known.error)
        found[str(probe["attribute"])] = WorstLeak(*worst, names)
    return found


def _name(probe: dict[str, Any]) -> str:
    band = f" on {probe['band']}" if probe.get("band") else ""
    return f"{probe['adversary']} {reader(probe['probe'], probe.get('as', RAW))}{band}"
