"""`compare`: several erasers, or files erased elsewhere, on the same rows by the same attackers and measures."""

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from salcli.commands.evaluate import without_folders
from salcli.commands.fit import fit
from salcli.commands.subject import Subject, assess
from salcli.data.hashes import HASH_ALGORITHMS, FileHash
from salcli.data.join import settle_index
from salcli.data.labels import GuardedLabels, Index
from salcli.data.source import Source
from salcli.data.splits import EvaluationSplit, SplitRule
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.erasers.base import find_method
from salcli.errors import AlignmentError, UsageError, located, warn
from salcli.evaluation.attack_numbers import chosen_regressors
from salcli.evaluation.attackers import REGRESSORS, names_of
from salcli.evaluation.baseline import Baseline
from salcli.evaluation.before import Before, read_before
from salcli.evaluation.comparison import Candidate, Comparison
from salcli.evaluation.plan import rule_of, shared_split
from salcli.evaluation.provenance import run_of
from salcli.evaluation.report import ErasedFile, EraserSummary, InputFile
from salcli.evaluation.requested import ALL, chosen_probes, require_attackers
from salcli.evaluation.stages import Erasure, opened_against
from salcli.formats import atomic
from salcli.formats.files import file_name, size_of
from salcli.formats.gold_sets import column_of
from salcli.formats.label_files import label_files
from salcli.formats.local_urls import takes_paths
from salcli.formats.registry import input_files, opened_source
from salcli.options import WHITE_BOX, CompareOptions, EvaluateOptions, FitOptions, ReadOptions
from salcli.render.files import write_reports
from salcli.streaming.cluster.client import runs_on_cluster
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.hashing import hashing, opened_labels
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import read_table
from salcli.streaming.progress import Progress, Silent

DIFFERENT_FITS = (
    "the erasers were fitted on different rows: the {:,} rows that any of them was fitted on train the in-sample "
    "attackers and the main task, and none of them is tested"
)


@dataclass(frozen=True, eq=False)
class _Entry:
    """A candidate before it is evaluated."""

    name: str
    path: str
    artifact: Artifact | None = None
    against: Source | None = None


@takes_paths
@runs_on_cluster
def compare(
    embeddings: str,
    labels: str,
    options: CompareOptions,
    progress: Progress | None = None,
    wording: Callable[[str], str] = str,
    command: str = "",
) -> Comparison:
    """Evaluate several erasers on the same rows, and write reports; what is the same before erasure is done once.

    Parameters
    ----------
    embeddings : path of the input, before erasure
    labels : path of the label CSV
    options : the candidates, what is measured, and the limits of the gates
    progress : shows the stages; default: none is shown
    wording : replaces the names of parameters in notes and reasons by those that the reader of the report uses
    command : the command line, for the report

    Returns
    -------
    the comparison, which is written to `options.evaluation.reports` too

    Raises
    ------
    UsageError : options that contradict each other
    FormatError : an input is damaged
    AlignmentError : inputs do not belong together
    LabelError : no labelled row is left that no eraser was fitted on
    OutputError : a report cannot be written
    """
    progress, evaluation = progress or Silent(), _of_each(options)
    paths = (embeddings, labels, *options.erasers, *options.against)
    read = [*input_files(embeddings, evaluation.read), *label_files(labels)]
    read += [file for path in options.against for file in input_files(path, ReadOptions())]
    atomic.check_distinct(evaluation.reports)
    for path in evaluation.reports:
        sets = (column_of(name)[0] for name in evaluation.similarity)
        beside = (evaluation.baseline, evaluation.read.keys_file, *sets, *evaluation.bias)
        atomic.check_output(path, (*read, *options.erasers, *beside))
    baseline = None if evaluation.baseline is None else Baseline.read(evaluation.baseline)
    artifacts = {path: read_artifact(path) for path in options.erasers}
    n_bytes = {path: size_of(path) for path in artifacts}
    _require_alike(artifacts)
    keep_freed_memory()
    with ExitStack() as opened:
        source = opened.enter_context(opened_source(embeddings, evaluation.read))
        others = {path: opened.enter_context(opened_against(path, source, evaluation.read)) for path in options.against}
        for path, artifact in artifacts.items():
            artifact.require_width(path, source)
        for name in options.methods:
            fitted = _fitted(name, embeddings, labels, artifacts, evaluation, progress)
            artifacts[f"method {name}"], n_bytes[f"method {name}"] = fitted
        if options.methods:
            _require_alike(artifacts)
            evaluation = replace(evaluation, fit_split=None, holdout=0.0)  # the erasers have it now
        tables = opened.enter_context(opened_labels(labels))
        table = _table(labels, source, artifacts, evaluation, progress)
        files = {each: _algorithm(artifacts) for each in (source, *others.values()) if each is not None}
        hashes = opened.enter_context(hashing(files, tables))
        opened.enter_context(one_blas_thread())

        def inputs() -> dict[str, InputFile]:
            return {
                "embeddings": InputFile(file_name(embeddings), hashes[0].result(), source.n, source.d),
                "labels": InputFile(file_name(labels), hashes[-1].result(), len(table)),
            }

        entries = tuple(_entries(artifacts, others))
        _require_invertible(entries, source, evaluation)
        cache: dict[Hashable, Any] = {}
        found = []
        with located(embeddings):
            before = _before(source, table, artifacts, evaluation, progress)
            for n, entry in enumerate(entries, 1):
                progress.say(f"candidate {n} of {len(entries)}: {entry.name}")
                about: EraserSummary | ErasedFile | None = None
                if entry.artifact is not None:
                    about = EraserSummary.of(file_name(entry.path), entry.artifact)
                elif entry.against is not None:
                    hashed, of = hashes[list(files).index(entry.against)].result(), entry.against
                    about = ErasedFile(file_name(entry.path), hashed, of.n, of.d)
                subject = Subject(source, table, entry.artifact, entry.against, None, about, baseline, before, cache)
                report = assess(subject, inputs, evaluation, progress)
                report = replace(report, run=run_of(options, entry.artifact, command))
                size = None if entry.artifact is None else n_bytes[entry.path]
                found.append(Candidate(entry.name, report, size, *_timed(entry.artifact, source, before)))
        comparison = Comparison(
            run=run_of(options, None, command), inputs=inputs(), require=options.require, candidates=tuple(found)
        )
    for note in comparison.notes:
        warn(note)
    named = paths if evaluation.baseline is None else (*paths, evaluation.baseline)
    comparison = comparison.worded(lambda text: wording(without_folders(text, named)))
    write_reports(comparison, evaluation, progress)
    return comparison


