"""Bias tests before and after erasure: how unevenly two sets of words are associated with others.

- WEAT (Caliskan et al. 2017): s(w) = mean cosine with the attributes A less that with B; the effect size is the mean
  of s over the targets X less that over Y, divided by the standard deviation of s over both.
- RND (Garg et al. 2018): the mean over the attributes A of their distance from the mean of X less that from the mean
  of Y: above 0, they are nearer to Y.
- RIPA (Ethayarajh et al. 2019): the mean over the attributes A and the pairs (x, y), the i-th word of X and of Y, of
  the inner product with (x − y) / ‖x − y‖: above 0, they are nearer to X.

p is the share of permutations of the targets, with the one that is measured, whose figure is at least as large: words
go to X and Y anew in WEAT and RND, those of each pair change sides in RIPA. It is one-sided in WEAT, as published, and
two-sided in the others.
"""

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.source import Source
from salcli.errors import AlignmentError
from salcli.evaluation.base import BeforeAfter, Measure
from salcli.evaluation.cosine import unit_rows
from salcli.evaluation.section import Section, Table, names, numbers
from salcli.evaluation.stages import erase_keys
from salcli.evaluation.text import count, decimal, listed, visible
from salcli.evaluation.word_pairs import found_word
from salcli.formats.word_sets import BiasTest, read_bias_tests
from salcli.options import EvaluateOptions
from salcli.streaming.passes import gather_keys

MOST_LOST = 0.2
"""Share of the words of a set without a vector above which a test is undefined."""
MOST_EXACT = 20_000
"""Permutations up to which all are tried."""
N_DRAWS = 10_000
MOST_NAMED = 8
"""Missing words of a set that a report's list names."""
TIE = 1e-9
"""Of the size of figures: those closer than this are equal."""
Array = NDArray[np.float64]
Vectors = Mapping[str, NDArray[Any]]
Once = Callable[[Hashable, Callable[[], Any]], Any]


@dataclass(frozen=True)
class BiasFigure:
    """What a test finds at one stage."""

    value: float
    """Effect size of WEAT; RND or RIPA themselves, in units of the rows."""
    p_value: float


@dataclass(frozen=True)
class BiasChange:
    """A bias test before and after erasure, on the same words."""

    name: str
    test: str
    """weat, rnd or ripa."""
    sets: Mapping[str, str]
    """Names of the word sets X, Y, A and B."""
    before: BiasFigure | None
    after: BiasFigure | None
    """None where it is undefined, or nothing was erased."""
    undefined: Mapping[str, str]
    """By stage, why it is."""
    n_words: Mapping[str, int]
    """By set, words that were used."""
    missing: Mapping[str, tuple[str, ...]]
    """By set, words without a vector, or with one of zeros at either stage."""
    permutations: int
    is_exact: bool
    """Whether these are all there are; else drawn with the seed."""

    @property
    def n_missing(self) -> int:
        """Words of all sets that are missing."""
        return sum(map(len, self.missing.values()))


def bias_change(
    test: BiasTest, before: Vectors, after: Vectors | None, *, seed: int, once: Once = lambda _, compute: compute()
) -> BiasChange:
    """Return the figures of a test before and after erasure.

    Parameters
    ----------
    test : with its word sets
    before : `[d]` by key
    after : `[d']` by key; None if nothing was erased
    seed : of the permutations, where there are too many to try all
    once : returns what a function computes of the vectors before for a key, from before if it is known
    """
    stages = {"before": before} | ({} if after is None else {"after": after})
    keys = {role: [(word, _key(word, stages)) for word in each.words] for role, each in test.sets.items()}
    missing = {role: tuple(word for word, key in pairs if key is None) for role, pairs in keys.items()}
    used = {role: [key for _, key in pairs if key is not None] for role, pairs in keys.items()}
    if test.kind == "ripa":
        used |= _paired(keys)
    short = _too_few(test, used)
    undefined = dict.fromkeys(stages, short) if short else {}
    found, n, is_exact = dict[str, BiasFigure](), 0, True
    if not short:
        changes, is_exact = _changes(test.kind, len(used["X"]), len(used["Y"]), seed)
        n = len(changes)
        for stage, vectors in stages.items():
            measured = partial(_figure, test.kind, vectors, used, changes, is_exact=is_exact)
            words = tuple((role, tuple(chosen)) for role, chosen in used.items())
            figure = once((test.kind, words), measured) if stage == "before" else measured()
            if isinstance(figure, str):
                undefined[stage] = figure
            else:
                found[stage] = figure
    return BiasChange(
        test.name,
        test.kind,
        {role: each.name for role, each in test.sets.items()},
        found.get("before"),
        found.get("after"),
        undefined,
        {role: len(words) for role, words in used.items()},
        missing,
        n,
        is_exact,
    )


