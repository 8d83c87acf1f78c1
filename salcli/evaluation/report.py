"""`Report`: all results of an evaluation, as frozen records from which every output is rendered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, cast

from salcli.data.hashes import FileHash
from salcli.erasers.artifact import Artifact
from salcli.evaluation.base import Measure
from salcli.evaluation.duplicates import Copies
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.forms import Scale
from salcli.evaluation.json_fields import INLINE, OPTIONAL, UNWRITTEN, named
from salcli.evaluation.power import Detectable
from salcli.evaluation.probe_result import ProbeResult, reader
from salcli.evaluation.provenance import Run
from salcli.evaluation.recalls import Recalls, strongest_recalls
from salcli.options import RAW

SCHEMA = "salcli.report/1"
R = TypeVar("R")
Scalars = Mapping[str, str | float | bool | None]


@dataclass(frozen=True)
class InputFile:
    """A file that was read."""

    path: str
    hash: FileHash
    n: int
    """Rows of embeddings, or labels."""
    d: int | None = field(default=None, metadata=OPTIONAL)
    """Dimensions of embeddings."""
    sha256: str | None = field(init=False, metadata=OPTIONAL)
    """The digest of `hash` if it is SHA-256."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", self.hash.sha256)


@dataclass(frozen=True)
class EraserSummary:
    """The eraser that was applied, from its artifact's header."""

    path: str
    sha256: str
    method: str
    d: int
    k: int
    rank: int
    is_centred: bool
    k_rule: Scalars
    """How k was chosen."""
    attributes: tuple[str, ...]
    kernel: Scalars | None = field(default=None, metadata=OPTIONAL)
    landmarks: Scalars | None = field(default=None, metadata=OPTIONAL)
    unit_rows: bool | None = field(default=None, metadata=OPTIONAL)
    """True if erased rows are divided by their lengths."""
    kept_task: str | None = field(default=None, metadata=OPTIONAL)
    """Column whose covariance with the rows is kept."""

    @classmethod
    def of(cls, path: str, artifact: Artifact) -> "EraserSummary":
        """Return the summary of `artifact`, which was read from `path`."""
        summary = artifact.summary()
        more = {"unit_rows": artifact.eraser.normalizes or None, "kept_task": artifact.task}
        return cls(path, artifact.sha256, **summary | more | {"attributes": tuple(summary["attributes"])})


@dataclass(frozen=True)
class ErasedFile:
    """A file of the same rows that was erased elsewhere."""

    path: str
    hash: FileHash
    n: int
    d: int
    method: str = field(default="against", init=False)


@dataclass(frozen=True)
class Worst:
    """The attacker of the largest leak."""

    attribute: str
    probe: str
    adversary: str
    leak: float


@dataclass(frozen=True)
class LearningPoint:
    """The balanced accuracy of an attacker trained on `n_train` rows."""

    n_train: int
    values: tuple[float, ...]
    """Balanced accuracy on the test rows, of each draw."""
    mean: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", sum(self.values) / len(self.values))


@dataclass(frozen=True)
class LearningCurve:
    """The balanced accuracy of an attribute's strongest attacker with fewer rows, extrapolated to more."""

    attribute: str
    probe: str
    adversary: str
    stage: str
    points: tuple[LearningPoint, ...]
    """Rising in rows; the last has all of them."""
    n_extrapolated: int
    """Number of training rows that the curve is extrapolated to."""
    extrapolated: float
    """Balanced accuracy of the fitted curve there."""
    extrapolated_ci95: tuple[float, float]
    """95 % interval of `extrapolated`, if the curve continues in the fitted form."""
    form: str = field(default=RAW, metadata=named("as"))
    """How the rows are used."""

    @property
    def reader(self) -> str:
        """The probe, and the form of the rows unless they are raw."""
        return reader(self.probe, self.form)


