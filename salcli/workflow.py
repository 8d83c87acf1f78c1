"""START HERE. The data's route, one function a command: paths in, a record out.

embedding file → Embeddings batches → aligned with labels → CrossMoments → eraser → artifact
               → every batch through the eraser → new embedding file → probes → Report
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from salcli.data.labelled import LabelledRows
from salcli.engine.progress import Progress, Silent
from salcli.errors import AlignmentError, UsageError, warn
from salcli.evaluation.report import Report, accuracy_gate, judged_stage
from salcli.formats import atomic
from salcli.formats.artifact import Artifact, read_artifact, write_artifact
from salcli.formats.bytefile import ByteFile
from salcli.formats.finite import FiniteSource
from salcli.formats.label_table import read_labels
from salcli.formats.registry import create, open_source, output_format
from salcli.options import ApplyOptions, EvaluateOptions, FitOptions
from salcli.passes import erased_dtype, fold_moments, join_labels, stream_through
from salcli.probing import probe_all
from salcli.provenance import describe_fit
from salcli.spectral.sal import fit_sal, require_choice


def fit(embeddings: str, labels: str, output: str, options: FitOptions, progress: Progress | None = None) -> Artifact:
    """Learn an eraser from labelled embeddings and save it.

    Returns
    -------
    the artifact that lies at `output`
    """
    if output == atomic.STDOUT:
        raise UsageError("-o -: an eraser is binary and goes into a file: give its name")
    require_choice(options.k, options.alpha)
    atomic.check_output(output, [embeddings, labels])
    progress = progress or Silent()
    table = read_labels(labels, options.labels)
    with closing(open_source(embeddings, options.read)) as source, _hashing(source, labels) as digests:
        join = join_labels(source, table)
        rule = options.rule(has_splits=table.splits is not None)
        fitted = rule.fitted(table, join.matched(table))
        chosen = table.restricted_to(fitted)
        chosen.require_variety()
        chosen = chosen.standardised(is_centred=options.is_centred)
        moments = fold_moments(source, chosen, LabelledRows.of(join.row_of_label[fitted]), progress)
        result = fit_sal(moments, options.k, alpha=options.alpha, is_centred=options.is_centred)
        hashes = (digests[0].result(), digests[1].result())
        header = describe_fit(options, source, table, fitted, moments, result, rule, hashes)
    artifact = Artifact(result.eraser, result.singular_values, header)
    write_artifact(output, artifact)
    return artifact


@dataclass(frozen=True)
class Applied:
    """What `apply` did."""

    output: str
    format: str
    n: int
    d: int
    dtype: str


def apply(
    eraser: str, embeddings: str, output: str | None, options: ApplyOptions, progress: Progress | None = None
) -> Applied:
    """Send an embedding file through an eraser, slab by slab."""
    target = _target(embeddings, output, options)
    atomic.check_output(target, [eraser, embeddings], may_replace_input=options.in_place)
    artifact = read_artifact(eraser)
    wanted = options.output_dtype
    read = replace(options.read, text_dtype=np.dtype(np.float64)) if wanted == np.float64 else options.read
    with closing(open_source(embeddings, read)) as source:
        _require_width(eraser, artifact, source)
        name = output_format(target, source, source.format if options.in_place else options.output_format)
        dtype = wanted or _kept_dtype(artifact, source, options)
        d = source.d - (artifact.eraser.k if options.reduces else 0)

        def change(x: np.ndarray) -> np.ndarray:
            if options.reduces:
                return artifact.eraser.reduce(x, dtype=dtype)
            return artifact.eraser(x, strength=options.strength, dtype=dtype)

        with create(target, source, d=d, dtype=dtype, format_name=name) as writer:
            n = stream_through(source, writer, change, progress or Silent())
    return Applied(target, name, n, d, str(dtype))


def evaluate(
    embeddings: str, labels: str, eraser: str | None, options: EvaluateOptions, progress: Progress | None = None
) -> Report:
    """Train attackers on the rows before and after erasure, and judge the gates."""
    artifact = None if eraser is None else read_artifact(eraser)
    columns = options.labels if artifact is None else artifact.label_options(options.labels)
    table = read_labels(labels, columns)
    with closing(open_source(embeddings, options.read)) as source, _hashing(source, labels) as digests:
        if artifact is not None:
            _require_width(str(eraser), artifact, source)
        probes, notes = probe_all(source, table, artifact, options, progress or Silent())
        inputs = {
            "embeddings": {"path": embeddings, "sha256": digests[0].result(), "n": source.n, "d": source.d},
            "labels": {"path": labels, "sha256": digests[1].result(), "n": len(table)},
        }
    about = None if artifact is None else {"path": eraser, "sha256": artifact.sha256, **artifact.summary()}
    wanted = tuple((attribute.name, adversary) for attribute in table.attributes for adversary in options.adversaries)
    stage = judged_stage(about)
    gates = tuple(accuracy_gate(g.limit, g.probe, wanted, probes, stage) for g in options.max_accuracy)
    return Report(inputs, about, probes, gates, (*notes, *_told_of_inputs(artifact, inputs)))


def _told_of_inputs(artifact: Artifact | None, inputs: dict[str, dict[str, Any]]) -> list[str]:
    """Note files that are not those of the fit: the test rows may then have other vectors, or other labels."""
    if artifact is None:
        return []
    fitted = artifact.header["inputs"]
    changed = [name for name in ("embeddings", "labels") if fitted[name]["sha256"] != inputs[name]["sha256"]]
    return [f"the {name} are not the file that the eraser was fitted on (another SHA-256)" for name in changed]


def _target(embeddings: str, output: str | None, options: ApplyOptions) -> str:
    if options.in_place:
        if output is not None and not _is_same(output, embeddings):
            raise UsageError("--in-place writes over the input: leave -o out, or leave --in-place out")
        if embeddings == atomic.STDOUT:
            raise UsageError("--in-place needs a file, not stdin")
        return embeddings
    if output is None:
        raise UsageError("missing -o OUT (or --in-place)")
    return output


def _is_same(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _require_width(eraser: str, artifact: Artifact, source: FiniteSource) -> None:
    if source.d != artifact.eraser.d:
        made = artifact.header.get("versions", {})
        by = ", ".join(f"{name} {number}" for name, number in sorted(made.items()))
        raise AlignmentError(
            f"{source.path} has {source.d} dimensions, but {eraser} erases {artifact.eraser.d} (written by {by})"
        )


def _kept_dtype(artifact: Artifact, source: FiniteSource, options: ApplyOptions) -> np.dtype[Any]:
    """Keep the input's dtype, unless its steps are so coarse that rounding would bring the attribute back."""
    if options.strength < 1 or options.reduces:
        return source.dtype
    dtype = erased_dtype(artifact, source)
    if dtype != source.dtype:
        warn(
            f"{source.path}: {source.dtype} is too coarse for values this large: rounding would bring the attribute "
            f"back; writing {dtype} (--dtype {source.dtype} insists)"
        )
    return dtype


@contextmanager
def _hashing(source: FiniteSource, labels: str) -> Iterator[tuple[Future[str], Future[str]]]:
    """Hash both inputs on a thread while they are being worked on."""
    file = ByteFile.open(labels)
    pool = ThreadPoolExecutor(1)
    try:
        yield pool.submit(source.sha256), pool.submit(file.sha256)
    finally:
        pool.shutdown(cancel_futures=True)
        file.close()
