"""`Report`: the record of an evaluation, with what a notebook does with it."""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import Any, Self

from salcli.errors import ParameterError, UsageError
from salcli.evaluation import report as evaluation
from salcli.evaluation.gates import Expected
from salcli.evaluation.json_fields import UNWRITTEN, to_json
from salcli.evaluation.judged import judged
from salcli.evaluation.neighbors import NEIGHBORS
from salcli.evaluation.requested import require_attackers
from salcli.options import EvaluateOptions, Limit
from salcli.render.html import html

LIMITS = ("max_accuracy", "max_gain", "max_leak", "max_r2")
"""Options that are limits on attackers, `X` or `PROBE=X`."""
OTHERS = ("max_tpr_gap", "min_task_accuracy", "min_task_kept", "min_similarity_kept", "min_neighbors_kept")
GATES = (*LIMITS, *OTHERS)
JUDGING = ("judge", "confidence", "min_pairs", "allow_undecided")
LIBRARIES = {"pandas": "DataFrame", "polars": "DataFrame"}
HEIGHT = 720  # pixels of the page in a notebook


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(evaluation.Report):
    """What was measured, on what, and the verdict: the record that `salcli evaluate --json` prints.

    In a notebook it is shown as the page that `salcli evaluate --report report.html` writes.
    """

    expected: Expected = field(default_factory=Expected, repr=False, compare=False, metadata=UNWRITTEN)
    """What gates expect to have been measured."""
    options: EvaluateOptions = field(default_factory=EvaluateOptions, repr=False, compare=False, metadata=UNWRITTEN)
    """What was measured."""

    def __repr__(self) -> str:
        return f"Report(verdict={self.verdict!r}, probes={len(self.probes)}, gates={len(self.gates)})"

    def gate(self, **limits: Any) -> Self:
        """Return the report with these gates alone, judged on what was measured: `verdict` is pass, fail or undecided.

        Parameters
        ----------
        limits : limits and how they are judged, by the names of `salcli evaluate`: `max_accuracy`, `max_gain`,
            `max_leak`, `max_r2` (a share, "PROBE=share", or a list of them), `max_tpr_gap`, `min_task_accuracy`,
            `min_task_kept`, `min_similarity_kept`, `min_neighbors_kept`; `judge`, `confidence`, `min_pairs`,
            `allow_undecided`

        Raises
        ------
        UsageError : a limit on what was not measured
        ParameterError : no such limit, or a value that it cannot have
        """
        known: dict[str, Any] = {each.name: each.default for each in fields(EvaluateOptions) if each.name in GATES}
        for name, value in limits.items():
            if name not in (*known, *JUDGING):
                raise ParameterError(name, value, f"no gate; expected some of {', '.join((*known, *JUDGING))}")
        if not set(known) & set(limits):
            raise UsageError("a gate needs a limit, such as `max_accuracy=0.6`")
        options = replace(self.options, **known | read_limits(limits))
        require_attackers(options)
        options.require_inputs(has_labels=True, has_eraser=isinstance(self.eraser, evaluation.EraserSummary))
        if options.min_neighbors_kept is not None and self.of(NEIGHBORS) is None:
            raise UsageError("`min_neighbors_kept`: neighbours were not measured; give evaluate such a limit, as 0")
        numbers = () if options.max_r2 else tuple(dict.fromkeys(name for name, _, _ in self.expected.of_numbers))
        plain = replace(self, options=options, allows_undecided=options.allow_undecided)
        found = judged(plain, replace(self.expected, unjudged=numbers), options)
        assert isinstance(found, type(self))
        return found

    def to_records(self) -> list[dict[str, Any]]:
        """Return what each attacker read as plain dicts, one for each attacker, attribute and stage."""
        return [_flat(to_json(each)) for each in (*self.probes, *self.numeric)]

    def to_frame(self) -> Any:
        """Return what each attacker read as a frame of pandas, or of polars where pandas is not installed.

        Raises
        ------
        ImportError : neither is; `to_records` needs none
        """
        for name, kind in LIBRARIES.items():
            try:
                library = importlib.import_module(name)
            except ImportError:
                continue
            return getattr(library, kind)(self.to_records())
        raise ImportError("to_frame needs pandas or polars, and neither is installed; to_records() gives plain dicts")

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, as its style is not that of the notebook."""
        page = escape(html(self), quote=True)
        return (
            f'<iframe title="salcli evaluation" sandbox="" srcdoc="{page}" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
        )


def report_of(found: evaluation.Report, expected: Expected, options: EvaluateOptions) -> Report:
    """Return a report that can be judged again.

    Parameters
    ----------
    found : all that was measured
    expected : what its gates expect to have been measured
    options : what was measured
    """
    values = {each.name: getattr(found, each.name) for each in fields(found) if each.init}
    return Report(**values, expected=expected, options=options)


def read_limits(options: dict[str, Any]) -> dict[str, Any]:
    """Return `options` by name, with limits on attackers read from numbers, texts or lists of them.

    Raises
    ------
    ParameterError : a limit is no share
    """
    return {name: _limits(name, value) if name in LIMITS else value for name, value in options.items()}


def _limits(name: str, value: Any) -> tuple[Limit, ...]:
    several = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    try:
        return tuple(one if isinstance(one, Limit) else Limit.parse(str(one)) for one in several)
    except ValueError as error:
        raise ParameterError(name, value, str(error)) from None


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values of a record; an interval becomes two."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if name.endswith("ci95"):
            low, high = value or (None, None)
            found |= {f"{name}_low": low, f"{name}_high": high}
        elif not isinstance(value, (list, dict)):
            found[name] = value
    return found