Status = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True)
class Gate:
    """A limit, and whether it was kept."""

    name: str
    """What is judged; it begins with max- or min-."""
    limit: float
    value: float | None
    """The worst value found; None where there was nothing valid to judge, which fails."""
    status: Status
    reasons: tuple[str, ...] = field(default=(), metadata=UNWRITTEN)
    """Why it did not pass, where the value alone does not show it."""
    rows_needed: int | None = field(default=None, metadata=OPTIONAL)
    """About how many test rows (pairs, sampled rows) would decide what is undecided."""
    decided_by: str | None = field(default=None, metadata=OPTIONAL)
    """Attribute, attacker and adversary of the worst figure, of a gate on attackers."""
    passed: bool = field(init=False)
    reason: str = field(init=False, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        assert not (self.status != "failed" and self.value is None), "a gate without a value fails"
        object.__setattr__(self, "passed", self.status == "passed")
        object.__setattr__(self, "reason", "; ".join(filter(None, self.reasons)))


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Attackers and measures of one erasure."""

    probes: tuple[ProbeResult, ...] = ()
    measures: Mapping[str, object] = field(default_factory=dict, metadata=INLINE)
    """Records by the name of their measure; None where nothing was measured."""
    numeric: tuple[NumericResult, ...] = field(default=(), metadata=OPTIONAL)
    """What attackers of numeric attributes read."""

    def of(self, measure: Measure[R]) -> R | None:
        """Return the record of `measure`, None if there is none."""
        return cast(R | None, self.measures.get(measure.name))


@dataclass(frozen=True)
class NotRetrained:
    """What an attacker that was trained before erasure reads afterwards."""

    attribute: str
    probe: str
    adversary: str
    accuracy: float
    ci95: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class SweepStep(Measurement):
    """What was measured after erasure at one value of the parameter of a sweep."""

    parameter: str
    value: float
    not_retrained: tuple[NotRetrained, ...] = field(default=(), metadata=OPTIONAL)
    """Along strength: attackers that were trained before erasure."""


@dataclass(frozen=True)
class RepeatedFigure:
    """One figure over repeated fits."""

    name: str
    mean: float
    std: float | None
    """Sample standard deviation; None of a single fit."""
    values: tuple[float, ...]


@dataclass(frozen=True)
class Repeats:
    """How figures vary over fits on samples of the fitted rows."""

    n: int
    """Fits."""
    sample: int
    """Rows of each."""
    figures: tuple[RepeatedFigure, ...]
    runs: tuple[Measurement, ...] = field(default=(), repr=False, metadata=UNWRITTEN)
    """What was measured of each fit, for gates."""


@dataclass(frozen=True)
class Folds:
    """How rows took turns as fit, attack and test."""

    n: int
    """Parts, and turns."""
    n_fitted: tuple[int, ...]
    """Rows that the eraser of each turn was fitted on."""
    n_fresh: tuple[int, ...]
    """Rows that trained its fresh attackers."""
    n_test: tuple[int, ...]
    """Rows that were tested."""
    group_column: str | None = None
    """The column whose groups each lie in one part."""
    n_groups: int | None = None


@dataclass(frozen=True, kw_only=True)
class Report(Measurement):
    """What was measured, on what, and the verdict."""

    schema: str = field(default=SCHEMA, init=False)
    run: Run | None = field(default=None, metadata=OPTIONAL)
    """How the report came to be."""
    inputs: Mapping[str, InputFile] = field(default_factory=dict)
    """embeddings and labels."""
    eraser: EraserSummary | ErasedFile | None = None
    """None where the file was evaluated as it is."""
    learning: tuple[LearningCurve, ...] = field(default=(), metadata=OPTIONAL)
    """Of the strongest attacker of each attribute."""
    bands: tuple[ProbeResult, ...] = field(default=(), metadata=OPTIONAL)
    """Fresh attackers on rows near the labelled ones, which no attacker and no eraser was trained on."""
    int8: Scale | None = field(default=None, metadata=OPTIONAL)
    """What int8 codes are in units of."""
    recalls: tuple[Recalls, ...] = field(init=False, metadata=OPTIONAL)
    """By class, of the strongest attacker of each attribute and adversary."""
    worst: Worst | None = field(init=False, metadata=OPTIONAL)
    """Which attribute, or product of attributes, is read most, and by what."""
    detectable: tuple[Detectable, ...] = field(default=(), metadata=OPTIONAL)
    """The smallest leak that the test rows of each attribute could have shown."""
    sweep: tuple[SweepStep, ...] = ()
    repeats: Repeats | None = None
    folds: Folds | None = field(default=None, metadata=OPTIONAL)
    """Where rows took turns: attackers and the main task are those of all turns."""
    duplicates: Mapping[str, Copies] = field(default_factory=dict)
    """By part of the split (fresh, test): rows that are left out, as copies of rows that train."""
    gates: tuple[Gate, ...] = ()
    notes: tuple[str, ...] = ()
    """What is needed to read the figures right."""
    allows_undecided: bool = field(default=False, metadata=UNWRITTEN)
    """Whether undecided gates are accepted."""
    verdict: str = field(init=False)
    """pass, fail, undecided, or none without a gate."""

    def __post_init__(self) -> None:
        found = {gate.status for gate in self.gates}
        verdict = "fail" if "failed" in found else "undecided" if "undecided" in found else "pass" if found else "none"
        object.__setattr__(self, "verdict", verdict)
        judged = [probe for probe in self.probes if probe.stage == self.judged_stage]
        most = max(judged, key=lambda probe: probe.leak, default=None)
        object.__setattr__(self, "recalls", strongest_recalls(self.probes, self.judged_stage))
        object.__setattr__(self, "worst", most and Worst(most.attribute, most.probe, most.adversary, most.leak))

    @property
    def is_refused(self) -> bool:
        """Whether a gate refuses the release."""
        return self.verdict == "fail" or (self.verdict == "undecided" and not self.allows_undecided)

    @property
    def judged_stage(self) -> str:
        """The stage that gates judge: after erasure, or the file as it is when there is no eraser."""
        return "before" if self.eraser is None else "after"

    def worded(self, wording: Callable[[str], str]) -> "Report":
        """Return the report with `wording` applied to every note and to the reasons of every gate."""
        gates = tuple(replace(gate, reasons=tuple(map(wording, gate.reasons))) for gate in self.gates)
        return replace(self, gates=gates, notes=tuple(map(wording, self.notes)))
