"""`fit`: embeddings and labels → moments → eraser → artifact."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

import salcli
from salcli.data.blocks import Block
from salcli.data.digests import labels_digest, rows_digest
from salcli.data.hashes import FileHash
from salcli.data.join import settle_index
from salcli.data.labels import GuardedLabels, Selection
from salcli.data.source import Source
from salcli.data.splits import SplitRule
from salcli.erasers.artifact import Artifact, write_artifact
from salcli.erasers.base import Eraser, Fit, Method, find_method, warn_of_doubts
from salcli.errors import UsageError, located
from salcli.formats import atomic
from salcli.formats.files import file_name
from salcli.formats.registry import open_source
from salcli.options import FitOptions
from salcli.streaming.cluster.client import runs_on_cluster
from salcli.streaming.engine import current_engine, map_in_threads, one_blas_thread
from salcli.streaming.hashing import hashing
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import LabelledSource, join_labels, read_table
from salcli.streaming.progress import Progress, Silent


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
    UsageError : the output is stdout, or the method keeps a main task and none is named
    FormatError : an input is damaged
    LabelError : no eraser can be fitted to the labels
    AlignmentError : labels and rows do not match
    RankError : the rows do not covary with the labels, or k is above the rank
    OutputError : the artifact cannot be written
    """
    if output == atomic.STDOUT:
        raise UsageError("`output=-`: an eraser is binary and goes into a file: give its name")
    parameters = _parameters(find_method(options.method), options)
    atomic.check_output(output, [embeddings, labels, options.read.keys_file])
    keep_freed_memory()
    algorithm = options.hash_algorithm
    progress = progress or Silent()
    table = read_table(labels, replace(options.labels, task=task_of(parameters)), progress)
    with (
        closing(open_source(embeddings, options.read)) as source,
        hashing({} if algorithm == "none" else {source: algorithm}, labels) as hashes,
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
    with located(source.path):
        result = find_method(options.method).fit(
            rows, options.parameters, task=chosen.task, seed=options.seed, engine=engine, progress=progress
        )
    warn_of_doubts(result)
    shards = [shard.reader.n for shard in source.shards]
    return result, describe_fit(options, table, fitted, result, rule, shards)


def _parameters(method: Method, options: FitOptions) -> Any:
    """Return the parameters of `options`, or the method's defaults with the task of the labels."""
    if options.parameters is not None:
        return options.parameters
    parameters = method.Parameters()
    return replace(parameters, task=options.labels.task) if hasattr(parameters, "task") else parameters


def task_of(parameters: Any) -> str | None:
    """Return the column of the main task that a method's `parameters` name; None for methods that keep none.

    Raises
    ------
    UsageError : the method keeps one, and none is named
    """
    task: str | None = getattr(parameters, "task", None)
    if task is None and hasattr(parameters, "task"):
        raise UsageError("the method keeps a main task: name its column by `task=COL`")
    return task


def describe_fit(
    options: FitOptions,
    labels: GuardedLabels,
    fitted: Selection,
    fit: Fit[Eraser],
    rule: SplitRule,
    shards: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the header of the artifact: method, rows and versions as plain values, without keys and times.

    The record of the files is added later.

    Parameters
    ----------
    options : of the command, with the parameters of the method
    labels : all labels of the CSV
    fitted : `[n]` positions of those that were fitted
    fit : the result
    rule : by which the fitted rows were chosen
    shards : rows of each shard, of several
    """
    chosen = labels.restricted_to(fitted)
    digest_of = [partial(rows_digest, labels, fitted, shards=shards)]
    digest_of += [partial(labels_digest, labels, each, fitted, shards=shards) for each in labels.attributes]
    of_rows, *of_labels = map_in_threads(lambda digest: digest(), digest_of)  # each takes as long as reading the labels
    attributes = [
        describe_attribute(Block.of(each), digest) for each, digest in zip(chosen.attributes, of_labels, strict=True)
    ]
    rows = {**describe_rows(labels, rule), "n_fitted": len(fitted), "sha256": of_rows}
    return header_of(options, fit, attributes, rows | ({"shards": list(shards)} if len(shards) > 1 else {}))


def describe_attribute(block: Block, digest: str) -> dict[str, Any]:
    """Return a guarded attribute in an artifact's header, `block` in brief; `digest`: of its labels."""
    classes, counts = (None, None) if block.classes is None else (list(block.classes), list(block.counts))
    return {"name": block.name, "classes": classes, "counts": counts, "sha256": digest}


def describe_rows(labels: GuardedLabels, rule: SplitRule) -> dict[str, Any]:
    """Return how rows were joined to all `labels`, and by which `rule` they were chosen, in an artifact's header."""
    return {
        "rule": rule.to_dict(),
        "joined_by": "row" if labels.keys is None else "key",
        "key_column": labels.key_column,
        "split_column": labels.split_column,
        **({} if labels.groups is None else {"group_column": labels.groups.name}),
    }


def header_of(
    options: FitOptions, fit: Fit[Eraser], attributes: list[dict[str, Any]], rows: dict[str, Any]
) -> dict[str, Any]:
    """Return the header of an artifact without `inputs`.

    Parameters
    ----------
    options : of the command, with the parameters of the method
    fit : the result
    attributes, rows : what was fitted (see `describe_attribute`, `describe_rows`)
    """
    return {
        "method": options.method,
        "parameters": asdict(options.parameters),
        "eraser": fit.eraser.kind,
        "is_orthogonal": fit.eraser.is_orthogonal,
        "attributes": attributes,
        "is_centred": fit.is_centred,
        "d": fit.eraser.d,
        "k": fit.eraser.k,
        "k_rule": fit.k_rule,
        "rank": fit.rank,
        "rows": rows,
        "versions": versions(),
        **fit.header,
    }


def describe_inputs(source: Source, labels: GuardedLabels) -> dict[str, dict[str, Any]]:
    """Return the record of the files in the header of the artifact, without their hashes.

    Parameters
    ----------
    source : the embeddings
    labels : all labels of the CSV
    """
    embeddings = {
        "name": joint_name([shard.reader.path for shard in source.shards]),
        "format": source.format,
        "n": source.n,
        "d": source.d,
        "dtype": str(source.dtype),
    }
    files = [path for path, _ in labels.parts] or [labels.path]
    return {"embeddings": embeddings, "labels": {"name": joint_name(files), "n": len(labels)}}


def joint_name(paths: Sequence[str]) -> str:
    """Return the names of the first and the last of some files; the same whether a folder or a glob names them."""
    names = [file_name(path) for path in paths]
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)} files)"


def recorded(hashed: FileHash | None) -> dict[str, Any]:
    """Return the fields of a hash in the record of a file."""
    if hashed is None:
        return {"hash": None}
    return {"hash": asdict(hashed)} | ({} if hashed.sha256 is None else {"sha256": hashed.sha256})


def versions() -> dict[str, str]:
    """Return the versions of the packages that wrote a file, by package."""
    return {"salcli": salcli.__version__, "numpy": np.__version__}
