"""Attackers on rows near the labelled ones, for a method may change the labelled rows alone."""

from collections.abc import Sequence
from dataclasses import replace

from salcli.data.labels import GuardedLabels
from salcli.data.splits import FRESH, EvaluationSplit
from salcli.evaluation.attack import attack_again
from salcli.evaluation.attackers.scores import silence_convergence_warnings
from salcli.evaluation.report import ProbeResult
from salcli.evaluation.stages import Stages
from salcli.streaming.engine import map_in_threads
from salcli.streaming.progress import Progress


def attack_bands(
    stages: Stages,
    labels: GuardedLabels,
    split: EvaluationSplit,
    results: Sequence[ProbeResult],
    seed: int,
    progress: Progress,
) -> tuple[ProbeResult, ...]:
    """Measure the fresh attackers on the rows of each band, with the settings that they have on the test rows.

    Rows are read in the first form alone, products of attributes not at all. Where there is no fresh attacker, the
    first adversary takes its place.

    Parameters
    ----------
    stages : the rows of the split
    labels : that are attacked
    split : with the bands
    results : on the test rows
    seed : of the attackers
    progress : shows the stage

    Returns
    -------
    a result for each band with labelled rows and each attacker, in the order of the bands
    """
    adversary = FRESH if FRESH in split.trainers else next(iter(split.trainers), FRESH)
    guarded = {each.name for each in labels.attributes}
    first = [each for each in results if each.adversary == adversary and each.form == results[0].form]
    chosen = [each for each in first if each.attribute in guarded]
    work = [(name, result) for name in split.bands for result in chosen]

    def measured(at: tuple[str, ProbeResult]) -> ProbeResult | None:
        name, result = at
        found = attack_again(stages, labels, split, result, split.bands[name], seed)
        return None if found is None else replace(found, band=name)

    if not work:
        return ()
    found = []
    with silence_convergence_warnings(), progress.stage("attack bands", len(work), "probes") as advance:
        for result in map_in_threads(measured, work):
            found.append(result)
            advance(1)
    return tuple(result for result in found if result is not None)
