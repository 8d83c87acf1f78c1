"""Answers of attackers on test rows, pooled over turns, with intervals for rows that go together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from salcli.data.groups import RowGroups
from salcli.data.labels import GuardedLabels
from salcli.evaluation.attackers.base import Array
from salcli.evaluation.attackers.scores import (
    balanced_accuracy,
    errors,
    majority_rate,
    pooled_areas,
    rated_classes,
    recalls,
    wilson,
)
from salcli.evaluation.clusters import cluster_effect
from salcli.evaluation.explained import NumericResult, explained, influence_on_r2
from salcli.evaluation.probe_result import ProbeResult


def pooled(
    results: Sequence[ProbeResult], labels: GuardedLabels, *, effect: float = 1.0, n_lost: int = 0
) -> ProbeResult:
    """Return one result for the test rows of several, of one attacker in several turns.

    Accuracy, balanced accuracy and majority are of all rows. Scores of attackers that were trained apart cannot be
    compared, so the AUC is the share of right pairs among those pairs of rows that one attacker has seen.

    Parameters
    ----------
    results : of the same attribute, attacker, adversary and stage, at least one, with their answers
    labels : of the CSV; where they have groups, rows of one group count as far as they differ
    effect : how much larger the variance is than that of independent rows (see `data.folds.reciprocity`)
    n_lost : test rows of turns in which the attacker could not be trained
    """
    first, every = results[0], [result.answers for result in results if result.answers is not None]
    index = np.concatenate([each.labels for each in every])
    true, predicted = (np.concatenate([getattr(each, name) for each in every]) for name in ("true", "predicted"))
    groups = None if labels.groups is None else RowGroups.of(labels, index).codes
    n, is_right = len(true), predicted == true
    n_right = int(is_right.sum())

    def effect_on(influence: Array) -> float:
        return effect * cluster_effect(influence, groups)

    n_effective = n / effect_on(is_right - n_right / n)
    error, balanced_error = errors(predicted, true)
    shares, counts = recalls(predicted, true)
    codes = np.unique(true, return_inverse=True)[1]
    residual = is_right - shares[codes]
    trained = np.unique(np.concatenate([each.classes for each in every]))
    unrated = [] if len(trained) == 2 else np.unique(true[~np.isin(true, rated_classes(true))]).tolist()
    return replace(
        first,
        accuracy=n_right / n,
        ci95=wilson(n_effective * n_right / n, n_effective),
        balanced_accuracy=balanced_accuracy(predicted, true),
        majority=majority_rate(true),
        n_train=round(float(np.mean([result.n_train for result in results]))),
        n_test=n,
        converged=all(result.converged for result in results),
        capped=any(result.capped for result in results),
        n_classes=len(trained),
        n_left_out=sum(result.n_left_out for result in results) + n_lost,
        untrained_classes=tuple(dict.fromkeys(name for result in results for name in result.untrained_classes)),
        rare_classes=tuple(dict.fromkeys(name for result in results for name in result.rare_classes)),
        hyperparameters=first.hyperparameters if len(results) == 1 else {},
        n_test_classes=len(counts),
        accuracy_error=error * float(np.sqrt(effect_on(residual))),
        balanced_error=balanced_error * float(np.sqrt(effect_on(residual / counts[codes]))),
        areas=pooled_areas([(each.scores, each.true, each.classes) for each in every], effect_on),
        unrated_classes=tuple(every[0].names[code] for code in unrated),
        answers=None,
        recalls={
            every[0].names[code]: (share, int(count))
            for code, share, count in zip(np.unique(true).tolist(), shares.tolist(), counts.tolist(), strict=True)
        },
        n_effective=n_effective if n_effective < n else None,
        by_turn=tuple(result.accuracy for result in results) if len(results) > 1 else (),
    )


def pooled_numbers(results: Sequence[NumericResult], labels: GuardedLabels, *, effect: float = 1.0) -> NumericResult:
    """Return one result for the test rows of several, of one attacker of numbers in several turns.

    Parameters
    ----------
    results : of the same attribute, attacker, adversary and stage, at least one, with their guesses
    labels, effect : see `pooled`
    """
    every = [result.guesses for result in results if result.guesses is not None]
    index, predicted, true = (
        np.concatenate([getattr(each, name) for each in every]) for name in ("labels", "predicted", "true")
    )
    groups = None if labels.groups is None else RowGroups.of(labels, index).codes
    r2, error, freedom = explained(predicted, true)
    wider = effect * cluster_effect(influence_on_r2(predicted, true), groups)
    return replace(
        results[0],
        r2=r2,
        log_error=error * float(np.sqrt(wider)),
        freedom=freedom,
        n_train=round(float(np.mean([result.n_train for result in results]))),
        n_test=len(true),
        converged=all(result.converged for result in results),
        capped=any(result.capped for result in results),
        hyperparameters=results[0].hyperparameters if len(results) == 1 else {},
        guesses=None,
    )