def _require_invertible(entries: Iterable[_Entry], source: Source, options: EvaluateOptions) -> None:
    """Check, before anything is trained, that each candidate can be inverted for a white-box attacker, if there is one.

    Raises
    ------
    UsageError : it names the candidate
    """
    for entry in entries:
        if WHITE_BOX not in options.adversaries or (entry.artifact is None and entry.against is None):
            continue
        erasure = Erasure() if entry.artifact is None else Erasure.of(entry.artifact, source)
        try:
            erasure.require_invertible()
        except UsageError as error:
            raise UsageError(f"{entry.name}: {error}") from error


def _of_each(options: CompareOptions) -> EvaluateOptions:
    """Return the options by which each candidate is evaluated.

    Raises
    ------
    UsageError : an attacker is requested that reads the kernel of one eraser
    """
    found = options.evaluation
    require_attackers(found)
    found.require_inputs(has_labels=True, has_eraser=True)
    kernels = {*names_of("kernel"), *(name for name, each in REGRESSORS.items() if each.reads == "kernel")}
    if alone := kernels.intersection(found.probes or ()):
        raise UsageError(
            f"`probes={alone.pop()}` reads the kernel of one eraser, and a comparison has the same attackers for all: "
            "`salcli evaluate` has it"
        )
    regressors = [name for name, each in REGRESSORS.items() if each.reads == "vectors"]
    named = [name for name in regressors if found.probes == (ALL,) or name in (found.probes or ())]
    return replace(found, probes=(*chosen_probes(None, found), *named))


def _fitted(
    method: str,
    embeddings: str,
    labels: str,
    artifacts: Mapping[str, Artifact],
    options: EvaluateOptions,
    progress: Progress,
) -> tuple[Artifact, int]:
    """Return an eraser that is fitted here, and the bytes of its artifact.

    Raises
    ------
    ParameterError : there is no such method
    UsageError : the embeddings come from a pipe, which is read once, or the method keeps a main task and none is named
    """
    if embeddings == atomic.STDOUT:
        raise UsageError("`methods` reads the embeddings again for each fit: give a file, not stdin")
    parameters = find_method(method).Parameters()
    if hasattr(parameters, "task"):
        parameters = replace(parameters, task=options.task)
    columns = replace(options.labels, task=options.task)
    rule = SplitRule(options.fit_split, options.holdout, None, options.seed)
    if (leading := _leading(artifacts)) is not None:
        columns, rule = artifacts[leading].label_options(columns, leading), artifacts[leading].rule
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "eraser.npz")
        progress.say(f"fit by method {method}")
        how = FitOptions(
            columns,
            rule.fit_split,
            rule.holdout,
            rule.sample,
            method,
            parameters,
            read=options.read,
            hash_algorithm=_algorithm(artifacts),
            seed=rule.seed,
        )
        fit(embeddings, labels, path, how, progress)
        return read_artifact(path), size_of(path)


