"""Pooled answers: figures of all test rows together, and intervals of rows that go together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score, roc_auc_score

from benchmarks import fold_intervals
from salcli.data.labels import Attribute, GuardedLabels
from salcli.evaluation.answers import pooled, pooled_numbers
from salcli.evaluation.attackers.scores import Answers, areas, errors, wilson
from salcli.evaluation.clusters import cluster_effect
from salcli.evaluation.explained import Guesses, NumericResult, explained
from salcli.evaluation.probe_result import ProbeResult

from .results import result

N = 240


def labels(groups: Sequence[int] | None = None, n_classes: int = 2) -> GuardedLabels:
    codes, names = np.arange(N) % n_classes, tuple("abc"[:n_classes])
    column = None if groups is None else Attribute("author", np.array(groups), tuple(f"a{i:03}" for i in range(N)))
    return GuardedLabels("l.csv", (Attribute("g", codes.astype(np.int32), names),), None, groups=column)


def turn(of: GuardedLabels, index: np.ndarray, rng: np.random.Generator, scale: float = 1.0) -> ProbeResult:
    """A result on some rows: noisy scores, in units of the turn's own."""
    true = of.attributes[0].codes(index)
    n_classes = len(of.attributes[0].classes or ())
    scores = rng.normal(size=(len(index), n_classes)) + 1.2 * np.eye(n_classes)[true]
    predicted = scores[:, np.unique(true)].argmax(axis=1)  # classes come first to last
    decision = scale * (scores[:, 1] - scores[:, 0]) + scale if n_classes == 2 else scale * scores
    answers = Answers(index, true, predicted, decision, np.arange(n_classes), tuple("abc"[:n_classes]))
    error, balanced = errors(predicted, true)
    return ProbeResult(
        "g", "linear", "fresh", "after", float(np.mean(predicted == true)),
        wilson(int(np.sum(predicted == true)), len(true)), float(balanced_accuracy_score(true, predicted)),
        float(np.bincount(true).max() / len(true)), 50, len(true), converged=True, capped=False, n_classes=n_classes,
        n_test_classes=n_classes, accuracy_error=error, balanced_error=balanced,
        areas=areas(decision, true, np.arange(n_classes)), answers=answers,
    )  # fmt: skip


def _answers(turns: Sequence[ProbeResult]) -> list[Answers]:
    return [each.answers for each in turns if each.answers is not None]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_turn_alone_is_what_it_was(n_classes: int) -> None:
    of = labels(n_classes=n_classes)
    alone = turn(of, np.arange(N), np.random.default_rng(0))
    again = pooled([alone], of)
    assert replace(again, recalls={}) == alone
    assert sum(n for _, n in again.recalls.values()) == N


@pytest.mark.parametrize("n_classes", [2, 3])
def test_figures_are_of_all_rows_and_the_auc_of_pairs_within_a_turn(n_classes: int) -> None:
    of, rng = labels(n_classes=n_classes), np.random.default_rng(1)
    parts = np.array_split(rng.permutation(N), 5)
    turns = [turn(of, part, rng, 10.0**i) for i, part in enumerate(parts)]  # scores of turns are not comparable
    found = pooled(turns, of)
    every = _answers(turns)
    true, predicted = (np.concatenate([getattr(each, name) for each in every]) for name in ("true", "predicted"))
    assert found.accuracy == accuracy_score(true, predicted)
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(true, predicted))
    assert found.n_test == N
    assert found.by_turn == tuple(each.accuracy for each in turns)
    assert found.ci95 == wilson(int(np.sum(true == predicted)), N)
    assert found.n_effective is None
    assert found.answers is None
    wins = pairs = 0.0
    mean = []
    for value in (1,) if n_classes == 2 else range(n_classes):
        wins = pairs = 0.0
        for each in every:
            scores = each.scores if n_classes == 2 else each.scores[:, value]
            is_of = each.true == value
            n = float(is_of.sum() * (~is_of).sum())
            wins, pairs = wins + n * roc_auc_score(is_of, scores), pairs + n
        mean.append(wins / pairs)
    assert found.auc == pytest.approx(np.mean(mean))


def test_a_class_that_one_turn_lacks_has_the_pairs_of_the_others() -> None:
    of, rng = labels(n_classes=3), np.random.default_rng(2)
    parts = np.array_split(rng.permutation(N), 3)
    parts[0] = parts[0][parts[0] % 3 < 2]
    turns = [turn(of, part, rng) for part in parts]
    first = turns[0].answers
    assert first is not None
    two = Answers(
        first.labels, first.true, first.predicted, first.scores[:, 1] - first.scores[:, 0], np.arange(2), first.names
    )
    object.__setattr__(turns[0], "answers", two)
    found = pooled(turns, of)
    every = [
        (two.true, np.stack([-two.scores, two.scores], axis=1)),
        *((a.true, a.scores) for a in _answers(turns[1:])),
    ]
    mean = []
    for value in range(3):
        there = [(true == value, scores[:, value]) for true, scores in every if (true == value).any()]
        pairs = [float(is_of.sum() * (~is_of).sum()) for is_of, _ in there]
        mean.append(np.average([roc_auc_score(*each) for each in there], weights=pairs))
    assert found.n_classes == 3
    assert found.auc == pytest.approx(np.mean(mean))


