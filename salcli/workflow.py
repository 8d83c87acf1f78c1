"""START HERE. The data's route, one function a command: paths in, a record out.

embedding file → Embeddings batches → aligned with labels → CrossMoments → eraser → artifact
               → every batch through the eraser → new embedding file → probes → Report
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from salcli.data.embeddings import Rows
from salcli.data.labelled import LabelledRows
from salcli.data.labels import GuardedLabels, as_index
from salcli.engine.local import one_blas_thread
from salcli.engine.memory import keep_freed_memory
from salcli.engine.progress import Progress, Silent
from salcli.erasing import erased_dtype, stream_through
from salcli.errors import AlignmentError, RangeError, RankError, RowRangeError, UsageError, warn
from salcli.formats import atomic
from salcli.formats.artifact import Artifact, read_artifact, write_artifact
from salcli.formats.finite import FiniteSource
from salcli.formats.kernel_matrix import create_kernel_matrix, require_place
from salcli.formats.label_table import read_labels
from salcli.formats.registry import create, open_source, output_format
from salcli.hashing import hashing
from salcli.kernel_route import explicit, fit_by_landmarks, fit_exactly, kernel_of, write_kernel_matrix
from salcli.options import ApplyOptions, FitOptions, KernelFitOptions
from salcli.passes import fold_moments, join_labels
from salcli.provenance import describe_fit
from salcli.spectral.eraser import LinearEraser
from salcli.spectral.kernel_eraser import AnyEraser, FeatureEraser, KernelEraser
from salcli.spectral.sal import SpectralFit, fit_sal, require_choice

if TYPE_CHECKING:
    from salcli.evaluate_options import EvaluateOptions
    from salcli.evaluation.report import Report

APPLIED_SLAB_BYTES = 16 << 20  # many small pieces, so that no thread waits long for the last one
Solve = Callable[[FiniteSource, GuardedLabels, Rows | range], SpectralFit[AnyEraser]]


def fit(embeddings: str, labels: str, output: str, options: FitOptions, progress: Progress | None = None) -> Artifact:
    """Learn an eraser from labelled embeddings and save it.

    Returns
    -------
    the artifact that lies at `output`
    """

    def solve(source: FiniteSource, chosen: GuardedLabels, rows: Rows | range) -> SpectralFit[AnyEraser]:
        moments = fold_moments(
            source, chosen, LabelledRows.of(rows), progress or Silent(), is_centred=options.is_centred
        )
        return fit_sal(moments, options.k, alpha=options.alpha, is_centred=options.is_centred)

    return _fit(embeddings, labels, output, options, solve)


def kfit(
    embeddings: str, labels: str, output: str, options: KernelFitOptions, progress: Progress | None = None
) -> Artifact:
    """Learn an eraser in a kernel's feature space and save it (see `fit`)."""
    kernel_of(options)

    def solve(source: FiniteSource, chosen: GuardedLabels, rows: Rows | range) -> SpectralFit[AnyEraser]:
        by = fit_exactly if options.landmarks is None else fit_by_landmarks
        return by(source, chosen, as_index(rows), options, progress or Silent())

    widened = replace(options.read, widened_bytes=8 * (options.landmarks or 0))
    return _fit(embeddings, labels, output, replace(options, read=widened), solve)


def _fit(embeddings: str, labels: str, output: str, options: FitOptions, solve: Solve) -> Artifact:
    if output == atomic.STDOUT:
        raise UsageError("-o -: an eraser is binary and goes into a file: give its name")
    require_choice(options.k, options.alpha)
    atomic.check_output(output, [embeddings, labels, options.read.keys_file])
    keep_freed_memory()
    table = read_labels(labels, options.labels)
    with (
        closing(open_source(embeddings, options.read)) as source,
        hashing(source if options.hashes_embeddings else None, labels) as digests,
        one_blas_thread(),
    ):
        join = join_labels(source, table)
        rule = options.rule(has_splits=table.splits is not None)
        fitted = rule.fitted(table, join.matched(table))
        chosen = table.restricted_to(fitted)
        chosen.require_variety()
        chosen.warn_of_single_rows()
        chosen = chosen.standardised(is_centred=options.is_centred)
        with _named(embeddings):
            result = solve(source, chosen, join.rows_of(fitted))
        hashes = (digests[0].result(), digests[1].result())
        header = describe_fit(options, source, table, fitted, result, rule, hashes)
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
    replaced = embeddings if options.in_place else None
    atomic.check_output(target, [eraser, options.read.keys_file], may_replace=replaced)
    atomic.check_output(target, [embeddings], may_replace=replaced, remedy="name another output, or say --in-place")
    artifact = read_artifact(eraser)
    _require_suited(eraser, artifact, options)
    if options.writes_kernel:
        return _write_kernel(eraser, artifact, embeddings, target, options, progress or Silent())
    held = artifact.eraser
    change = explicit(held) if isinstance(held, KernelEraser) else held
    wanted = options.output_dtype
    widened = 8 * change.width if isinstance(change, FeatureEraser) else 0
    read = replace(options.read, widened_bytes=widened, bare_slab_bytes=APPLIED_SLAB_BYTES)
    read = replace(read, text_dtype=np.dtype(np.float64)) if wanted == np.float64 else read
    with closing(open_source(embeddings, read)) as source, one_blas_thread():
        _require_width(eraser, artifact, source)
        name = output_format(target, source, source.format if options.in_place else options.output_format)
        dtype = wanted or _kept_dtype(change, artifact, source, options)
        d = change.width - (change.k if options.reduces else 0)

        def changed(x: np.ndarray, out: np.ndarray | None) -> np.ndarray:
            if options.reduces:
                return change.reduce(x, dtype=dtype, out=out)
            return change(x, strength=options.strength, dtype=dtype, out=out)

        with create(target, source, d=d, dtype=dtype, format_name=name) as writer:
            at_once = change.rows_at_once if isinstance(change, LinearEraser) else None
            n = stream_through(
                source, writer, changed, progress or Silent(), at_once=at_once, is_replaced=options.in_place
            )
    return Applied(target, name, n, d, str(dtype))


