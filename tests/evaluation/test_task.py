import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from salcli.evaluation import gaps
from salcli.evaluation import main_task as module
from salcli.evaluation.attackers.base import Scaling
from salcli.evaluation.attackers.scores import wilson
from salcli.evaluation.group_rates import Guarded
from salcli.evaluation.json_fields import to_json
from salcli.evaluation.logistic import Logistic, fit_logistic
from salcli.evaluation.main_task import Task, main_task

TRAIN, TEST = np.arange(300), np.arange(300, 600)
Rows = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "DRAWS", 100)


def planted(n_classes: int = 2, n_groups: int = 2, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, 600)
    y = np.where(rng.random(600) < 0.5, rng.integers(0, n_classes, 600), groups % n_classes)
    x = rng.normal(size=(600, 6)) + rng.normal(size=(n_classes, 6))[y] + 2 * rng.normal(size=(n_groups, 6))[groups]
    return x, y, groups


def measured(x: Any, after: Any, y: Any, groups: Any, n_classes: int = 2, n_groups: int = 2) -> Task | None:
    return main_task(
        x, after, y, [Guarded("g", groups, [f"g{i}" for i in range(n_groups)])], TRAIN, TEST,
        column="job", class_names=[f"c{i}" for i in range(n_classes)], seed=0,
    )  # fmt: skip


def told(*args: Any, **sizes: int) -> dict[str, Any]:
    result = measured(*args, **sizes)
    assert result is not None
    found: dict[str, Any] = to_json(result)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_accuracies_and_rates_are_those_of_scikit_learns_classifier(n_classes: int) -> None:
    x, y, groups = planted(n_classes)
    after = x * [1, 1, 1, 0, 0, 0] + 0.5
    scale = Scaling.of(x[TRAIN])
    found = told(x, after, y, groups, n_classes=n_classes)
    machines = {
        stage: LogisticRegression(C=found["C"][stage], tol=1e-8, max_iter=9_999).fit(scale(side[TRAIN]), y[TRAIN])
        for stage, side in (("before", x), ("after", after))
    }
    for stage, side in (("before", x), ("after", after)):
        predicted = machines[stage].predict(scale(side[TEST]))
        assert found["accuracy"][stage] == np.mean(predicted == y[TEST])
        of_classes = [np.mean(predicted[y[TEST] == c] == c) for c in range(n_classes)]
        assert found["balanced_accuracy"][stage] == pytest.approx(np.mean(of_classes))
        assert found["accuracy_ci95"][stage] == list(wilson(int(np.sum(predicted == y[TEST])), 300))
        rates = {(row["class"], row["group"]): row for row in found["tpr"] if row["stage"] == stage}
        gaps = []
        for c in range(n_classes):
            chosen = [(y[TEST] == c) & (groups[TEST] == g) for g in range(2)]
            tprs = [np.mean(predicted[at] == c) for at in chosen]
            gaps.append(abs(tprs[0] - tprs[1]))
            for g in range(2):
                assert rates[f"c{c}", f"g{g}"]["tpr"] == pytest.approx(tprs[g])
                assert rates[f"c{c}", f"g{g}"]["n"] == chosen[g].sum()
        assert found["tpr_gap_rms"][stage] == pytest.approx(np.sqrt(np.mean(np.square(gaps))))
        false = {(row["class"], row["group"]): row for row in found["fpr"] if row["stage"] == stage}
        ratios = []
        for c in range(n_classes):
            others = [(y[TEST] != c) & (groups[TEST] == g) for g in range(2)]
            fprs = [np.mean(predicted[at] == c) for at in others]
            ratios += [min(fprs) / max(fprs)] if max(fprs) else []
            for g in range(2):
                assert false[f"c{c}", f"g{g}"]["fpr"] == pytest.approx(fprs[g])
                assert false[f"c{c}", f"g{g}"]["n"] == others[g].sum()
        assert found["fpr_ratio"][stage] == pytest.approx(np.mean(ratios))
        if n_classes == 2:
            assert found["tpr_gap"][stage] == pytest.approx(np.mean(gaps))
    stale = machines["before"].predict(scale(after[TEST]))
    assert found["accuracy"]["not_retrained"] == np.mean(stale == y[TEST])
    both = [machines[stage].predict(scale(side[TEST])) == y[TEST] for stage, side in (("before", x), ("after", after))]
    assert found["both_right"] == np.mean(both[0] & both[1])
    assert (found["tpr_gap"] is None) == (n_classes > 2)
    assert found["majority"] == np.bincount(y[TEST]).max() / 300
    assert found["converged"]