def test_rows_that_are_lost_or_left_out_are_counted() -> None:
    of = labels()
    found = pooled([turn(of, np.arange(100), np.random.default_rng(0))], of, n_lost=40)
    assert found.n_left_out == 40
    assert found.usable == pytest.approx(100 / 140)


def test_numbers_are_pooled_too() -> None:
    rng = np.random.default_rng(5)
    true, groups = rng.normal(size=N), np.repeat(np.arange(N // 8), 8)
    predicted = 0.5 * true + 0.3 * rng.normal(size=N)
    parts = np.array_split(rng.permutation(N), 4)
    turns = [
        NumericResult(
            "age",
            "ridge",
            "fresh",
            "after",
            *explained(predicted[at], true[at]),
            50,
            len(at),
            True,
            False,
            {"a": 1.0},
            guesses=Guesses(at, predicted[at], true[at]),
        )
        for at in parts
    ]
    found = pooled_numbers(turns, labels())
    assert found.r2 == pytest.approx(r2_score(true, predicted))
    assert found.n_test == N
    assert found.log_error == pytest.approx(explained(predicted, true)[1])
    assert pooled_numbers(turns, labels(), effect=4.0).log_error == pytest.approx(2 * found.log_error)
    assert pooled_numbers(turns, labels(groups.tolist())).log_error >= found.log_error


def test_an_effect_widens_every_interval() -> None:
    of = labels()
    turns = [turn(of, part, np.random.default_rng(3)) for part in np.array_split(np.arange(N), 4)]
    one, two = pooled(turns, of), pooled(turns, of, effect=2.0)
    assert two.n_effective == N / 2
    assert two.ci95 == wilson(one.accuracy * N / 2, N / 2)
    assert two.balanced_error == pytest.approx(one.balanced_error * 2**0.5)
    assert one.areas is not None
    assert two.areas is not None
    assert two.areas.error == pytest.approx(one.areas.error * 2**0.5)
    assert two.accuracy == one.accuracy


def test_copies_of_rows_in_one_group_add_nothing() -> None:
    """Each row eight times: the interval is about that of the rows once, if the groups are many."""
    rng = np.random.default_rng(4)
    once = np.repeat(rng.random(N // 8) < 0.7, 8).astype(float)
    effect = cluster_effect(once - once.mean(), np.repeat(np.arange(N // 8), 8))
    assert 8 <= effect < 8 * 1.2
    assert cluster_effect(np.zeros(N), np.repeat(np.arange(N // 8), 8)) == pytest.approx(8, rel=0.2)
    assert cluster_effect(once - once.mean(), None) == 1
    assert cluster_effect(once - once.mean(), np.zeros(N, int)) == N


@pytest.mark.slow
def test_intervals_of_grouped_rows_hold_the_truth_as_often_as_stated() -> None:
    """30 authors of unequal size, each with an accuracy of its own around .6."""
    rng, hits, naive = np.random.default_rng(0), 0, 0
    for _ in range(600):
        sizes = rng.integers(2, 20, 30)
        groups = np.repeat(np.arange(30), sizes)
        right = rng.random(len(groups)) < np.clip(rng.normal(0.6, 0.2, 30), 0, 1)[groups]
        n, share = len(groups), float(right.mean())
        n_effective = n / cluster_effect(right - share, groups)
        low, high = wilson(share * n_effective, n_effective)
        hits += low <= 0.6 <= high
        low, high = wilson(share * n, n)
        naive += low <= 0.6 <= high
    assert hits / 600 >= 0.93
    assert naive / 600 < 0.85


@pytest.mark.slow
def test_the_simulation_of_folds_runs() -> None:
    for kind in fold_intervals.KINDS:
        for (adversary, probe), drawn in fold_intervals.figures(kind, 60, 5, 0):
            assert (adversary in fold_intervals.ADVERSARIES, probe.split("-")[0] in fold_intervals.PROBES) == (
                True,
                True,
            )
            assert 0 <= drawn.low <= drawn.accuracy <= drawn.high <= 1
            assert 0.2 < drawn.unseen < 1


@given(st.lists(st.integers(0, 5), min_size=12, max_size=60), st.integers(0, 9))
def test_an_effect_is_between_one_and_all_rows(groups: list[int], seed: int) -> None:
    influence = np.random.default_rng(seed).normal(size=len(groups))
    codes = np.unique(groups, return_inverse=True)[1]
    assert 1 <= cluster_effect(influence - influence.mean(), codes) <= len(groups)


def test_a_result_of_the_tests_has_no_answers() -> None:
    assert result(0.5).answers is None
