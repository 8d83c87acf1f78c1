"""`evaluate`: attackers on arrays before and after erasure, by the route of the command."""

import hashlib
from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.api.arrays import to_numpy
from salcli.api.base import ErasingTransformer
from salcli.api.labels import classes_of, columns_of, label_table
from salcli.api.report import Report, read_limits, report_of
from salcli.commands.subject import Subject, measured
from salcli.data.digests import labels_digest
from salcli.data.embeddings import Embeddings
from salcli.data.hashes import HASH_ALGORITHMS, FileHash
from salcli.data.labels import GuardedLabels
from salcli.data.source import ArrayReader, Source
from salcli.erasers.artifact import Artifact
from salcli.errors import AlignmentError, ParameterError, ShapeError, warn
from salcli.evaluation.judged import judged
from salcli.evaluation.provenance import run_of
from salcli.evaluation.report import ErasedFile, EraserSummary, InputFile
from salcli.evaluation.requested import require_attackers
from salcli.options import EvaluateOptions, options_of
from salcli.render.files import write_reports
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.progress import Silent

BEFORE, AFTER, GUARDED = "before", "after", "guarded"
OF_FILES = ("against", "labels", "read", "baseline", "max_leak_increase", "task")
"""Options of the command that are about files, or are arguments here."""


def evaluate(
    before: Any,
    after: Any,
    guarded: Any,
    *,
    numeric: bool | Collection[str] = False,
    task: Any = None,
    split: Any = None,
    groups: Any = None,
    **options: Any,
) -> Report:
    """Train attackers on rows before and after erasure, and measure what was kept: what `salcli evaluate` does.

    Parameters
    ----------
    before : `[n, d]` rows before erasure: array, frame, tensor, or `Embeddings` as `load` returns them, whose keys are
        needed for `similarity` and `neighbors`
    after : `[n, d']` the same rows erased; or an estimator or pipeline that erases them; or None: the rows are
        evaluated as they are. An estimator of salcli must be fitted on all rows of `before`: it can then be fitted
        again (`folds`, `sweep`, `repeats`)
    guarded : `[n]` the guarded labels, or several columns (see `SAL.fit`)
    numeric : whether labels are numbers instead of classes, or the names of columns that are
    task : `[n]` classes of the main task
    split : `[n]` parts of the rows: train (the eraser was fitted on them), dev (they train fresh attackers), test;
        without one, or `holdout`, no row is known to be unseen by the eraser, and figures are in-sample
    groups : `[n]` names of groups, each of which lies in one part
    options : of `salcli evaluate`, by their names in Python (`probes`, `adversaries`, `forms`, `holdout`, `folds`,
        `max_accuracy`, `reports`, `seed` …), as lists, or as texts that the command line takes

    Returns
    -------
    the report; `report.gate` judges it, `report.to_frame` has its figures

    Raises
    ------
    ParameterError : no such option, or a value that it cannot have
    UsageError : options that contradict each other, or need an input that is missing
    ValueError : rows or labels of another shape or type
    AlignmentError : `after` is an estimator that was fitted on other rows

    Examples
    --------
    >>> import numpy as np
    >>> import salcli
    >>> rng = np.random.default_rng(0)
    >>> gender = rng.permutation(["f", "m"] * 200)
    >>> X = rng.normal(size=(400, 5)) + np.outer(gender == "f", [3, 0, 0, 0, 0])
    >>> split = rng.permutation(["train", "test"] * 200)
    >>> sal = salcli.SAL().fit(X[split == "train"], guarded=gender[split == "train"])
    >>> report = salcli.evaluate(X, sal.transform(X), gender, split=split, probes="linear", forms="raw")
    >>> [(row["adversary"], row["stage"], row["leak"] > 0.5) for row in report.to_records()][:2]
    [('in-sample', 'before', True), ('in-sample', 'after', False)]
    >>> report.gate(max_accuracy=0.9).verdict
    'pass'
    """
    source, keys = _source(before, BEFORE)
    artifact, against = _after(before, after, source, keys)
    name = GUARDED
    if artifact is not None and len(artifact.header["attributes"]) == 1:
        name = artifact.header["attributes"][0]["name"]
    labels = _labels(label_table(guarded, source.n, name, numeric, task=task), split, groups)
    wanted = _options(options, labels, None if against is None else AFTER)
    require_attackers(wanted)
    wanted.require_inputs(has_labels=True, has_eraser=artifact is not None)

    def inputs() -> dict[str, InputFile]:
        found = {"embeddings": InputFile(BEFORE, _hash_of(source), source.n, source.d)}
        return found | {"labels": InputFile(GUARDED, _hash_of_labels(labels), len(labels))}

    about: EraserSummary | ErasedFile | None = None
    if artifact is not None:
        about = EraserSummary.of(repr(after), artifact)
    elif against is not None:
        about = ErasedFile(AFTER, _hash_of(against), against.n, against.d)
    subject = Subject(source, labels, artifact, against, None, about, is_of_files=False)
    with one_blas_thread():
        found, expected = measured(subject, inputs, wanted, Silent())
        found = judged(found, expected, wanted)
    for note in found.notes:
        warn(note)
    report = report_of(replace(found, run=run_of(wanted, artifact, "")), expected, wanted)
    write_reports(report, wanted, Silent())
    return report