def _require_alike(artifacts: Mapping[str, Artifact]) -> None:
    """Check that the erasers take rows of the same width and guard the same attributes.

    Raises
    ------
    AlignmentError : two of them do not
    """
    for path, other in artifacts.items():
        first, one = next(iter(artifacts.items()))
        if one.eraser.d != other.eraser.d:
            raise AlignmentError(f"{path} erases {other.eraser.d} dimensions, but {first} erases {one.eraser.d}")
        guarded, theirs = (", ".join(sorted(a["name"] for a in each.header["attributes"])) for each in (one, other))
        if guarded != theirs:
            raise AlignmentError(
                f"{path} guards {theirs}, but {first} guards {guarded}: candidates guard the same attributes"
            )


def _table(
    labels: str,
    source: Source,
    artifacts: Mapping[str, Artifact],
    options: EvaluateOptions,
    progress: Progress,
) -> GuardedLabels:
    """Return the labels, read as the erasers were fitted to them."""
    columns = replace(options.labels, task=options.task)
    if (leading := _leading(artifacts)) is not None:
        columns = artifacts[leading].label_options(columns, leading)
    return settle_index(read_table(labels, columns, progress), source)


def _leading(artifacts: Mapping[str, Artifact]) -> str | None:
    """Return the eraser by whose fit labels are read: the first that was fitted by a split column, else the first."""
    by_split = (path for path, artifact in artifacts.items() if artifact.header["rows"]["split_column"] is not None)
    return next(by_split, next(iter(artifacts), None))


def _algorithm(artifacts: Mapping[str, Artifact]) -> str:
    """Return by which algorithm files are hashed: that of the first eraser that recorded a hash."""
    known = (FileHash.recorded(artifact.header["inputs"]["embeddings"]) for artifact in artifacts.values())
    return next((each.algorithm for each in known if each is not None), HASH_ALGORITHMS[0])


def _entries(artifacts: Mapping[str, Artifact], others: Mapping[str, Source | None]) -> Iterator[_Entry]:
    """Yield the candidates, named by method and k; by the file too where these are equal, then by a number."""
    methods = {path: f"{a.header['method']} k={a.header['k']}" for path, a in artifacts.items()}
    names = {**methods, **{path: file_name(path) for path in others}}
    for again in ("{name} ({file})", "{name} ({n})"):
        twice, seen = Counter(names.values()), Counter[str]()
        for path, name in names.items():
            if twice[name] > 1:
                seen[name] += 1
                names[path] = again.format(name=name, file=file_name(path), n=seen[name])
    for path, artifact in artifacts.items():
        yield _Entry(names[path], path, artifact)
    for path, against in others.items():
        yield _Entry(names[path], path, None, against)


def _before(
    source: Source,
    table: GuardedLabels,
    artifacts: Mapping[str, Artifact],
    options: EvaluateOptions,
    progress: Progress,
) -> Before:
    """Return the rows before erasure, attacked; they are the same for all candidates."""
    leading = _leading(artifacts)
    rule = rule_of(None if leading is None else artifacts[leading], table, options)

    def split(matched: Index) -> EvaluationSplit:
        return shared_split(table, matched, artifacts, options)

    before = read_before(source, table, split, rule, options, progress)
    fitted = len(before.plan.fitted)
    if any(artifact.header["rows"]["n_fitted"] < fitted for artifact in artifacts.values()):
        before = replace(before, notes=(DIFFERENT_FITS.format(fitted), *before.notes))
    probes, regressors = chosen_probes(None, options), chosen_regressors(None, table, options)
    return before.attacked(probes, regressors, options, progress)


def _timed(artifact: Artifact | None, source: Source, before: Before) -> tuple[float | None, int]:
    """Return the seconds that erasing the labelled rows takes, and how many they are; None without an eraser."""
    if artifact is None:
        return None, 0
    erasure, rows = Erasure.of(artifact, source), before.stages.rows
    start = perf_counter()
    erasure.erased(rows)
    return perf_counter() - start, len(rows)
