"""Records of sweeps and repeated fits."""

import dataclasses

import pytest

from salcli.commands.sweep import repeated_figures
from salcli.evaluation.group_rates import Gap, GroupRates
from salcli.evaluation.main_task import Accuracy, Task
from salcli.evaluation.report import Measurement, RepeatedFigure
from tests.render.reports import result, similarity


def measured(accuracy: float, after: float | None) -> Measurement:
    gap = Gap(0.5, accuracy / 2, None)
    of_g, of_h = (GroupRates(name, ("x", "y"), (), gap, None, ()) for name in "gh")
    task = Task("job", ("p", "q"), 0.5, 9, 9, Accuracy(0.9, accuracy, None), True, of_g, (of_h,))
    measures = {"similarity": (similarity("set", 0.5, after),), "task": task}
    return Measurement(probes=(result("g", "after", accuracy),), measures=measures)


def test_figures_have_mean_and_sample_deviation_over_the_runs() -> None:
    found = repeated_figures([measured(0.5, 0.2), measured(0.7, 0.4)])
    assert [figure.name for figure in found] == [
        "g, linear, fresh: accuracy",
        "similarity set",
        "task job: accuracy",
        "task job: tpr_gap",
        "task job: tpr_gap, h",
    ]
    assert found[0] == RepeatedFigure(found[0].name, pytest.approx(0.6), pytest.approx(0.02**0.5), (0.5, 0.7))
    assert found[3].values == (0.25, 0.35)


def test_a_figure_that_one_run_lacks_is_left_out() -> None:
    runs = [measured(0.5, 0.2), measured(0.7, None), dataclasses.replace(measured(0.7, 0.4), probes=())]
    assert "similarity set" not in [figure.name for figure in repeated_figures(runs)]
    assert "g, linear, fresh: accuracy" not in [figure.name for figure in repeated_figures(runs)]
