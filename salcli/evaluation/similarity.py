"""Word similarity before and after erasure: the rank correlation of cosines with human judgements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.source import Source
from salcli.erasers.linear import LinearEraser
from salcli.errors import AlignmentError
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.cosine import cosines, unit_rows
from salcli.evaluation.json_fields import OPTIONAL, named
from salcli.evaluation.rank_bootstrap import percentiles, resampled, share_error
from salcli.evaluation.section import Fact, Figure, Section, Table, names, numbers
from salcli.evaluation.stages import erase_keys
from salcli.evaluation.text import count, decimal, interval, listed, shortened, visible
from salcli.evaluation.word_pairs import POLICY, Lookup, pair_cosines, spearman, spellings
from salcli.formats.files import file_name
from salcli.formats.gold_sets import SimilaritySet, read_similarity
from salcli.options import EvaluateOptions
from salcli.streaming.passes import gather_keys

N_CONTROLS = 10
MOST_WORDS = 20
"""Words out of the vocabulary that a report names."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class SimilarityChange:
    """Agreement with one gold set before and after erasure, on the same pairs."""

    name: str = field(metadata=named("set"))
    before: float | None
    """Spearman's rank correlation of cosine and gold; None where it is undefined."""
    after: float | None
    """The same after erasure; None also where nothing was erased."""
    random_control: float | None
    """Mean of it over `N_CONTROLS` draws of random directions, as many as were erased; None if it is undefined."""
    difference_ci95: tuple[float, float] | None
    """Bootstrap interval of after − before."""
    pairs_total: int
    pairs_used: int
    oov_pairs: int
    oov_words: tuple[str, ...]
    zero_pairs: int
    """Pairs with a zero vector before or after, whose cosine is undefined; left out of both."""
    policy: str = POLICY
    kept_error: float | None = field(default=None, metadata=OPTIONAL)
    """Standard error of after / before, by bootstrap."""

    @property
    def is_at_edge(self) -> bool:
        """Whether the difference lies at an end of its interval or beyond, within a twentieth of its width."""
        if self.difference_ci95 is None or self.before is None or self.after is None:
            return False
        low, high = self.difference_ci95
        edge = (high - low) / 20
        return not low + edge <= self.after - self.before <= high - edge and high > low


def similarity_change(
    name: str,
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[float],
    before: Mapping[str, NDArray[Any]],
    after: Mapping[str, NDArray[Any]] | None,
    *,
    k: int | None,
    mean: NDArray[Any] | None,
    strength: float = 1.0,
    seed: int,
) -> SimilarityChange:
    """Return the rank correlation of cosines with gold scores before and after erasure.

    Parameters
    ----------
    name : of the set
    pairs, gold : words and scores
    before : `[d]` by key
    after : `[d']` by key, or None if nothing was erased; keys that either lacks are out of the vocabulary
    k : directions that the random control removes; None: no control
    mean : `[d]` subtracted before it removes them; None: zero
    strength : λ of the erasure
    seed : of the control and of the bootstrap

    Raises
    ------
    AlignmentError : not one pair is in the vocabulary
    """
    found = Lookup.of(name, pairs, before if after is None else before.keys() & after.keys())
    values_before, is_used = pair_cosines(found.keys, before)
    values_after = None
    if after is not None:
        values_after, has_cosine = pair_cosines(found.keys, after)
        is_used &= has_cosine
        values_after = values_after[is_used]
    values_before = values_before[is_used]
    scores = np.asarray(gold, dtype=np.float64)[list(found.positions)][is_used]
    rho_before = spearman(values_before, scores)
    rho_after = None if values_after is None else spearman(values_after, scores)
    interval, control, error = None, None, None
    if values_after is not None and rho_before is not None and rho_after is not None:
        correlations = resampled(values_before, values_after, scores, seed=seed)
        interval, error = percentiles(*correlations), share_error(*correlations)
    if k is not None and rho_before is not None:
        used = [keys for keys, is_in in zip(found.keys, is_used, strict=True) if is_in]
        control = _random_control(used, scores, before, k, mean, strength, seed)
    return SimilarityChange(
        name,
        rho_before,
        rho_after,
        control,
        interval,
        pairs_total=len(pairs),
        pairs_used=len(scores),
        oov_pairs=len(pairs) - len(found.keys),
        oov_words=found.oov_words,
        zero_pairs=int((~is_used).sum()),
        kept_error=error,
    )


def _random_control(
    keys: Sequence[tuple[str, str]],
    scores: Array,
    vectors: Mapping[str, NDArray[Any]],
    k: int,
    mean: NDArray[Any] | None,
    strength: float,
    seed: int,
) -> float | None:
    """Return the mean of Spearman over draws; None where one is undefined, as when no direction is left."""
    words = {word: row for row, word in enumerate(dict.fromkeys(word for pair in keys for word in pair))}
    x = np.stack([vectors[word] for word in words]).astype(np.float64)
    if k >= x.shape[1]:
        return None
    centre = np.zeros(x.shape[1]) if mean is None else mean.astype(np.float64)
    firsts, seconds = np.array([[words[one], words[other]] for one, other in keys]).T
    found = []
    for draw in range(N_CONTROLS):
        directions = random_directions(x.shape[1], k, np.random.default_rng([seed, draw, k]))
        units, is_nonzero = unit_rows(x - strength * ((x - centre) @ directions) @ directions.T)
        rho = spearman(cosines(units[firsts], units[seconds]), scores) if is_nonzero.all() else None
        if rho is None:
            return None
        found.append(rho)
    return float(np.mean(found))


