"""`fit --method auto`: the gentlest eraser whose leak on held-out rows of the fit is below a limit.

Trial erasers are fitted to half of the fitted rows. Of the other half, one part trains attackers and the other is what
they read, as `evaluate` does it. Rows outside the fit, such as test rows, are not used. The candidates are tried in the
order of how much they change rows (where that is about equal, the simpler method first); the first that keeps the
limit is fitted again, to all rows of the fit.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute
from salcli.data.splits import FRESH, EvaluationSplit
from salcli.erasers.auto_k import MOST_TRIED
from salcli.erasers.base import Eraser, Fit, Method, find_method
from salcli.erasers.linear_probes import LEAST_HELD_OUT, held_out
from salcli.erasers.precision import erased_dtype
from salcli.errors import GateError, LabelError, ParameterError, SalcliError, UsageError
from salcli.evaluation.attack import attack
from salcli.evaluation.attackers import names_of
from salcli.evaluation.duplicates import without_copies
from salcli.evaluation.probe_result import reader
from salcli.evaluation.stages import Erasure, Stages
from salcli.options import EvaluateOptions, Record, option
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource, gather_rows
from salcli.streaming.progress import Progress

METHODS_TRIED = ("sal", "leace", "inlp", "transport")
"""Those that keep the space of the rows, and need nothing but labels; the simplest first."""
ABOUT_EQUAL = 1.25
"""Ratio up to which changes count as equal."""
TEST_ROWS = 2
"""Most rows that attackers read, in units of the most that train them."""


@dataclass(frozen=True)
class AutoParameters(Record):
    """What a method must keep to be chosen."""

    max_leak: float | None = option(
        None,
        help="Largest leak (0: nothing is read, 1: all, by accuracy, balanced accuracy and AUC) on held-out rows "
        "of the fit; required.",
        metavar="X",
        bounds=(0, 1),
    )
    attackers: tuple[str, ...] = option(
        (),
        "--attacker",
        help="Attacker of evaluate that the limit is for (repeatable); default: linear, poly, rbf and quadratic.",
        metavar="P",
        repeatable=True,
    )
    attacker_rows: int = option(
        2_000,
        "--attacker-rows",
        "--probe-rows",
        help="Most training rows of an attacker.",
        metavar="N",
        bounds=(2, None),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "attackers", tuple(dict.fromkeys(self.attackers)))
        super().__post_init__()
        if not set(self.attackers) <= set(names_of("vectors")):
            raise ParameterError("attackers", self.attackers, f"expected some of {', '.join(names_of('vectors'))}")


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A trial eraser."""

    method: str
    k: int | None
    """Directions, if they are fewer than the rank; None: all, or those that the method chooses."""
    eraser: Eraser
    after: NDArray[Any]
    """Erased rows `[n, d]`."""
    change: float
    """Mean squared change of a row, but for the shift that all rows have in common, as a share of their variance."""

    @property
    def named(self) -> str:
        return f"{self.method} k={self.eraser.k}"