def _require_suited(eraser: str, artifact: Artifact, options: ApplyOptions) -> None:
    is_kernel = not isinstance(artifact.eraser, LinearEraser)
    if options.writes_kernel and not is_kernel:
        raise UsageError(f"--kernel-matrix: {eraser} is a linear eraser (salcli kfit makes the others)")
    if options.in_place and is_kernel:
        raise UsageError(f"--in-place: {eraser} turns rows into vectors of another width: give -o OUT")


def _write_kernel(
    eraser: str, artifact: Artifact, embeddings: str, target: str, options: ApplyOptions, progress: Progress
) -> Applied:
    held = artifact.eraser
    change = held.by_inner_products() if isinstance(held, FeatureEraser) else held
    assert isinstance(change, KernelEraser)
    with closing(open_source(embeddings, options.read)) as source:
        _require_width(eraser, artifact, source)
        dtype = options.output_dtype or np.dtype(np.float64 if source.dtype.itemsize > 4 else np.float32)
        require_place(target, source.n, dtype)
        about = {"method": artifact.header["method"], "strength": options.strength, "eraser_sha256": artifact.sha256}
        with create_kernel_matrix(target, source, dtype, {**about, **change.kernel.to_dict()}) as writer:
            write_kernel_matrix(source, change, writer, options.strength, progress)
    return Applied(target, "h5", source.n, source.n, str(dtype))


def evaluate(
    embeddings: str,
    labels: str | None,
    eraser: str | None,
    options: "EvaluateOptions",
    progress: Progress | None = None,
) -> "Report":
    """Train attackers on the rows before and after erasure, score what was kept, judge the gates, write reports."""
    from salcli.assessment import Subject, assess  # no other command needs what evaluation needs
    from salcli.reporting import write_reports
    from salcli.staging import opened_against

    options.require_inputs(has_labels=labels is not None, has_eraser=eraser is not None)
    for path in options.reports:
        read = (embeddings, labels, eraser, options.against, options.read.keys_file, *options.similarity)
        atomic.check_output(path, read)
    artifact = None if eraser is None else read_artifact(eraser)
    columns = replace(options.labels, task=options.task)
    columns = columns if artifact is None else artifact.label_options(columns, str(eraser))
    keep_freed_memory()
    table = None if labels is None else read_labels(labels, columns)
    guarded = None
    if artifact is not None and table is not None and options.fits_again and not artifact.guards(table):
        as_fitted = replace(options.labels, attributes=(), numeric=(), task=None)
        guarded = read_labels(table.path, artifact.label_options(as_fitted, str(eraser)))
    with (
        closing(open_source(embeddings, options.read)) as source,
        hashing(source, *([] if labels is None else [labels])) as digests,
        opened_against(options.against, source, options.read) as against,
        one_blas_thread(),
    ):
        if artifact is not None:
            _require_width(str(eraser), artifact, source)

        def inputs() -> dict[str, dict[str, Any]]:
            found = {"embeddings": {"path": embeddings, "sha256": digests[0].result(), "n": source.n, "d": source.d}}
            if table is not None:
                found["labels"] = {"path": str(labels), "sha256": digests[1].result(), "n": len(table)}
            return found

        about = None if artifact is None else {"path": eraser, "sha256": artifact.sha256, **artifact.summary()}
        if against is not None:
            about = {
                "path": options.against,
                "sha256": against.sha256(),
                "method": "against",
                "n": against.n,
                "d": against.d,
            }
        with _named(embeddings):
            subject = Subject(source, table, artifact, against, guarded, about)
            report = assess(subject, inputs, options, progress or Silent())
    write_reports(report, options.reports)
    return report


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Name the file where only a row of some of its rows, or no place at all, is known."""
    try:
        yield
    except RowRangeError as error:
        raise RangeError(f"{path}: {error.told}") from error
    except RankError as error:
        raise RankError(f"{path}: {error}") from error


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
    return os.path.realpath(one) == os.path.realpath(other)  # another hard link would keep what is there


def _require_width(eraser: str, artifact: Artifact, source: FiniteSource) -> None:
    if source.d != artifact.eraser.d:
        made = artifact.header.get("versions", {})
        by = ", ".join(f"{name} {number}" for name, number in sorted(made.items()))
        raise AlignmentError(
            f"{source.path} has {source.d} dimensions, but {eraser} erases {artifact.eraser.d} (written by {by})"
        )


def _kept_dtype(
    change: LinearEraser | FeatureEraser, artifact: Artifact, source: FiniteSource, options: ApplyOptions
) -> np.dtype[Any]:
    """Keep the input's dtype, unless its steps are so coarse that rounding would bring the attribute back."""
    if isinstance(change, LinearEraser) and (options.strength < 1 or options.reduces):
        return source.dtype
    dtype = erased_dtype(change, artifact.singular_values, source)
    if isinstance(change, FeatureEraser):
        return dtype
    if dtype != source.dtype:
        warn(
            f"{source.path}: {source.dtype} is too coarse for values this large: rounding would bring the attribute "
            f"back; writing {dtype} (--dtype {source.dtype} insists)"
        )
    return dtype
