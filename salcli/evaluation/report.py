"""`Report`: all results of an evaluation, as frozen records from which every output is rendered."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any, Literal, TypeVar, cast

from salcli.data.hashes import FileHash
from salcli.erasers.artifact import Artifact
from salcli.evaluation.attackers.scores import Answers, Areas, within_0_1
from salcli.evaluation.base import Measure
from salcli.evaluation.duplicates import Copies
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.forms import Scale
from salcli.evaluation.power import Detectable
from salcli.evaluation.provenance import Run
from salcli.evaluation.recalls import Recalls, strongest_recalls
from salcli.evaluation.shares import difference
from salcli.options import RAW

SCHEMA = "salcli.report/1"
R = TypeVar("R")
Scalars = Mapping[str, str | float | bool | None]
INLINE = {"inline": True}
"""Of a field whose keys become keys of the record that has it."""
OPTIONAL = {"optional": True}
"""Of a field that is left out where it is None or empty."""
UNWRITTEN = {"unwritten": True}
"""Of a field that is no part of the JSON."""


def named(key: str) -> dict[str, str]:
    """Return the metadata of a dataclass field that is called `key` in the JSON."""
    return {"key": key}


def to_json(value: object) -> Any:
    """Return `value` as plain dicts, lists, strings and numbers: field names are the keys, tuples become lists.

    Raises
    ------
    TypeError : a value is neither a dataclass nor a mapping, list, tuple, string, number, bool or None
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        raise TypeError(f"no JSON for a {type(value).__name__}")
    found: dict[str, Any] = {}
    for each in dataclasses.fields(value):
        item, how = getattr(value, each.name), each.metadata
        if how.get("inline"):
            found |= to_json(item)
        elif not (how.get("unwritten") or (how.get("optional") and item in (None, "", ()))):
            found[how.get("key", each.name)] = to_json(item)
    return found


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


def reader(probe: str, form: str) -> str:
    """Return what reads: the name of a `probe`, and the `form` of the rows unless they are raw."""
    return probe if form == RAW else f"{probe} as {form}"


