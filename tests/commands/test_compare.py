"""`compare` as a function: each candidate as `evaluate` reports it, what is shared done once, refusals."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from salcli.commands.apply import apply
from salcli.commands.compare import compare
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.erasers.ksal import KSALParameters
from salcli.erasers.sal import SALParameters
from salcli.errors import AlignmentError, LabelError, ParameterError, SalcliError, SalcliWarning, UsageError
from salcli.evaluation import attackers, bias, forms, gaps, requested
from salcli.evaluation import kept as kept_module
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.base import BeforeAfter
from salcli.evaluation.comparison import Comparison
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.main_task import Trained
from salcli.evaluation.report import ErasedFile, EraserSummary, Report
from salcli.evaluation.stages import Stages
from salcli.options import ApplyOptions, CompareOptions, EvaluateOptions, FitOptions, LabelOptions, Limit, ReadOptions

from ..cli.helpers import words, write_csv
from .conftest import Files
from .test_evaluate_route import NearestMean

MEANS = EvaluateOptions(probes=("means",), learning_curve=False)


@pytest.fixture(autouse=True)
def _quick_attacker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTACKERS, "means", NearestMean())


@pytest.fixture
def erasers(files: Files) -> tuple[str, str]:
    """Fit SAL with one direction and LEACE to the same rows."""
    sal, leace = files.path("sal.npz"), files.path("leace.npz")
    fit(files.embeddings, files.labels, sal, FitOptions(parameters=SALParameters(k=1)))
    fit(files.embeddings, files.labels, leace, FitOptions(method="leace"))
    return sal, leace


def compared(files: Files, *erasers: str, evaluation: EvaluateOptions = MEANS, **changes: Any) -> Comparison:
    return compare(files.embeddings, files.labels, CompareOptions(erasers, evaluation=evaluation, **changes))


def figures(report: Report) -> dict[str, Any]:
    """Return what a report says, probes by name: their order is another."""
    found = to_json(report)
    for kind in ("probes", "numeric"):
        each = found.get(kind, ())
        found[kind] = {(p["attribute"], p["probe"], p.get("as"), p["adversary"], p["stage"]): p for p in each}
    return {name: value for name, value in found.items() if name != "run"}


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_each_candidate_is_reported_as_evaluate_reports_it(files: Files, erasers: tuple[str, str]) -> None:
    apply(erasers[0], files.embeddings, files.path("out.npy"), ApplyOptions())
    gates = {"max_leak": (Limit(0.1),), "max_gain": (Limit(0.9, "means"),), "min_neighbors_kept": 0.1}
    options = EvaluateOptions(probes=("means",), labels=LabelOptions(("y",)), **gates)
    found = compared(files, *erasers, evaluation=options, against=(files.path("out.npy"),))
    alone = [evaluate(files.embeddings, files.labels, each, options) for each in erasers]
    against = replace(options, against=files.path("out.npy"))
    alone.append(evaluate(files.embeddings, files.labels, None, against))
    for candidate, report in zip(found.candidates, alone, strict=True):
        assert figures(candidate.report) == figures(report)
    assert [each.name for each in found.candidates] == ["sal k=1", "leace k=2", "out.npy"]
    assert [type(each.report.eraser) for each in found.candidates] == [EraserSummary, EraserSummary, ErasedFile]
    sizes = [each.n_bytes for each in found.candidates]
    assert sizes == [*(Path(each).stat().st_size for each in erasers), None]
    assert [each.seconds is None for each in found.candidates] == [False, False, True]
    assert {each.n_erased for each in found.candidates} == {240, 0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_what_is_the_same_before_erasure_is_done_once(
    files: Files, erasers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {"attacker": 0, "nearest": 0, "task": 0}

    class Counting(NearestMean):
        def fit(self, *given: Any) -> Any:
            calls["attacker"] += 1
            return super().fit(*given)

    nearest, trained = kept_module.nearest, Trained.of

    def counted_nearest(*given: Any, **named: Any) -> Any:
        calls["nearest"] += 1
        return nearest(*given, **named)

    def counted_task(*given: Any) -> Any:
        calls["task"] += 1
        return trained(*given)

    monkeypatch.setitem(ATTACKERS, "counting", Counting())
    monkeypatch.setattr(kept_module, "nearest", counted_nearest)
    monkeypatch.setattr(Trained, "of", counted_task)
    rows = [line.split(",") for line in Path(files.labels).read_text("utf-8").splitlines()]
    lines = [",".join((*row, "task" if i == 0 else "ab"[i // 4 % 2])) for i, row in enumerate(rows)]
    Path(files.labels).write_text("\n".join(lines) + "\n", "utf-8")
    options = EvaluateOptions(probes=("counting",), learning_curve=False, task="task")
    options = replace(options, labels=LabelOptions(("y",)))
    evaluate(files.embeddings, files.labels, erasers[0], options)
    alone = dict(calls)
    assert alone == {"attacker": alone["attacker"], "nearest": 2, "task": 1}
    compared(files, *erasers, evaluation=options)
    both = {name: calls[name] - alone[name] for name in calls}
    assert both == {"attacker": alone["attacker"] * 3 // 2, "nearest": 3, "task": 1}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_votes_forms_permutations_and_bias_before_erasure_are_computed_once_and_change_nothing(
    files: Files, erasers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = np.where(files.x[:, 7] > np.median(files.x[:, 7]), "a", "b").tolist()
    rows = zip(files.y, jobs, files.parts, strict=True)
    write_csv(Path(files.labels), ["y", "job", "split"], rows)
    sets = {"X": words(240)[:6], "Y": words(240)[6:12], "A": words(240)[12:18], "B": words(240)[18:24]}
    Path(files.path("sets.json")).write_text(json.dumps({"tests": {"t": sets}}), "utf-8")
    options = replace(
        MEANS, forms=("raw", "unit", "int8"), task="job", bias=(files.path("sets.json"),), labels=LabelOptions(("y",)),
        read=ReadOptions(keys_file=files.keys),
    )  # fmt: skip
    calls = {"vote": 0, "form": 0, "permuted": 0, "bias": 0}

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return function(*given, **named)

        return call

    def run() -> tuple[dict[str, Any], dict[str, int]]:
        calls.update(dict.fromkeys(calls, 0))
        found = to_json(compared(files, *erasers, evaluation=options))
        for each in found["candidates"]:
            each["seconds"] = None
        return found, dict(calls)

    monkeypatch.setattr(kept_module, "vote", counted("vote", kept_module.vote))
    monkeypatch.setattr(forms, "_converted", counted("form", forms._converted))
    monkeypatch.setattr(bias, "_figure", counted("bias", bias._figure))
    permuted = gaps._permuted.__wrapped__
    monkeypatch.setattr(gaps, "_permuted", lru_cache(counted("permuted", permuted)))
    once, n_once = run()
    monkeypatch.setattr(Stages, "once", lambda self, key, compute: compute())
    monkeypatch.setattr(BeforeAfter, "shared", lambda self, key, compute: compute())
    monkeypatch.setattr(gaps, "_permuted", counted("permuted", permuted))
    again, n_again = run()
    assert json.dumps(once) == json.dumps(again)
    assert (n_once["vote"], n_again["vote"]) == (3, 4)  # before once, after twice
    assert (n_once["bias"], n_again["bias"]) == (3, 4)
    assert n_once["form"] == 2 + 2 * 2  # unit and int8
    assert n_again["form"] > n_once["form"]
    assert n_once["permuted"] < n_again["permuted"] / 2


def test_rows_that_any_eraser_was_fitted_on_are_tested_by_none(files: Files) -> None:
    paths, plain = [], LabelOptions(("y",), no_split=True)
    for seed in (0, 1):
        paths.append(files.path(f"{seed}.npz"))
        fit(files.embeddings, files.labels, paths[-1], FitOptions(plain, holdout=0.6, seed=seed))
    with pytest.warns(SalcliWarning, match="^the erasers were fitted on different rows: the "):
        found = compared(files, *paths)
    single = [evaluate(files.embeddings, files.labels, path, MEANS).probes for path in paths]
    n_fitted = next(p.n_train for p in found.candidates[0].report.probes if p.adversary == "in-sample")
    assert n_fitted > max(p.n_train for probes in single for p in probes if p.adversary == "in-sample")
    sizes = {p.adversary: (p.n_train, p.n_test) for p in found.candidates[0].report.probes}
    n_held_out = sizes["fresh"][0] + sizes["fresh"][1]
    assert n_fitted + n_held_out == 240
    assert sizes == {p.adversary: (p.n_train, p.n_test) for p in found.candidates[1].report.probes}
    assert [each.name for each in found.candidates] == ["sal k=2 (0.npz)", "sal k=2 (1.npz)"]


def test_equal_files_in_two_folders_are_numbered(files: Files, tmp_path: Path) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths.append(str(tmp_path / folder / "e.npz"))
        fit(files.embeddings, files.labels, paths[-1], FitOptions())
    found = compared(files, *paths)
    assert [each.name for each in found.candidates] == ["sal k=2 (e.npz) (1)", "sal k=2 (e.npz) (2)"]


@pytest.mark.slow
def test_a_kernel_eraser_is_compared_with_the_file_as_it_is(
    files: Files, erasers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = files.path("k.npz")
    fit(
        files.embeddings,
        files.labels,
        kernel,
        FitOptions(method="ksal", parameters=KSALParameters(landmarks=60)),
    )
    few = {name: ATTACKERS[name] for name in ("linear", "means", "same-kernel") if name in ATTACKERS}
    for module in (attackers, requested):
        monkeypatch.setattr(module, "ATTACKERS", few)
    found = compared(files, erasers[0], kernel, evaluation=replace(MEANS, probes=("all",)))
    first, second = ({p for p in each.report.probes if p.stage == "before"} for each in found.candidates)
    assert first == second
    assert {p.probe for each in found.candidates for p in each.report.probes} == set(few) - {"same-kernel"}
    assert found.candidates[1].name.startswith("ksal k=")


def test_files_of_other_tools_need_no_eraser(files: Files) -> None:
    for name in ("one.npy", "two.npy"):
        np.save(files.path(name), files.x * (1 + len(name)))
    with pytest.warns(SalcliWarning):
        found = compared(files, against=(files.path("one.npy"), files.path("two.npy")))
    assert [each.name for each in found.candidates] == ["one.npy", "two.npy"]
    assert found.fronts["neighbors"]


def refusals(files: Files, erasers: tuple[str, str]) -> Iterator[tuple[type[SalcliError], str, tuple[str, ...], Any]]:
    """Yield error, message, erasers and options of comparisons that are refused."""
    narrow, other, whole = (files.path(name) for name in ("narrow.npz", "other.npz", "whole.npz"))
    np.save(files.path("narrow.npy"), files.x[:, :5])
    fit(files.path("narrow.npy"), files.labels, narrow, FitOptions())
    text = Path(files.labels).read_text("utf-8").replace("y,split", "z,split")
    Path(files.path("z.csv")).write_text(text, "utf-8")
    fit(files.embeddings, files.path("z.csv"), other, FitOptions())
    fit(files.embeddings, files.labels, whole, FitOptions(LabelOptions(("y",), no_split=True)))
    yield AlignmentError, "narrow.npz erases 5 dimensions, but .*sal.npz erases 8", (erasers[0], narrow), MEANS
    yield AlignmentError, "other.npz guards z, but .*sal.npz guards y: candidates guard", (erasers[0], other), MEANS
    yield (
        LabelError,
        "y.csv: no labelled row is left to test on that all candidates held out",
        (whole, erasers[0]),
        (MEANS),
    )
    kernel = replace(MEANS, probes=("means", "same-kernel"))
    yield UsageError, "`probes=same-kernel` reads the kernel of one eraser", erasers, kernel
    yield (
        UsageError,
        "`fit_split` and `holdout` are for evaluation without an eraser",
        erasers,
        (replace(MEANS, fit_split="dev")),
    )


def test_what_cannot_be_compared_is_refused_in_one_line(files: Files, erasers: tuple[str, str]) -> None:
    for error, says, paths, options in refusals(files, erasers):
        with pytest.raises(error, match=says) as caught:
            compared(files, *paths, evaluation=replace(options, reports=(files.path("r.json"),)))
        assert "\n" not in str(caught.value)
        assert not Path(files.path("r.json")).exists()


def test_labels_of_another_fit_name_the_eraser(files: Files, erasers: tuple[str, str]) -> None:
    text = Path(files.labels).read_text("utf-8").splitlines()
    text[1] = text[1].replace("train", "dev")
    Path(files.labels).write_text("\n".join(text) + "\n", "utf-8")
    with pytest.raises(AlignmentError, match=r"sal\.npz: .*y\.csv: these labels lead to 119 fitted rows, not to the"):
        compared(files, *erasers)


def test_one_candidate_is_no_comparison(files: Files, erasers: tuple[str, str]) -> None:
    for given in ((), erasers[:1], (erasers[0], erasers[0])):
        with pytest.raises(UsageError, match="at least two candidates"):
            compared(files, *given)


def test_neighbours_can_be_left_out(files: Files, erasers: tuple[str, str]) -> None:
    found = compared(files, *erasers, evaluation=replace(MEANS, kept=False))
    assert found.fronts == {}
    assert {each.kept["neighbors"] for each in found.candidates} == {None}


def test_methods_are_fitted_on_the_rows_of_the_eraser(files: Files, erasers: tuple[str, str]) -> None:
    found = compared(files, erasers[0], methods=("leace", "sal"))
    assert [each.name for each in found.candidates] == ["sal k=1", "leace k=2", "sal k=2"]
    by_files = compared(files, *erasers)
    alike = {**figures(found.candidates[1].report), "eraser": None}
    assert alike == {**figures(by_files.candidates[1].report), "eraser": None}
    assert found.candidates[1].n_bytes == Path(erasers[1]).stat().st_size


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_a_method_that_keeps_the_main_task_gets_it(files: Files) -> None:
    tasks = ("ab"[i // 4 % 2] for i in range(240))
    rows = zip(files.y, tasks, files.parts, strict=True)
    labels = str(write_csv(files.folder / "task.csv", ["y", "task", "split"], rows))
    options = CompareOptions(methods=("sal", "splince"), evaluation=replace(MEANS, labels=LabelOptions(("y",))))
    with pytest.raises(UsageError, match="keeps a main task"):
        compare(files.embeddings, labels, options)
    options = replace(options, evaluation=replace(options.evaluation, task="task"))
    found = compare(files.embeddings, labels, options)
    assert found.candidates[1].name.startswith("splince k=")


def test_methods_alone_are_fitted_by_the_split_or_a_holdout(files: Files) -> None:
    by_split = compared(files, methods=("sal", "leace")).candidates[0].report.probes
    assert {(p.adversary, p.n_train, p.n_test) for p in by_split} == {("in-sample", 120, 60), ("fresh", 60, 60)}
    options = replace(MEANS, labels=LabelOptions(("y",), no_split=True), holdout=0.5)
    held_out = compared(files, evaluation=options, methods=("sal", "leace")).candidates[1].report.probes
    n_train = {p.adversary: p.n_train for p in held_out}
    assert n_train["in-sample"] + n_train["fresh"] + held_out[0].n_test == 240
    assert n_train["in-sample"] != 120 or n_train["fresh"] != 60
    with pytest.raises(ParameterError, match="method = 'svd'"):
        compared(files, methods=("sal", "svd"))


def with_ages(files: Files) -> str:
    """Write labels with an age that the rows show, missing in every ninth row, and return their path."""
    ages = (files.x[:, 0] * 10).round(2).tolist()
    rows = (
        (y, "" if i % 9 == 0 else ages[i], part) for i, (y, part) in enumerate(zip(files.y, files.parts, strict=True))
    )
    return str(write_csv(files.folder / "ages.csv", ["y", "age", "split"], rows))


@pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
def test_numbers_and_rows_that_lack_an_attribute_are_evaluated_as_alone(files: Files) -> None:
    labels, columns = with_ages(files), LabelOptions(("y",), ("age",))
    paths = [files.path(name) for name in ("s.npz", "l.npz")]
    for path, method in zip(paths, ("sal", "leace"), strict=True):
        fit(files.embeddings, labels, path, FitOptions(columns, method=method))
    options = replace(MEANS, probes=("means", "ridge"))
    found = compare(files.embeddings, labels, CompareOptions(tuple(paths), evaluation=options))
    for candidate, path in zip(found.candidates, paths, strict=True):
        assert figures(candidate.report) == figures(evaluate(files.embeddings, labels, path, options))
        assert {r.probe for r in candidate.report.numeric} == {"ridge"}
        assert {r.stage for r in candidate.report.numeric} == {"before", "after"}


def test_hashes_of_another_algorithm_are_not_taken_for_another_file(files: Files, erasers: tuple[str, str]) -> None:
    fit(files.embeddings, files.labels, files.path("sha.npz"), FitOptions(method="leace", hash_algorithm="sha256"))
    with pytest.warns(SalcliWarning) as warned:
        compared(files, erasers[0], files.path("sha.npz"))
    text = [str(each.message) for each in warned]
    assert text == [
        "leace k=2: whether the embeddings are the file that the eraser was fitted on is not known (SHA-256)"
    ]
