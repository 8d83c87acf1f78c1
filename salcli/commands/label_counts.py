"""`label --counts`: classes for rows that no label is aligned with, from the sizes of the classes (AMSAL)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.join import settle_index
from salcli.data.labels import as_index
from salcli.data.sampling import apportioned, stratified_parts
from salcli.data.source import Chunk, Source
from salcli.data.split_parts import PARTS, part_names
from salcli.errors import LabelError, located, warn
from salcli.evaluation.attackers.scores import wilson
from salcli.formats import atomic
from salcli.formats.label_files import label_files
from salcli.formats.label_table import write_labels
from salcli.formats.registry import input_files, opened_source
from salcli.linalg.assignment import Assignment, Codes, assign
from salcli.linalg.unaligned import FREE, Alignment, align, scores_of
from salcli.options import LabelCommandOptions, LabelOptions
from salcli.streaming.engine import map_in_threads, one_blas_thread, ordered_map
from salcli.streaming.passes import gather_rows, join_labels, read_table
from salcli.streaming.progress import Progress

SAMPLE_BYTES = 256 << 20
"""Most memory of the rows that directions are found on, where their number is not set."""
HELD_OUT = 0.25
"""Share of the seed labels that are compared with what a trial assigns."""
LEAST_HELD_OUT = 5
"""Held-out seed labels for each class, below which no accuracy is reported."""
SAME = 1e-6
"""Relative difference of sums of singular values below which starts have found the same."""


@dataclass(frozen=True)
class SeedCheck:
    """How a trial without some of the seed labels assigned their rows."""

    n_known: int
    n_held_out: int
    right: float
    """Share of the held-out rows."""
    chance: float
    """The share that an assignment at random has right on average."""
    is_above_chance: bool
    """Whether the 95 % interval of the share lies above chance."""


@dataclass(frozen=True)
class Assigned:
    """What `label --counts` wrote, and how much it is to be trusted."""

    output: str
    classes: dict[str, int]
    splits: dict[str, int]
    n_assigned: int
    """Rows, those of seed labels included."""
    n_known: int
    """Rows whose class the seed labels fix."""
    n_sampled: int
    """Rows that directions were found on."""
    strength: float
    """Sum of the singular values of the cross-covariance of these rows with their classes."""
    n_starts: int
    n_agreeing: int
    """Starts that reached that sum."""
    seeds: SeedCheck | None
    """None without seed labels, or with too few."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON."""
        return asdict(self)

    def lines(self) -> dict[str, str]:
        """Return the lines of the summary, by their titles."""
        classes = ", ".join(f"{name} {n:,}" for name, n in self.classes.items())
        found = {
            "wrote": self.output,
            "labels": f"{classes}, of {self.n_assigned:,} rows ({self.n_known:,} known)",
            "sum of singular values": f"{self.strength:.4g}, reached by {self.n_agreeing} of {self.n_starts} starts"
            f" on {self.n_sampled:,} rows",
        }
        if self.splits:
            found["split"] = ", ".join(f"{name} {n:,}" for name, n in self.splits.items())
        if self.seeds is not None:
            found["held-out seed labels"] = (
                f"{self.seeds.right:.1%} of {self.seeds.n_held_out:,} right, chance {self.seeds.chance:.1%}"
            )
        return found


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that are assigned: the first of each key, in file order."""

    rows: Codes
    """`[n]` their numbers."""
    keys: Sequence[str] | None
    """`[n]`"""


def label_by_counts(embeddings: str, output: str, options: LabelCommandOptions, progress: Progress) -> Assigned:
    """Write a label CSV of all rows, with as many rows of each class as its count.

    Parameters
    ----------
    embeddings : path of the input
    output : path of the CSV
    options : the counts, seed labels, and the columns
    progress : shows the stages

    Returns
    -------
    what was written

    Raises
    ------
    AlignmentError : the seed labels do not match the rows
    LabelError : counts or seed labels do not fit the rows
    RankError : the rows are all equal
    RangeError : products of values pass the range of float64
    OutputError : the output cannot be written
    """
    labelled = [] if options.seed_labels is None else label_files(options.seed_labels)
    atomic.check_output(output, [*input_files(embeddings, options.read), *labelled, options.read.keys_file])
    names = tuple(name for name, _ in options.counts)
    with opened_source(embeddings, options.read) as source, one_blas_thread(), located(embeddings):
        rows = _distinct_rows(source)
        counts = _whole_counts(source.path, len(rows.rows), options)
        known = _known(source, rows.rows, names, counts, options, progress)
        sampled = _sample(known, source.d, options)
        x = _widened(gather_rows(source, rows.rows[sampled], progress)[0])
        seeds = _checked(x, known[sampled], counts / len(known), options, progress)
        best, n_agreeing = _best(x, known[sampled], counts / len(known), options, progress)
        del x
        scores = _scores(source, rows.rows, best, progress)
        n_all = source.n_all
    is_free = known == FREE
    found = assign(scores[is_free], counts - np.bincount(known[~is_free], minlength=len(names)), best.prices)
    codes = known.copy()
    codes[is_free] = found.codes
    splits = part_names(stratified_parts(codes, options.split, options.seed), len(codes))
    records = _records(rows, n_all, names, codes, splits, scores, Assignment(codes, found.prices), options)
    columns = [*(["word"] if rows.keys else []), options.name, *(["split"] if options.split else []), "score", "margin"]
    with (
        atomic.replacing(output) as temporary,
        open(temporary, "w", encoding="utf-8", errors="surrogateescape", newline="") as handle,
    ):
        write_labels(handle, columns, records)
    return Assigned(
        output,
        dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True)),
        {name: splits.count(name) for name in PARTS} if options.split else {},
        len(codes),
        int(np.sum(~is_free)),
        len(sampled),
        best.strength,
        len(_starts(known, options)),
        n_agreeing,
        seeds,
    )


def _distinct_rows(source: Source) -> _Rows:
    """Return the rows that are not dropped, of those with the same key the first, as labels join that one."""
    rows = source.kept_rows()
    if not source.has_keys:
        return _Rows(rows, None)
    first: dict[str, int] = {}
    for row, key in zip(rows.tolist(), source.kept_keys(), strict=True):
        first.setdefault(key, row)
    if len(first) < len(rows):
        warn(f"{source.path}: {len(rows) - len(first)} rows have the key of another one; the first of each is labelled")
    return _Rows(np.fromiter(first.values(), np.int64, len(first)), tuple(first))


def _whole_counts(path: str, n: int, options: LabelCommandOptions) -> Codes:
    """Return the rows `[c]` of each class.

    Raises
    ------
    LabelError : they do not add up to the `n` rows of the file at `path`, or a share is less than half a row
    """
    numbers = [number for _, number in options.counts]
    if options.has_whole_counts and sum(numbers) != n:
        raise LabelError(f"{path}: `counts` add up to {int(sum(numbers)):,} rows, but there are {n:,} to be labelled")
    counts = np.array(numbers, np.int64) if options.has_whole_counts else apportioned(numbers, n)
    for (name, share), count in zip(options.counts, counts.tolist(), strict=True):
        if not count:
            raise LabelError(f"{path}: `counts`: a share of {share:g} of {n:,} rows is no row of class {name!r}")
    return counts


def _known(
    source: Source, rows: Codes, names: Sequence[str], counts: Codes, options: LabelCommandOptions, progress: Progress
) -> Codes:
    """Return the class `[n]` of each row by the seed labels, `FREE` where there is none.

    Raises
    ------
    LabelError : a seed label is no class of the counts, or there are more of one than its count, or of all rows
    AlignmentError : they do not match the rows
    """
    known = np.full(len(rows), FREE)
    if (path := options.seed_labels) is None:
        warn(
            "without `seed_labels` the names of the classes may be exchanged, and what separates rows most may be "
            "another attribute than the one that is meant"
        )
        return known
    try:
        table = read_table(path, LabelOptions(attributes=(options.name,), no_split=True), progress)
    except LabelError as error:
        raise LabelError(str(error).replace("`attributes`", "`name`")) from None  # the option here
    table = settle_index(table, source)
    join = join_labels(source, table, progress)
    matched = as_index(join.matched(table))
    attribute = table.attributes[0]
    classes = np.array([names.index(name) if name in names else FREE for name in attribute.classes or ()])
    found = classes[attribute.codes(matched)]
    if (found == FREE).any():
        other = (attribute.classes or ())[attribute.codes(matched)[np.argmin(found)]]
        raise LabelError(
            f"{path}: column {options.name!r}: {other!r}, expected a class of `counts`: {', '.join(names)}"
        )
    at = np.searchsorted(rows, as_index(join.rows_of(matched)))
    known[at] = found
    n_known = np.bincount(known[known != FREE], minlength=len(names))
    for name, n, count in zip(names, n_known.tolist(), counts.tolist(), strict=True):
        if n > count:
            raise LabelError(f"{path}: {n:,} seed labels {name!r}, but `counts` has {count:,} rows of that class")
    if (known != FREE).all():
        raise LabelError(f"{path}: every row has a seed label; none is left to assign")
    return known


def _sample(known: Codes, d: int, options: LabelCommandOptions) -> Codes:
    """Return the rows that directions are found on, ascending: all, or known ones and others at random."""
    most = max(2, SAMPLE_BYTES // (4 * d)) if options.sample is None else options.sample
    if len(known) <= most:
        return np.arange(len(known))
    rng = np.random.default_rng(options.seed)
    parts = [np.flatnonzero(known != FREE), np.flatnonzero(known == FREE)]  # seed labels first
    return np.sort(np.concatenate([rng.permutation(part) for part in parts])[:most])


def _widened(x: NDArray[Any]) -> NDArray[Any]:
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def _checked(
    x: NDArray[Any], known: Codes, shares: NDArray[np.float64], options: LabelCommandOptions, progress: Progress
) -> SeedCheck | None:
    """Assign again without a part of the seed labels, and return the share of that part that is right; None: too few.

    Parameters
    ----------
    x : `[m, d]` sampled rows
    known : `[m]` their classes by the seed labels
    shares : `[c]` of the classes
    options : with the seed
    progress : shows the stage
    """
    at = np.flatnonzero(known != FREE)
    if not len(at):
        return None
    held_out = np.sort(at[stratified_parts(known[at], [HELD_OUT], options.seed)[0]])
    if len(held_out) < LEAST_HELD_OUT * len(shares):
        least = math.ceil(LEAST_HELD_OUT * len(shares) / HELD_OUT)
        warn(f"{options.seed_labels}: {len(at)} seed labels are too few to check the assignment by; {least} would do")
        return None
    trial = known.copy()
    trial[held_out] = FREE
    codes = _best(x, trial, shares, options, progress)[0].codes
    right = int(np.sum(codes[held_out] == known[held_out]))
    chance = float(shares @ np.bincount(known[held_out], minlength=len(shares)) / len(held_out))
    share = right / len(held_out)
    check = SeedCheck(len(at) - len(held_out), len(held_out), share, chance, wilson(right, len(held_out))[0] > chance)
    if not check.is_above_chance:
        warn(
            f"{options.seed_labels}: of {len(held_out)} seed labels that were held out, {share:.1%} are assigned "
            f"right, no better than chance ({chance:.1%}): rows differ most by something else than {options.name!r}, "
            "and the labels are not to be trusted"
        )
    return check


def _starts(known: Codes, options: LabelCommandOptions) -> list[tuple[int, int] | None]:
    """Return the seeds of the starts; None is the start from the seed labels, which is the first."""
    at_random: list[tuple[int, int] | None] = [(options.seed, i) for i in range(options.starts)]
    return [None, *at_random] if (known != FREE).any() else at_random


def _best(
    x: NDArray[Any], known: Codes, shares: NDArray[np.float64], options: LabelCommandOptions, progress: Progress
) -> tuple[Alignment, int]:
    """Return the alignment of the largest sum of singular values over all starts, and how many starts reach that.

    Parameters
    ----------
    x : `[m, d]` sampled rows
    known : `[m]` their classes by the seed labels
    shares : `[c]` of the classes, among all rows
    options : with the starts
    progress : shows the stage
    """
    n_known = np.bincount(known[known != FREE], minlength=len(shares))
    n_free = len(known) - int(n_known.sum())
    wanted = np.maximum(shares * len(known) - n_known, 0)  # the known rows of a sample may be more than their share
    counts = n_known + (apportioned(wanted.tolist(), n_free) if wanted.any() else apportioned(shares.tolist(), n_free))
    starts, found = _starts(known, options), list[Alignment]()
    with progress.stage("assign", len(starts), "starts") as advance:
        for alignment in map_in_threads(lambda start: align(x, known, counts, seed=start), starts):
            found.append(alignment)
            advance(1)
    best = max(found, key=lambda each: each.strength)
    return best, sum(each.strength >= best.strength * (1 - SAME) for each in found)


def _scores(source: Source, rows: Codes, best: Alignment, progress: Progress) -> NDArray[np.float64]:
    """Return the scores `[n, c]` of `rows` `[n]`, in a pass over the file."""
    scores = np.empty((len(rows), len(best.prices)))

    def score(chunk: Chunk) -> tuple[Codes, NDArray[np.float64]]:
        batch = chunk.read()
        return batch.rows, scores_of(batch.vectors, best.mean, best.direction)

    with progress.stage("score", source.n_all) as advance:
        for numbers, found in ordered_map(score, source.chunks()):
            at = np.minimum(np.searchsorted(rows, numbers), len(rows) - 1)
            is_labelled = rows[at] == numbers  # others repeat a key
            scores[at[is_labelled]] = found[is_labelled]
            advance(len(numbers))
    return scores


def _records(
    rows: _Rows,
    n_all: int,
    names: Sequence[str],
    codes: Codes,
    splits: Sequence[str],
    scores: NDArray[np.float64],
    found: Assignment,
    options: LabelCommandOptions,
) -> Iterator[Sequence[str]]:
    """Yield the lines of the CSV: of keys, those that are labelled; without keys, one for each row of the file."""
    own, margins = scores[np.arange(len(codes)), codes].tolist(), found.margins(scores).tolist()
    n_cells = 3 + bool(options.split)

    def cells(at: int) -> list[str]:
        part = [splits[at]] if options.split else []
        return [names[codes[at]], *part, repr(own[at]), repr(margins[at])]

    is_written = [not options.split or bool(part) for part in splits]
    if rows.keys is not None:
        yield from ([key, *cells(at)] for at, key in enumerate(rows.keys) if is_written[at])
        return
    position = dict(zip(rows.rows.tolist(), range(len(codes)), strict=True))
    for row in range(n_all):
        at = position.get(row)
        yield cells(at) if at is not None and is_written[at] else [""] * n_cells