@pytest.mark.slow
def test_intervals_contain_the_gap_after_and_are_the_same_again() -> None:
    x, y, groups = planted()
    found = told(x, x, y, groups)
    assert found == told(x, x, y, groups)
    for name in ("tpr_gap", "tpr_gap_rms"):
        low, high = found[name]["ci95"]
        assert low <= found[name]["after"] == found[name]["before"] <= high
    for name in ("tpr_ratio", "fpr_ratio"):
        low, high = found[name]["ci95"]
        assert 0 <= low <= found[name]["after"] == found[name]["before"] <= high <= 1


@pytest.mark.slow
def test_rows_without_a_class_are_left_out_and_those_without_a_group_count_for_accuracy_alone() -> None:
    x, y, groups = planted()
    y[::5], groups[1::5] = -1, -1
    found = told(x, x, y, groups)
    assert (found["n_train"], found["n_test"]) == (240, 240)
    assert sum(row["n"] for row in found["tpr"] if row["stage"] == "after") == 180
    kept = y >= 0
    x[~kept] = 1e6  # must not be looked at
    assert told(x, x, y, groups) == found


def test_a_class_without_positives_in_a_group_is_named_and_is_no_gap_of_zero() -> None:
    x, y, groups = planted()
    x = x[:, :1] + 1.2 * y[:, None]  # some rows of either class are missed
    groups[y == 1] = 0
    found = told(x, x, y, groups)
    assert found["excluded"] == [
        {"class": "c1", "group": "g1", "why": "no test row"},
        {"class": "c0", "group": "g1", "why": "no test row of another class"},
    ]
    rates = {(row["class"], row["group"]): row["tpr"] for row in found["tpr"] if row["stage"] == "after"}
    assert ("c1", "g1") not in rates
    assert found["tpr_gap"]["after"] == pytest.approx(abs(rates["c0", "g0"] - rates["c0", "g1"]))
    assert found["tpr_gap"]["after"] > 0


@pytest.mark.parametrize("group", [0, -1])
def test_with_fewer_than_two_groups_there_is_no_gap(group: int) -> None:
    x, y, groups = planted()
    found = told(x, x, y, np.full_like(groups, group))
    assert found["tpr_gap"] is found["tpr_gap_rms"] is None
    assert found["accuracy"]["after"] is not None
    assert found["excluded"] == []  # a group without rows costs no class its gap


def test_three_groups_have_no_gap_of_two_but_a_root_mean_square() -> None:
    x, y, groups = planted(2, 3)
    found = told(x, x, y, groups, n_groups=3)
    assert found["tpr_gap"] is None
    assert found["tpr_gap_rms"] is not None


def test_rows_of_another_width_are_learnt_anew_only() -> None:
    x, y, groups = planted()
    found = told(x, x[:, :3] * 1e-3, y, groups)
    assert found["accuracy"]["not_retrained"] is None
    assert found["accuracy"]["after"] > 0.5


@pytest.mark.slow
def test_erased_rows_leave_the_majority_and_then_a_gap_is_undefined() -> None:
    x, y, groups = planted()
    found = told(x, np.zeros_like(x), y, groups)
    majority = np.bincount(y[TRAIN]).argmax()
    assert found["accuracy"]["after"] == np.mean(y[TEST] == majority)
    assert (found["tpr_gap"]["after"], found["tpr_gap"]["ci95"]) == (None, None)
    assert found["tpr_gap"]["before"] == told(x, x, y, groups)["tpr_gap"]["before"]
    assert list(found["undefined"]) == ["after"]
    assert "not above the majority" in found["undefined"]["after"]
    for name in ("fpr_gap", "fpr_gap_rms", "tpr_ratio", "fpr_ratio"):
        assert (found[name]["after"], found[name]["ci95"]) == (None, None)
    nowhere = told(np.zeros_like(x), np.zeros_like(x), y, groups)
    assert nowhere["tpr_ratio"] is nowhere["fpr_ratio"] is nowhere["fpr_gap_rms"] is None
    assert nowhere["tpr_gap"] is nowhere["tpr_gap_rms"] is None
    assert list(nowhere["undefined"]) == ["before", "after"]


