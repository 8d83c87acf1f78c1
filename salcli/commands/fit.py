"""`fit`: embeddings and labels → moments → eraser → artifact."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from salcli.commands.checkpoint import Checkpoint
from salcli.commands.header import describe_fit, describe_inputs, recorded
from salcli.commands.moments import Design, summed_method
from salcli.data.join import settle_index
from salcli.data.labels import GuardedLabels, as_index
from salcli.data.source import Source
from salcli.erasers.artifact import Artifact, write_artifact
from salcli.erasers.base import Eraser, Fit, Method, find_method, task_of, warn_of_doubts
from salcli.errors import UsageError, located
from salcli.formats import atomic
from salcli.formats.label_files import label_files
from salcli.formats.local_urls import takes_paths
from salcli.formats.registry import input_files, opened_source
from salcli.formats.shards import is_several
from salcli.formats.urls import is_url
from salcli.options import FitOptions
from salcli.streaming.cluster.client import runs_on_cluster
from salcli.streaming.engine import current_engine, one_blas_thread
from salcli.streaming.hashing import hashing, opened_labels
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import LabelledSource, join_labels, read_table
from salcli.streaming.progress import Progress, Silent
from salcli.streaming.sums import fold


@takes_paths
@runs_on_cluster
def fit(
    embeddings: str,
    labels: str,
    output: str,
    options: FitOptions,
    progress: Progress | None = None,
) -> Artifact:
    """Fit an eraser to labelled embeddings and save it.

    Parameters
    ----------
    embeddings, labels : paths of the inputs
    output : path of the artifact
    options : the method, its parameters, and which rows are fitted
    progress : shows the stages; default: none is shown

    Returns
    -------
    the artifact, as it is written to `output`

    Raises
    ------
    ParameterError : there is no such method
    UsageError : the output is stdout, the method keeps a main task and none is named, or it needs more than sums and
        there is a checkpoint
    FormatError : an input is damaged
    LabelError : no eraser can be fitted to the labels
    AlignmentError : labels and rows do not match
    RankError : the rows do not covary with the labels, or k is above the rank
    OutputError : the artifact cannot be written
    """
    if output == atomic.STDOUT:
        raise UsageError("`output=-`: an eraser is binary and goes into a file: give its name")
    parameters = _parameters(find_method(options.method), options)
    if options.checkpoint is not None:
        summed_method(find_method(options.method), parameters)
    files = [*input_files(embeddings, options.read), *label_files(labels)]
    if options.checkpoint is not None and is_several(embeddings):
        _require_apart(options.checkpoint, files)
    atomic.check_output(output, [*files, options.read.keys_file])
    keep_freed_memory()
    algorithm = options.hash_algorithm
    progress = progress or Silent()
    columns = replace(options.labels, task=task_of(parameters))
    with (
        opened_labels(labels) as tables,
        nullcontext(read_table(labels, columns, progress)) as table,
        opened_source(embeddings, options.read) as source,
        hashing({} if algorithm == "none" else {source: algorithm}, tables) as hashes,
        one_blas_thread(),
    ):
        table = settle_index(table, source)
        result, header = fit_rows(source, table, replace(options, parameters=parameters), progress)
        header["inputs"] = describe_inputs(source, table)
        header["inputs"]["labels"]["sha256"] = hashes.pop().result().digest
        header["inputs"]["embeddings"] |= recorded(hashes.pop().result() if hashes else None)
    artifact = Artifact(result.eraser, result.singular_values, header)
    write_artifact(output, artifact)
    return artifact


def _require_apart(checkpoint: str, files: Sequence[str]) -> None:
    """Check that moments are not written among the shards, where they would be taken for shards."""
    for file in files:
        if not is_url(file) and os.path.realpath(os.path.dirname(file)) == os.path.realpath(checkpoint):
            raise UsageError(f"`checkpoint={checkpoint}`: is the folder of {file}: name one for the moments alone")


def fit_rows(
    source: Source, table: GuardedLabels, options: FitOptions, progress: Progress
) -> tuple[Fit[Eraser], dict[str, Any]]:
    """Fit an eraser to the rows of a source, on the current engine.

    Parameters
    ----------
    source : embeddings
    table : all labels, those of the main task included
    options : the method, its parameters (not None), and which rows are fitted
    progress : shows the stages

    Returns
    -------
    the fit, and the header of its artifact without `inputs`

    Raises
    ------
    FormatError, LabelError, AlignmentError, RankError : see `fit`
    """
    join = join_labels(source, table, progress)
    rule = options.rule(has_splits=table.splits is not None)
    fitted = rule.fitted(table, join.matched(table))
    chosen = table.restricted_to(fitted)
    chosen.require_variety()
    chosen.warn_of_single_rows()
    rows, engine = LabelledSource.of(source, chosen, join.rows_of(fitted)), current_engine()
    method, parameters = find_method(options.method), options.parameters
    with located(source.path):
        if options.checkpoint is None:
            result = method.fit(rows, parameters, task=chosen.task, seed=options.seed, engine=engine, progress=progress)
        else:
            summed = summed_method(method, parameters)
            rows, is_centred = replace(rows, labels=summed.summed(chosen)), summed.centres(parameters)
            design = Design(method.name, is_centred, False, rule)
            folder, algorithm = options.checkpoint, options.hash_algorithm
            kept = Checkpoint.of(folder, algorithm, design, rows, table, as_index(fitted))
            sums = fold(rows, summed.Statistics, engine, progress, is_centred=is_centred, kept=kept)
            result = summed.fit_sums(sums, rows.labels, parameters)
    warn_of_doubts(result)
    shards = [shard.reader.n for shard in source.shards]
    return result, describe_fit(options, table, fitted, result, rule, shards)


def _parameters(method: Method, options: FitOptions) -> Any:
    """Return the parameters of `options`, or the method's defaults with the task of the labels."""
    if options.parameters is not None:
        return options.parameters
    parameters = method.Parameters()
    return replace(parameters, task=options.labels.task) if hasattr(parameters, "task") else parameters
