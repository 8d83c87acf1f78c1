"""One attacker's result on the test rows, and the figures that follow from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite

from salcli.evaluation.attackers.scores import Answers, Areas, within_0_1
from salcli.evaluation.json_fields import OPTIONAL, UNWRITTEN, named
from salcli.evaluation.shares import difference
from salcli.options import RAW


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
