"""The gate on the increase of leaks since an earlier report."""

from math import hypot

from salcli.evaluation.attackers import WEIGHTED
from salcli.evaluation.baseline import Baseline, attacker_name
from salcli.evaluation.evidence import Estimate
from salcli.evaluation.gates.attackers import rows_of, why_invalid
from salcli.evaluation.gates.judge import Expected, Judge, Measured, failed
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.report import Gate
from salcli.evaluation.text import listed


def leak_increase_gate(
    limit: float, baseline: Baseline, expected: Expected, results: tuple[ProbeResult, ...], stage: str, judge: Judge
) -> Gate:
    """Return the gate on the increase of each attribute's worst leak since an earlier report.

    All attackers of now are compared with the worst of those that both reports have, also those that only this one has
    (another form of the rows, a band); a product that is new, with the worst of its factors. What was attacked then
    must be attacked now, but for weighted twins, which depend on the classes' sizes.

    Parameters
    ----------
    limit : largest increase, 0…1
    baseline : the leaks of the earlier report
    expected, results, stage, judge : see `accuracy_gate`
    """
    name = "max-leak-increase"
    judged = [r for r in results if r.stage == stage]
    if why := why_invalid(None, expected.attackers, judged, expected):
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
        measured.append(Measured(evidence, value, worst.n_test, reason, rows_of(worst, expected.unit)))
    if gone := [name for name in baseline.leaks if all(r.attribute != name for r in judged)]:
        return failed(name, limit, f"{baseline.path}: {listed(gone, 3)} is attacked there, and not here")
    return judge.gate(name, limit, measured)
