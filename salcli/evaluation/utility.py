"""What an erasure kept: word similarity, the main task, neighbours, geometry, and a picture of the rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels
from salcli.data.source import Source
from salcli.erasers.linear import LinearEraser
from salcli.errors import AlignmentError, UsageError
from salcli.evaluation import neighbors as nearest_rows
from salcli.evaluation.geometry import geometry as measured_geometry
from salcli.evaluation.plan import RowPlan, capped
from salcli.evaluation.report import Fields
from salcli.evaluation.similarity import similarity_change, spellings
from salcli.evaluation.stages import Erasure, Stages, erase_keys, gather_same
from salcli.evaluation.task import Guarded, main_task
from salcli.formats.gold_sets import SimilaritySet, read_similarity
from salcli.options import EvaluateOptions
from salcli.streaming.memory import require_room
from salcli.streaming.passes import gather_keys, gather_rows
from salcli.streaming.progress import Progress

SCATTER_ROWS = 1_000
NOT_MEASURED = "its training rows are of fewer than two classes, or no test row has one"
NOT_TRUSTED = "its figures are not to be trusted"
PLACES = 4  # digits of the picture's coordinates


@dataclass(frozen=True, eq=False)
class Words:
    """Gold sets, and the vectors of their words as they are in the file: read once, however often they are erased."""

    sets: tuple[SimilaritySet, ...]
    before: Mapping[str, NDArray[Any]]
    rows: Mapping[str, int]
    """Which row of the file each is."""


def gather_words(source: Source, options: EvaluateOptions) -> Words:
    """Read the gold sets that are asked for, and the vectors of their words."""
    sets = tuple(read_similarity(name) for name in options.similarity)
    if not sets:
        return Words((), {}, {})
    if not source.has_keys:
        raise AlignmentError(f"--similarity looks words up, but {source.path} has no keys: give --keys FILE")
    wanted: set[str] = set().union(*(spellings(gold.pairs) for gold in sets))
    return Words(sets, *gather_keys(source, wanted))


def similarity(words: Words, erasure: Erasure, options: EvaluateOptions) -> tuple[Fields, ...]:
    """Correlate cosines with each gold set before and after, beside a random control: as many directions, as far."""
    before, after = words.before, erase_keys(words.before, words.rows, erasure)
    eraser = erasure.eraser
    control = (eraser.k, eraser.mean) if isinstance(eraser, LinearEraser) else (None, None)
    return tuple(
        similarity_change(
            gold.name,
            gold.pairs,
            gold.scores,
            before,
            after,
            k=control[0],
            mean=control[1],
            strength=erasure.strength,
            seed=options.seed,
        ).to_dict()
        for gold in words.sets
    )


def neighbors(source: Source, erasure: Erasure, options: EvaluateOptions, progress: Progress) -> Fields | None:
    """Show the neighbours of words before and after, and how many rows keep theirs."""
    if not options.neighbors:
        return None
    if not source.has_keys:
        raise AlignmentError(f"--neighbors looks words up, but {source.path} has no keys: give --keys FILE")
    width = source.d if erasure.eraser is None else erasure.eraser.width
    n_bytes = source.n * (source.d * source.dtype.itemsize + 8 * width)
    require_room(n_bytes, f"neighbours among {source.n:,} rows", "evaluate a smaller file")
    rows = source.kept_rows()
    before, held = gather_rows(source, rows, progress)
    after = (
        erasure.erased(before)
        if erasure.against is None
        else gather_same(source, erasure.against, rows, held, progress)
    )
    keys = list(source.kept_keys())
    assert after is not None
    return nearest_rows.neighbors(keys, before, after, options.neighbors, seed=options.seed).to_dict()


def task(
    stages: Stages, labels: GuardedLabels, plan: RowPlan, options: EvaluateOptions
) -> tuple[Fields | None, tuple[str, ...]]:
    """Train and test the classifier of the main task, on the fitted rows and on the test rows.

    Returns
    -------
    what was found, and notes

    Raises
    ------
    UsageError : no guarded attribute has classes
    """
    column, guarded = labels.task, _with_classes(labels)
    if column is None:
        return None, ()
    if not guarded:
        raise UsageError("--task compares groups: a guarded attribute with classes is needed")
    found = main_task(
        stages.before,
        stages.after,
        column.codes(stages.labels),
        [Guarded(a.name, a.codes(stages.labels), a.classes or ()) for a in guarded],
        stages.at(plan.trainers["in-sample"]),
        stages.at(plan.test),
        column=column.name,
        class_names=column.classes or (),
        seed=options.seed,
        is_foreign=stages.is_foreign,
    )
    if found is None:
        return None, (f"the main task {column.name} was not measured: {NOT_MEASURED}",)
    notes = () if found.converged else (f"the main task {column.name} did not converge: {NOT_TRUSTED}",)
    return found.to_dict(), notes


def geometry(stages: Stages, labels: GuardedLabels, plan: RowPlan) -> Fields | None:
    """Compare cosines within and between classes on the test rows, before and after."""
    if stages.after is None:
        return None
    at = stages.at(plan.test)
    index = stages.labels[at]
    before, after, column = stages.before[at], stages.after[at], labels.task
    clusters: list[Fields] = []
    removed: float | None = None
    for attribute in labels.attributes:
        if attribute.classes is not None:
            found = measured_geometry(
                before,
                after,
                attribute.codes(index),
                attribute.name,
                None if column is None else column.codes(index),
                () if column is None else column.classes or (),
                is_foreign=stages.is_foreign,
            ).to_dict()
            clusters += found["clusters"]
            removed = found["variance_removed"]
    return {"clusters": clusters, "variance_removed": removed} if clusters else None


def scatter(stages: Stages, labels: GuardedLabels, plan: RowPlan, options: EvaluateOptions) -> Fields | None:
    """Lay some test rows out on their first two principal axes, before and after."""
    attributes = _with_classes(labels)
    if not attributes or stages.after is None:
        return None
    at = stages.at(capped(labels, plan.test, SCATTER_ROWS, options.seed))
    first, *others = (
        {"attribute": a.name, "classes": list(a.classes or ()), "codes": a.codes(stages.labels[at]).tolist()}
        for a in attributes
    )
    before, after = _on_principal_axes(stages.before[at]), _on_principal_axes(stages.after[at])
    return {**first, "others": others, "is_foreign": stages.is_foreign, "before": before, "after": after}


def _on_principal_axes(x: NDArray[Any]) -> list[list[float]]:
    centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    scores = np.zeros((len(x), 2))
    scores[:, : min(2, len(s))] = (u * s)[:, :2]
    signs = np.sign(scores[np.argmax(np.abs(scores), axis=0), [0, 1]])
    largest = float(np.abs(scores).max(initial=0.0)) or 1.0
    digits = PLACES - 1 - int(np.floor(np.log10(largest)))
    rounded: list[list[float]] = (np.round(scores * signs, digits) + 0.0).tolist()
    return rounded


def _with_classes(labels: GuardedLabels) -> list[Attribute]:
    return [attribute for attribute in labels.attributes if attribute.classes is not None]
