"""Probes before and after, side by side."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from salcli.evaluation.report import ErasedFile, LearningCurve, ProbeResult, Report
from salcli.evaluation.section import Row, Section, Table, filled, names, numbers
from salcli.evaluation.text import ABSENT, count, decimal, general, interval, listed, visible
from salcli.render.numbers import R2_IN_WORDS, detectable_table, numeric_table, recall_table

STAGES = ("before", "after")
FRESH = "fresh"
"""The adversary whose figures decide about a release."""
ATTACKER = "An attacker is a classifier that is trained to read the guarded attribute from the embeddings. "
OF_AN_ERASER = (
    "The in-sample attacker is trained on the very rows that the eraser was fitted on; a linear one is stopped there "
    "by construction, so its figure shows that the eraser does what it claims. "
    "The fresh attacker brings labelled rows of its own, as anybody can who obtains the embeddings; "
    "its figure is the one that a release must be judged by. "
)
OF_NO_ERASER = (
    "The in-sample attacker is trained on the rows that an eraser would be fitted on, the fresh attacker on others. "
)
OF_AN_UNKNOWN_ERASER = (
    "The rows that the file was erased with are not known: the in-sample and the fresh attacker differ only in the "
    "rows that they are trained on. "
)
SAFE = (
    "Safe is an accuracy near the majority: the share that is right when always guessing the most frequent class. "
    "The leak is what is read above chance, from 0 (nothing) to 1 (all), by the largest of three measures: accuracy "
    "above the majority, balanced accuracy, and area under the ROC curve (AUC), which rare classes cannot hide from."
)

AT_EDGE = (
    "Where every test row is read right, or none, the figure is an end of its interval: no accuracy lies beyond 1 or 0."
)


@dataclass(frozen=True)
class ProbePair:
    """One probe by one adversary on one attribute: its result at one stage or at both."""

    attribute: str
    """Visible."""
    attacker: str
    """Its name within an attribute."""
    stages: dict[str, ProbeResult]
    """Results by stage."""

    @property
    def latest(self) -> ProbeResult:
        """The result that is judged: after erasure, or before it when there is no after."""
        return self.stages.get("after") or self.stages["before"]


def probe_pairs(probes: Iterable[ProbeResult]) -> tuple[ProbePair, ...]:
    """Return the results of `probes` at both stages, paired by attribute, attacker and adversary, in their order."""
    pairs: dict[tuple[str, str, str], ProbePair] = {}
    for probe in probes:
        name = (probe.attribute, probe.probe, probe.adversary)
        pair = pairs.setdefault(name, ProbePair(visible(probe.attribute), f"{probe.probe}, {probe.adversary}", {}))
        pair.stages[probe.stage] = probe
    return tuple(pairs.values())


def best_attacker(pairs: Iterable[ProbePair], stage: str) -> tuple[ProbePair, ProbeResult] | None:
    """Return the fresh attacker with the largest leakage, and its result; without a fresh one, the largest of all.

    Parameters
    ----------
    pairs : attackers on one attribute
    stage : before or after

    Returns
    -------
    None if none was measured at that stage
    """
    measured = [(pair, pair.stages[stage]) for pair in pairs if stage in pair.stages]
    fresh = [each for each in measured if each[1].adversary == FRESH]
    return max(fresh or measured, key=lambda each: each[1].leakage, default=None)


def worst_leak(pairs: Iterable[ProbePair], stage: str) -> tuple[ProbePair, ProbeResult] | None:
    """Return the attacker with the largest leak, and its result.

    Parameters
    ----------
    pairs : attackers on one attribute
    stage : before or after

    Returns
    -------
    None if none was measured at that stage
    """
    measured = [(pair, pair.stages[stage]) for pair in pairs if stage in pair.stages]
    return max(measured, key=lambda each: each[1].leak, default=None)


def by_attribute(pairs: Iterable[ProbePair]) -> dict[str, list[ProbePair]]:
    """Return `pairs` grouped by the attribute they attack, in their order."""
    groups: dict[str, list[ProbePair]] = {}
    for pair in pairs:
        groups.setdefault(pair.attribute, []).append(pair)
    return groups


def shown_attributes(probes: Iterable[ProbeResult], stage: str) -> dict[str, list[ProbePair]]:
    """Return pairs by the attribute they attack: each guarded one, and of their products the one that leaks most.

    Parameters
    ----------
    probes : of both stages
    stage : at which products are compared
    """
    probes = tuple(probes)
    products = [probe for probe in probes if probe.factors and probe.stage == stage]
    worst = max(products, key=lambda probe: probe.leak, default=None)
    shown = (probe for probe in probes if not probe.factors or (worst and probe.attribute == worst.attribute))
    return by_attribute(probe_pairs(shown))


def probe_table(pairs: Iterable[ProbePair]) -> Table:
    """Return a table with a row for each of `pairs`, before and after."""
    return Table(
        "Share of test rows whose guarded attribute the attacker reads right",
        (
            *names("attribute", "probe", "adversary"),
            *numbers("before", "after", "majority", "95% interval before", "95% interval after"),
            *numbers("balanced before", "balanced after", "95% interval of balanced after"),
            *numbers("AUC before", "AUC after", "95% interval of AUC after"),
            *numbers("leak before", "leak after", "n train", "n test"),
            *names("remarks"),
        ),
        tuple(_row(pair) for pair in pairs),
    )


def _row(pair: ProbePair) -> Row:
    latest = pair.latest

    def both(show: Callable[[ProbeResult], str]) -> tuple[str, ...]:
        return tuple(show(pair.stages[stage]) if stage in pair.stages else ABSENT for stage in STAGES)

    return (
        *(pair.attribute, latest.probe, latest.adversary),
        *(*both(lambda result: decimal(result.accuracy)), decimal(latest.majority)),
        *both(lambda result: interval(result.ci95)),
        *both(lambda result: decimal(result.balanced_accuracy)),
        interval(latest.balanced_ci95),
        *both(lambda result: decimal(result.auc)),
        interval(latest.auc_ci95),
        *both(lambda result: decimal(result.leak)),
        *(count(latest.n_train), count(latest.n_test)),
        _remarks_of_both(pair),
    )


def _remarks_of_both(pair: ProbePair) -> str:
    remarks = {stage: _remarks(pair.stages[stage]) if stage in pair.stages else "" for stage in STAGES}
    if remarks["before"] == remarks["after"]:
        return remarks["after"]
    return "; ".join(f"{stage}: {remark}" for stage, remark in remarks.items() if remark)


def flipped(probe: ProbeResult) -> list[str]:
    """Return the remark on `probe` if it has two classes and its flipped predictions are more accurate, else none."""
    return [f"flipped {decimal(probe.leakage)}"] if probe.is_flipped else []


def _remarks(probe: ProbeResult) -> str:
    """Return what makes a figure weaker than it looks, and how the attacker was tuned."""
    remarks = [] if probe.converged else ["not converged"]
    remarks += ["rows capped"] if probe.capped else []
    remarks += flipped(probe)
    if probe.unrated_classes:
        remarks.append(f"too few rows for AUC: {listed(probe.unrated_classes, 3)}")
    remarks += [f"{name}={general(value, 3)}" for name, value in sorted(probe.hyperparameters.items())]
    return ", ".join(remarks)


def attackers_section(report: Report) -> Section | None:
    """Return the section on how well attackers read each guarded attribute; None if `report` has no attackers."""
    if not (report.probes or report.numeric):
        return None
    is_unknown = isinstance(report.eraser, ErasedFile)
    adversaries = OF_AN_UNKNOWN_ERASER if is_unknown else OF_AN_ERASER if report.eraser else OF_NO_ERASER
    lead = ATTACKER + adversaries + (SAFE if report.probes else "")
    is_at_edge = any(probe.accuracy in probe.ci95 for probe in report.probes)
    more = ((AT_EDGE,) if is_at_edge else ()) + ((R2_IN_WORDS,) if report.numeric else ())
    tables = [probe_table(probe_pairs(report.probes)), numeric_table(report.numeric)]
    tables += map(recall_table, report.recalls)
    tables += filter(None, [detectable_table(report.detectable)])
    learning = tuple(learning_table(curve) for curve in report.learning)
    return Section("attackers", "Attackers", (lead, *more), (*filled(tables), *learning))


def learning_title(curve: LearningCurve) -> str:
    """Return the title of `curve`: its attacker, adversary and attribute."""
    return f"Learning curve of {curve.probe}, {curve.adversary}, on {visible(curve.attribute)}"


def learning_in_words(curve: LearningCurve) -> str:
    """Return the balanced accuracy of `curve` with all training rows, and the extrapolated one, as a sentence."""
    last = curve.points[-1]
    return (
        f"{visible(curve.attribute)}: {curve.probe}, {curve.adversary}, reads {decimal(last.mean)} (balanced) with "
        f"{count(last.n_train)} rows; extrapolated to {count(curve.n_extrapolated)}: "
        f"{decimal(curve.extrapolated)} [{interval(curve.extrapolated_ci95)}]"
    )


def learning_table(curve: LearningCurve) -> Table:
    """Return the points of `curve` and its extrapolation as a table."""
    rows = [(count(p.n_train), count(len(p.values)), decimal(p.mean), _range(p.values), "") for p in curve.points]
    end = decimal(curve.extrapolated), interval(curve.extrapolated_ci95), "extrapolated, not measured"
    rows.append((count(curve.n_extrapolated), ABSENT, *end))
    columns = (*numbers("training rows", "draws", "balanced accuracy", "range or 95% interval"), *names("remarks"))
    return Table(learning_title(curve), columns, tuple(rows), is_detail=True)


def _range(values: Sequence[float]) -> str:
    return ABSENT if len(values) < 2 else interval((min(values), max(values)))