def test_a_class_that_was_never_trained_on_is_left_out_counted_and_named() -> None:
    x, y, groups = planted(3)
    y[TRAIN] %= 2
    found = told(x, x, y, groups, n_classes=3)
    n = int(np.sum(y[TEST] == 2))
    assert found["untrained"] == {"c2": n}
    assert found["n_test"] == 300 - n
    assert found["excluded"] == [
        {"class": "c2", "group": "g0", "why": "no training row"},
        {"class": "c2", "group": "g1", "why": "no training row"},
    ]
    alone = main_task(
        x, x, y, [Guarded("g", groups, ["g0", "g1"])], TRAIN, TEST[y[TEST] < 2],
        column="job", class_names=["c0", "c1", "c2"], seed=0,
    )  # fmt: skip
    assert to_json(alone) | {"excluded": []} == found | {"untrained": {}, "excluded": []}


def test_one_class_to_learn_or_no_row_to_test_gives_nothing() -> None:
    x, y, groups = planted()
    one, none = y.copy(), y.copy()
    one[TRAIN], none[TEST] = 0, -1
    assert measured(x, x, one, groups) is None
    assert measured(x, x, none, groups) is None


@pytest.mark.slow
def test_each_guarded_attribute_has_figures_of_its_own() -> None:
    x, y, groups = planted()
    other = np.random.default_rng(5).integers(0, 3, 600)
    guarded = [Guarded("g", groups, ["g0", "g1"]), Guarded("h", other, ["a", "b", "c"])]
    found = main_task(x, x, y, guarded, TRAIN, TEST, column="job", class_names=["c0", "c1"], seed=0)
    assert found is not None
    (second,) = to_json(found)["others"]
    of_g, of_h = told(x, x, y, groups), told(x, x, y, other, n_groups=3)
    assert to_json(found) == of_g | {"others": [second]}
    assert second["guarded"] == "h"
    assert second["tpr_gap_rms"] == of_h["tpr_gap_rms"]


def test_where_nothing_is_erased_there_is_no_after() -> None:
    x, y, groups = planted()
    found, erased = told(x, None, y, groups), told(x, x, y, groups)
    assert found["accuracy"] == {"before": erased["accuracy"]["before"], "after": None, "not_retrained": None}
    assert {row["stage"] for row in found["tpr"]} == {"before"}
    assert found["tpr_gap"]["before"] == erased["tpr_gap"]["before"]
    assert found["tpr_gap"]["after"] is None
    assert found["tpr_gap"]["ci95"] == erased["tpr_gap"]["ci95"]


def test_what_is_not_retrained_sees_the_rows_as_another_tool_scaled_them() -> None:
    x, y, groups = planted()
    result = main_task(
        x, 1000 * x, y, [Guarded("g", groups, ["a", "b"])], TRAIN, TEST,
        column="job", class_names=["c0", "c1"], seed=0, is_foreign=True,
    )  # fmt: skip
    assert result is not None
    assert result.accuracy.before == result.accuracy.after == result.accuracy.not_retrained


@pytest.mark.slow
@pytest.mark.parametrize("doubtful", [0, 1], ids=["before", "after"])
def test_a_doubt_about_either_classifier_is_one_about_the_task(monkeypatch: pytest.MonkeyPatch, doubtful: int) -> None:
    x, y, groups = planted()
    trained: list[Logistic] = []

    def watched(*args: Any) -> Logistic:
        trained.append(dataclasses.replace(fit_logistic(*args), converged=len(trained) != doubtful))
        return trained[-1]

    assert told(x, x, y, groups)["converged"]
    monkeypatch.setattr(module, "fit_logistic", watched)
    assert not told(x, x, y, groups)["converged"]
    assert len(trained) == 2


def test_groups_with_few_rows_of_a_class_are_named() -> None:
    x, y, groups = planted()
    few = np.flatnonzero((y[TEST] == 1) & (groups[TEST] == 0))[7:]
    y[TEST[few]] = -1
    assert told(x, x, y, groups)["few_positives"] == [{"class": "c1", "group": "g0", "n": 7}]
