"""Gates on what attackers read: accuracy, gain, leak, and R² of numeric attributes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from salcli.evaluation.attackers import base_name
from salcli.evaluation.evidence import Estimate, Evidence, Explained, Magnitude, Share
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.gates.judge import LEAST_USABLE, Asked, Judge, Measured, failed, untrained_reason
from salcli.evaluation.probe_result import ProbeResult, reader
from salcli.evaluation.report import Gate
from salcli.evaluation.shares import difference
from salcli.options import RAW, WHITE_BOX


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
    why = why_invalid(probe, due, judged, wanted)
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


def why_invalid(
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
            untrained_reason(
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
