"""Attackers on rows near the labelled ones, for a method may change the labelled rows alone."""

from collections.abc import Sequence
from dataclasses import replace

from salcli.data.labels import GuardedLabels
from salcli.data.splits import FRESH, EvaluationSplit
from salcli.evaluation.attack import attack_again
from salcli.evaluation.attackers.scores import silence_convergence_warnings
from salcli.evaluation.probe_result import ProbeResult
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
) -> tuple[tuple[ProbeResult, ...], tuple[str, ...]]:
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
    a result for each band with labelled rows and each attacker, in the order of the bands; and why no gate can pass,
    where no row of a band has a class that the attacker was trained on
    """
    adversary = FRESH if FRESH in split.trainers else next(iter(split.trainers), FRESH)
    guarded = {each.name: each for each in labels.attributes}
    first = [each for each in results if each.adversary == adversary and each.form == results[0].form]
    chosen = [each for each in first if each.attribute in guarded]
    work = [
        (name, result)
        for name, index in split.bands.items()
        for result in chosen
        if guarded[result.attribute].is_labelled[index].any()
    ]

    def measured(at: tuple[str, ProbeResult]) -> ProbeResult | None:
        name, result = at
        found = attack_again(stages, labels, split, result, split.bands[name], seed)
        return None if found is None else replace(found, band=name)

    if not work:
        return (), ()
    found = []
    with silence_convergence_warnings(), progress.stage("attack bands", len(work), "probes") as advance:
        for result in map_in_threads(measured, work):
            found.append(result)
            advance(1)
    pairs = zip(work, found, strict=True)
    missing = dict.fromkeys(
        f"{name}: no row has a class of {of.attribute} that the {of.adversary} attacker was trained on"
        for (name, of), result in pairs
        if result is None
    )
    return tuple(result for result in found if result is not None), tuple(missing)


def notes_on_bands(results: Sequence[ProbeResult]) -> tuple[str, ...]:
    """Return a note on each band whose rows are all of one class of an attribute; `results` are those on bands."""
    found = {(of.band, of.attribute): of.n_test for of in results if of.majority == 1}
    return tuple(
        f"{attribute}: the {n:,} rows of {band} are all of one class: no attacker does better than a blind guess"
        for (band, attribute), n in found.items()
    )


def numbers_on_bands(labels: GuardedLabels, split: EvaluationSplit) -> tuple[str, ...]:
    """Return why no gate on numeric attributes can pass: rows of bands that have a number, which is not attacked there.

    Parameters
    ----------
    labels : with the guarded attributes
    split : with the bands
    """
    return tuple(
        f"{name}: rows have a number in {attribute.name}, and numbers are not attacked on bands: leave the cells empty"
        for attribute in labels.attributes
        for name, index in split.bands.items()
        if attribute.classes is None and attribute.is_labelled[index].any()
    )