def _figure(
    kind: str, vectors: Vectors, used: Mapping[str, Sequence[str]], changes: Array, *, is_exact: bool
) -> BiasFigure | str:
    """Return the figure of a test at one stage, or why it is undefined."""
    x = {role: np.stack([vectors[key] for key in keys]).astype(np.float64) for role, keys in used.items()}
    statistic = STATISTICS[kind](x, changes)
    if isinstance(statistic, str):
        return statistic
    value, observed, permuted = statistic
    return BiasFigure(value, _p_value(observed, permuted, is_exact=is_exact))


def _key(word: str, stages: Mapping[str, Vectors]) -> str | None:
    """Return the key of a word that has a vector at every stage, none of them zero."""
    key = found_word(word, stages["before"])
    is_there = key is not None and all(key in vectors and np.any(vectors[key]) for vectors in stages.values())
    return key if is_there else None


def _paired(keys: Mapping[str, Sequence[tuple[str, str | None]]]) -> dict[str, list[str]]:
    """Return the words of X and Y whose partner has a vector too."""
    pairs = zip(keys["X"], keys["Y"], strict=False)
    both = [(one, other) for (_, one), (_, other) in pairs if one is not None and other is not None]
    return {"X": [one for one, _ in both], "Y": [other for _, other in both]}


def _too_few(test: BiasTest, used: Mapping[str, Sequence[str]]) -> str:
    """Return why the test is undefined, if a set has lost too many words; else nothing."""
    if test.kind == "ripa" and len(test.sets["X"].words) != len(test.sets["Y"].words):
        return "X and Y have different numbers of words, so that they are no pairs"
    for role, each in test.sets.items():
        n_used, n = len(used[role]), len(each.words)
        if n - n_used > MOST_LOST * n:
            which = "pairs with a word" if test.kind == "ripa" and role in "XY" else "words"
            return f"only {n_used} of {n} {which} of {role} ({each.name}) have vectors, {1 - MOST_LOST:.0%} are needed"
    return ""


def _changes(kind: str, n_x: int, n_y: int, seed: int) -> tuple[Array, bool]:
    """Return permutations of the targets, and whether they are all.

    Returns
    -------
    `[p, n_x + n_y]`, 1 for the words that go to X and 0 for the others; of RIPA `[p, n_x]`, 1 for pairs that stay as
    they are and −1 for those that change sides
    """
    rng = np.random.default_rng(seed)
    if kind == "ripa":
        if 2**n_x <= MOST_EXACT:
            return np.array(list(itertools.product((1.0, -1.0), repeat=n_x))), True
        return rng.choice((1.0, -1.0), size=(N_DRAWS, n_x)), False
    n = n_x + n_y
    if comb(n, n_x) <= MOST_EXACT:
        chosen = np.array(list(itertools.combinations(range(n), n_x)))
        is_exact = True
    else:
        chosen = np.argsort(rng.random((N_DRAWS, n)), axis=1)[:, :n_x]
        is_exact = False
    found = np.zeros((len(chosen), n))
    np.put_along_axis(found, chosen, 1.0, axis=1)
    return found, is_exact


def _p_value(observed: float, permuted: Array, *, is_exact: bool) -> float:
    """Return the share of figures that are at least as large; what is measured is among all, and counted to draws."""
    largest = max(abs(observed), float(np.max(np.abs(permuted))))
    n_large = int(np.sum(permuted >= observed - TIE * largest))
    return n_large / len(permuted) if is_exact else (n_large + 1) / (len(permuted) + 1)


Found = tuple[float, float, Array]
"""The figure that is reported, that which is compared with permutations, and those `[p]`."""


def _weat(x: Mapping[str, Array], changes: Array) -> Found | str:
    units = {role: unit_rows(rows)[0] for role, rows in x.items()}
    toward = units["A"].mean(axis=0) - units["B"].mean(axis=0)
    s = np.concatenate([units["X"], units["Y"]]) @ toward
    n_x, n_y = len(units["X"]), len(units["Y"])
    difference, spread = float(s[:n_x].mean() - s[n_x:].mean()), float(s.std())
    if spread <= TIE:
        return "all words of X and Y are associated alike"
    of_x = changes @ s
    return difference / spread, difference, of_x / n_x - (s.sum() - of_x) / n_y


def _rnd(x: Mapping[str, Array], changes: Array) -> Found | str:
    targets, attributes = np.concatenate([x["X"], x["Y"]]), x["A"]
    products, gram = targets @ attributes.T, targets @ targets.T
    squares = np.sum(attributes**2, axis=1)

    def distances(chosen: Array) -> Array:
        """Return the mean distance of the attributes from the mean of the targets that are 1, for each row: `[p]`."""
        n = chosen.sum(axis=1, keepdims=True)
        of_mean = np.sum((chosen @ gram) * chosen, axis=1, keepdims=True) / n**2
        found: Array = np.sqrt(np.maximum(squares - 2 * (chosen @ products) / n + of_mean, 0.0)).mean(axis=1)
        return found

    own = np.repeat([[1.0, 0.0]], [len(x["X"]), len(x["Y"])], axis=1)
    value = float((distances(own) - distances(1 - own))[0])
    return value, abs(value), np.abs(distances(changes) - distances(1 - changes))


