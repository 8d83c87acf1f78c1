"""`evaluate` in folds: what is pooled is what fitting and attacking each turn by hand gives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

import salcli
from salcli.commands.evaluate import evaluate
from salcli.commands.fit import fit
from salcli.commands.folds import evaluate_folds
from salcli.data.folds import fold_splits
from salcli.data.splits import FRESH, IN_SAMPLE
from salcli.erasers.ksal import KSALParameters
from salcli.errors import LabelError, SalcliWarning, UsageError
from salcli.evaluation.attackers import ATTACKERS
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.json_fields import to_json
from salcli.formats.label_table import read_labels
from salcli.options import EvaluateOptions, FitOptions, LabelOptions, Limit, ReadOptions, Sweep

from ..cli.helpers import save_npy, words, write_csv
from .conftest import Files

pytestmark = pytest.mark.filterwarnings("ignore::salcli.errors.SalcliWarning")
COMMAND = evaluate_folds
N, D = 120, 6


@pytest.fixture
def small(tmp_path: Path) -> Files:
    """120 rows of two classes and a task, by 24 authors, without a split."""
    rng = np.random.default_rng(0)
    y, job = np.arange(N) % 2, rng.integers(0, 2, N)
    x = rng.normal(size=(N, D)).astype(np.float32)
    x[:, 0] += 2 * y
    x[:, 1] += 2 * job
    authors = [f"a{i % 24:02}" if i % 10 else "" for i in range(N)]
    names = ["y", "job", "author"]
    rows = [[f"c{a}", f"j{b}", c] for a, b, c in zip(y, job, authors, strict=True)]
    labels = write_csv(tmp_path / "y.csv", names, rows)
    order = rng.permutation(N)
    keyed = write_csv(tmp_path / "keyed.csv", ["word", *names], ([words(N)[i], *rows[i]] for i in range(N)))
    write_csv(tmp_path / "moved.csv", ["word", *names], ([words(N)[i], *rows[i]] for i in order))
    (tmp_path / "x.keys.txt").write_text("\n".join(words(N)) + "\n", "utf-8")
    embeddings = save_npy(tmp_path / "x.npy", x)
    found = Files(tmp_path, x, [row[0] for row in rows], [], str(embeddings), str(labels), str(keyed), "x.keys.txt")
    fit(found.embeddings, found.labels, found.path("e.npz"), FitOptions(labels=LabelOptions(("y",))))
    return found


def run(small: Files, **options: object) -> dict:
    options.setdefault("probes", ("linear",))
    arguments = EvaluateOptions(quick=True, **options)  # type: ignore[arg-type]
    found: dict = to_json(evaluate(small.embeddings, small.labels, small.path("e.npz"), arguments))
    return found


@pytest.mark.parametrize("n", [3, 4, 5])
def test_pooled_figures_are_those_of_turns_by_hand(small: Files, n: int) -> None:
    found = run(small, folds=n)
    labels = read_labels(small.labels, LabelOptions(("y",)))
    x, y = small.x.astype(np.float64), labels.attributes[0].codes(np.arange(N))
    for adversary in (IN_SAMPLE, FRESH):
        true, predicted = [], []
        for turn in fold_splits(labels, np.arange(N), n, 0):
            eraser = salcli.fit(small.x[turn.fitted], y[turn.fitted]).eraser
            erased = eraser(small.x)
            train = turn.trainers[adversary]
            scaling = Scaling.of(x[train])  # of the rows before
            linear = ATTACKERS["linear"]
            machine = linear.fit(scaling(erased[train]), y[train], linear.usual(D), 0)
            predicted.append(machine.predict(scaling(erased[turn.test])))
            true.append(y[turn.test])
        of = next(p for p in found["probes"] if (p["adversary"], p["stage"]) == (adversary, "after"))
        assert of["n_test"] == N
        assert of["accuracy"] == pytest.approx(accuracy_score(np.concatenate(true), np.concatenate(predicted)))
        assert of["balanced_accuracy"] == pytest.approx(
            balanced_accuracy_score(np.concatenate(true), np.concatenate(predicted))
        )
        assert of["by_turn"] == pytest.approx([accuracy_score(a, b) for a, b in zip(true, predicted, strict=True)])
        assert len(of["by_turn"]) == n
    assert sum(found["folds"]["n_test"]) == N
    assert found["folds"]["n"] == n


def test_no_row_is_erased_by_an_eraser_that_it_was_fitted_with(small: Files) -> None:
    """Labels of noise: an eraser that knew the test rows would make them unreadable, or readable the wrong way."""
    found = run(small, folds=5)
    before, after = (
        next(p for p in found["probes"] if (p["adversary"], p["stage"]) == (FRESH, s)) for s in ("before", "after")
    )
    assert before["accuracy"] > 0.7
    assert abs(after["accuracy"] - 0.5) < 0.2
    assert any("of the method" in note for note in found["notes"])


@pytest.mark.slow
def test_the_main_task_is_pooled_too(small: Files) -> None:
    found = run(small, folds=5, task="job", max_tpr_gap=1.0, labels=LabelOptions(("y",)))
    task = found["task"]
    assert task["n_test"] == N
    assert task["accuracy"]["before"] > 0.75
    assert sum(rate["n"] for rate in task["tpr"] if rate["stage"] == "after") == N
    assert task["C"] == {}
    assert found["geometry"] is not None


def test_with_keys_nothing_depends_on_the_order_of_the_label_file(small: Files) -> None:
    both = []
    for name in ("keyed.csv", "moved.csv"):
        options = EvaluateOptions(
            quick=True,
            probes=("linear",),
            folds=5,
            labels=LabelOptions(("y",), key="word", groups="author"),
            read=ReadOptions(keys_file=small.path("x.keys.txt")),
        )
        found = to_json(evaluate(small.embeddings, small.path(name), small.path("e.npz"), options))
        both.append((found["probes"], found["folds"]))
    assert both[0][1] == both[1][1]
    for one, other in zip(both[0][0], both[1][0], strict=True):
        assert one["accuracy"] == pytest.approx(other["accuracy"], abs=0.02)  # sums of other orders round otherwise


def test_groups_stay_whole_and_widen_the_intervals(small: Files) -> None:
    found = run(small, folds=5, labels=LabelOptions(("y",), groups="author"))
    assert found["folds"]["group_column"] == "author"
    assert found["folds"]["n_groups"] == 24 + N // 10 - sum(
        all(not i % 10 for i in range(N) if i % 24 == a) for a in range(24)
    )
    assert all(p["n_effective"] < N for p in found["probes"])


@pytest.mark.slow
def test_several_attributes_take_turns_together(small: Files) -> None:
    """Two of classes and a number, of which the eraser was fitted for one."""
    rows = [[*line.split(",")[:2], f"{x:.3f}"] for line, x in zip(
        Path(small.labels).read_text().splitlines()[1:], small.x[:, 2], strict=True)]  # fmt: skip
    write_csv(small.folder / "three.csv", ["y", "job", "age"], rows)
    options = EvaluateOptions(quick=True, probes=("linear",), folds=5, labels=LabelOptions(("y", "job"), ("age",)))
    found = to_json(evaluate(small.embeddings, small.path("three.csv"), small.path("e.npz"), options))
    after = {p["attribute"]: p for p in found["probes"] if (p["stage"], p["adversary"]) == ("after", FRESH)}
    assert set(after) == {"y", "job", "y × job"}
    numbers = [p for p in found["numeric"] if (p["stage"], p["adversary"]) == ("after", FRESH)]
    assert {(p["attribute"], p["n_test"]) for p in numbers} == {("age", N)}
    assert max(p["r2"] for p in numbers) > 0.9
    assert {each["attribute"] for each in found["detectable"]} == {"y", "job", "y × job", "age"}
    assert all(p["n_test"] == N for p in after.values())
    assert after["job"]["accuracy"] > 0.7 > after["y"]["accuracy"]


def test_a_row_counts_for_each_attribute_that_it_has(small: Files) -> None:
    """And is fitted if it has those that the eraser guards."""
    lines = [line.split(",")[:2] for line in Path(small.labels).read_text().splitlines()[1:]]
    rows = [["" if i % 5 == 1 else a, "" if i % 4 == 1 else b] for i, (a, b) in enumerate(lines)]
    write_csv(small.folder / "gaps.csv", ["y", "job"], rows)
    options = EvaluateOptions(quick=True, probes=("linear",), folds=3, labels=LabelOptions(("y", "job")))
    found = to_json(evaluate(small.embeddings, small.path("gaps.csv"), small.path("e.npz"), options))
    n_test = {p["attribute"]: p["n_test"] for p in found["probes"]}
    assert n_test["y"] == sum(bool(row[0]) for row in rows)
    assert n_test["job"] == sum(bool(row[1]) for row in rows)
    assert n_test["y × job"] == sum(all(row) for row in rows)
    assert sum(found["folds"]["n_fitted"]) <= n_test["y"]


@pytest.mark.slow
def test_gates_judge_the_pooled_figures(small: Files) -> None:
    options = EvaluateOptions(probes=("linear",), folds=5, max_accuracy=(Limit(0.9), Limit(0.4)))
    options = replace(options, labels=LabelOptions(("y",)))
    (wide, narrow) = evaluate(small.embeddings, small.labels, small.path("e.npz"), options).gates
    assert wide.status == "passed"
    assert narrow.status in ("failed", "undecided")
    (quick,) = run(small, folds=5, max_accuracy=(Limit(0.9),), labels=LabelOptions(("y",)))["gates"]
    assert quick["status"] == "failed"


def test_a_kernels_eraser_takes_part_with_its_products(small: Files) -> None:
    options = FitOptions(labels=LabelOptions(("y",)), method="ksal", parameters=KSALParameters(landmarks=20))
    fit(small.embeddings, small.labels, small.path("k.npz"), options)
    arguments = EvaluateOptions(quick=True, probes=("linear", "same-kernel"), folds=3)
    found = to_json(evaluate(small.embeddings, small.labels, small.path("k.npz"), arguments))
    assert {(p["probe"], p["n_test"]) for p in found["probes"]} == {("linear", N), ("same-kernel", N)}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sweep": Sweep("k", (1.0,))}, "leave `sweep`, `repeats` and `against` out"),
        ({"repeats": 2, "sample": 9}, "leave `sweep`, `repeats` and `against` out"),
        ({"against": "o.npy"}, "leave `sweep`, `repeats` and `against` out"),
        ({"holdout": 0.3}, "leave `fit_split` and `holdout` out"),
        ({"folds": 2}, "at least 3"),
    ],
)
def test_what_contradicts_folds_is_a_usage_error(options: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        EvaluateOptions(**({"folds": 5} | options))  # type: ignore[arg-type]


def test_folds_need_an_eraser_and_labels(small: Files) -> None:
    for labels, eraser in ((None, small.path("e.npz")), (small.labels, None)):
        with pytest.raises(UsageError, match=r"it needs `eraser` and LABELS|missing LABELS"):
            evaluate(small.embeddings, labels, eraser, EvaluateOptions(folds=5))


def test_a_turn_without_anything_to_fit_is_named(small: Files) -> None:
    rows = [["c0" if i else "c1", "x"] for i in range(N)]
    write_csv(small.folder / "one.csv", ["y", "z"], rows)
    options = EvaluateOptions(folds=4, labels=LabelOptions(("y",)))
    with pytest.raises(LabelError, match=r"turn \d of `folds=4` has too few rows to fit: .*'y' has one class"):
        evaluate(small.embeddings, small.path("one.csv"), small.path("e.npz"), options)


def test_copies_among_the_turns_are_left_out_and_fail_the_gates(small: Files) -> None:
    x = np.concatenate([small.x[:60], small.x[:60]])
    save_npy(small.folder / "twice.npy", x)
    options = EvaluateOptions(
        quick=True, probes=("linear",), folds=5, max_accuracy=(Limit(0.9),), labels=LabelOptions(("y",))
    )
    with pytest.warns(SalcliWarning):
        found = to_json(evaluate(small.path("twice.npy"), small.labels, small.path("e.npz"), options))
    assert found["duplicates"]["test"]["of"] == N
    assert found["duplicates"]["test"]["n"] > 0.5 * N
    assert "copies of rows that train" in found["gates"][0]["reason"]


def test_the_split_column_of_the_fit_need_not_be_there(small: Files) -> None:
    rows = [line.split(",") for line in Path(small.labels).read_text("utf-8").splitlines()[1:]]
    parts = ["train", "dev", "test"]
    split = write_csv(
        Path(small.path("split.csv")), ["y", "job", "author", "split"], ([*r, parts[i % 3]] for i, r in enumerate(rows))
    )
    fit(small.embeddings, str(split), small.path("s.npz"), FitOptions(labels=LabelOptions(("y",))))
    options = EvaluateOptions(quick=True, folds=3, probes=("linear",))
    without, given = (
        to_json(evaluate(small.embeddings, labels, small.path("s.npz"), options))
        for labels in (small.labels, str(split))
    )
    said = "column 'split' is not used: `folds` divides all labelled rows but bands, which take no turn"
    assert [note for note in given["notes"] if "'split'" in note] == [said]
    assert not any("split" in note for note in without["notes"])
    assert given["probes"] == without["probes"]
    # an eraser that was fitted without a split: the column is said to be ignored, too
    found = to_json(evaluate(small.embeddings, str(split), small.path("e.npz"), options))
    assert said in found["notes"]
    named = replace(options, labels=LabelOptions(split_column="part"))
    with pytest.raises(LabelError, match="no column 'part'"):
        evaluate(small.embeddings, small.labels, small.path("s.npz"), named)
    with pytest.raises(LabelError, match="no column 'split'"):
        evaluate(small.embeddings, small.labels, small.path("s.npz"), replace(options, folds=None))
