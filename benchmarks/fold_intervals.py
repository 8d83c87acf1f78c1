"""How often the intervals of `evaluate --folds` hold the truth, over many small label files that are drawn at random.

    python -m benchmarks.fold_intervals [RUNS]

Two truths are held against each interval of an accuracy: the mean accuracy of the very attackers of that run on rows
that nobody has seen, and the mean over all label files of the same size. Rows are normal; *none*: classes are alike;
*linear*: their means differ, which SAL erases as far as its rows know; *spread*: their spreads differ, which it leaves;
*authors*: five rows of each author go together, and each author has one class.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

import salcli
from salcli.data.folds import fold_splits, reciprocity
from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.splits import FRESH, IN_SAMPLE, POOLED, EvaluationSplit
from salcli.evaluation.answers import pooled
from salcli.evaluation.attack import attack
from salcli.evaluation.probe_result import ProbeResult
from salcli.evaluation.stages import Stages
from salcli.options import EvaluateOptions
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.progress import Silent

D, UNSEEN, PER_AUTHOR = 8, 1_000, 5
ADVERSARIES = (IN_SAMPLE, FRESH, POOLED)
PROBES = ("linear", "quadratic")
KINDS = ("none", "linear", "spread", "authors")


@dataclass(frozen=True)
class Drawn:
    """The figures of one label file: accuracy, its interval, and the accuracy of the same attackers on unseen rows."""

    accuracy: float
    low: float
    high: float
    unseen: float


def rows_of(kind: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, GuardedLabels]:
    """Return n labelled rows, and after them the unseen ones."""
    m = n + UNSEEN
    y = np.arange(m) % 2
    groups = None
    x = rng.normal(size=(m, D))
    if kind == "linear":
        x[:, 0] += y
    if kind == "spread":
        x[:, 1] *= 1 + y
    if kind == "authors":
        author = np.arange(m) // PER_AUTHOR
        y = author % 2
        x += 0.7 * rng.normal(size=(author.max() + 1, D))[author]
        x[:, 1] *= 1 + 0.5 * y
        groups = Attribute("author", author, tuple(f"a{i:06}" for i in range(author.max() + 1)))
    return x, GuardedLabels("drawn", (Attribute("g", y.astype(np.int32), ("a", "b")),), None, groups=groups)


def figures(kind: str, n: int, n_folds: int, seed: int) -> Iterator[tuple[tuple[str, str], Drawn]]:
    """Yield the figures after erasure of one label file, by adversary and attacker."""
    x, labels = rows_of(kind, n, np.random.default_rng(seed))
    y = labels.attributes[0].values
    options = EvaluateOptions(quick=True, folds=n_folds, adversaries=ADVERSARIES)
    found: dict[tuple[str, str], list[ProbeResult]] = defaultdict(list)
    unseen = np.arange(n, n + UNSEEN)
    for turn in fold_splits(labels, np.arange(n), n_folds, 0):
        eraser = salcli.fit(x[turn.fitted], y[turn.fitted]).eraser
        trainers = {name: turn.trainers[name] for name in ADVERSARIES}
        split = EvaluationSplit.of(turn.fitted, trainers, np.r_[turn.test, unseen], has_held_out=True)
        stages = Stages(np.arange(len(x)), x, x, eraser(x))
        for result in attack(stages, labels, split, PROBES, options, Silent(), "after")[0]:
            found[result.adversary, result.probe].append(result)
    for (adversary, probe), results in found.items():
        within = [_part(each, lambda index: index < n) for each in results]
        beyond = [_part(each, lambda index: index >= n).accuracy for each in results]
        answers = pooled(within, labels, effect=reciprocity(n_folds)[adversary])
        yield (adversary, probe), Drawn(answers.accuracy, *answers.ci95, float(np.mean(beyond)))


def _part(result: ProbeResult, is_in: Callable[[np.ndarray], np.ndarray]) -> ProbeResult:
    """Return the result on some of its test rows."""
    answers = result.answers
    assert answers is not None
    chosen = is_in(answers.labels)
    answers = replace(
        answers,
        labels=answers.labels[chosen],
        true=answers.true[chosen],
        predicted=answers.predicted[chosen],
        scores=answers.scores[chosen],
    )
    return replace(result, answers=answers, accuracy=float(np.mean(answers.predicted == answers.true)))


def main(runs: int = 300) -> None:
    """Print a table of coverage."""
    print("| rows | n | folds | attacker | accuracy | half width | own | mean |")
    print("|---|---:|---:|---|---:|---:|---:|---:|")
    for kind, n, n_folds in product(KINDS, (60, 200), (4, 5)):
        found: dict[tuple[str, str], list[Drawn]] = defaultdict(list)
        for seed in range(runs):
            for name, drawn in figures(kind, n, n_folds, seed):
                found[name].append(drawn)
        for (adversary, probe), every in found.items():
            mean = float(np.mean([each.accuracy for each in every]))
            half = float(np.mean([each.high - each.low for each in every])) / 2
            own = np.mean([each.low <= each.unseen <= each.high for each in every])
            of_all = np.mean([each.low <= mean <= each.high for each in every])
            print(
                f"| {kind} | {n} | {n_folds} | {probe}, {adversary} | {mean:.3f} | {half:.3f} "
                f"| {own:.3f} | {of_all:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    with one_blas_thread():
        main(*map(int, sys.argv[1:]))
