"""`evaluate`: attackers before and after erasure, what was kept, gates, reports."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from salcli.commands.near_rows import with_bands
from salcli.commands.subject import Subject, assess
from salcli.data.hashes import HASH_ALGORITHMS, FileHash
from salcli.data.join import settle_index
from salcli.data.labels import GuardedLabels
from salcli.data.source import Source
from salcli.erasers.artifact import Artifact, read_artifact
from salcli.errors import located, warn
from salcli.evaluation.baseline import Baseline
from salcli.evaluation.plan import rule_of
from salcli.evaluation.provenance import run_of
from salcli.evaluation.report import ErasedFile, EraserSummary, InputFile, Report
from salcli.evaluation.requested import require_attackers
from salcli.evaluation.stages import opened_against
from salcli.formats import atomic
from salcli.formats.files import file_name
from salcli.formats.gold_sets import column_of
from salcli.formats.label_files import label_files
from salcli.formats.local_urls import takes_paths
from salcli.formats.registry import input_files, opened_source
from salcli.options import EvaluateOptions, ReadOptions
from salcli.render.files import write_reports
from salcli.streaming.cluster.client import runs_on_cluster
from salcli.streaming.engine import one_blas_thread
from salcli.streaming.hashing import hashing, opened_labels
from salcli.streaming.memory import keep_freed_memory
from salcli.streaming.passes import read_table
from salcli.streaming.progress import Progress, Silent


@takes_paths
@runs_on_cluster
def evaluate(
    embeddings: str,
    labels: str | None,
    eraser: str | None,
    options: EvaluateOptions,
    progress: Progress | None = None,
    wording: Callable[[str], str] = str,
    command: str = "",
) -> Report:
    """Train attackers on the rows before and after erasure, score what was kept, judge the gates, write reports.

    Parameters
    ----------
    embeddings : path of the input, before erasure
    labels : path of the label CSV; None: only what needs no labels is measured
    eraser : path of the artifact; None: rows before erasure only, or `against` another file
    options : what is measured, and the limits of the gates
    progress : shows the stages; default: none is shown
    wording : replaces parameter names in notes and reasons, such as by flags
    command : the command line, for the report

    Returns
    -------
    the report, which is written to `options.reports` too

    Raises
    ------
    UsageError : options that contradict each other, or need an input that is missing
    FormatError : an input is damaged
    AlignmentError : inputs do not belong together
    OutputError : a report cannot be written
    """
    progress = progress or Silent()
    require_attackers(options)
    options.require_inputs(has_labels=labels is not None, has_eraser=eraser is not None)
    sets = (column_of(name)[0] for name in options.similarity)
    read = (embeddings, labels, eraser, options.against, options.baseline, options.read.keys_file, *options.bias, *sets)
    files = input_files(embeddings, options.read) + ([] if labels is None else label_files(labels))
    files += [] if options.against is None else input_files(options.against, ReadOptions())
    atomic.check_distinct(options.reports)
    for path in options.reports:
        atomic.check_output(path, (*read, *files))
    baseline = None if options.baseline is None else Baseline.read(options.baseline)
    artifact = None if eraser is None else read_artifact(eraser)
    fitted_file = None if artifact is None else FileHash.recorded(artifact.header["inputs"]["embeddings"])
    algorithm = HASH_ALGORITHMS[0] if fitted_file is None else fitted_file.algorithm
    keep_freed_memory()
    with (
        opened_source(embeddings, options.read) as source,
        opened_against(options.against, source, options.read) as against,
        opened_labels(labels) as tables,
        nullcontext(_tables(source, labels, artifact, eraser, options, progress)) as (table, guarded),
        hashing({each: algorithm for each in (source, against) if each is not None}, tables) as hashes,
        one_blas_thread(),
    ):

        def inputs() -> dict[str, InputFile]:
            found = {"embeddings": InputFile(file_name(embeddings), hashes[0].result(), source.n, source.d)}
            if table is not None:
                n = len(table) - 2 * sum(options.bands)
                found["labels"] = InputFile(file_name(str(labels)), hashes[-1].result(), n)
            return found

        about: EraserSummary | ErasedFile | None = None
        if artifact is not None:
            about = EraserSummary.of(file_name(str(eraser)), artifact)
        elif against is not None:
            about = ErasedFile(file_name(str(options.against)), hashes[1].result(), against.n, against.d)
        with located(embeddings):
            subject = Subject(source, table, artifact, against, guarded, about, baseline)
            report = assess(subject, inputs, options, progress)
    for note in report.notes:
        warn(note)
    paths = [path for path in read if path is not None]
    report = report.worded(lambda text: wording(without_folders(text, paths)))
    report = replace(report, run=run_of(options, artifact, command))
    write_reports(report, options, progress)
    return report


def without_folders(text: str, paths: Sequence[str]) -> str:
    """Return a note, `text`, without the folders of the files at `paths`: no report depends on them."""
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, file_name(path))
    return text


def _tables(
    source: Source,
    labels: str | None,
    artifact: Artifact | None,
    eraser: str | None,
    options: EvaluateOptions,
    progress: Progress,
) -> tuple[GuardedLabels | None, GuardedLabels | None]:
    """Return the labels, and the labels that the eraser was fitted with if it is fitted again and they differ.

    Raises
    ------
    AlignmentError : the rows have another width than the eraser takes
    """
    if artifact is not None:
        artifact.require_width(str(eraser), source)
    if labels is None:
        return None, None
    columns = replace(options.labels, task=options.task)
    columns = columns if artifact is None else artifact.label_options(columns, str(eraser))
    if options.folds is not None:  # the split column names the bands alone
        lacks = options.labels.split_column is None
        columns = replace(columns, may_lack_split=lacks, no_split=options.labels.no_split)
    table = settle_index(read_table(labels, columns, progress), source)
    if options.bands:
        table = with_bands(table, source, rule_of(artifact, table, options), options.bands, progress)
    if artifact is None or not options.fits_again or artifact.guards(table):
        return table, None
    as_fitted = artifact.label_options(
        replace(options.labels, attributes=(), numeric=(), task=artifact.task), str(eraser)
    )
    as_fitted = replace(as_fitted, may_lack_split=columns.may_lack_split)
    return table, settle_index(read_table(labels, as_fitted, progress), source)
