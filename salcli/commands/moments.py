"""`moments`: embeddings and labels of one shard → sums that `fit --moments` adds up (see `salcli.formats.moments`)."""

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from salcli.commands.header import describe_inputs, describe_rows, recorded, versions
from salcli.data.blocks import Block
from salcli.data.digests import labels_digest, part_digest, rows_digest
from salcli.data.join import settle_index
from salcli.data.key_numbers import Numbers, key_numbers
from salcli.data.labels import Attribute, GuardedLabels, Index, as_index
from salcli.data.source import Source
from salcli.data.splits import SplitRule
from salcli.erasers.base import METHODS, Method, SummedMethod, find_method, task_of
from salcli.errors import LabelError, UsageError, warn
from salcli.formats import atomic
from salcli.formats.files import size_of
from salcli.formats.label_files import label_files
from salcli.formats.local_urls import takes_paths
from salcli.formats.moments import block_fields, write_moments
from salcli.formats.registry import input_files, opened_source
from salcli.formats.urls import is_url
from salcli.options import MomentsOptions
from salcli.streaming.cluster.client import runs_on_cluster
from salcli.streaming.engine import current_engine, one_blas_thread
from salcli.streaming.hashing import hashing, opened_labels
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import LabelledSource, join_labels, read_table
from salcli.streaming.progress import Progress, Silent
from salcli.streaming.sums import fold_once, rounding_of

FEW_ROWS = 10
"""Of a class: from the sums of fewer its rows can nearly be read."""
WHY_NOT = {
    "transport": "it chooses shrinkage and gate by rows that are held out",
    "inlp": "it trains classifiers on rows",
    "ksal": "it needs rows as landmarks",
    "auto": "it trains attackers on rows",
}


@takes_paths
@runs_on_cluster
def moments(
    embeddings: str, labels: str, output: str, options: MomentsOptions, progress: Progress | None = None
) -> dict[str, Any]:
    """Add up the labelled rows of one shard, and save the sums; those of a shard without rows are zero.

    Parameters
    ----------
    embeddings, labels : paths of the inputs
    output : path of the moments
    options : the method that they are for, and which rows are added up
    progress : shows the stages; default: none is shown

    Returns
    -------
    the header of the file

    Raises
    ------
    ParameterError : there is no such method
    UsageError : the method needs more than sums, the output is stdout, or the embeddings are several shards
    FormatError : an input is damaged
    LabelError, AlignmentError : labels cannot be used, or do not match the rows
    OutputError : the moments cannot be written
    """
    if output == atomic.STDOUT:
        raise UsageError("`output=-`: moments are binary and go into a file: give its name")
    method = summed_method(find_method(options.method))
    parameters = _parameters(method, options)
    files = [*input_files(embeddings, options.read), *label_files(labels)]
    atomic.check_output(output, [*files, options.read.keys_file])
    keep_freed_memory()
    progress, algorithm = progress or Silent(), options.hash_algorithm
    columns = replace(options.labels, task=task_of(parameters), may_be_empty=True)
    with (
        opened_labels(labels) as tables,
        nullcontext(read_table(labels, columns, progress)) as table,
        opened_source(embeddings, options.read, may_be_empty=True) as source,
        hashing({} if algorithm == "none" else {source: algorithm}, tables) as hashes,
        one_blas_thread(),
    ):
        if len(source.shards) > 1:
            raise UsageError(f"{embeddings} is {len(source.shards)} files: moments are of one, so run once for each")
        table = settle_index(table, source)
        _require_known_rows(table, options)
        rule = options.rule(has_splits=table.splits is not None)
        join = join_labels(source, table, progress, may_miss_all=True)
        fitted = as_index(rule.not_held_out(table, join.matched(table)))
        rows = LabelledSource.of(source, method.summed(table.restricted_to(fitted)), join.rows_of(fitted))
        sums = fold_once(
            rows,
            method.Statistics,
            current_engine(),
            progress,
            is_centred=method.centres(parameters),
            is_exact=options.exact,
        )
        keys = keys_of(table, fitted, _dropped_keys(source))
        design = Design(method.name, method.centres(parameters), options.exact, rule)
        header = header_of_shard(design, rows, table, fitted)
        header |= {"rounding": rounding_of(sums), "inputs": describe_inputs(source, table)}
        header["inputs"]["labels"]["sha256"] = hashes.pop().result().digest
        header["inputs"]["embeddings"] |= recorded(hashes.pop().result() if hashes else None)
        header["inputs"]["embeddings"]["size"] = (
            size_of(embeddings) if is_url(embeddings) or os.path.isfile(embeddings) else None
        )
    _warn_of_few(rows.labels)
    if not len(fitted):
        why = "no labelled row is to be fitted" if source.n_all else "has no rows"
        warn(f"{embeddings}: {why}, so these moments are zero")
    write_moments(output, header, sums.to_bytes(), keys)
    return header


@dataclass(frozen=True)
class Design:
    """What the moments of all shards must have in common, beside the columns."""

    method: str
    is_centred: bool
    """Whether numbers are measured from their mean."""
    is_exact: bool
    """Whether float64 was used throughout."""
    rule: SplitRule