class AutoMethod:
    """Tries other methods, from the gentlest on; fits each to half of the rows, and the chosen one to all."""

    name = "auto"
    summary = "tries sal, leace, inlp and transport from the gentlest on, until held-out rows leak less than a limit"
    Parameters = AutoParameters

    def fit(
        self,
        rows: LabelledSource,
        parameters: AutoParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has it)
        seed: int = 0,
        engine: Engine,
        progress: Progress,
    ) -> Fit[Eraser]:
        """Fit the chosen method to labelled rows (see `Method.fit`).

        Raises
        ------
        UsageError : there is no limit
        LabelError : an attribute is numeric, or a class has too few rows to hold any out
        GateError : no candidate keeps the limit; the message names the best one
        """
        if parameters.max_leak is None:
            raise UsageError("method auto needs a limit: give `max_leak=X` to `salcli fit`")
        options = EvaluateOptions(
            adversaries=(FRESH,), attacker_rows=parameters.attacker_rows, seed=seed, learning_curve=False
        )
        split = _divided(rows, parameters, seed, progress)
        needed = split.held_out
        x, kept = gather_rows(rows.source, rows.row_of_label[needed], progress)
        before = Stages(needed[kept], x, x, None)
        trial = rows.restricted_to(split.fitted)
        trial.labels.require_variety()
        found, not_fitted = _candidates(trial, before.rows, seed, engine, progress)
        tried = list[dict[str, Any]]()
        for one in found:
            progress.say(f"candidate {len(tried) + 1} of {len(found)}: {one.named}, change {one.change:.3g}")
            stages = replace(before, after=one.after)
            tried.append({"method": one.method, "k": one.eraser.k, "change": one.change})
            tried[-1] |= _leak(stages, rows, split, _attackers(parameters), options, progress)
            if tried[-1]["leak"] <= parameters.max_leak and tried[-1]["converged"]:
                break
        else:
            raise GateError(_none_keeps(parameters.max_leak, tried, not_fitted, len(split.test)))
        about = {
            "max_leak": parameters.max_leak,
            "attackers": list(_attackers(parameters)),
            "n_trial": len(split.fitted),
            "n_train": len(split.trainers[FRESH]),
            "n_held_out": len(split.test),
            "tried": tried,
            "not_fitted": not_fitted,
        }
        return _final(found[len(tried) - 1], about, rows, seed, engine, progress)


METHOD = AutoMethod()


def _attackers(parameters: AutoParameters) -> tuple[str, ...]:
    return parameters.attackers or names_of("vectors", every=False)


def _divided(rows: LabelledSource, parameters: AutoParameters, seed: int, progress: Progress) -> EvaluationSplit:
    """Return the rows of the fit divided: half are fitted, a quarter trains attackers, a quarter is what they read.

    Raises
    ------
    LabelError : an attribute is numeric, or a class has too few rows to hold any out
    """
    labels = rows.labels
    for attribute in labels.attributes:
        if attribute.classes is None:
            raise LabelError(f"{labels.path}: column {attribute.name!r} is numeric, and method auto expects classes")
    others = held_out(labels, np.arange(len(rows)), 0.5, seed)
    test = held_out(labels, others, 0.5, seed + 1)
    fitted, fresh = np.setdiff1d(np.arange(len(rows)), others), np.setdiff1d(others, test)
    split = EvaluationSplit.of(fitted, {FRESH: fresh}, test, has_held_out=True)
    split = split.capped(labels, parameters.attacker_rows, seed, test_rows=TEST_ROWS)
    split = without_copies(rows.source, labels, rows.row_of_label, split, progress)[0]
    for attribute in labels.attributes:
        for part in (split.trainers.get(FRESH, test[:0]), split.test):
            fewest = int(np.bincount(attribute.codes(part), minlength=len(attribute.classes or ())).min())
            if fewest < LEAST_HELD_OUT:
                raise LabelError(
                    f"{labels.path}: column {attribute.name!r}: method auto holds {len(others):,} of {len(rows):,} "
                    f"rows out of the fit, with {fewest} of a class to train or test attackers on: expected at least "
                    f"{LEAST_HELD_OUT}"
                )
    return split


def _candidates(
    trial: LabelledSource, x: NDArray[Any], seed: int, engine: Engine, progress: Progress
) -> tuple[list[_Candidate], list[dict[str, str]]]:
    """Return trial erasers, those first that change rows `x` `[n, d]` least, and methods that cannot be fitted.

    Parameters
    ----------
    trial : the rows that they are fitted to
    x : held-out rows
    seed, engine, progress : of the fits
    """
    found, not_fitted = list[_Candidate](), list[dict[str, str]]()
    for name in METHODS_TRIED:
        method = find_method(name)
        try:
            fit = method.fit(trial, method.Parameters(), task=None, seed=seed, engine=engine, progress=progress)
        except SalcliError as error:
            not_fitted.append({"method": name, "why": str(error)})
            continue
        dtype = erased_dtype(fit.eraser, fit.singular_values, trial.source)
        for k, eraser in _truncated(method, fit):
            after = Erasure(eraser, dtype=dtype).erased(x)
            assert after is not None
            found.append(_Candidate(name, k, eraser, after, mean_change(x, after)))
    return _gentlest_first(found), not_fitted


