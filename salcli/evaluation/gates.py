"""Gates: limits that a release must keep. A missing, undefined or unconverged figure does not pass.

A gate is judged by confidence bounds of its figures. It passes if every bound, each with the stated confidence, is
within the limit: all must be, so none is corrected. It fails if one bound on the other side, corrected for their number
(Bonferroni), is beyond the limit: a file exactly at its limit then fails with probability 1 − confidence at most. Else
it is undecided.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot, inf, isfinite, sqrt

from salcli.evaluation.attackers import WEIGHTED, base_name
from salcli.evaluation.baseline import Baseline, attacker_name
from salcli.evaluation.evidence import Estimate, Evidence, Explained, Magnitude, Share, rows_needed
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.intersections import LEAST_ROWS
from salcli.evaluation.main_task import Task
from salcli.evaluation.neighbors import Neighbors
from salcli.evaluation.report import Gate, ProbeResult, reader
from salcli.evaluation.shares import difference
from salcli.evaluation.similarity import SimilarityChange
from salcli.evaluation.text import decimal, listed
from salcli.options import RAW, WHITE_BOX

LEAST_USABLE = 0.8
"""Share of the test rows that must be of classes which were trained on."""
LEAST_PAIRS = 0.5
"""Share of the pairs of a similarity set that must be in the vocabulary."""


@dataclass(frozen=True)
class Asked:
    """What the gates expect to have been measured."""

    attackers: tuple[tuple[str, str, str], ...] = ()
    """Each attribute, adversary and probe."""
    unjudged: tuple[str, ...] = ()
    """Numeric attributes that no limit judges."""
    doubts: tuple[str, ...] = ()
    """Why no gate on labelled rows can pass."""
    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By probe, the forms of the rows that it reads; raw alone where none is named."""
    of_numbers: tuple[tuple[str, str, str], ...] = ()
    """Each numeric attribute, adversary and probe, which `max_r2` judges."""
    doubts_of_numbers: tuple[str, ...] = ()
    """Why no gate on numeric attributes can pass."""
    unit: str = "test rows"
    """Of numbers of rows that would decide: those of groups come in groups."""


@dataclass(frozen=True)
class Judge:
    """How gates are judged."""

    confidence: float | None = 0.95
    """Of bounds; None: the figures themselves are compared with the limit."""
    min_pairs: int = 30
    """Pairs that a similarity set must have in the vocabulary."""
    n_settings: int = 1
    """How many fits or steps are judged by the same gate."""

    def gate(self, name: str, limit: float, measured: Sequence["Measured"], *, n_tests: int | None = None) -> Gate:
        """Return the gate on the worst of what was measured, at least one figure.

        Parameters
        ----------
        n_tests : ways to fail by chance; default: one for each figure
        """
        is_upper = name.startswith("max")
        worst = (max if is_upper else min)(measured, key=lambda each: each.value)
        is_kept = worst.value <= limit if is_upper else worst.value >= limit
        beside = () if is_kept else (worst.reason,)
        if self.confidence is None:
            return Gate(name, limit, worst.value, "passed" if is_kept else "failed", beside)
        level = 1 - self.confidence
        corrected = level / ((n_tests or len(measured)) * self.n_settings)
        open_ = [each for each in measured if not _is_within(each.of, limit, level, is_upper=is_upper)]
        if not open_:
            return Gate(name, limit, worst.value, "passed")
        if any(_is_beyond(each.of, limit, corrected, is_upper=is_upper) for each in open_):
            return Gate(name, limit, worst.value, "failed", beside)
        needed = [rows_needed(each.of, limit, each.n, level, corrected, is_upper=is_upper) for each in open_]
        n_needed = None if None in needed else max(n for n in needed if n is not None)
        most = max(each.n for each in open_)
        bounds = worst.of.lower(corrected), worst.of.upper(level)
        why = f"{self.confidence:.0%} bounds {decimal(bounds[0])} and {decimal(bounds[1])}"
        if not all(map(isfinite, bounds)):
            why = "its error is not known"
        decides = "no number of" if n_needed is None else f"about {n_needed:,}"
        return Gate(
            name,
            limit,
            worst.value,
            "undecided",
            (*beside, why, f"{decides} {worst.unit} would decide ({most:,} here)"),
            n_needed,
        )