def keys_of(table: GuardedLabels, fitted: Index, others: Iterable[str] = ()) -> Numbers | None:
    """Return the numbers of the keys of the fitted labels, by which a key in two shards is found; None without keys.

    Parameters
    ----------
    table : labels
    fitted : `[n]` those of them that are added up
    others : keys that no other shard may add up either
    """
    if table.keys is None:
        return None
    return key_numbers(itertools.chain((table.keys[i] for i in fitted.tolist()), others))


def _dropped_keys(source: Source) -> Iterator[str]:
    """Yield the keys of rows that are dropped: on all shards at once, their first row is the one that joins."""
    if source.n_dropped and source.has_keys:
        dropped = set(source.dropped.tolist())
        every = itertools.chain.from_iterable(source.key_batches())
        yield from (key for row, key in enumerate(every) if row in dropped)


def header_of_shard(
    design: Design, rows: LabelledSource, table: GuardedLabels, fitted: Index, first: int = 0
) -> dict[str, Any]:
    """Return the header of the moments of a shard, without the inputs and the bound on rounding.

    Parameters
    ----------
    design : of all shards
    rows : the labelled rows of the shard, with the task if one is kept
    table : labels of the shard, or of several
    fitted : `[n]` those of them that are added up
    first : the shard's first row, where the labels of several have no keys
    """

    def digests(attribute: Attribute | None) -> dict[str, str]:
        part = part_digest(table, attribute, fitted, first)
        if table.keys is None:
            return {"sha256": part, "part": part}
        alone = rows_digest(table, fitted) if attribute is None else labels_digest(table, attribute, fitted)
        return {"sha256": alone, "part": part}

    whole, source = table.attributes, rows.source
    in_order = next(rows.by_shard(), rows)  # a mean of the same numbers in another order may round otherwise
    blocks = [Block.of(each) for each in in_order.labels.attributes]
    return {
        "method": design.method,
        "d": source.d,
        "dtype": str(source.dtype),
        "is_centred": design.is_centred,
        "is_exact": design.is_exact,
        "attributes": [
            {**block_fields(block), **digests(each)} for block, each in zip(blocks[: len(whole)], whole, strict=True)
        ],
        "task": block_fields(blocks[-1]) if len(blocks) > len(whole) else None,
        "rows": {
            **describe_rows(table, design.rule),
            "n_shard": source.n_all,
            "n_fitted": len(fitted),
            **digests(None),
        },
        "versions": versions(),
    }


def summed_method(method: Method, parameters: Any = None) -> SummedMethod:
    """Return `method` if it needs nothing of rows but sums, with its `parameters` if they are known.

    Raises
    ------
    UsageError : it needs more
    """
    if not hasattr(method, "fit_sums"):
        why = WHY_NOT.get(method.name, "it reads rows")
        able = ", ".join(name for name in METHODS if hasattr(METHODS[name], "fit_sums"))
        raise UsageError(f"method {method.name} needs more than sums: {why}; moments are for {able}")
    found: Any = method
    if parameters is not None and not found.needs_sums_only(parameters):
        raise UsageError("`k=auto` and `unit` need more than sums: they read rows more than once")
    return found  # type: ignore[no-any-return]


def _parameters(method: SummedMethod, options: MomentsOptions) -> Any:
    """Return the parameters of the method that its sums depend on.

    Raises
    ------
    UsageError : the method has no such parameter, or needs one
    """
    names = getattr(method.Parameters, "__dataclass_fields__", {})
    for name, value in (("center", "`center=False`"), ("task", f"`task={options.task}`")):
        if name not in names and getattr(options, name) != getattr(MomentsOptions, name):
            raise UsageError(f"{value}: method {method.name} has no such option")
    return method.Parameters(**{name: getattr(options, name) for name in ("center", "task") if name in names})


def _require_known_rows(table: GuardedLabels, options: MomentsOptions) -> None:
    """Check that the rows that are added up do not depend on other shards.

    Raises
    ------
    UsageError, LabelError : they do
    """
    if table.key_column == "":
        raise LabelError(
            f"{table.path}: the labels name rows by numbers, which count through all shards: give each shard its "
            "labels in the order of its rows (`by_row`), or keys"
        )
    if options.holdout and (table.keys is None or table.groups is not None):
        what = "groups are" if table.groups is not None else "rows without keys are"
        raise UsageError(
            f"`holdout={options.holdout:g}`: {what} held out by their place among those of all shards: "
            "mark rows in a split column instead"
        )


def _warn_of_few(labels: GuardedLabels) -> None:
    for attribute in labels.attributes:
        if few := Block.of(attribute).few(FEW_ROWS):
            more = f" and {len(few) - 3} more" if len(few) > 3 else ""
            warn(
                f"{labels.path}: column {attribute.name!r}: few rows of {', '.join(few[:3])}{more}: moments of a class "
                f"of fewer than {FEW_ROWS} nearly are its rows (of one row they are): treat the file as data"
            )
