"""An evaluation put together: attackers, what was kept, sweeps and repeats, gates."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from salcli import keeping
from salcli.data.labels import GuardedLabels, as_index
from salcli.engine.progress import Progress
from salcli.errors import warn
from salcli.evaluate_options import EvaluateOptions
from salcli.evaluation.gates import Asked, Gate, accuracy_gate, gain_gate, similarity_gate, tpr_gap_gate
from salcli.evaluation.report import Fields, Report, judged_stage
from salcli.formats.artifact import Artifact
from salcli.formats.finite import FiniteSource
from salcli.passes import join_labels
from salcli.probing import asked_for, attack, chosen_probes, measure_deviation
from salcli.row_plan import RowPlan, capped, plan_rows, require_same_labels
from salcli.staging import Erasure, Stages, stage_rows
from salcli.sweeping import Again, repeat_fits, require_repeatable, sweep

UNKNOWN_FIT = (
    "which rows {} was erased with is not known: in-sample and fresh say only what the attackers were trained on"
)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is evaluated."""

    source: FiniteSource
    labels: GuardedLabels | None
    artifact: Artifact | None
    against: FiniteSource | None
    guarded: GuardedLabels | None
    """The labels of the attributes that the eraser was fitted for, if others are evaluated."""
    eraser: Fields | None
    """What the report says of the eraser, or of the file that was erased elsewhere."""


def assess(
    subject: Subject, inputs: Callable[[], dict[str, Fields]], options: EvaluateOptions, progress: Progress
) -> Report:
    """Measure all that was asked for, and judge the gates.

    Parameters
    ----------
    inputs : what the report says of them, asked last: they are hashed on the way
    """
    source, labels, artifact = subject.source, subject.labels, subject.artifact
    probes = chosen_probes(artifact, options)
    erasure = Erasure(against=subject.against) if artifact is None else Erasure.of(artifact, source, options)
    words = keeping.gather_words(source, options)
    notes: list[str] = []
    # What needs no attackers comes first: a word that is not there is told before they are trained.
    found: dict[str, Any] = {
        "similarity": keeping.similarity(words, erasure, options),
        "neighbors": keeping.neighbors(source, erasure, options, progress),
    }
    asked = Asked()
    if labels is not None:
        join = join_labels(source, labels)
        row_of_label = as_index(join.row_of_label)
        plan = plan_rows(labels, as_index(join.matched(labels)), artifact, options)
        if artifact is not None:
            guarded = subject.guarded or labels
            if guarded is not labels:
                require_same_labels(artifact, guarded, plan.fitted)
            require_repeatable(artifact, erasure, guarded, plan, options)
        stages = stage_rows(source, erasure, row_of_label, plan.needed, progress)
        notes += plan.notes
        if subject.against is not None:
            notes.append(UNKNOWN_FIT.format(subject.against.path))
        results, told = attack(stages, labels, plan, probes, options, progress)
        notes += told
        asked = asked_for(labels, options, probes)
        of_task, told = keeping.task(stages, labels, plan, options)
        notes += told
        found |= {"probes": results, "task": of_task, **_of_labels(stages, labels, plan, options)}
        if artifact is not None:
            again = Again(source, labels, guarded, artifact, erasure, stages, plan, row_of_label, words)
            found["sweep"], told = sweep(again, options, progress)
            notes += told
            found["repeats"], told = repeat_fits(again, options, progress)
            notes += told
    notes = list(dict.fromkeys(notes))
    for note in notes:
        warn(note)
    told_of = inputs()
    report = Report(told_of, subject.eraser, **found, notes=(*notes, *_told_of_inputs(artifact, told_of)))
    return replace(report, gates=tuple(_gates(report, asked, options)))


def _of_labels(stages: Stages, labels: GuardedLabels, plan: RowPlan, options: EvaluateOptions) -> dict[str, Any]:
    return {
        "geometry": keeping.geometry(stages, labels, plan),
        "scatter": keeping.scatter(stages, labels, plan, options),
        "deviation": measure_deviation(stages, capped(labels, plan.test, options.probe_rows, options.seed)),
    }


def _gates(report: Report, asked: Asked, options: EvaluateOptions) -> list[Gate]:
    stage = judged_stage(report.eraser)
    gates = [accuracy_gate(g.limit, g.probe, asked, report.probes, stage) for g in options.max_accuracy]
    gates += [gain_gate(g.limit, g.probe, asked, report.probes, stage) for g in options.max_gain]
    if options.max_tpr_gap is not None:
        gates.append(tpr_gap_gate(options.max_tpr_gap, report.task, stage))
    if options.min_similarity_kept is not None:
        gates.append(similarity_gate(options.min_similarity_kept, report.similarity))
    return gates


def _told_of_inputs(artifact: Artifact | None, inputs: dict[str, Fields]) -> list[str]:
    """Note files that are not those of the fit: the test rows may then have other vectors, or other labels."""
    if artifact is None:
        return []
    fitted = artifact.header["inputs"]
    notes = []
    for name in ("embeddings", "labels"):
        known = fitted[name]["sha256"]
        if known is None:
            notes.append(f"whether the {name} are the file that the eraser was fitted on is not known (--no-sha256)")
        elif name in inputs and known != inputs[name]["sha256"]:
            notes.append(f"the {name} are not the file that the eraser was fitted on (another SHA-256)")
    return notes