@dataclass(frozen=True)
class Measured:
    """One figure that a gate judges."""

    of: Evidence
    value: float
    """As reports show it."""
    n: int
    """Rows that gave it."""
    reason: str = ""
    """Reason in the report if it is the worst figure and beyond the limit."""
    unit: str = "test rows"


def _is_within(of: Evidence, limit: float, level: float, *, is_upper: bool) -> bool:
    return of.upper(level) <= limit if is_upper else of.lower(level) >= limit


def _is_beyond(of: Evidence, limit: float, level: float, *, is_upper: bool) -> bool:
    return of.lower(level) > limit if is_upper else of.upper(level) < limit


def failed(name: str, limit: float, *reasons: str, value: float | None = None) -> Gate:
    """Return a gate that fails for reasons other than its figure.

    Parameters
    ----------
    name : begins with max- or min-
    limit : that was set
    reasons : why it fails
    value : the figure, if there is one
    """
    return Gate(name, limit, value, "failed", reasons)


def accuracy_gate(
    limit: float, probe: str | None, wanted: Asked, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on the accuracy of attackers: all must have been measured, converged, and be at most `limit`.

    For two classes an attacker may flip its predictions, so that an accuracy below ½ counts as its complement.

    Parameters
    ----------
    limit : largest accuracy, 0…1
    probe : name of the only attacker that is judged; None: all
    wanted : what must have been measured
    results : all attackers' results
    stage : the one that is judged, before or after
    judge : by bounds or by the figures
    """
    return _probe_gate("max-accuracy", limit, probe, wanted, results, stage, _accuracies, judge)


def gain_gate(
    limit: float, probe: str | None, wanted: Asked, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on accuracy minus majority rate, and on balanced accuracy minus 1 / number of classes.

    The latter shows what an attacker reads of a rare class, whose rows change the accuracy little.

    Parameters
    ----------
    limit : largest gain, 0…1
    probe, wanted, results, stage, judge : see `accuracy_gate`
    """
    return _probe_gate("max-gain", limit, probe, wanted, results, stage, _gains, judge)


def leak_gate(
    limit: float, probe: str | None, wanted: Asked, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on the leak: accuracy, balanced accuracy and AUC, each rescaled from 0 (chance) to 1.

    Parameters
    ----------
    limit : largest leak, 0…1
    probe, wanted, results, stage, judge : see `accuracy_gate`
    """
    return _probe_gate("max-leak", limit, probe, wanted, results, stage, _leaks, judge)


def r2_gate(
    limit: float, probe: str | None, wanted: Asked, results: tuple[NumericResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on every attacker of numeric attributes: all must be there, of an R² of at most `limit`.

    Parameters
    ----------
    limit : largest R²
    probe : the attacker that is judged; None: all
    wanted, results, stage, judge : see `accuracy_gate`
    """
    name = "max-r2" + (f" {probe}" if probe else "")
    due = [each for each in wanted.of_numbers if probe in (None, each[2].partition(" as ")[0])]
    judged = [r for r in results if r.stage == stage and probe in (None, r.probe)]
    worst = max(judged, key=lambda r: r.r2, default=None)
    found = {(r.attribute, r.adversary, reader(r.probe, r.form)) for r in judged}
    why = [*wanted.doubts, *wanted.doubts_of_numbers]
    if missing := [each for each in due if each not in found]:
        why = [_missing_reason(missing)]
    elif any(not r.converged for r in judged):
        why = ["a probe did not converge"]
    elif worst is None:
        why = [f"the {probe} probe was not asked for" if probe and wanted.of_numbers else "no attribute is numeric"]
    if why or worst is None:
        return failed(name, limit, *why, value=None if worst is None else worst.r2)
    measured = [
        Measured(
            Explained(r.r2, r.log_error, r.freedom),
            r.r2,
            r.n_test,
            f"{reader(r.probe, r.form)}, {r.adversary}",
            wanted.unit,
        )
        for r in judged
    ]
    decided_by = f"{worst.attribute}, {reader(worst.probe, worst.form)}, {worst.adversary}"
    return replace(judge.gate(name, limit, measured), decided_by=decided_by)


def leak_increase_gate(
    limit: float, baseline: Baseline, wanted: Asked, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on the increase of each attribute's worst leak since an earlier report.

    All attackers of now are compared with the worst of those that both reports have, also those that only this one has
    (another form of the rows, a band); a product that is new, with the worst of its factors. What was attacked then
    must be attacked now, but for weighted twins, which depend on the classes' sizes.

    Parameters
    ----------
    limit : largest increase, 0…1
    baseline : the leaks of the earlier report
    wanted, results, stage, judge : see `accuracy_gate`
    """
    name = "max-leak-increase"
    judged = [r for r in results if r.stage == stage]
    if why := _why_invalid(None, wanted.attackers, judged, wanted):
        return failed(name, limit, *why)
    measured = []
    for attribute in dict.fromkeys(r.attribute for r in judged):
        mine = [r for r in judged if r.attribute == attribute]
        then, names = baseline.of(mine[0]), {attacker_name(r) for r in mine}
        if then is None:
            hint = " (`intersections=False` leaves products out)" if mine[0].factors else ""
            return failed(name, limit, f"{baseline.path}: no attacker of {attribute}, so nothing is comparable{hint}")
        both = names & set(then.of) if attribute in baseline.leaks else set(then.of)
        missing = sorted(each for each in set(then.of) - both if both.isdisjoint({each.replace(WEIGHTED, "")}))
        if missing:
            return failed(name, limit, f"{baseline.path}: the {listed(missing, 3)} attacker of {attribute} is not here")
        worst, (leak, error) = max(mine, key=lambda r: r.leak), then.worst(both)
        value = worst.leak - leak
        if judge.confidence is not None and None in (error, worst.leak_error):
            where = baseline.path if error is None else "this report"
            why = [
                f"{attribute}: the error of the leak in {where} is not known (`leak_error` is null): too few test rows"
            ]
            return failed(name, limit, *why, value=value)
        reason = f"{attribute}: {worst.leak:.3g} ({worst.adversary} {worst.reader}), {leak:.3g} in {baseline.path}"
        evidence = Estimate(value, hypot(worst.leak_error or 0.0, error or 0.0))
        measured.append(Measured(evidence, value, worst.n_test, reason, rows_of(worst, wanted.unit)))
    if gone := [name for name in baseline.leaks if all(r.attribute != name for r in judged)]:
        return failed(name, limit, f"{baseline.path}: {listed(gone, 3)} is attacked there, and not here")
    return judge.gate(name, limit, measured)


def tpr_gap_gate(limit: float, task: Task | None, stage: str, judge: Judge, wanted: Asked = Asked()) -> Gate:
    """Return the gate on the TPR gap of the main task: for two groups the gap, for more its root mean square.

    Of several guarded attributes every gap counts.

    Parameters
    ----------
    limit : largest gap, 0…1
    task : figures of the main task; None fails
    stage : the one that is judged, before or after
    judge : by bounds or by the figures
    wanted : reasons why no gate on labelled rows can pass
    """
    name = "max-tpr-gap"
    if task is None:
        return failed(name, limit, "the main task was not measured")
    if stage in task.undefined:
        return failed(name, limit, f"the TPR gap is undefined: {task.undefined[stage]}")
    measured = []
    for of in task.every:
        gap = of.tpr_gap or of.tpr_gap_rms
        value = None if gap is None else gap.at(stage)
        if gap is None or value is None:
            return failed(
                name,
                limit,
                f"the TPR gap between the groups of {of.guarded} is undefined: no class has positives in all",
            )
        test = gap.tests.get(stage)
        n_all = sum(rate.n for rate in of.tpr if rate.stage == stage)
        if test is not None and (n_used := int(test.n.sum())) < LEAST_USABLE * n_all:
            left_out = listed(dict.fromkeys(cell.class_name for cell in of.excluded), 3)
            why = f"only {n_used} of {n_all} test rows are of classes that every group of {of.guarded} has"
            return failed(name, limit, f"{why} ({left_out} left out): at least {LEAST_USABLE:.0%} must be", value=value)
        aside = f"between the groups of {of.guarded}" if task.others else ""
        n = task.n_test if test is None else int(test.n.sum())
        measured.append(Measured(test or Estimate(value, inf), value, n, aside))
    return _task_gate(name, limit, task, measured, judge, wanted)


def task_accuracy_gate(limit: float, task: Task | None, stage: str, judge: Judge, wanted: Asked = Asked()) -> Gate:
    """Return the gate on the accuracy of the main task.

    Parameters
    ----------
    limit : least accuracy, 0…1
    task, stage, judge, wanted : see `tpr_gap_gate`
    """
    name = "min-task-accuracy"
    accuracy = None if task is None else task.accuracy.at(stage)
    if task is None or accuracy is None:
        return failed(name, limit, "the main task was not measured")
    n = (task.n_effective or {}).get(stage, task.n_test)
    share = Share(round(accuracy * task.n_test) * (n / task.n_test), n, inflation=task.n_test / n)
    return _task_gate(name, limit, task, [Measured(share, accuracy, task.n_test)], judge, wanted)


def task_kept_gate(limit: float, task: Task | None, judge: Judge, wanted: Asked = Asked()) -> Gate:
    """Return the gate on the share of the main task's accuracy above the majority rate that is kept after erasure.

    Parameters
    ----------
    limit : least share, 0…1
    task, judge, wanted : see `tpr_gap_gate`
    """
    name = "min-task-kept"
    if task is None or task.accuracy.after is None or task.both_right is None:
        return failed(name, limit, "the main task was not measured before and after")
    if "before" in task.undefined:
        return failed(name, limit, f"there is nothing to keep: {task.undefined['before']}")
    before, after = task.accuracy.before, task.accuracy.after
    kept = difference(after, task.majority) / difference(before, task.majority)
    n, both = min((task.n_effective or {}).values(), default=task.n_test), task.both_right
    only_before, only_after = (
        before - both + 1 / n,
        after - both + 1 / n,
    )  # one more of each: few rows that agree prove little
    spread = only_after + kept**2 * only_before + (1 - kept) ** 2 * both - (after - kept * before) ** 2
    error = sqrt(max(0.0, spread) / n) / (before - task.majority)  # of a ratio of two shares of the same rows
    return _task_gate(name, limit, task, [Measured(Estimate(kept, error), kept, task.n_test)], judge, wanted)


def similarity_gate(limit: float, changes: Iterable[SimilarityChange], judge: Judge) -> Gate:
    """Return the gate on the share of word similarity that is kept: Spearman's ρ after over before, of every set.

    Parameters
    ----------
    limit : least share, 0…1
    changes : a record for each set
    judge : by bounds or by the figures, and how many pairs a set needs
    """
    name = "min-similarity-kept"
    measured = []
    for change in changes:
        if change.before is None or change.after is None or change.before <= 0:
            return failed(name, limit, f"{change.name}: undefined, or not positive before erasure")
        if change.pairs_used < max(judge.min_pairs, LEAST_PAIRS * change.pairs_total):
            return failed(
                name, limit,
                f"{change.name}: only {change.pairs_used} of {change.pairs_total} pairs can be compared, "
                f"at least {judge.min_pairs} (`min_pairs`) and half of them are needed",
            )  # fmt: skip
        if change.pairs_used < LEAST_USABLE * (n := change.pairs_used + change.zero_pairs):
            why = f"{change.zero_pairs} of {n} pairs have a zero vector before or after"
            return failed(name, limit, f"{change.name}: {why}: at most {1 - LEAST_USABLE:.0%} may")
        kept = change.after / change.before
        error = inf if change.kept_error is None else change.kept_error
        measured.append(Measured(Estimate(kept, error), kept, change.pairs_used, unit=f"pairs of {change.name}"))
    return judge.gate(name, limit, measured) if measured else failed(name, limit, "no similarity set was measured")


def neighbors_gate(limit: float, found: Neighbors | None, judge: Judge) -> Gate:
    """Return the gate on the mean share of the ten nearest rows that stay the same.

    Parameters
    ----------
    limit : least share, 0…1
    found : overlap of the neighbours before and after; None fails
    judge : by bounds or by the figures
    """
    name = "min-neighbors-kept"
    if found is None or found.mean_overlap_at_10 is None:
        return failed(name, limit, "no row has neighbours before and after")
    kept = found.mean_overlap_at_10
    error = inf if found.overlap_error is None else found.overlap_error
    return judge.gate(name, limit, [Measured(Estimate(kept, error), kept, found.n_sampled, unit="sampled rows")])


def _task_gate(name: str, limit: float, task: Task, measured: Sequence[Measured], judge: Judge, wanted: Asked) -> Gate:
    values = [each.value for each in measured]
    value = max(values) if name.startswith("max") else min(values)
    if wanted.doubts:
        return failed(name, limit, *wanted.doubts, value=value)
    if not task.converged:
        return failed(name, limit, "the main task did not converge", value=value)
    if task.usable < LEAST_USABLE:
        n_left_out = sum(task.untrained.values())
        return failed(name, limit, _untrained_reason(n_left_out, task.n_test, task.column, "main task", task.untrained))
    return judge.gate(name, limit, [replace(each, unit=wanted.unit) for each in measured])


def _probe_gate(
    kind: str,
    limit: float,
    probe: str | None,
    wanted: Asked,
    results: tuple[ProbeResult, ...],
    stage: str,
    figures: Callable[[ProbeResult], Sequence[Measured]],
    judge: Judge,
) -> Gate:
    name = kind + (f" {probe}" if probe else "")
    judged = [r for r in results if r.stage == stage and probe in (None, base_name(r.probe))]
    measured = [replace(each, unit=rows_of(r, wanted.unit)) for r in judged for each in figures(r)]
    value = max((each.value for each in measured), default=None)
    due = [each for each in wanted.attackers if probe in (None, each[2])]
    why = _why_invalid(probe, due, judged, wanted)
    if why or not measured:
        gate = failed(name, limit, *(why or ["nothing to judge"]), value=value)
    else:
        n_tests = sum(len(figures(r)) * (2 if r.n_classes == 2 else 1) for r in judged)
        gate = judge.gate(name, limit, measured, n_tests=n_tests)
    worst = max(judged, key=lambda r: max((each.value for each in figures(r)), default=-inf), default=None)
    if worst is None:
        return gate
    return replace(gate, decided_by=f"{worst.attribute}, {worst.attacker}")


def _accuracies(of: ProbeResult) -> Sequence[Measured]:
    return (_accuracy(of, 0.0),)


def _accuracy(of: ProbeResult, less: float) -> Measured:
    n = of.n_test if of.n_effective is None else of.n_effective
    n_right = round(of.leakage * of.n_test) * (n / of.n_test)
    share = Share(n_right, n, less, of.n_test / n)
    flipped = f"{of.attacker}: right in {of.accuracy:.3g}, flipped in {of.leakage:.3g}"
    value = difference(of.leakage, less) if less else of.leakage
    return Measured(share, value, of.n_test, flipped if of.is_flipped else "")


def _gains(of: ProbeResult) -> Sequence[Measured]:
    accuracy = _accuracy(of, of.majority)
    if of.n_test_classes < 2:
        return (accuracy,)
    balanced = of.balanced_leakage - 1 / of.n_test_classes
    why = f"{of.attacker}: balanced accuracy {of.balanced_accuracy:.3g}"
    return accuracy, Measured(Estimate(balanced, of.balanced_error), balanced, of.n_test, why)


def _leaks(of: ProbeResult) -> Sequence[Measured]:
    found = []
    for name, (value, error) in of.leaks().items():
        evidence: Evidence = Estimate(value, error)
        if name == "auc" and of.areas is not None:
            evidence = Magnitude(value, error, of.areas.chance)
        why = f"{of.attacker}, by {name if name != 'auc' else 'AUC'}"
        found.append(Measured(evidence, max(0.0, value), of.n_test, why))
    return found


def _why_invalid(
    probe: str | None, due: Sequence[tuple[str, str, str]], judged: Sequence[ProbeResult], wanted: Asked
) -> list[str]:
    """Return why figures of attackers cannot be judged, if they cannot."""
    measured = {(r.attribute, r.adversary, r.reader) for r in judged}
    due = [
        (attribute, adversary, reader(name, form))
        for attribute, adversary, name in due
        for form in wanted.forms.get(name, (RAW,))
        if form == RAW or adversary != WHITE_BOX
    ]
    if not due:
        return [f"the {probe} probe was not requested" if probe else "nothing to judge"]
    if missing := [each for each in due if each not in measured]:
        return [_missing_reason(missing)]
    if wanted.unjudged:
        how = "set `max_r2` too, or name the others alone (`attributes`)"
        return [f"no limit judges {wanted.unjudged[0]}, which is numeric: {how}"]
    if any(not r.converged for r in judged):
        return ["a probe did not converge"]
    if one := next((r for r in judged if r.majority == 1), None):
        return [f"the {rows_of(one)} are all of one class of {one.attribute}"]
    if unknown := next((r for r in judged if r.usable < LEAST_USABLE), None):
        who = f"{unknown.adversary} attacker"
        classes = (*unknown.untrained_classes, *unknown.rare_classes)
        return [
            _untrained_reason(
                unknown.n_left_out,
                unknown.n_test,
                unknown.attribute,
                who,
                classes,
                unknown.rare_classes,
                rows_of(unknown),
            )
        ]
    return list(wanted.doubts)


def rows_of(result: ProbeResult, others: str = "test rows") -> str:
    """Return what messages call the rows that a `result` is measured on: those of a band, or the `others`."""
    return f"rows of {result.band}" if result.band else others


def _missing_reason(missing: Iterable[tuple[str, str, str]]) -> str:
    """Return what was not measured, attribute by attribute."""
    by_attribute: dict[str, list[str]] = {}
    for attribute, adversary, probe in missing:
        by_attribute.setdefault(attribute, []).append(f"{adversary} {probe}")
    return "; ".join(f"no result for {name}: {', '.join(each)}" for name, each in by_attribute.items())


def _untrained_reason(
    n_left_out: int,
    n_test: int,
    column: str,
    who: str,
    classes: Iterable[str],
    rare: Collection[str] = (),
    rows: str = "test rows",
) -> str:
    or_rare = f"or that have fewer than {LEAST_ROWS} of them " if rare else ""
    return (
        f"{n_left_out} of {n_left_out + n_test} {rows} are of classes of {column} that the {who} was not trained on "
        f"{or_rare}"
        f"({listed(classes, 3)}): at most {1 - LEAST_USABLE:.0%} may be"
    )