@dataclass(frozen=True)
class ProbeResult:
    """One attacker's result on the test rows."""

    attribute: str
    probe: str
    adversary: str
    """in-sample (trained on the fitted rows) or fresh (on rows that took no part in the fit)."""
    stage: str
    """before or after erasure."""
    accuracy: float
    ci95: tuple[float, float]
    """Wilson interval of the accuracy."""
    balanced_accuracy: float
    """Mean recall over the classes."""
    majority: float
    """Share of the most frequent class among the test rows: the accuracy of a constant prediction."""
    n_train: int
    n_test: int
    converged: bool
    capped: bool
    """Whether the training rows were cut down to the greatest number allowed."""
    n_classes: int = field(metadata=UNWRITTEN)
    n_left_out: int = 0
    """Test rows that are not among `n_test`, as they are of untrained or rare classes."""
    untrained_classes: tuple[str, ...] = ()
    """Classes of test rows that no training row has."""
    rare_classes: tuple[str, ...] = field(default=(), kw_only=True, metadata=OPTIONAL)
    """Classes of a product of attributes that have too few test rows."""
    factors: tuple[str, ...] = field(default=(), kw_only=True, metadata=OPTIONAL)
    """Of a product of attributes, their names."""
    hyperparameters: dict[str, float] = field(default_factory=dict, hash=False)
    """C, γ and others, chosen on the attacker's own rows, before and after separately."""
    weighted: bool = False
    """Whether classes weigh the same in training, however many rows they have."""
    n_test_classes: int = field(default=2, metadata=UNWRITTEN)
    """Classes that occur among the test rows."""
    accuracy_error: float = field(default=inf, metadata=UNWRITTEN)
    """Standard error of the accuracy on test rows of these classes."""
    balanced_error: float = field(default=inf, metadata=UNWRITTEN)
    """Standard error of the balanced accuracy."""
    areas: Areas | None = field(default=None, metadata=UNWRITTEN)
    """Areas under ROC curves."""
    unrated_classes: tuple[str, ...] = field(default=(), metadata=OPTIONAL)
    """Classes that have too few test rows for an area under the curve."""
    form: str = field(default=RAW, metadata=named("as"))
    """How the rows are used: raw, unit, float16, int8 or binary."""
    band: str = field(default="", metadata=OPTIONAL)
    """The band near the labelled rows that it is measured on; empty: the test rows."""
    n_effective: float | None = field(default=None, metadata=OPTIONAL)
    """Independent test rows that would give as fine intervals, where rows go together; None: `n_test`."""
    by_turn: tuple[float, ...] = field(default=(), metadata=OPTIONAL)
    """Accuracy of each turn, where rows take turns."""
    answers: Answers | None = field(default=None, compare=False, repr=False, metadata=UNWRITTEN)
    """What it was computed from, while results are pooled."""
    recalls: Mapping[str, tuple[float, int]] = field(default_factory=dict, hash=False, kw_only=True, metadata=UNWRITTEN)
    """By class, the share of its test rows that are named right, and their number."""
    balanced_ci95: tuple[float, float] | None = field(init=False)
    auc: float | None = field(init=False)
    """Area under the ROC curve: of two classes, of the second; of more, one against the rest, macro average."""
    auc_ci95: tuple[float, float] | None = field(init=False)
    leakage: float = field(init=False)
    """What a gate on accuracy judges: it, or for two classes that of the flipped predictions if it is higher."""
    leak: float = field(init=False)
    """Largest of the measures above chance, rescaled to 0 (chance) … 1 (all): small classes count as large ones."""
    leak_error: float | None = field(init=False)
    """Its standard error."""

    def __post_init__(self) -> None:
        flipped = difference(1, self.accuracy) if self.n_classes == 2 else self.accuracy
        found = {
            "leakage": max(self.accuracy, flipped),
            "balanced_ci95": within_0_1(self.balanced_accuracy, self.balanced_error),
            "auc": None if self.areas is None else self.areas.mean,
            "auc_ci95": None if self.areas is None else within_0_1(self.areas.mean, self.areas.error),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        leak, error = max(self.leaks().values())
        object.__setattr__(self, "leak", max(0.0, leak))
        object.__setattr__(self, "leak_error", error if isfinite(error) else None)

    @property
    def reader(self) -> str:
        """The probe, and the form of the rows unless they are raw."""
        return reader(self.probe, self.form)

    @property
    def attacker(self) -> str:
        """What distinguishes it from other results on the attribute at its stage: reader, adversary and band."""
        return ", ".join(filter(None, (self.reader, self.adversary, self.band)))

    @property
    def balanced_leakage(self) -> float:
        """The balanced accuracy, or of two classes that of the flipped predictions if it is higher."""
        return (
            max(self.balanced_accuracy, 1 - self.balanced_accuracy) if self.n_classes == 2 else self.balanced_accuracy
        )

    def leaks(self) -> dict[str, tuple[float, float]]:
        """Return by the name of a measure what is above chance, as a share of what could be, and the standard error."""
        found = {}
        if self.majority < 1:
            rest = 1 - self.majority
            found["accuracy"] = (difference(self.leakage, self.majority) / rest, self.accuracy_error / rest)
        if self.n_test_classes > 1:
            chance = 1 / self.n_test_classes
            above = (self.balanced_leakage - chance) / (1 - chance)
            found["balanced"] = (above, self.balanced_error / (1 - chance))
        if self.areas is not None:
            found["auc"] = (self.areas.strength, self.areas.strength_error)
        return found or {"nothing": (0.0, inf)}

    @property
    def usable(self) -> float:
        """The share of the test rows that is of classes which the attacker was trained on."""
        return self.n_test / max(1, self.n_test + self.n_left_out)

    @property
    def is_flipped(self) -> bool:
        """Whether the flipped predictions have the higher accuracy."""
        return self.leakage > self.accuracy


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
    """Why it did not pass, where the value alone does not say."""
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
    """What a reader must know to read the figures right."""
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