def _source(x: Any, name: str, keys: tuple[str, ...] | None = None) -> tuple[Source, tuple[str, ...] | None]:
    """Return rows as a source, and their keys.

    Raises
    ------
    ShapeError : they are no matrix of numbers
    """
    if isinstance(x, Embeddings):
        x, keys = x.vectors, x.keys
    rows = np.asarray(to_numpy(x)[0])
    rows = rows if rows.dtype.kind == "f" else _floats(rows, name)
    if rows.ndim != 2:
        raise ShapeError(f"{name} {rows.shape}: expected rows [n, d]")
    return Source([ArrayReader(np.ascontiguousarray(rows), name, keys)]), keys


def _floats(rows: NDArray[Any], name: str) -> NDArray[np.float64]:
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name}: {error}") from error


def _after(
    before: Any, after: Any, source: Source, keys: tuple[str, ...] | None
) -> tuple[Artifact | None, Source | None]:
    """Return the artifact of an estimator, or the rows after erasure as a source."""
    if after is None:
        return None, None
    if isinstance(after, ErasingTransformer) and after.strength == 1 and not after.eraser_.needs_secret:
        artifact: Artifact = after.artifact_
        artifact.require_width(repr(after), source)
        return artifact, None
    if hasattr(after, "transform"):
        after = after.transform(before.vectors if isinstance(before, Embeddings) else before)
    against, _ = _source(after, AFTER, keys)
    if against.n != source.n:
        raise AlignmentError(f"{AFTER}: {against.n:,} rows, but {BEFORE} has {source.n:,}: the same rows are needed")
    return None, against


def _labels(labels: GuardedLabels, split: Any, groups: Any) -> GuardedLabels:
    """Return the labels with parts and groups of the rows."""
    for name, values in (("split", split), ("groups", groups)):
        if values is None:
            continue
        column = classes_of(*columns_of(values, name).popitem())
        if len(column.values) != len(labels):
            raise ShapeError(f"{name}: {len(column.values):,} names, but {BEFORE} has {len(labels):,} rows")
        if name == "groups":
            labels = replace(labels, groups=column)
        else:
            names = (*(column.classes or ()), "")  # −1 is the last
            labels = replace(labels, splits=tuple(names[code] for code in column.values), split_column=column.name)
    return labels


def _options(chosen: dict[str, Any], labels: GuardedLabels, against: str | None) -> EvaluateOptions:
    known = [each.name for each in fields(EvaluateOptions) if each.name not in OF_FILES]
    for name, value in chosen.items():
        if name not in known:
            raise ParameterError(name, value, f"no option of evaluate; expected some of {', '.join(known)}")
    values = {name: _read(name, value) for name, value in read_limits(chosen).items()}
    return EvaluateOptions(**values, against=against, task=None if labels.task is None else labels.task.name)


def _read(name: str, value: Any) -> Any:
    """Return the value of an option: a list as a tuple, and a text as the command line has it."""
    option, _ = options_of(EvaluateOptions)[name]
    if isinstance(value, str):
        return option.read(name, [value] if option.is_repeatable else value)
    return tuple(value) if isinstance(value, list) else value


def _hash_of(source: Source) -> FileHash:
    return FileHash(HASH_ALGORITHMS[0], source.digest(HASH_ALGORITHMS[0]))


def _hash_of_labels(labels: GuardedLabels) -> FileHash:
    """Return a hash of labels in memory: of the digests of their columns, one a line."""
    digests = [labels_digest(labels, attribute, range(len(labels))) for attribute in labels.attributes]
    return FileHash("sha256", hashlib.sha256("".join(f"{each}\n" for each in digests).encode()).hexdigest())
