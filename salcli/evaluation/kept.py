"""What erasure keeps of labelled rows and of the others, and what can be read from the nearest neighbours alone.

A method that changes labelled rows alone hides in an average over all rows; so the two are compared apart.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index
from salcli.data.sampling import capped
from salcli.data.split_parts import in_bands
from salcli.evaluation.attackers.scores import balanced_accuracy, errors, majority_rate, wilson, within_0_1
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.cosine import PLACES, cosines, unit_rows
from salcli.evaluation.neighbors import NEIGHBORS, OVERLAP_AT, Neighbors, nearest, overlap
from salcli.evaluation.section import Section, Table, filled, names, numbers
from salcli.evaluation.stages import gather_same
from salcli.evaluation.text import count, decimal, interval, percent, visible
from salcli.streaming.passes import gather_rows

MOST_ROWS, MOST_ELEMENTS = 30_000, 1 << 25
"""Rows of a file among which neighbours are sought, and their numbers at most."""
ROWS_OF_BLOCK, MOST_BLOCKS = 1 << 14, 64
"""Of a file with more rows than these blocks have, rows are drawn from so many blocks."""
SAMPLE = 500
"""Rows, labelled and others, whose neighbours are compared; twice as many of one kind where the other is missing."""
VOTERS = 10
"""Nearest labelled rows that vote."""
MOST_VOTES = 2_000
"""Test rows that are voted on."""
BLOCK_ROWS = 1_024
Array = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class KeptRows:
    """What is kept of some of the rows of a file."""

    rows: str
    """all, labelled or others."""
    n: int
    """Rows of the file."""
    n_sampled: int
    overlap_at_10: float | None
    """Mean share of the ten nearest rows that stay; None without neighbours."""
    overlap_error: float | None
    """Its standard error."""
    mean_cosine: float | None
    """Of rows before and after; None where these have other widths."""


@dataclass(frozen=True)
class Vote:
    """What can be read of an attribute from the nearest neighbours alone, at one stage."""

    attribute: str
    stage: str
    accuracy: float
    ci95: tuple[float, float]
    balanced_accuracy: float
    balanced_ci95: tuple[float, float] | None
    majority: float
    n_train: int
    """Labelled rows, fitted and fresh ones, of which the nearest vote."""
    n_test: int


@dataclass(frozen=True)
class Kept:
    """What erasure keeps of rows, and what can be read from their neighbours."""

    rows: tuple[KeptRows, ...]
    n_among: int
    """Rows among which neighbours are sought, of those of the file."""
    votes: tuple[Vote, ...]


class KeptMeasure(Measure[Kept]):
    """Neighbours and cosines of labelled and of other rows, and the votes of nearest labelled rows."""

    name: ClassVar[str] = "kept"

    def run(self, rows: BeforeAfter) -> Kept | None:
        """Return what is kept; None if it was not requested or nothing is written (see `Measure.run`)."""
        if not rows.options.kept:
            return None
        if rows.erasure.eraser is None and rows.erasure.kernel is not None:
            return None  # there are inner products alone
        has_after = rows.stages.after is not None and rows.labelled is not None
        found, n_among = compared(rows) if has_after else ((), 0)
        votes = tuple(vote for attribute in rows.classified for vote in votes_on(rows, attribute))
        return Kept(found, n_among, votes) if found or votes else None

    def section(self, record: Kept) -> Section:
        """Return a table of rows and one of votes (see `Measure.section`)."""
        columns = (
            *names("rows"),
            *numbers("neighbours kept", "standard error", "mean cosine", "sampled", "of"),
        )
        of_rows = tuple(
            (
                visible(each.rows),
                *map(decimal, (each.overlap_at_10, each.overlap_error, each.mean_cosine)),
                *(count(each.n_sampled), count(each.n)),
            )
            for each in record.rows
        )
        kept = Table("Nearest rows that stay, and cosines of rows before and after", columns, of_rows)
        sentences = []
        if record.rows:
            stay = (f"{percent(each.overlap_at_10)} of {visible(each.rows)}" for each in record.rows)
            sentences.append(
                f"Neighbours that stay, of the {OVERLAP_AT} nearest among {count(record.n_among)} rows: "
                f"{', '.join(stay)}."
            )
        sentences.append(
            f"The {VOTERS} nearest labelled rows, fitted and fresh ones, vote on the class of each test row: it shows "
            "what labels and neighbours alone give away, without any vector."
        )
        return Section(self.name, "Labelled rows and others", (" ".join(sentences),), filled([kept, _votes(record)]))


KEPT = KeptMeasure()


def _votes(record: Kept) -> Table:
    pairs: dict[str, dict[str, Vote]] = {}
    for vote in record.votes:
        pairs.setdefault(vote.attribute, {})[vote.stage] = vote
    rows = []
    for name, pair in pairs.items():
        latest = pair.get("after") or pair["before"]
        both = [pair.get(stage) for stage in ("before", "after")]
        rows.append(
            (
                visible(name),
                *(decimal(None if vote is None else vote.accuracy) for vote in both),
                *(interval(latest.ci95), decimal(latest.majority)),
                *(decimal(None if vote is None else vote.balanced_accuracy) for vote in both),
                *(interval(latest.balanced_ci95), count(latest.n_train), count(latest.n_test)),
            )
        )
    columns = (
        *names("attribute"),
        *numbers("before", "after", "95% interval", "majority"),
        *numbers("balanced before", "balanced after"),
        *numbers("95% interval of balanced", "train", "test", are_spare=True),
    )
    return Table("Share of test rows whose class the neighbours give away", columns, tuple(rows))


def compared(rows: BeforeAfter) -> tuple[tuple[KeptRows, ...], int]:
    """Return what is kept of all rows, of the labelled ones and of the others.

    Of a large file, neighbours are sought among a sample of its rows, unless all are in memory for `neighbors` or its
    gate. All rows are the mean of the two kinds, weighted
    by their numbers.

    Parameters
    ----------
    rows : before and after erasure, with labels and the rows of the file that they belong to

    Returns
    -------
    the three, and the number of rows among which neighbours are sought; nothing and 0 if it is not known which rows
    have labels
    """
    labelled = rows.labelled
    if labelled is None or labelled.row_of_label is None:
        return (), 0
    source, rng = rows.source, np.random.default_rng(rows.options.seed)
    known = np.unique(labelled.row_of_label[_has_label(labelled.labels)])
    known = known[known >= 0]
    most = min(MOST_ROWS, max(4 * SAMPLE, MOST_ELEMENTS // max(1, source.d)))
    drawn = drawn_rows(source.n_all, most, rng)
    drawn = drawn[~np.isin(drawn, source.dropped)]
    sizes = {"labelled": len(known), "others": source.n_all - len(source.dropped) - len(known)}
    kinds = {"labelled": rng.permutation(known), "others": drawn[~np.isin(drawn, known)]}
    size = SAMPLE if all(map(len, kinds.values())) else 2 * SAMPLE
    sampled = {name: index[:size] for name, index in kinds.items()}
    is_whole = NEIGHBORS.is_requested(rows.options)
    pool = source.kept_rows() if is_whole else np.unique(np.concatenate([drawn, *sampled.values()]))
    key = gather_rows if is_whole else (compared, "rows")
    x, kept = rows.shared(key, lambda: gather_rows(source, pool, rows.progress))
    before, after = rows.erasure.published(x), rows.erasure.erased(x)
    if rows.erasure.against is not None:
        after = gather_same(source, rows.erasure.against, pool, kept, rows.progress)
    assert after is not None
    found = []
    for name, index in sampled.items():
        if len(index):
            at = np.searchsorted(pool, np.sort(index))
            near = partial(nearest, before, at, OVERLAP_AT)
            near_before = rows.shared((compared, name), near) if before is x else near()
            found.append(_kept(name, sizes[name], before, after, at, near_before[0]))
    return (_of_all(found), *found), len(pool)


def as_in_table(found: Neighbors | None, kept: Kept | None) -> Neighbors | None:
    """Return the neighbours that all rows keep as the table of `kept` has it, so that gates judge no other figure.

    Parameters
    ----------
    found : of words, and of a sample of all rows
    kept : of samples of labelled rows and of others
    """
    if found is None or kept is None or not kept.rows:
        return found
    of_all = kept.rows[0]
    return replace(
        found,
        mean_overlap_at_10=of_all.overlap_at_10,
        n_sampled=of_all.n_sampled,
        overlap_error=of_all.overlap_error,
    )


def drawn_rows(n: int, size: int, rng: np.random.Generator) -> Index:
    """Return at most `size` of n row numbers, in random order: all, or some of a few long blocks of a very large file.

    Few blocks are read sooner than rows here and there.

    Parameters
    ----------
    n : rows of the file
    size : rows to draw
    rng : that draws
    """
    if n <= MOST_BLOCKS * ROWS_OF_BLOCK:
        return rng.choice(n, min(size, n), replace=False)
    blocks = rng.choice(-(-n // ROWS_OF_BLOCK), MOST_BLOCKS, replace=False) * ROWS_OF_BLOCK
    rows = (blocks[:, None] + np.arange(ROWS_OF_BLOCK)).ravel()
    return rng.choice(rows[rows < n], size, replace=False)


def _has_label(labels: GuardedLabels) -> NDArray[np.bool_]:
    """Return which labels `[m]` have a class or number of any attribute, and are in no band."""
    has_one: NDArray[np.bool_] = np.logical_or.reduce([attribute.is_labelled for attribute in labels.attributes])
    return has_one & ~in_bands(labels)


def _kept(
    name: str, n: int, before: NDArray[Any], after: NDArray[Any], at: Index, near_before: NDArray[np.int64]
) -> KeptRows:
    pairs = zip(near_before, nearest(after, at, OVERLAP_AT)[0], strict=True)
    shares = [share for share in (overlap(one, other) for one, other in pairs) if share is not None]
    error = float(np.std(shares, ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else None
    return KeptRows(
        name, n, len(at), float(np.mean(shares)) if shares else None, error, _mean_cosine(before, after, at)
    )


def _mean_cosine(before: NDArray[Any], after: NDArray[Any], at: Index) -> float | None:
    """Return the mean cosine of rows before and after; a row that becomes zero keeps nothing of its direction."""
    if before.shape[1] != after.shape[1]:
        return None
    return float(np.mean(cosines(unit_rows(before[at])[0], unit_rows(after[at])[0])))


def _of_all(found: list[KeptRows]) -> KeptRows:
    """Return the mean of the kinds of rows, weighted by their numbers; undefined where one is."""
    n = sum(each.n for each in found)

    def mean(values: list[float | None]) -> float | None:
        if any(value is None for value in values):
            return None
        return sum((value or 0.0) * each.n / n for value, each in zip(values, found, strict=True))

    errors_ = [each.overlap_error for each in found]
    error = None
    if all(value is not None for value in errors_):
        error = float(np.sqrt(sum(((e or 0.0) * each.n / n) ** 2 for e, each in zip(errors_, found, strict=True))))
    overlaps, moved = [each.overlap_at_10 for each in found], [each.mean_cosine for each in found]
    return KeptRows("all", n, sum(each.n_sampled for each in found), mean(overlaps), error, mean(moved))


def votes_on(rows: BeforeAfter, attribute: Attribute) -> list[Vote]:
    """Return by stage how often the nearest labelled rows vote for the true class of a test row.

    The voters are the rows that train any attacker; where no rows are held out, a row does not vote on itself.

    Parameters
    ----------
    rows : before and after erasure, with labels
    attribute : whose classes are voted on

    Returns
    -------
    nothing where voters are of one class, or no test row is of a class of theirs
    """
    plan, stages = rows.plan, rows.stages
    codes = attribute.codes(stages.labels)
    if not plan.trainers:
        return []
    trained = np.unique(np.concatenate([stages.at(index) for index in plan.trainers.values()]))
    voters = trained[codes[trained] >= 0]
    at = stages.at(capped(rows.labels, plan.test, MOST_VOTES, rows.options.seed))
    at = at[np.isin(codes[at], codes[voters]) & (codes[at] >= 0)]
    if len(np.unique(codes[voters])) < 2 or not len(at):
        return []
    found = []
    for stage, x in stages.named().items():
        votes, true = partial(vote, x, at, voters, codes), codes[at]
        key = votes_on, attribute.name, at.tobytes(), voters.tobytes()
        predicted = stages.once(key, votes) if stage == "before" else votes()
        n_right = int(np.sum(predicted == true))
        balanced = balanced_accuracy(predicted, true)
        found.append(
            Vote(
                attribute.name,
                stage,
                n_right / len(at),
                wilson(n_right, len(at)),
                balanced,
                within_0_1(balanced, errors(predicted, true)[1]),
                majority_rate(true),
                len(voters),
                len(at),
            )
        )
    return found


def vote(x: NDArray[Any], at: Index, voters: Index, codes: Codes) -> Codes:
    """Return the class that most of the nearest voters have, by cosine; of several, that of the nearest voter.

    Parameters
    ----------
    x : `[n, d]` rows
    at : `[m]` positions of the rows that are voted on
    voters : `[v]` positions of the rows that vote, on others than themselves
    codes : `[n]` classes

    Returns
    -------
    `[m]` classes
    """
    units, found = unit_rows(x[voters])[0], np.empty(len(at), codes.dtype)
    n = min(VOTERS, len(voters))
    for start in range(0, len(at), BLOCK_ROWS):
        rows = at[start : start + BLOCK_ROWS]
        products = np.round(unit_rows(x[rows])[0] @ units.T, PLACES)
        products[rows[:, None] == voters[None, :]] = -np.inf
        least = np.partition(products, len(voters) - n, axis=1)[:, len(voters) - n]
        for i, (of_row, bound) in enumerate(zip(products, least, strict=True)):
            near = np.flatnonzero((of_row >= bound) & (of_row > -np.inf))
            near = near[np.lexsort((near, -of_row[near]))[:n]]
            values, first, counts = np.unique(codes[voters[near]], return_index=True, return_counts=True)
            found[start + i] = values[np.lexsort((first, -counts))[0]]
    return found
