"""`Baseline`: the leaks of an earlier release, from its JSON report."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from salcli.errors import FormatError
from salcli.evaluation.probe_result import ProbeResult, reader
from salcli.formats.urls import is_url, read_whole
from salcli.options import RAW

NAMED = 3
"""Attackers that a note names."""


@dataclass(frozen=True)
class Leaks:
    """What the attackers of an attribute read."""

    of: Mapping[str, tuple[float, float | None]]
    """By adversary and reader, the leak and its standard error; None: it is not known."""

    def worst(self, names: Collection[str]) -> tuple[float, float | None]:
        """Return the largest leak among those of `names`, at least one, and its error: of equal ones the largest."""
        return max((self.of[name] for name in names), key=lambda leak: (leak[0], inf if leak[1] is None else leak[1]))


@dataclass(frozen=True)
class Baseline:
    """The worst leaks of an earlier report, after erasure if something was erased."""

    path: str
    leaks: Mapping[str, Leaks]
    """By attribute."""

    def of(self, result: ProbeResult) -> Leaks | None:
        """Return the leaks that an attacker's are compared with: of its attribute, or those of a product's factors.

        Parameters
        ----------
        result : the attacker's

        Returns
        -------
        None if there are none
        """
        if result.attribute in self.leaks:
            return self.leaks[result.attribute]
        found = {
            f"{name} of {factor}": leak
            for factor in result.factors
            if factor in self.leaks
            for name, leak in self.leaks[factor].of.items()
        }
        return Leaks(found) if found else None

    def lacking(self, results: Iterable[ProbeResult], stage: str) -> tuple[str, ...]:
        """Return a note on what is attacked now and was not then, attribute by attribute.

        Parameters
        ----------
        results : of attackers, and of those on bands
        stage : the one that is judged
        """
        notes, names = [], dict[str, list[ProbeResult]]()
        for result in results:
            if result.stage == stage:
                names.setdefault(result.attribute, []).append(result)
        for attribute, mine in names.items():
            then = self.leaks.get(attribute)
            new = [attacker_name(each) for each in mine if then is None or attacker_name(each) not in then.of]
            if then is None and self.of(mine[0]) is not None:
                factors = " and ".join(name for name in mine[0].factors if name in self.leaks)
                notes.append(f"{self.path}: no attacker of {attribute}, which is compared with the worst of {factors}")
            elif then is not None and new:
                shown = f"{', '.join(new[:NAMED])}{'' if len(new) <= NAMED else f' and {len(new) - NAMED} more'}"
                notes.append(
                    f"{self.path}: no {shown} attacker of {attribute}: compared with the worst of those it has"
                )
        return tuple(notes)

    @classmethod
    def read(cls, path: str) -> "Baseline":
        """Return the worst leaks of the JSON report at `path`.

        Raises
        ------
        FormatError : the file cannot be read, or is no report that has leaks
        """
        try:
            text = read_whole(path) if is_url(path) else Path(path).read_bytes()
        except OSError as error:
            raise FormatError(f"`baseline={path}`: {error.strerror}") from error
        if text is None:
            raise FormatError(f"`baseline={path}`: no such object")
        try:
            record = json.loads(text)
            return cls(path, _leaks([*record["probes"], *record.get("bands", ())]))
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"`baseline={path}`: expected a JSON report of `evaluate`, of 0.2 or later, whose probes have a leak"
            ) from error


def _leaks(probes: list[dict[str, Any]]) -> dict[str, Leaks]:
    stage = "after" if any(probe["stage"] == "after" for probe in probes) else "before"
    found: dict[str, dict[str, tuple[float, float | None]]] = {}
    for probe in probes:
        if probe["stage"] != stage:
            continue
        leak, error = float(probe["leak"]), None if probe["leak_error"] is None else float(probe["leak_error"])
        if not isfinite(leak + (error or 0.0)) or not 0 <= leak <= 1 or (error is not None and error < 0):
            raise ValueError("no number")
        found.setdefault(str(probe["attribute"]), {})[_name(probe)] = leak, error
    return {attribute: Leaks(of) for attribute, of in found.items()}


def attacker_name(result: ProbeResult) -> str:
    """Return adversary, reader and band of an attacker's `result`."""
    return f"{result.adversary} {result.reader}{f' on {result.band}' if result.band else ''}"


def _name(probe: dict[str, Any]) -> str:
    band = f" on {probe['band']}" if probe.get("band") else ""
    return f"{probe['adversary']} {reader(probe['probe'], probe.get('as', RAW))}{band}"
