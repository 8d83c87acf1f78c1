"""Gates on what attackers read: accuracy, gain, leak, and R² of numeric attributes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from salcli.evaluation.attackers import base_name
from salcli.evaluation.evidence import Estimate, Evidence, Explained, Magnitude, Share
from salcli.evaluation.explained import NumericResult
from salcli.evaluation.gates.judge import LEAST_USABLE, Expected, Judge, Measured, failed, untrained_reason
from salcli.evaluation.probe_result import ProbeResult, reader
from salcli.evaluation.report import Gate
from salcli.evaluation.shares import difference
from salcli.options import RAW, WHITE_BOX


def accuracy_gate(
    limit: float, probe: str | None, expected: Expected, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on the accuracy of attackers: all must have been measured, converged, and be at most `limit`.

    For two classes an attacker may flip its predictions, so that an accuracy below ½ counts as its complement.

    Parameters
    ----------
    limit : largest accuracy, 0…1
    probe : name of the only attacker that is judged; None: all
    expected : what must have been measured
    results : all attackers' results
    stage : the one that is judged, before or after
    judge : by bounds or by the figures
    """
    return _probe_gate("max-accuracy", limit, probe, expected, results, stage, _accuracies, judge)


def gain_gate(
    limit: float, probe: str | None, expected: Expected, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on accuracy minus majority rate, and on balanced accuracy minus 1 / number of classes.

    The latter shows what an attacker reads of a rare class, whose rows change the accuracy little.

    Parameters
    ----------
    limit : largest gain, 0…1
    probe, expected, results, stage, judge : see `accuracy_gate`
    """
    return _probe_gate("max-gain", limit, probe, expected, results, stage, _gains, judge)


def leak_gate(
    limit: float, probe: str | None, expected: Expected, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on the leak: accuracy, balanced accuracy and AUC, each rescaled from 0 (chance) to 1.

    Parameters
    ----------
    limit : largest leak, 0…1
    probe, expected, results, stage, judge : see `accuracy_gate`
    """
    return _probe_gate("max-leak", limit, probe, expected, results, stage, _leaks, judge)


def r2_gate(
    limit: float, probe: str | None, expected: Expected, results: tuple[NumericResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on every attacker of numeric attributes: all must be there, of an R² of at most `limit`.

    Parameters
    ----------
    limit : largest R²
    probe : the attacker that is judged; None: all
    expected, results, stage, judge : see `accuracy_gate`
    """
    name = "max-r2" + (f" {probe}" if probe else "")
    due = [each for each in expected.of_numbers if probe in (None, each[2].partition(" as ")[0])]
    judged = [r for r in results if r.stage == stage and probe in (None, r.probe)]
    worst = max(judged, key=lambda r: r.r2, default=None)
    found = {(r.attribute, r.adversary, reader(r.probe, r.form)) for r in judged}
    why = [*expected.doubts, *expected.doubts_of_numbers]
    if missing := [each for each in due if each not in found]:
        why = [_missing_reason(missing)]
    elif any(not r.converged for r in judged):
        why = ["a probe did not converge"]
    elif worst is None:
        why = [f"the {probe} probe was not requested" if probe and expected.of_numbers else "no attribute is numeric"]
    if why or worst is None:
        return failed(name, limit, *why, value=None if worst is None else worst.r2)
    measured = [
        Measured(
            Explained(r.r2, r.log_error, r.freedom),
            r.r2,
            r.n_test,
            f"{reader(r.probe, r.form)}, {r.adversary}",
            expected.unit,
        )
        for r in judged
    ]
    decided_by = f"{worst.attribute}, {reader(worst.probe, worst.form)}, {worst.adversary}"
    return replace(judge.gate(name, limit, measured), decided_by=decided_by)


def _probe_gate(
    kind: str,
    limit: float,
    probe: str | None,
    expected: Expected,
    results: tuple[ProbeResult, ...],
    stage: str,
    figures: Callable[[ProbeResult], Sequence[Measured]],
    judge: Judge,
) -> Gate:
    name = kind + (f" {probe}" if probe else "")
    judged = [r for r in results if r.stage == stage and probe in (None, base_name(r.probe))]
    measured = [replace(each, unit=rows_of(r, expected.unit)) for r in judged for each in figures(r)]
    value = max((each.value for each in measured), default=None)
    due = [each for each in expected.attackers if probe in (None, each[2])]
    why = why_invalid(probe, due, judged, expected)
    if why or not measured:
        gate = failed(name, limit, *(why or ["nothing to judge"]), value=value)
    else:
        n_tests = sum(len(figures(r)) * (2 if r.n_classes == 2 else 1) for r in judged)
        gate = judge.gate(name, limit, measured, n_tests=n_tests)
    worst = max(judged, key=lambda r: max((each.value for each in figures(r)), default=-inf), default=None)
    if worst is None:
        return gate
    return replace(gate, decided_by=f"{worst.attribute}, {worst.attacker}")


def _accuracies(result: ProbeResult) -> Sequence[Measured]:
    return (_accuracy(result, 0.0),)


def _accuracy(result: ProbeResult, less: float) -> Measured:
    n = result.n_test if result.n_effective is None else result.n_effective
    n_right = round(result.leakage * result.n_test) * (n / result.n_test)
    share = Share(n_right, n, less, result.n_test / n)
    flipped = f"{result.attacker}: right in {result.accuracy:.3g}, flipped in {result.leakage:.3g}"
    value = difference(result.leakage, less) if less else result.leakage
    return Measured(share, value, result.n_test, flipped if result.is_flipped else "")


def _gains(result: ProbeResult) -> Sequence[Measured]:
    accuracy = _accuracy(result, result.majority)
    if result.n_test_classes < 2:
        return (accuracy,)
    balanced = result.balanced_leakage - 1 / result.n_test_classes
    why = f"{result.attacker}: balanced accuracy {result.balanced_accuracy:.3g}"
    return accuracy, Measured(Estimate(balanced, result.balanced_error), balanced, result.n_test, why)


def _leaks(result: ProbeResult) -> Sequence[Measured]:
    found = []
    for name, (value, error) in result.leaks().items():
        evidence: Evidence = Estimate(value, error)
        if name == "auc" and result.areas is not None:
            evidence = Magnitude(value, error, result.areas.chance)
        why = f"{result.attacker}, by {name if name != 'auc' else 'AUC'}"
        found.append(Measured(evidence, max(0.0, value), result.n_test, why))
    return found


def why_invalid(
    probe: str | None, due: Sequence[tuple[str, str, str]], judged: Sequence[ProbeResult], expected: Expected
) -> list[str]:
    """Return why figures of attackers cannot be judged, if they cannot."""
    measured = {(r.attribute, r.adversary, r.reader) for r in judged}
    due = [
        (attribute, adversary, reader(name, form))
        for attribute, adversary, name in due
        for form in expected.forms.get(name, (RAW,))
        if form == RAW or adversary != WHITE_BOX
    ]
    if not due:
        return [f"the {probe} probe was not requested" if probe else "nothing to judge"]
    if missing := [each for each in due if each not in measured]:
        return [_missing_reason(missing)]
    if expected.unjudged:
        how = "set `max_r2` too, or name the others alone (`attributes`)"
        return [f"no limit judges {expected.unjudged[0]}, which is numeric: {how}"]
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
    return list(expected.doubts)


def rows_of(result: ProbeResult, others: str = "test rows") -> str:
    """Return what messages call the rows that a `result` is measured on: those of a band, or the `others`."""
    return f"rows of {result.band}" if result.band else others


def _missing_reason(missing: Iterable[tuple[str, str, str]]) -> str:
    """Return what was not measured, attribute by attribute."""
    by_attribute: dict[str, list[str]] = {}
    for attribute, adversary, probe in missing:
        by_attribute.setdefault(attribute, []).append(f"{adversary} {probe}")
    return "; ".join(f"no result for {name}: {', '.join(each)}" for name, each in by_attribute.items())
