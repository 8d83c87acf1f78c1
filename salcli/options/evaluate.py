"""Options of `evaluate`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from salcli.errors import ParameterError, UsageError
from salcli.options.cluster import ClusterOptions
from salcli.options.labels import LabelOptions
from salcli.options.limits import ADVERSARIES, FORMS, POOLED, RAW, WHITE_BOX, Limit, Sweep
from salcli.options.reading import ReadOptions
from salcli.options.record import Record, option, parse_counts, parse_names, seed_option

JUDGES = ("bounds", "point")
REPORT_SUFFIXES = (".json", ".md", ".html", ".xml")


def _limits(help: str) -> Any:
    """Return the option of a gate on attackers."""
    return option((), help=help, metavar="[PROBE=]X", repeatable=True, parse=Limit.parse)


@dataclass(frozen=True)
class EvaluateOptions(Record):
    """How to evaluate."""

    against: str | None = option(
        None,
        help="Evaluate before and after as another tool erased it: a file with the same rows.",
        metavar="OUT",
    )
    adversaries: tuple[str, ...] = option(
        ADVERSARIES,
        "--adversary",
        help="in-sample (trained on the fitted rows), fresh (on rows of its own), pooled (on both), white-box (as "
        "fresh, and holds the eraser).",
        metavar="A,…",
        parse=parse_names,
        choices=(*ADVERSARIES, POOLED, WHITE_BOX),
    )
    probes: tuple[str, ...] | None = option(
        None,
        help="linear, poly, rbf, quadratic and, of a kernel's eraser, same-kernel (default); knn, mlp, boosting; "
        "of numeric attributes ridge, kernel-ridge, boosting (default); or all.",
        metavar="P,…",
        parse=parse_names,
    )
    forms: tuple[str, ...] = option(
        (RAW, "unit"),
        "--as",
        help="Attack the rows as they will be used: raw, unit (of length 1), float16, int8 (each column in "
        "steps of its own), binary (signs). Gates judge all of them.",
        metavar="F,…",
        parse=parse_names,
        choices=FORMS,
    )
    attacker_rows: int = option(
        10_000,
        "--attacker-rows",
        "--probe-rows",
        help="Most training rows of an attacker; a note states when there are more.",
        metavar="N",
        bounds=(2, None),
    )
    learning_curve: bool = option(
        True,
        "--learning-curve",
        off="--no-learning-curve",
        help="Train the strongest attacker on fewer rows too, and extrapolate its accuracy to ten times as many.",
    )
    intersections: bool = option(
        True,
        "--intersections",
        off="--no-intersections",
        help="Of several guarded attributes of classes, attack each pair, and all together, as one attribute more.",
    )
    quick: bool = option(
        False,
        help="One setting for each attacker, untuned, and one form of the rows: weak, so no gate on attackers passes.",
    )
    task: str | None = option(None, help="Column of the main task: accuracy and TPR gaps.", metavar="COL", text=True)
    similarity: tuple[str, ...] = option(
        (),
        help="simlex999, wordsim353 or FILE[:COLUMN] of word1, word2, score (repeatable).",
        metavar="SET",
        repeatable=True,
    )
    neighbors: tuple[str, ...] = option(
        (), help="Words whose neighbours are shown before and after.", metavar="W,…", parse=parse_names, text=True
    )
    kept: bool = option(
        True,
        "--kept",
        off="--no-kept",
        help="Compare labelled rows with others: the nearest rows that stay, cosines, and what neighbours give away.",
    )
    bias: tuple[str, ...] = option(
        (),
        help="Bias tests before and after: weat1 to weat10, rnd, ripa, or a JSON file of word sets.",
        metavar="TEST,…",
        parse=parse_names,
    )
    sweep: Sweep | None = option(  # noqa: RUF009 (a classmethod's name misleads the linter)
        None, help="Measure along k=FROM:TO or strength=FROM:TO:STEP.", metavar="P=A:B[:S]", parse=Sweep.parse
    )
    repeats: int | None = option(None, help="Fit N times on few labels; mean and spread.", metavar="N")
    sample: int | None = option(None, help="Of `repeats`: rows of each fit, stratified.", metavar="M")
    folds: int | None = option(
        None,
        help="Rows take turns as fit, attack and test, in N turns with a fit each: for small label files.",
        metavar="N",
        bounds=(3, None),
    )
    bands: tuple[int, ...] = option(
        (),
        help="Also attack the next N rows without a label at both ends of the attribute, as band1, band2 …",
        metavar="N,…",
        parse=parse_counts,
        bounds=(1, None),
    )
    reports: tuple[str, ...] = option(
        (),
        "--report",
        help="Write the report as .json, .md, .html or .xml (JUnit); repeatable.",
        metavar="FILE",
        repeatable=True,
    )
    report_format: str | None = option(
        None,
        help="json, md, html or xml: of reports whose name has no such suffix.",
        metavar="F",
        choices=tuple(suffix[1:] for suffix in REPORT_SUFFIXES),
    )
    max_accuracy: tuple[Limit, ...] = _limits(
        "Gate: exit 1 if any attacker reads more than this share right (repeatable)."
    )
    max_gain: tuple[Limit, ...] = _limits(
        "Gate: exit 1 if any attacker reads more than this over the majority rate, or of balanced accuracy over chance "
        "(repeatable)."
    )
    max_leak: tuple[Limit, ...] = _limits(
        "Gate: exit 1 if any attacker's leak (0: nothing is read, 1: all, by accuracy, balanced accuracy and AUC) is "
        "more (repeatable)."
    )
    max_r2: tuple[Limit, ...] = option(
        (),
        help="Gate: exit 1 if any attacker of a numeric attribute explains more than this share of its variance, R² "
        "(repeatable).",
        metavar="[PROBE=]X",
        repeatable=True,
        parse=Limit.parse,
    )
    baseline: str | None = option(
        None, help="JSON report of the release that leaks are compared with.", metavar="REPORT.json"
    )
    max_leak_increase: float | None = option(
        None,
        help="Gate: exit 1 if the worst leak is larger by more than this than that of `baseline`.",
        metavar="X",
        bounds=(0, 1),
    )
    max_tpr_gap: float | None = option(None, help="Gate on the main task's TPR gap.", metavar="X", bounds=(0, 1))
    min_similarity_kept: float | None = option(
        None,
        help="Gate: least share of Spearman's correlation that is kept, of every set.",
        metavar="X",
        bounds=(0, 1),
    )
    min_task_accuracy: float | None = option(
        None, help="Gate: least accuracy of the main task.", metavar="X", bounds=(0, 1)
    )
    min_task_kept: float | None = option(
        None,
        help="Gate: least share of the main task's accuracy above the majority that is kept.",
        metavar="X",
        bounds=(0, 1),
    )
    min_neighbors_kept: float | None = option(
        None,
        help="Gate: least mean share of the ten nearest rows that stay, over a sample.",
        metavar="X",
        bounds=(0, 1),
    )
    min_pairs: int = option(
        30,
        help="Fewest pairs of a similarity set that pass its gate; half of the set too.",
        metavar="N",
        bounds=(2, None),
    )
    judge: str = option(
        "bounds",
        help="bounds: a gate passes, fails or is undecided by confidence bounds; point: by its figure alone.",
        choices=JUDGES,
    )
    confidence: float = option(0.95, help="Of the bounds that gates are judged by.", metavar="C", bounds=(0.5, 0.9999))
    allow_undecided: bool = option(False, help="Exit 0 where a gate is undecided.")
    labels: LabelOptions = field(default_factory=LabelOptions)
    fit_split: str | None = option(
        None,
        help="Without an eraser: the part that trains the in-sample attacker; default: train.",
        metavar="NAME",
        text=True,
    )
    holdout: float = option(
        0.0, help="Without an eraser or split: share of rows kept for fresh attacker and test.", metavar="F"
    )
    read: ReadOptions = field(default_factory=ReadOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    seed: int = seed_option()

    def format_of(self, report: str) -> str | None:
        """Return the format of the path `report`, json, md, html or xml: by its suffix, else `report_format`."""
        suffix = Path(report).suffix.lower()
        return suffix[1:] if suffix in REPORT_SUFFIXES else self.report_format

    @property
    def attacked_forms(self) -> tuple[str, ...]:
        """The forms of the rows that are attacked: the first alone where attackers are not tuned."""
        return self.forms[:1] if self.quick else self.forms

    @property
    def fits_again(self) -> bool:
        """Whether erasers are fitted again: on samples or folds of the rows, or with another k."""
        of_k = self.sweep is not None and self.sweep.parameter == "k"
        return self.repeats is not None or self.folds is not None or of_k

    def __post_init__(self) -> None:
        for name in ("adversaries", "probes", "forms", "similarity", "neighbors", "bias", "reports"):
            if (names := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(dict.fromkeys(names)))
        super().__post_init__()
        if not self.adversaries:
            raise ParameterError("adversaries", (), f"expected {', '.join((*ADVERSARIES, POOLED))} or {WHITE_BOX}")
        if not self.forms:
            raise ParameterError("forms", (), f"expected some of {', '.join(FORMS)}")
        if WHITE_BOX in self.adversaries and RAW not in self.attacked_forms:
            raise UsageError(f"`adversaries={WHITE_BOX}` inverts rows as `apply` writes them: leave raw among `forms`")
        self._require_companions()
        self._require_folds()

    def _require_folds(self) -> None:
        if self.folds is not None and (self.sweep, self.repeats, self.against) != (None, None, None):
            raise UsageError("`folds` fits an eraser in each turn: leave `sweep`, `repeats` and `against` out")
        if self.folds is not None and (self.fit_split is not None or self.holdout):
            raise UsageError("`folds` divides all labelled rows: leave `fit_split` and `holdout` out")

    def _require_companions(self) -> None:
        if (self.repeats is None) != (self.sample is None):
            raise UsageError("`repeats=N` and `sample=M` go together: N fits, each on M of the rows")
        if self.repeats is not None and (self.repeats < 2 or (self.sample or 0) < 2):
            raise UsageError(f"`repeats={self.repeats}` `sample={self.sample}`: at least 2 fits on at least 2 rows")
        if (self.baseline is None) != (self.max_leak_increase is None):
            raise UsageError("`baseline=REPORT.json` and `max_leak_increase=X` go together")
        for path in self.reports:
            if self.format_of(path) is None:
                why = f"expected a name that ends in {', '.join(REPORT_SUFFIXES)}, or `report_format`"
                raise ParameterError("reports", path, why)
        if self.task is not None and "in-sample" not in self.adversaries:
            raise UsageError("`task` trains on the fitted rows: leave in-sample among `adversaries`")
        for name in ("max_tpr_gap", "min_task_accuracy", "min_task_kept"):
            if getattr(self, name) is not None and self.task is None:
                raise UsageError(f"`{name}` judges a main task: give `task=COL`")
        if self.min_similarity_kept is not None and not self.similarity:
            raise UsageError("`min_similarity_kept` judges word similarity: give `similarity=SET`")

    def require_inputs(self, *, has_labels: bool, has_eraser: bool) -> None:
        """Check that the inputs suffice for the options.

        Parameters
        ----------
        has_labels, has_eraser : whether there are LABELS and an `eraser`

        Raises
        ------
        UsageError : it names the option and what it needs
        """
        if has_eraser and self.against is not None:
            raise UsageError("`eraser` and `against` exclude each other: give one")
        if WHITE_BOX in self.adversaries and not has_eraser:
            raise UsageError(f"`adversaries={WHITE_BOX}` holds the eraser and inverts it: give `eraser`")
        needs_none = self.similarity or self.bias or self.neighbors or self.min_neighbors_kept is not None
        if not (has_labels or needs_none):
            raise UsageError("missing LABELS (only `similarity`, `bias` and `neighbors` do without)")
        if self.neighbors and not has_eraser and self.against is None:
            raise UsageError("`neighbors` compares before with after: give `eraser` or `against`")
        if (self.sweep is not None or self.repeats is not None) and not (has_eraser and has_labels):
            raise UsageError("`sweep` and `repeats` erase again and again: they need `eraser` and LABELS")
        if self.folds is not None and not (has_eraser and has_labels):
            raise UsageError("`folds` fits the method of an eraser again: it needs `eraser` and LABELS")
        if self.task is not None and not has_labels:
            raise UsageError("`task` is a column of LABELS: give them")
        for name in ("min_similarity_kept", "min_task_kept", "min_neighbors_kept"):
            if getattr(self, name) is not None and not has_eraser and self.against is None:
                raise UsageError(f"`{name}` compares before with after: give `eraser` or `against`")