def _ripa(x: Mapping[str, Array], changes: Array) -> Found | str:
    directions, is_direction = unit_rows(x["X"] - x["Y"])
    if not is_direction.all():
        return "the two words of a pair have the same vector, which gives no direction"
    of_pairs = directions @ x["A"].mean(axis=0)
    value = float(of_pairs.mean())
    return value, abs(value), np.abs(changes @ of_pairs) / len(of_pairs)


STATISTICS: dict[str, Callable[[Mapping[str, Array], Array], Found | str]] = {
    "weat": _weat,
    "rnd": _rnd,
    "ripa": _ripa,
}
"""By test: the figure, and those of permutations `[p, …]`; or why there is none."""


@dataclass(frozen=True, eq=False)
class BiasWords:
    """Bias tests, and the vectors of their words as they are in the file."""

    tests: tuple[BiasTest, ...]
    before: Vectors
    rows: Mapping[str, int]
    """Row of each word in the file."""


def gather_bias_words(source: Source, options: EvaluateOptions) -> BiasWords:
    """Return the bias tests of the options, and the vectors of their words.

    Parameters
    ----------
    source : embeddings with keys
    options : with the names of tests and files

    Raises
    ------
    AlignmentError : the file has no keys
    FormatError : word sets cannot be read
    """
    tests = tuple(test for name in options.bias for test in read_bias_tests(name))
    if not tests:
        return BiasWords((), {}, {})
    if not source.has_keys:
        raise AlignmentError(f"`bias` looks words up, but {source.path} has no keys: give `keys_file=FILE`")
    words = {word for test in tests for each in test.sets.values() for word in each.words}
    return BiasWords(tests, *gather_keys(source, words | {word.lower() for word in words}))


Changes = tuple[BiasChange, ...]


class Bias(Measure[Changes]):
    """WEAT, RND and RIPA, with the p-values of permutations."""

    name: ClassVar[str] = "bias"
    needs_labels: ClassVar[bool] = False

    def run(self, rows: BeforeAfter) -> Changes:
        """Return the change of each test; none where no test was requested (see `Measure.run`)."""
        words = rows.once(gather_bias_words)
        after = erase_keys(words.before, words.rows, rows.erasure)
        seed = rows.options.seed
        return tuple(bias_change(test, words.before, after, seed=seed, once=rows.shared) for test in words.tests)

    def section(self, record: Changes) -> Section | None:
        """Return one table, a test a row (see `Measure.section`)."""
        if not record:
            return None
        lead = (
            "Bias tests: the effect size of WEAT (0: targets X and Y are associated with A and B alike), RND (above 0: "
            "words of A are nearer to Y than to X) and RIPA (above 0: nearer to X), and the share p of permutations of "
            "the targets with as large a figure."
        )
        points = [
            f"{visible(change.name)}: no vector for {listed(words, MOST_NAMED)} (of {visible(change.sets[role])})"
            for change in record
            for role, words in change.missing.items()
            if words
        ]
        points += [
            f"{visible(change.name)}: undefined {' and '.join(stages)}: {visible(why)}"
            for change in record
            for why, stages in _by_reason(change.undefined).items()
        ]
        columns = (
            *names("test"),
            *numbers("before", "p before", "after", "p after"),
            *numbers("words", "missing", are_spare=True),
            *names("of"),
        )
        rows = tuple(
            (
                visible(change.name),
                *(text for figure in (change.before, change.after) for text in _shown(figure)),
                *map(count, (sum(change.n_words.values()), change.n_missing)),
                _compared(change.sets),
            )
            for change in record
        )
        line = "\n".join(point for point in points if ": undefined " in point)
        return Section(self.name, "Bias tests", (lead,), (Table("Bias tests", columns, rows),), tuple(points), line)


def _by_reason(undefined: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for stage, why in undefined.items():
        found.setdefault(why, []).append(stage)
    return found


def _shown(figure: BiasFigure | None) -> tuple[str, str]:
    return (decimal(None), decimal(None)) if figure is None else (decimal(figure.value), decimal(figure.p_value))


def _compared(sets: Mapping[str, str]) -> str:
    attributes = " and ".join(visible(sets[role]) for role in "AB" if role in sets)
    return f"{visible(sets['X'])} and {visible(sets['Y'])}, by {attributes}"


BIAS = Bias()
