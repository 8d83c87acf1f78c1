"""`Row` and `Run`: what was measured, and `results.json`, which keeps one run for each scale."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.speed.timing import Measure

SCHEMA = "salcli.bench/1"
ALLOWED_LOSS = 0.25


@dataclass(frozen=True)
class Row:
    """Our work beside its reference. A ratio above 1 is to our advantage, always."""

    section: str
    name: str
    against: str
    size: str
    ours: Measure
    reference: Measure | None
    """None: a peer that is not installed."""
    ratio: float | None
    target: float | None = None
    """The least ratio; None: reported only."""
    is_absolute: bool = False
    """The reference is a limit, not something measured beside."""
    note: str = ""
    bounds: tuple[str, ...] = ()
    """Rows of the section `bounds` that tell what the machine allows, if the target is missed."""
    is_on_all_threads: bool = False
    """Of the section `bounds`: not on one thread."""

    @classmethod
    def rates(
        cls,
        name: str,
        against: str,
        ours: list[float],
        reference: list[float],
        n_bytes: float,
        reference_bytes: float | None = None,
        **more: Any,
    ) -> Self:
        """Compare the bytes a second of two works, on the same bytes unless the reference has its own."""
        mine = Measure.of(ours, "s").rate(n_bytes / 1e9, "GB/s")
        theirs = Measure.of(reference, "s").rate((reference_bytes or n_bytes) / 1e9, "GB/s")
        return cls(name=name, against=against, ours=mine, reference=theirs, ratio=mine.median / theirs.median, **more)

    @classmethod
    def times(cls, name: str, against: str, ours: list[float], reference: list[float] | None, **more: Any) -> Self:
        """Compare the seconds of two works that do the same; a reference of None is a peer that is missing."""
        if reference is not None:
            return cls.smaller(name, against, ours, reference, "s", **more)
        return cls(name=name, against=against, ours=Measure.of(ours, "s"), reference=None, ratio=None, **more)

    @classmethod
    def smaller(
        cls, name: str, against: str, ours: list[float], reference: list[float], unit: str, **more: Any
    ) -> Self:
        """Compare two amounts of which ours should not be the larger."""
        mine, theirs = Measure.of(ours, unit), Measure.of(reference, unit)
        return cls(name=name, against=against, ours=mine, reference=theirs, ratio=theirs.median / mine.median, **more)

    @classmethod
    def within(cls, name: str, values: list[float], limit: float, unit: str, **more: Any) -> Self:
        """Hold what was measured against a limit."""
        mine, most = Measure.of(values, unit), Measure(limit, 0.0, unit, 0)
        return cls(
            name=name,
            against=f"at most {limit:g} {unit}",
            ours=mine,
            reference=most,
            ratio=limit / mine.median,
            target=1.0,
            is_absolute=True,
            **more,
        )

    @classmethod
    def alone(cls, name: str, measure: Measure, size: str = "", note: str = "", **more: Any) -> Self:
        """Tell of one step by itself."""
        return cls("bounds", name, "", size, measure, None, None, note=note, **more)

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells a row from others, at any scale."""
        return self.section, self.name, self.against

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing to compare with."""
        return None if self.target is None or self.ratio is None else self.ratio >= self.target

    def to_dict(self) -> dict[str, Any]:
        """Give what stands in results.json."""
        return {**asdict(self), "holds": self.holds}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        fields = {name: value for name, value in found.items() if name != "holds"}
        reference = fields["reference"]
        fields |= {"ours": Measure(**fields["ours"]), "reference": reference and Measure(**reference)}
        return cls(**fields | {"bounds": tuple(fields["bounds"])})


@dataclass(frozen=True)
class Run:
    """All rows of one go on one machine."""

    scale: float
    """Of the sizes; 1 is a whole run."""
    date: str
    seconds: float
    machine: dict[str, str]
    versions: dict[str, str]
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give what stands in results.json."""
        return {**vars(self), "rows": [row.to_dict() for row in self.rows]}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        return cls(**found | {"rows": tuple(Row.from_dict(row) for row in found["rows"])})


def read_runs(path: Path) -> dict[float, Run]:
    """Read results.json, by scale; nothing if it is not there."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text("utf-8"))
    if found["schema"] != SCHEMA:
        raise ValueError(f"{path}: schema {found['schema']}, expected {SCHEMA}")
    runs = [Run.from_dict(run) for run in found["runs"]]
    return {run.scale: run for run in runs}


def write_runs(path: Path, runs: Iterable[Run]) -> None:
    """Write results.json, the largest scale first."""
    ordered = sorted(runs, key=lambda run: -run.scale)
    text = json.dumps({"schema": SCHEMA, "runs": [run.to_dict() for run in ordered]}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", "utf-8")


@dataclass(frozen=True)
class Change:
    """A row of an earlier run and what became of it."""

    before: Row
    now: Row | None
    """None: it was not measured again."""
    is_comparable: bool
    """Whether the ratios may be held against each other."""

    @property
    def share(self) -> float | None:
        """The ratio now, as a share of what it was."""
        if not self.is_comparable or self.now is None or self.now.ratio is None or not self.before.ratio:
            return None
        return self.now.ratio / self.before.ratio

    @property
    def is_lost(self) -> bool:
        """Whether more was lost than noise explains."""
        if self.now is None:
            return self.is_comparable
        return self.share is not None and self.share < 1 - ALLOWED_LOSS


def changes(before: Run, now: Run) -> list[Change]:
    """Hold the ratios of two runs against each other.

    Limits in seconds or megabytes are comparable on the same kind of machine only, and a peer where it is installed.
    What bounds a machine is no work of ours, so it cannot be lost.
    """
    found = {row.key: row for row in now.rows}
    is_same_machine = all(before.machine[part] == now.machine[part] for part in ("cpu", "cores"))
    return [
        Change(row, found.get(row.key), row.ratio is not None and (is_same_machine or not row.is_absolute))
        for row in before.rows
        if row.section != "bounds"
    ]
