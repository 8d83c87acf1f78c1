"""Labels from seed words: the paper's word-embedding set-up (most `he` and most `she` words by cosine).

Labels from the sizes of the classes are in `label_counts`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.commands.label_counts import Assigned, label_by_counts
from salcli.data.groups import RowGroups, grouped_parts, require_filled
from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.sampling import stratified_parts
from salcli.data.source import Chunk, Source
from salcli.data.split_parts import PARTS, part_names
from salcli.errors import AlignmentError, LabelError, ParameterError, RankError, warn
from salcli.formats import atomic
from salcli.formats.gold_sets import column_of
from salcli.formats.key_groups import KeyGroups, read_key_groups
from salcli.formats.label_table import write_labels
from salcli.formats.local_urls import takes_paths
from salcli.formats.registry import input_files, opened_source
from salcli.linalg.seeds import direction_scores, seed_direction
from salcli.options import LabelCommandOptions
from salcli.streaming.engine import ordered_map
from salcli.streaming.passes import gather_keys
from salcli.streaming.progress import Progress, Silent


@dataclass(frozen=True)
class Labelled:
    """The number of words of each class and part that `label` wrote, and the scores at the limits."""

    output: str
    classes: dict[str, int]
    splits: dict[str, int]
    bands: dict[str, int]
    """Words of each band, which are not among the classes and splits."""
    n_scored: int
    lowest_score_of_first: float
    highest_score_of_second: float
    group_column: str | None = None
    """The column whose groups each lie in one part."""
    n_groups: int | None = None
    """Groups of the classes' words; a word without one is a group of its own."""
    n_unlabelled: int | None = None
    """Words without a class."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON; those of groups only if there are any."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def lines(self) -> dict[str, str]:
        """Return the lines of the summary, by their titles."""
        classes = ", ".join(f"{name} {n:,}" for name, n in self.classes.items())
        edges = f"lowest {self.lowest_score_of_first:.4f}, highest {self.highest_score_of_second:.4f}"
        splits = {"split": ", ".join(f"{name} {n:,}" for name, n in self.splits.items())} if self.splits else {}
        bands = {"bands": ", ".join(f"{name} {n:,}" for name, n in self.bands.items())} if self.bands else {}
        labels = f"{classes}, of {self.n_scored:,} words"
        labels += "" if self.n_unlabelled is None else f"; {self.n_unlabelled:,} more without a class"
        groups = {} if self.n_groups is None else {"groups": f"{self.n_groups:,} of column {self.group_column}"}
        return {"wrote": self.output, "labels": labels, "scores": edges, **splits, **groups, **bands}


@takes_paths
def label(
    embeddings: str, output: str, options: LabelCommandOptions, progress: Progress | None = None
) -> Labelled | Assigned:
    """Write a label CSV: of the words at both ends of the seed direction, or of all rows by the sizes of the classes.

    Parameters
    ----------
    embeddings : path of the input; for seed words it has keys
    output : path of the CSV
    options : the seed words and the number of words, or class counts; and the columns
    progress : shows the stages of an assignment by counts; default: none is shown

    Returns
    -------
    what was written

    Raises
    ------
    AlignmentError : the input has no keys, a seed word no row, or no labelled word a group
    RankError : the seed words define no direction
    LabelError : there are too few words or groups, or counts or seed labels that do not fit the rows
    OutputError : the output cannot be written
    """
    if options.counts:
        return label_by_counts(embeddings, output, options, progress or Silent())
    return _label_by_words(embeddings, output, options)


def _label_by_words(embeddings: str, output: str, options: LabelCommandOptions) -> Labelled:
    groups_file = None if options.groups is None else column_of(options.groups)[0]
    atomic.check_output(output, [*input_files(embeddings, options.read), options.read.keys_file, groups_file])
    with opened_source(embeddings, options.read) as source:
        if not source.has_keys:
            raise AlignmentError(f"{source.path} has no keys, so no seed word can be found: give `keys_file=FILE`")
        groups = None if options.groups is None else _groups(source, options.groups, options)
        direction = _direction(source, options)
        keys, scores = _scores(source, direction, options)
    needed = 2 * (options.top + sum(options.bands) + options.unlabelled)
    if len(keys) < needed:
        requested = f"`top={options.top}`" + (
            f" and `bands={','.join(map(str, options.bands))}`" if options.bands else ""
        )
        requested += f" and `unlabelled={options.unlabelled}`" if options.unlabelled else ""
        raise LabelError(f"{embeddings}: {len(keys):,} words to choose from, {requested} needs {needed}")
    order = np.lexsort((np.arange(len(scores)), -scores))
    chosen = np.concatenate([order[: options.top], order[-options.top :]])
    names = options.pairs[0]
    strata = np.repeat([0, 1], options.top)
    n_groups: int | None = None
    if groups is None:
        parts = stratified_parts(strata, options.split, options.seed)
    else:
        parts, n_groups = _parts_of_groups([keys[row] for row in chosen.tolist()], strata, groups, options)
    splits = part_names(parts, len(strata))
    bands = _bands(order, options)
    at = options.top + sum(options.bands)
    columns = ["word", options.name, *(["split"] if options.split else []), *(["score"] if options.with_scores else [])]
    columns += [] if groups is None else [groups.name]

    def record(row: int, name: str, part: str) -> Sequence[str]:
        score = [repr(float(scores[row]))] if options.with_scores else []
        group = [] if groups is None else [groups.of.get(keys[row], "")]
        return [keys[row], name, *([part] if options.split else []), *score, *group]

    def rows() -> Iterator[Sequence[str]]:
        for position, row in enumerate(chosen.tolist()):
            if not options.split or splits[position]:
                yield record(row, names[strata[position]], splits[position])
        for band, (first, second) in bands.items():
            yield from (
                record(row, name, band) for name, end in zip(names, (first, second), strict=True) for row in end
            )
        ends = order[at : at + options.unlabelled], order[len(order) - at - options.unlabelled : len(order) - at]
        yield from (record(row, "", "") for end in ends for row in end.tolist())

    with (
        atomic.replacing(output) as temporary,
        open(temporary, "w", encoding="utf-8", errors="surrogateescape", newline="") as handle,
    ):
        write_labels(handle, columns, rows())
    counts = {name: splits.count(name) for name in PARTS} if options.split else {}
    written = [not options.split or bool(split) for split in splits]
    classes = {name: int(np.sum(np.array(written)[strata == i])) for i, name in enumerate(names)}
    in_bands = {name: len(first) + len(second) for name, (first, second) in bands.items()}
    return Labelled(
        output,
        classes,
        counts,
        in_bands,
        n_scored=len(keys),
        lowest_score_of_first=float(scores[order[options.top - 1]]),
        highest_score_of_second=float(scores[order[-options.top]]),
        group_column=None if groups is None else groups.name,
        n_groups=n_groups,
        n_unlabelled=2 * options.unlabelled or None,
    )


def _direction(source: Source, options: LabelCommandOptions) -> NDArray[np.float64]:
    words = {word for pair in options.pairs for word in pair}
    found, _ = gather_keys(source, words)
    missing = sorted(words - set(found))
    if missing:
        raise AlignmentError(
            f"{source.path}: no row for the seed word{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        )
    for word, vector in found.items():
        if not vector.any():
            raise RankError(f"{source.path}: the seed word {word!r} has a vector of zeros, which defines no direction")
    firsts, seconds = (np.stack([found[pair[side]] for pair in options.pairs]) for side in (0, 1))
    try:
        return seed_direction(firsts, seconds)
    except RankError as error:
        raise RankError(f"{source.path}: {error}") from error


def _scores(
    source: Source, direction: NDArray[np.float64], options: LabelCommandOptions
) -> tuple[list[str], NDArray[np.float64]]:
    """Return keys and scores of the first row of each key, without zero rows."""
    scores: dict[str, float] = {}
    n_rows = 0
    for batch in ordered_map(Chunk.read, source.chunks()):
        if options.limit is not None and batch.rows[0] >= options.limit:
            break
        within = batch if options.limit is None else batch.take(batch.rows < options.limit)
        values = direction_scores(within.vectors, direction, by_cosine=options.by == "cosine")
        n_rows += len(within)
        for key, score in zip(within.keys or (), values.tolist(), strict=True):
            scores.setdefault(key, score)
    kept = {key: score for key, score in scores.items() if score == score}
    if n_rows > len(scores):
        warn(f"{source.path}: {n_rows - len(scores)} rows have the key of another one; the first of each is scored")
    if len(kept) < len(scores):
        warn(f"{source.path}: {len(scores) - len(kept)} zero rows have no cosine and are left out")
    return list(kept), np.fromiter(kept.values(), np.float64, len(kept))


def _bands(order: NDArray[np.int64], options: LabelCommandOptions) -> dict[str, tuple[list[int], list[int]]]:
    """Return by the name of a band its words at the first and at the second end, from `order` by falling score."""
    found, at = {}, options.top
    for number, size in enumerate(options.bands, start=1):
        ends = order[at : at + size], order[len(order) - at - size : len(order) - at]
        found[f"band{number}"] = ends[0].tolist(), ends[1].tolist()
        at += size
    return found


def _groups(source: Source, name: str, options: LabelCommandOptions) -> KeyGroups:
    """Return the groups, whose column can stand beside the others.

    Raises
    ------
    ParameterError : it has the name of another one
    """
    groups = read_key_groups(name, source, options.read)
    if groups.name.lower() in ("word", "key", "id", "token", "split", "score", options.name.lower()):
        raise ParameterError("groups", name, f"the column {groups.name!r} has the name of another one that is written")
    return groups


def _parts_of_groups(
    keys: list[str], strata: Index, groups: KeyGroups, options: LabelCommandOptions
) -> tuple[list[Index], int]:
    """Return the positions of each part, and the number of groups; a word without a group is one of its own."""
    names = sorted({groups.of[key] for key in keys if key in groups.of})
    if not names:
        raise AlignmentError(f"{groups.path}: none of the {len(keys):,} labelled words has a group in {groups.name!r}")
    code_of = {name: code for code, name in enumerate(names)}
    codes = np.array([code_of.get(groups.of.get(key, ""), -1) for key in keys], np.int64)
    if lacking := int(np.sum(codes < 0)):
        warn(f"{groups.path}: {lacking:,} of {len(keys):,} labelled words have no group: each is one of its own")
    classes, by = Attribute(options.name, strata, options.pairs[0]), Attribute(groups.name, codes, tuple(names))
    labels, index = GuardedLabels(groups.path, (classes,), tuple(keys), groups=by), np.arange(len(keys))
    found = RowGroups.of(labels, index)
    parts = grouped_parts(found, strata, options.split, options.seed)
    sizes = {name: len(part) for name, part in zip(PARTS, parts, strict=True)}
    wanted = zip(sizes, options.split, strict=True)
    require_filled(labels, index, {name: sizes[name] for name, share in wanted if share * len(keys) >= 1})
    return parts, len(found.names)
