"""What `evaluate` can be told, as records with the defaults of the command line."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from salcli.errors import UsageError
from salcli.options import LabelOptions, ReadOptions

SAME_KERNEL = "same-kernel"
VECTOR_PROBES = ("linear", "poly", "rbf")
PROBES = (*VECTOR_PROBES, SAME_KERNEL)
ADVERSARIES = ("in-sample", "fresh")
REPORT_SUFFIXES = (".json", ".md", ".html", ".xml")
MOST_STEPS = 1000


@dataclass(frozen=True)
class Limit:
    """A gate that judges attackers: of one probe, or of all."""

    limit: float
    probe: str | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--max-accuracy") -> "Limit":
        """Read `X` or `PROBE=X`."""
        probe, equals, number = text.rpartition("=")
        if equals and probe not in PROBES:
            raise UsageError(f"{option} {text}: no probe {probe!r}, expected one of {', '.join(PROBES)}")
        try:
            limit = float(number)
        except ValueError:
            raise UsageError(f"{option} {text}: expected [PROBE=]X with a share X, such as 0.6") from None
        return cls(require_share(limit, f"{option} {text}"), probe or None)


@dataclass(frozen=True)
class Sweep:
    """Values of one parameter along which everything is measured again."""

    parameter: str
    """k or strength."""
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Read `k=0:30`, `k=0:30:5` or `strength=0:1:0.1`; the last value belongs to it if a step meets it."""
        parameter, _, bounds = text.partition("=")
        if parameter not in ("k", "strength"):
            raise UsageError(f"--sweep {text}: expected k=FROM:TO[:STEP] or strength=FROM:TO:STEP")
        try:
            first, last, *rest = (float(part) for part in bounds.split(":"))
            step = rest[0] if rest else (1.0 if parameter == "k" else 0.1)
        except ValueError:
            raise UsageError(f"--sweep {text}: expected numbers FROM:TO or FROM:TO:STEP") from None
        finite = np.isfinite([first, last, step]).all() and len(rest) < 2
        if not finite or step <= 0 or not 0 <= first <= last or (last - first) / step >= MOST_STEPS:
            raise UsageError(f"--sweep {text}: expected 0 ≤ FROM ≤ TO, a positive STEP, at most {MOST_STEPS} values")
        values = tuple(round(first + i * step, 10) for i in range(int((last - first) / step + 1e-9) + 1))
        if parameter == "k" and any(value != int(value) for value in values):
            raise UsageError(f"--sweep {text}: k is a whole number")
        if parameter == "strength" and last > 1:
            raise UsageError(f"--sweep {text}: strength is a share, 0…1")
        return cls(parameter, values)


@dataclass(frozen=True)
class EvaluateOptions:
    """How to evaluate."""

    read: ReadOptions = field(default_factory=ReadOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)
    against: str | None = None
    """An erased file made elsewhere, with the same rows."""
    adversaries: tuple[str, ...] = ADVERSARIES
    probes: tuple[str, ...] | None = None
    """Default: linear, poly and rbf, and of a kernel's eraser the same kernel."""
    fit_split: str | None = None
    holdout: float = 0.0
    probe_rows: int = 10_000
    seed: int = 0
    task: str | None = None
    """The column of the main task."""
    similarity: tuple[str, ...] = ()
    neighbors: tuple[str, ...] = ()
    """Words whose neighbours are shown."""
    sweep: Sweep | None = None
    repeats: int | None = None
    sample: int | None = None
    """Rows of each repeated fit."""
    max_accuracy: tuple[Limit, ...] = ()
    max_gain: tuple[Limit, ...] = ()
    max_tpr_gap: float | None = None
    min_similarity_kept: float | None = None
    reports: tuple[str, ...] = ()

    @property
    def fits_again(self) -> bool:
        """Whether erasers are fitted: to samples of the rows, or of another k."""
        return self.repeats is not None or (self.sweep is not None and self.sweep.parameter == "k")

    def __post_init__(self) -> None:
        unknown = [name for name in self.adversaries if name not in ADVERSARIES]
        if unknown or not self.adversaries:
            raise UsageError(f"--adversary {','.join(self.adversaries)}: expected {' or '.join(ADVERSARIES)}")
        if self.probes is not None and (not self.probes or not set(self.probes) <= set(PROBES)):
            raise UsageError(f"--probes {','.join(self.probes)}: expected some of {', '.join(PROBES)}")
        if self.probe_rows < 2:
            raise UsageError(f"--probe-rows {self.probe_rows}: at least 2 rows are needed")
        self._require_companions()

    def _require_companions(self) -> None:
        for name, share in (
            ("--max-tpr-gap", self.max_tpr_gap),
            ("--min-similarity-kept", self.min_similarity_kept),
        ):
            if share is not None:
                require_share(share, f"{name} {share:g}")
        if (self.repeats is None) != (self.sample is None):
            raise UsageError("--repeats N and --sample M go together: N fits, each on M of the rows")
        if self.repeats is not None and (self.repeats < 2 or (self.sample or 0) < 2):
            raise UsageError(f"--repeats {self.repeats} --sample {self.sample}: at least 2 fits on at least 2 rows")
        for path in self.reports:
            if Path(path).suffix.lower() not in REPORT_SUFFIXES:
                raise UsageError(f"--report {path}: expected a name that ends in {', '.join(REPORT_SUFFIXES)}")
        if self.task is not None and "in-sample" not in self.adversaries:
            raise UsageError("--task trains on the fitted rows: leave in-sample among --adversary")
        if self.max_tpr_gap is not None and self.task is None:
            raise UsageError("--max-tpr-gap judges a main task: give --task COL")
        if self.min_similarity_kept is not None and not self.similarity:
            raise UsageError("--min-similarity-kept judges word similarity: give --similarity SET")

    @property
    def needs_vectors(self) -> bool:
        """Whether anything but the same kernel looks at written vectors."""
        asked = (self.similarity, self.neighbors, self.task, self.sweep, self.repeats)
        return any(asked) or set(self.probes or VECTOR_PROBES) != {SAME_KERNEL}

    def require_inputs(self, *, has_labels: bool, has_eraser: bool) -> None:
        """Refuse what the inputs that are given cannot answer.

        Raises
        ------
        UsageError : it names the option and what it needs
        """
        if has_eraser and self.against is not None:
            raise UsageError("--eraser and --against both say what comes after: give one")
        if not has_labels and not (self.similarity or self.neighbors):
            raise UsageError("missing LABELS (only --similarity and --neighbors do without)")
        if self.neighbors and not has_eraser and self.against is None:
            raise UsageError("--neighbors compares before with after: give --eraser or --against")
        if (self.sweep is not None or self.repeats is not None) and not (has_eraser and has_labels):
            raise UsageError("--sweep and --repeats erase again and again: they need --eraser and LABELS")
        if (self.sweep is not None or self.repeats is not None) and set(self.probes or ()) == {SAME_KERNEL}:
            raise UsageError(
                "--sweep and --repeats look at written vectors: ask for another probe than same-kernel alone"
            )
        if self.task is not None and not has_labels:
            raise UsageError("--task is a column of LABELS: give them")
        if self.min_similarity_kept is not None and not has_eraser and self.against is None:
            raise UsageError("--min-similarity-kept compares before with after: give --eraser or --against")


def require_share(value: float, told: str) -> float:
    """Refuse a limit that is no share."""
    if not 0 <= value <= 1:
        raise UsageError(f"{told}: not a share, 0…1")
    return value
