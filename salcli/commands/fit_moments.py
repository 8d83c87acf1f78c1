"""`fit --moments`: the sums of all shards → eraser → artifact, the same bytes as `fit` writes that reads the shards."""

import functools
import glob
import operator
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from salcli.commands.header import describe_attribute, header_of, joint_name
from salcli.commands.moments import summed_method
from salcli.data.blocks import Block, widening
from salcli.data.digests import joint_digest
from salcli.data.hashes import digest_of
from salcli.data.key_numbers import shared_keys
from salcli.data.labels import Attribute, GuardedLabels
from salcli.erasers.artifact import Artifact, write_artifact
from salcli.erasers.base import SummedMethod, find_method, task_of, warn_of_doubts
from salcli.errors import FormatError, LabelError, UsageError, located, warn
from salcli.formats import atomic
from salcli.formats.local_urls import takes_paths
from salcli.formats.moments import blocks_of, read_header, read_keys, read_sums
from salcli.formats.shards import natural_key
from salcli.formats.urls import is_several, is_url, listed
from salcli.linalg.moments import Statistics
from salcli.options import FitOptions
from salcli.streaming.engine import map_in_threads, one_blas_thread, tree_sum
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.progress import Progress, Silent
from salcli.streaming.sums import rounding_of


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of one shard, whose sums are still in their file."""

    path: str
    header: dict[str, Any]
    blocks: tuple[Block, ...]

    @classmethod
    def read(cls, path: str) -> "Moments":
        """Return the moments in the file at `path`."""
        header = read_header(path)
        return cls(path, header, blocks_of(header))

    @property
    def shard(self) -> dict[str, Any]:
        """The record of the embeddings."""
        found: dict[str, Any] = self.header["inputs"]["embeddings"]
        return found

    def sums(self, kind: type[Statistics], total: Sequence[Block]) -> Statistics:
        """Return the sums of the `kind`, with the columns of Z of all shards."""
        try:
            found = kind.from_bytes(read_sums(self.path, self.header))
        except KeyError as error:
            raise FormatError(f"{self.path}: damaged moments: the array {error.args[0]} is missing") from error
        labels = widening(self.blocks, total, is_centred=self.header["is_centred"])
        return found if labels is None else found.relabelled(labels)


@takes_paths
def fit_moments(
    patterns: Sequence[str], output: str, options: FitOptions, progress: Progress | None = None
) -> Artifact:
    """Fit an eraser to the moments of all shards, and save it.

    Parameters
    ----------
    patterns : paths of the moments, or globs
    output : path of the artifact
    options : the method and its parameters; the moments have all other ones
    progress : shows the stage; default: none is shown

    Returns
    -------
    the artifact, as it is written to `output`

    Raises
    ------
    UsageError : options that the moments have, or a method that needs more than sums
    FormatError : moments that are damaged, of different designs, of one shard twice, or too inaccurate
    LabelError : no eraser can be fitted to the labels
    RankError : the rows do not covary with the labels, or k is above the rank
    OutputError : the artifact cannot be written
    """
    if output == atomic.STDOUT:
        raise UsageError("`output=-`: an eraser is binary and goes into a file: give its name")
    parameters = find_method(options.method).Parameters() if options.parameters is None else options.parameters
    method = summed_method(find_method(options.method), parameters)
    _require_own_options(options)
    paths = _found(patterns)
    atomic.check_output(output, paths)
    keep_freed_memory()
    files = sorted(map_in_threads(Moments.read, paths), key=lambda each: (_name_key(each), natural_key(each.path)))
    _require_alike(files)
    _require_suited(files[0], method, parameters)
    _require_once(files)
    _require_own_keys(files)
    total = [functools.reduce(operator.add, same) for same in zip(*(each.blocks for each in files), strict=True)]
    path = patterns[0] if len(patterns) == 1 else f"{patterns[0]} …"
    guarded = total[: len(files[0].header["attributes"])]
    if not total[0].n:
        raise LabelError(f"{path}: moments of no row: no labelled row was to be fitted in any shard")
    for block in guarded:
        block.require_variety(path)
        block.warn_of_single_rows(path)
    with one_blas_thread(), (progress or Silent()).stage("fit", total[0].n) as advance:
        sums = _added(files, method.Statistics, total, lambda part: advance(part.n))
        if not sums.is_accurate_enough(is_centred=method.centres(parameters)):
            raise FormatError(
                f"{path}: rounding may be as large as {rounding_of(sums):.2g}, too much for the rank or the directions "
                "of these rows: make the moments of all shards again by salcli moments `exact`"
            )
        columns = tuple(Attribute(block.name, np.zeros(0, np.int8), block.classes) for block in total)
        task = columns[-1] if len(columns) > len(guarded) else None
        with located(path):
            result = method.fit_sums(sums, GuardedLabels(path, columns, None, task=task), parameters)
    warn_of_doubts(result)
    header = header_of(replace(options, parameters=parameters), result, _attributes(files, guarded), _rows(files))
    header["inputs"] = _inputs(files)
    artifact = Artifact(result.eraser, result.singular_values, header)
    write_artifact(output, artifact)
    return artifact


def _found(patterns: Sequence[str]) -> list[str]:
    """Return the files that paths and globs name, each once.

    Raises
    ------
    FormatError : a glob matches none
    """
    found = dict[str, None]()
    for pattern in patterns:
        if is_url(pattern):
            paths = listed(pattern) if is_several(pattern) else [pattern]
        else:
            paths = [pattern] if os.path.lexists(pattern) else glob.glob(pattern)
        if not paths:
            raise FormatError(f"{pattern}: no such file of moments")
        found |= dict.fromkeys(paths)
    return list(found)


def _require_own_options(options: FitOptions) -> None:
    """Check that no option is set that moments have.

    Raises
    ------
    UsageError : it names one
    """
    for name in _set_fields(options, FitOptions()):
        raise UsageError(f"`{name}` is about embeddings or labels, instead of which `moments` stands: leave it out")


def _set_fields(record: Any, default: Any) -> Iterator[str]:
    for each in fields(record):
        value, usual = getattr(record, each.name), getattr(default, each.name)
        if each.name in ("method", "parameters") or value == usual:
            continue
        if is_dataclass(usual):
            yield from _set_fields(value, usual)
        else:
            yield each.name


def _name_key(moments: Moments) -> tuple[Any, ...]:
    return natural_key(moments.shard["name"])


def _design(moments: Moments) -> dict[str, Any]:
    """Return what must be the same in all moments, as messages name it."""
    header, rows = moments.header, moments.header["rows"]
    rule, hashed = rows["rule"], moments.shard["hash"]
    columns = [f"{block.name} ({'numbers' if block.classes is None else 'classes'})" for block in moments.blocks]
    return {
        "method": header["method"],
        "guarded columns": ", ".join(columns[: len(header["attributes"])]),
        "task": None if header["task"] is None else columns[-1],
        "dimensions": header["d"],
        "dtype": header["dtype"],
        "centring": header["is_centred"],
        "`exact`": header["is_exact"],
        "key column": rows["key_column"] if rows["joined_by"] == "key" else None,
        "split column": rows["split_column"],
        "groups": rows.get("group_column"),
        **{f"`{name}`": rule[name] for name in ("fit_split", "holdout", "sample", "seed")},
        "hash": None if hashed is None else hashed["algorithm"],
    }


def _require_alike(files: Sequence[Moments]) -> None:
    """Check that all moments have one design.

    Raises
    ------
    FormatError : it names what differs, and two files
    """
    model = next((each for each in files if each.header["d"]), files[0])
    first = _design(model)
    for other in files:
        for what, found in _design(other).items():
            if found != first[what] and not (what == "dimensions" and found == 0):
                raise FormatError(
                    f"{other.path}: {what} {found}, but {first[what]} in {model.path}: moments of different designs "
                    "do not add up"
                )


def _require_suited(moments: Moments, method: SummedMethod, parameters: Any) -> None:
    """Check that moments suit the method and its parameters.

    Raises
    ------
    UsageError : they do not
    """
    header = moments.header
    if header["method"] != method.name:
        raise UsageError(f"{moments.path}: moments for method {header['method']}: give `method={header['method']}`")
    if header["is_centred"] != method.centres(parameters):
        centring = "centred: leave `center=False` out" if header["is_centred"] else "not centred: give `center=False`"
        raise UsageError(f"{moments.path}: moments that are {centring}")
    task = header["task"] and header["task"]["name"]
    if hasattr(parameters, "task") and task_of(parameters) != task:
        raise UsageError(f"{moments.path}: moments with the task {task}: give `task={task}`")


def _require_once(files: Sequence[Moments]) -> None:
    """Check that no shard with rows is there twice, by the hash of its file; others may be equal, byte for byte.

    Raises
    ------
    FormatError : it names both files
    """
    seen = dict[str, Moments]()
    for each in files:
        if each.shard["hash"] is not None and each.shard["n"]:
            other = seen.setdefault(each.shard["hash"]["digest"], each)
            if other is not each:
                raise FormatError(f"{each.path} and {other.path}: moments of one shard, {each.shard['name']}, twice")


def _require_own_keys(files: Sequence[Moments]) -> None:
    """Check that no key is in two shards: its row would count twice, and `fit` of all shards takes the first alone.

    Raises
    ------
    FormatError : it names both files
    """
    if len(files) == 1 or files[0].header["rows"]["joined_by"] != "key":
        return
    found, share = shared_keys(read_keys(each.path) for each in files)
    if found is not None:
        first, second, n = found
        keys = f"{n:,} keys are" if n > 1 else "a key is"
        raise FormatError(
            f"{files[first].path} and {files[second].path}: {keys} in both shards, and would count twice: fit the "
            "shards themselves, which takes the first row of a key, or make the keys unique"
        )
    if share < 1:
        warn(
            f"{files[0].path}: these moments are of many keys: whether one is in two shards was looked up for one in "
            f"{round(1 / share):,} of them"
        )


def _added(files: Sequence[Moments], kind: type[Statistics], total: Sequence[Block], done: Any) -> Statistics:
    """Return the sums of all shards, added up as a tree; shards without rows are no part of it.

    Raises
    ------
    FormatError : two files have the same sums; it names both
    """
    seen = dict[bytes, Moments]()

    def parts() -> Iterator[Statistics]:
        chosen = [each for each in files if each.blocks[0].n]
        read = map_in_threads(lambda each: each.sums(kind, total), chosen)
        for each, sums in zip(chosen, read, strict=True):
            cross: Any = getattr(sums, "cross", sums)
            other = seen.setdefault(cross.mean_x.tobytes() + cross.comoment[:, 0].tobytes(), each)
            if other is not each:
                raise FormatError(f"{each.path} and {other.path}: the same sums twice: moments of one shard?")
            yield sums

    return tree_sum(parts(), kind.zero(_width(files), sum(block.width for block in total)), done)


def _width(files: Sequence[Moments]) -> int:
    """Return the dimensions of the rows: a shard without rows may not know them, and says 0."""
    return max(int(each.header["d"]) for each in files)


def _attributes(files: Sequence[Moments], guarded: Sequence[Block]) -> list[dict[str, Any]]:
    records = zip(*(each.header["attributes"] for each in files), strict=True)
    return [describe_attribute(block, _digest(files, same)) for block, same in zip(guarded, records, strict=True)]


def _digest(files: Sequence[Moments], records: Sequence[dict[str, Any]]) -> str:
    """Return the digest of the rows, or labels, that `records` of all shards have digests of."""
    if len(records) == 1:
        alone: str = records[0]["sha256"]
        return alone
    has_keys = files[0].header["rows"]["joined_by"] == "key"
    return joint_digest([record["part"] for record in records], has_keys=has_keys)


def _rows(files: Sequence[Moments]) -> dict[str, Any]:
    records = [each.header["rows"] for each in files]
    common = {name: records[0][name] for name in records[0] if name not in ("n_shard", "n_fitted", "sha256", "part")}
    shards = {"shards": [rows["n_shard"] for rows in records]} if len(files) > 1 else {}
    return {
        **common,
        "n_fitted": sum(rows["n_fitted"] for rows in records),
        "sha256": _digest(files, records),
        **shards,
    }


def _inputs(files: Sequence[Moments]) -> dict[str, Any]:
    shards = [each.shard for each in files]
    hashes = [shard["hash"] for shard in shards if shard["hash"] is not None]
    embeddings = {
        "name": joint_name([shard["name"] for shard in shards]),
        **{name: shards[0][name] for name in ("format", "dtype")},
        "d": _width(files),
        "n": sum(shard["n"] for shard in shards),
    }
    if hashes:
        algorithm = hashes[0]["algorithm"]
        digest = digest_of([each["digest"] for each in hashes], algorithm)
        embeddings |= {"hash": {"algorithm": algorithm, "digest": digest}}
        embeddings |= {"sha256": digest} if algorithm == "sha256" else {}
    else:
        embeddings["hash"] = None
    labels = [each.header["inputs"]["labels"] for each in files]
    rows = [each.header["rows"] for each in files]
    if any(own["joined_by"] == "key" or each["n"] > own["n_shard"] for own, each in zip(rows, labels, strict=True)):
        # the same files have the labels of all shards
        labels = list({(each["name"], each["sha256"]): each for each in labels}.values())
    return {
        "embeddings": embeddings,
        "labels": {
            "name": joint_name([each["name"] for each in labels]),
            "n": sum(each["n"] for each in labels),
            "sha256": digest_of([each["sha256"] for each in labels], "sha256"),
        },
    }
