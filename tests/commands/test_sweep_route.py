"""`evaluate --sweep` and `--repeats`: what they measure is what fitting and evaluating anew would."""

import pytest

from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.sweep import repeat_fits, require_repeatable, sweep
from salcli.erasers.sal import SALParameters
from salcli.errors import LabelError, RankError
from salcli.evaluation.json_fields import to_json
from salcli.options import EvaluateOptions, FitOptions, Sweep

from .conftest import Files

COMMAND = {"sweep": sweep, "repeats": repeat_fits, "refused": require_repeatable}  # what the tests below are of


def accuracies(record: dict, stage: str = "after") -> dict[tuple[str, str], float]:
    return {(p["probe"], p["adversary"]): p["accuracy"] for p in record["probes"] if p["stage"] == stage}


def run(files: Files, eraser: str, **options: object) -> dict:
    arguments = EvaluateOptions(probes=("linear",), forms=("raw",), **options)  # type: ignore[arg-type]
    found: dict = to_json(evaluate(files.embeddings, files.labels, files.path(eraser), arguments))
    return found


@pytest.mark.slow
def test_a_step_of_k_is_the_evaluation_of_an_eraser_fitted_with_that_k(files: Files) -> None:
    for k in (1, 2):
        fit(files.embeddings, files.labels, files.path(f"e{k}.npz"), FitOptions(parameters=SALParameters(k=k)))
    for eraser in ("e1.npz", "e2.npz"):  # one of them has to be fitted again, to the full rank
        found = run(files, eraser, sweep=Sweep.parse("k=0:2"))
        assert [step["value"] for step in found["sweep"]] == [0, 1, 2]
        assert accuracies(found["sweep"][0]) == accuracies(found, "before")
        for k in (1, 2):
            assert accuracies(found["sweep"][k]) == accuracies(run(files, f"e{k}.npz"))
    assert accuracies(found["sweep"][0])["linear", "fresh"] > accuracies(found["sweep"][2])["linear", "fresh"] + 0.2


def test_strength_goes_from_before_to_after(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    found = run(files, "e.npz", sweep=Sweep.parse("strength=0:1:0.5"))
    assert accuracies(found["sweep"][0]) == accuracies(found, "before")
    assert accuracies(found["sweep"][-1]) == accuracies(found, "after")


@pytest.mark.slow
def test_a_repeated_fit_is_the_evaluation_of_an_eraser_fitted_to_that_sample(files: Files) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    found = run(files, "e.npz", repeats=3, sample=30, seed=5)["repeats"]
    values = {figure["name"]: figure["values"] for figure in found["figures"]}
    for i in range(3):
        fit(files.embeddings, files.labels, files.path("s.npz"), FitOptions(sample=30, seed=5 + 1 + i))
        anew = accuracies(run(files, "s.npz", seed=5))
        for adversary in ("in-sample", "fresh"):
            assert values[f"y, linear, {adversary}: accuracy"][i] == anew["linear", adversary]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"sweep": Sweep("k", (3.0,))}, RankError, "the rank is 2"),
        ({"repeats": 2, "sample": 121}, LabelError, "only 120 rows were fitted"),
        ({"repeats": 2, "sample": 2}, LabelError, "too small for `repeats`"),
    ],
)
def test_what_cannot_be_measured_again_is_refused(
    files: Files, options: dict[str, object], error: type[Exception], says: str
) -> None:
    fit(files.embeddings, files.labels, files.path("e.npz"), FitOptions())
    with pytest.raises(error, match=says):
        run(files, "e.npz", **options)