def random_directions(d: int, k: int, rng: np.random.Generator) -> Array:
    """Return random orthonormal directions, uniform over all such sets: `[d, k]`.

    Parameters
    ----------
    d : dimensions
    k : directions, at most d
    rng : that draws
    """
    directions: Array = np.linalg.qr(rng.standard_normal((d, k)))[0]
    return directions


@dataclass(frozen=True, eq=False)
class GoldVectors:
    """Gold sets, and the vectors of their words as they are in the file."""

    sets: tuple[SimilaritySet, ...]
    before: Mapping[str, NDArray[Any]]
    rows: Mapping[str, int]
    """Row of each word in the file."""


def gather_words(source: Source, options: EvaluateOptions) -> GoldVectors:
    """Return the gold sets of the options, and the vectors of their words.

    Parameters
    ----------
    source : embeddings with keys
    options : with the names of the sets

    Raises
    ------
    AlignmentError : the file has no keys
    FormatError, LabelError : a gold set cannot be read
    """
    sets = tuple(read_similarity(name) for name in options.similarity)
    if not sets:
        return GoldVectors((), {}, {})
    if not source.has_keys:
        raise AlignmentError(f"`similarity` looks words up, but {source.path} has no keys: give `keys_file=FILE`")
    keys: set[str] = set().union(*(spellings(gold.pairs) for gold in sets))
    return GoldVectors(sets, *gather_keys(source, keys))


Changes = tuple[SimilarityChange, ...]


class Similarity(Measure[Changes]):
    """Correlation of cosines with gold scores, beside a control that removes as many random directions."""

    name: ClassVar[str] = "similarity"
    needs_labels: ClassVar[bool] = False
    swept: ClassVar[tuple[str, str] | None] = ("Similarity kept", "Spearman correlation")

    def run(self, rows: BeforeAfter) -> Changes:
        """Return the change of each gold set; none where no set was requested (see `Measure.run`)."""
        words, erasure = rows.once(gather_words), rows.erasure
        after = erase_keys(words.before, words.rows, erasure)
        eraser = erasure.eraser
        k, mean = (eraser.k, eraser.mean) if isinstance(eraser, LinearEraser) else (None, None)
        return tuple(
            similarity_change(
                file_name(gold.name),
                gold.pairs,
                gold.scores,
                words.before,
                after,
                k=k,
                mean=mean,
                strength=erasure.strength,
                seed=rows.options.seed,
            )
            for gold in words.sets
        )

    def section(self, record: Changes) -> Section | None:
        """Return one table, a gold set a row (see `Measure.section`)."""
        if not record:
            return None
        lead = "Spearman correlation of cosine similarities with human judgements."
        if any(change.random_control is not None for change in record):
            lead += (
                " The random control removes as many directions, drawn at random: what it loses too is the price of "
                "any removal, not of this one."
            )
        points = tuple(
            f"{visible(change.name)}: out of vocabulary are {listed(change.oov_words, MOST_WORDS)}"
            for change in record
            if change.oov_words
        )
        columns = (
            *names("set"),
            *numbers("before", "after", "95% interval of the difference", "random control"),
            *numbers("pairs used", "of", "out of vocabulary", "zero vectors", are_spare=True),
            *names("policy"),
        )
        rows = tuple(
            (
                visible(change.name),
                *(decimal(change.before), decimal(change.after)),
                interval(change.difference_ci95),
                decimal(change.random_control),
                *map(count, (change.pairs_used, change.pairs_total, change.oov_pairs, change.zero_pairs)),
                change.policy,
            )
            for change in record
        )
        outside = [visible(change.name) for change in record if change.is_at_edge]
        if outside:
            lead += (
                f" Of {listed(outside)} the difference lies at an end of its interval: words occur in several pairs, "
                "and drawing pairs again changes the ranks of all."
            )
        return Section(self.name, "Similarity", (lead,), (Table("Word similarity kept", columns, rows),), points)

    def facts(self, record: Changes) -> Iterator[Fact]:
        """Yield one fact for each gold set (see `Measure.facts`)."""
        for change in record:
            name, aside = f"similarity {shortened(change.name, 40)}", f"random control {decimal(change.random_control)}"
            yield Fact(name, decimal(change.before), decimal(change.after), aside)

    def figures(self, record: Changes) -> Iterator[Figure]:
        """Yield one figure for each gold set (see `Measure.figures`)."""
        for change in record:
            if change.after is not None:
                moved, bounds = change.difference_ci95, None
                if moved is not None and change.before is not None:
                    bounds = (change.before + moved[0], change.before + moved[1])
                yield Figure(f"similarity {change.name}", change.name, change.after, bounds)


SIMILARITY = Similarity()