def mean_change(x: NDArray[Any], after: NDArray[Any]) -> float:
    """Return the mean squared change of rows `x` `[n, d]` to `after`, as a share of the variance of the rows.

    The shift that all rows have in common does not count: erasers differ in whether they keep the mean.
    """
    moved, total = np.var(after.astype(np.float64) - x, axis=0).sum(), np.var(x.astype(np.float64), axis=0).sum()
    return float(moved / total) if total else 0.0


def _gentlest_first(found: list[_Candidate]) -> list[_Candidate]:
    """Return candidates by their change; of those that are about as gentle as one, the simplest method first."""
    left, order = sorted(found, key=lambda one: one.change), list[_Candidate]()
    while left:
        n = sum(one.change <= ABOUT_EQUAL * left[0].change for one in left)
        order += sorted(left[:n], key=lambda one: METHODS_TRIED.index(one.method))
        left = left[n:]
    return order


def _truncated(method: Method, fit: Fit[Eraser]) -> Iterator[tuple[int | None, Eraser]]:
    """Yield k and eraser for fewer directions, if the method takes `k`, and (None, eraser) for all."""
    if hasattr(method.Parameters(), "k"):
        for k in np.unique(np.geomspace(1, fit.eraser.k, MOST_TRIED).round().astype(int)).tolist():
            eraser = fit.eraser.truncated(k) if k < fit.eraser.k else None
            if eraser is not None:
                yield k, eraser
    yield None, fit.eraser


def _leak(
    stages: Stages,
    rows: LabelledSource,
    split: EvaluationSplit,
    probes: tuple[str, ...],
    options: EvaluateOptions,
    progress: Progress,
) -> dict[str, Any]:
    """Return the largest leak after erasure, its standard error, and whose it is."""
    results, _ = attack(stages, rows.labels, split, probes, options, progress, "after")
    figures = ((*figure, each) for each in results for figure in each.leaks().values())
    leak, error, worst = max(figures, key=lambda figure: figure[0])
    return {
        "leak": leak,
        "error": error,
        "attribute": worst.attribute,
        "read_by": reader(worst.probe, worst.form),
        "converged": all(each.converged for each in results),
    }


def _final(
    chosen: _Candidate, about: dict[str, Any], rows: LabelledSource, seed: int, engine: Engine, progress: Progress
) -> Fit[Eraser]:
    """Return the fit of the `chosen` candidate's method to all `rows`, whose header has `about`."""
    method = find_method(chosen.method)
    parameters = method.Parameters() if chosen.k is None else method.Parameters(k=chosen.k)
    fit = method.fit(rows, parameters, task=None, seed=seed, engine=engine, progress=progress)
    header = {**fit.header, "method": chosen.method, "parameters": asdict(parameters), "auto": about}
    return replace(fit, header=header, k_rule={"auto": True} if "rank" in fit.k_rule or chosen.k else fit.k_rule)


def _none_keeps(limit: float, tried: list[dict[str, Any]], not_fitted: list[dict[str, str]], n: int) -> str:
    if not tried:
        why = "; ".join(f"{each['method']}: {each['why']}" for each in not_fitted)
        return f"no method can be fitted to half of the rows ({why}), so that none keeps `max_leak={limit:g}`"
    best = min(tried, key=lambda each: (not each["converged"], each["leak"]))
    doubt = "" if best["converged"] else ", by attackers that did not converge"
    return (
        f"no method keeps `max_leak={limit:g}` on {n:,} held-out rows of the fit: the best of {len(tried)} that were "
        f"tried is {best['method']} k={best['k']}, leak {best['leak']:.3f} "
        f"({best['attribute']}, {best['read_by']}){doubt}"
    )
