"""The rows that an eraser is fitted on (`SplitRule`), and those that train and test attackers (`EvaluationSplit`)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from salcli.data.groups import require_filled, require_whole
from salcli.data.labels import Attribute, GuardedLabels, Index, Selection, as_index
from salcli.data.sampling import capped, seeded_shares, stratified_sample
from salcli.data.split_parts import BAND, DEV, DEV_NAMES, TEST, marked
from salcli.errors import LabelError, ParameterError, UsageError, did_you_mean, warn

IN_SAMPLE, FRESH, POOLED, WHITE_BOX = "in-sample", "fresh", "pooled", "white-box"
TEST_ROWS = 10  # most test rows, in units of the most training rows: enough for an interval of a fraction of a per cent


@dataclass(frozen=True)
class SplitRule:
    """The rule by which `fit` chooses rows, which is stored in the artifact in place of the rows."""

    fit_split: str | None = None
    """With a split column: the rows of this name are fitted."""
    holdout: float = 0.0
    """Without one: the share of labelled rows kept out, by a seeded hash of the key or row number."""
    sample: int | None = None
    """At most this many of the rows that are left, stratified by class."""
    seed: int = 0
    """Of the hash and of the sample."""

    def __post_init__(self) -> None:
        if not 0 <= self.holdout < 1:
            raise ParameterError("holdout", self.holdout, "not a share: 0 ≤ F < 1")
        if self.sample is not None and self.sample < 2:
            raise ParameterError("sample", self.sample, "at least 2 rows are needed")
        if self.fit_split is not None and self.holdout:
            raise UsageError("`holdout` and a split column both decide which rows are fitted: use one (or `no_split`)")

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Return the rule of `fields`, as an artifact's header has them (the inverse of `to_dict`)."""
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return asdict(self)

    def fitted(self, labels: GuardedLabels, matched: Selection) -> Selection:
        """Return those of the matched labels whose rows are fitted, in their order.

        Parameters
        ----------
        labels : all labels of the CSV
        matched : `[m]` positions of labels that have a row and a value

        Raises
        ------
        LabelError : no row is left
        """
        return self._sampled(labels, self.not_held_out(labels, matched))

    def _sampled(self, labels: GuardedLabels, chosen: Selection) -> Selection:
        if not len(chosen):
            names = "" if labels.splits is None else f" (column {labels.split_column!r}: {_named(labels.splits)})"
            where = f"marked {self.fit_split!r}" if self.fit_split is not None else "to fit"
            hint = did_you_mean(self.fit_split or "", set(labels.splits or ()))
            raise LabelError(f"{labels.path}: no labelled row is {where}{names}{hint}")
        if self.sample is None:
            return chosen
        if self.sample > len(chosen):
            warn(f"`sample={self.sample}`: only {len(chosen):,} labelled rows are there; all are used")
            return chosen
        return stratified_sample(labels, as_index(chosen), self.sample, self.seed)

    def divide(self, labels: GuardedLabels, matched: Index, complete: Index | None = None) -> "EvaluationSplit":
        """Return the matched labels, divided into rows that train the in-sample and the fresh attacker, and test rows.

        With a split column, `dev` rows (or `val`, `valid`, `validation`) train the fresh attacker; without any, a
        seeded half of `test` does. The other `test` rows are the test. Rows marked `band1`,
        `band2` … are bands. With a hold-out, a seeded half of it trains the fresh attacker; the other half is the test.
        Without test rows the fitted rows are the test.

        Parameters
        ----------
        labels : all labels of the CSV
        matched : `[m]` positions of labels that have a row and a value of any attribute
        complete : those of them that may be fitted, with a value of every attribute; default: all

        Raises
        ------
        LabelError : no row is left to fit
        """
        kept = as_index(self.not_held_out(labels, matched))
        whole = kept if complete is None else np.intersect1d(kept, complete, assume_unique=True)
        fitted = as_index(self._sampled(labels, whole))
        if self.fit_split is not None:
            test = _without(marked(labels, matched, TEST), fitted, labels)
            fresh = _without(marked(labels, matched, *DEV_NAMES), fitted, labels)
            if not len(fresh):
                fresh, test = _halves(labels, test, self.seed)
        else:
            held_out = _without(matched, kept, labels) if self.holdout else matched[:0]
            fresh, test = _halves(labels, held_out, self.seed)
        bands = {name: marked(labels, matched, name) for name in self._bands(labels)}
        if not len(test):
            found = EvaluationSplit.of(fitted, {IN_SAMPLE: fitted}, fitted, has_held_out=False)
        else:
            found = EvaluationSplit.of(fitted, trainers_of(fitted, fresh), test, has_held_out=True)
        return replace(found, bands={name: index for name, index in bands.items() if len(index)})

    def _bands(self, labels: GuardedLabels) -> list[str]:
        """Return the names of the bands, the nearest first."""
        names = () if self.fit_split is None else labels.split_codes[0]
        found = (name for name in names if BAND.fullmatch(name) and name != self.fit_split)
        return sorted(found, key=lambda name: (len(name), name))

    def not_held_out(self, labels: GuardedLabels, matched: Selection) -> Selection:
        """Return those of the matched labels that may be fitted, before any sample (see `fitted`); perhaps none."""
        if self.fit_split is not None and labels.splits is not None:
            parts = {**dict.fromkeys(DEV_NAMES, DEV), TEST: TEST, self.fit_split: self.fit_split}
            require_whole(labels, as_index(matched), parts)
            return marked(labels, as_index(matched), self.fit_split)
        if self.holdout:
            matched = as_index(matched)
            is_kept = seeded_shares(labels, matched, self.seed) >= self.holdout
            n_kept = int(is_kept.sum())
            require_filled(labels, matched, {"the fit": n_kept, "the part that is held out": len(matched) - n_kept})
            return matched[is_kept]
        return matched


@dataclass(frozen=True, eq=False)
class EvaluationSplit:
    """Labels of the rows that train and test attackers. Fresh and test rows took no part in the fit."""

    fitted: Index
    """Rows that the eraser was fitted on."""
    trainers: dict[str, Index]
    """By adversary, the rows that train it (see `trainers_of`); an adversary without rows is missing."""
    test: Index
    """Rows that attackers are tested on; the fitted rows themselves if none were held out."""
    has_held_out: bool
    """Whether the test rows took no part in the fit."""
    n_available: dict[str, int]
    """By adversary, and for the test, the number of rows before any were left out."""
    bands: dict[str, Index] = field(default_factory=dict)
    """By name of the band, rows near the labelled ones, on which attackers are measured too."""
    limits: tuple[int, int, int] | None = None
    """Most rows of an adversary and of the test, by attribute, and the seed of the samples; None: all rows are used."""

    @classmethod
    def of(cls, fitted: Index, trainers: dict[str, Index], test: Index, *, has_held_out: bool) -> "EvaluationSplit":
        """Return the split that uses all of these rows.

        Parameters
        ----------
        fitted : labels that the eraser was fitted on
        trainers : by adversary, the labels that train it; those without any are left out
        test : labels that attackers are tested on
        has_held_out : whether the test rows took no part in the fit
        """
        n_available = {name: len(index) for name, index in {**trainers, TEST: test}.items()}
        return cls(
            fitted, {name: index for name, index in trainers.items() if len(index)}, test, has_held_out, n_available
        )

    @property
    def needed(self) -> Index:
        """All rows that train or test, ascending."""
        return np.unique(np.concatenate([*self.trainers.values(), self.test, *self.bands.values()]))

    @property
    def held_out(self) -> Index:
        """Rows that took no part in the fit and train fresh attackers or are tested, ascending."""
        if not self.has_held_out:
            return self.test[:0]
        return np.union1d(self.trainers.get(FRESH, self.test[:0]), self.test)

    def only(self, adversaries: Sequence[str]) -> "EvaluationSplit":
        """Return the split with the trainers of these `adversaries` alone, in their order."""
        return replace(self, trainers={name: self.trainers[name] for name in adversaries if name in self.trainers})

    def capped(
        self, labels: GuardedLabels, most_rows: int, seed: int, *, test_rows: int = TEST_ROWS
    ) -> "EvaluationSplit":
        """Return the split with a limited number of rows of an attribute for each adversary and the test, by stratum.

        Parameters
        ----------
        labels : that the split is of
        most_rows : of each adversary
        seed : of the samples
        test_rows : the most test rows, in units of `most_rows`
        """
        limits = most_rows, test_rows * most_rows, seed
        trainers = {name: _of_each(labels, index, most_rows, seed) for name, index in self.trainers.items()}
        test, *bands = (_of_each(labels, index, limits[1], seed) for index in (self.test, *self.bands.values()))
        bands_of = dict(zip(self.bands, bands, strict=True))
        return replace(self, trainers=trainers, test=test, bands=bands_of, limits=limits)

    def having(self, attribute: Attribute, name: str, labels: GuardedLabels) -> Index:
        """Return the rows that have a value of an attribute, as a row counts for each attribute that it has.

        Parameters
        ----------
        attribute : whose values are looked at
        name : of an adversary, or `test`
        labels : that the split is of
        """
        index = self.test if name == TEST else self.trainers[name]
        index = index[attribute.is_labelled[index]]
        if self.limits is None:
            return index
        most_rows, most_tests, seed = self.limits
        return capped(labels, index, most_tests if name == TEST else most_rows, seed)

    def fitted_on(self, index: Index, labels: GuardedLabels, most_rows: int, seed: int) -> "EvaluationSplit":
        """Return the split of a fit on some of the fitted rows: they train the in-sample attacker.

        Parameters
        ----------
        index : `[n]` the labels of that fit
        labels : that the split is of
        most_rows : of the in-sample attacker
        seed : of its sample
        """
        if IN_SAMPLE not in self.trainers:
            return replace(self, fitted=index)
        trainers = {IN_SAMPLE: index}
        if POOLED in self.trainers:
            trainers[POOLED] = np.union1d(index, np.setdiff1d(self.trainers[POOLED], self.fitted))
        return replace(
            self,
            fitted=index,
            trainers=self.trainers | {name: capped(labels, rows, most_rows, seed) for name, rows in trainers.items()},
            n_available=self.n_available | {name: len(rows) for name, rows in trainers.items()},
        )

    def is_capped(self, name: str) -> bool:
        """Return whether rows were left out of those of `name`: an adversary, or `test`."""
        used = self.test if name == TEST else self.trainers[name]
        return len(used) < self.n_available[name]


def shared_by(splits: Sequence[EvaluationSplit], labels: GuardedLabels, seed: int) -> EvaluationSplit:
    """Return the split of several fits to the same labels, for all of them.

    A row that any of them was fitted on is fitted; what all of them held out trains fresh attackers or is tested.

    Parameters
    ----------
    splits : of each fit, at least one
    labels : that they are of
    seed : of the halves, where the splits do not agree on which of those rows are tested

    Raises
    ------
    LabelError : no row is left to test on
    """
    fitted = splits[0].fitted
    held_out = np.arange(len(labels))
    for split in splits:
        fitted = np.union1d(fitted, split.fitted)
        held_out = np.intersect1d(held_out, split.held_out)
    fresh, *others = (np.intersect1d(split.trainers.get(FRESH, held_out[:0]), held_out) for split in splits)
    test = _without(held_out, fresh, labels)
    if not all(np.array_equal(fresh, other) for other in others):
        fresh, test = _halves(labels, held_out, seed)
    if not len(test):
        raise LabelError(
            f"{labels.path}: no labelled row is left to test on that all candidates held out: fit them with the same "
            "`holdout`, or with labels that have a split column"
        )
    bands = {name: _without(index, fitted, labels) for split in splits for name, index in split.bands.items()}
    return replace(EvaluationSplit.of(fitted, trainers_of(fitted, fresh), test, has_held_out=True), bands=bands)


def trainers_of(fitted: Index, fresh: Index) -> dict[str, Index]:
    """Return the labels that train each adversary: the `fitted` ones, `fresh` ones, or both; white-box as fresh."""
    return {IN_SAMPLE: fitted, FRESH: fresh, POOLED: np.union1d(fitted, fresh), WHITE_BOX: fresh}


def _of_each(labels: GuardedLabels, index: Index, most: int, seed: int) -> Index:
    """Return at most so many labels of each attribute, all of the same ones if every attribute has all of them."""
    samples = [capped(labels, index[a.is_labelled[index]], most, seed) for a in labels.attributes]
    return np.unique(np.concatenate(samples))


def _halves(labels: GuardedLabels, index: Index, seed: int) -> tuple[Index, Index]:
    in_first = seeded_shares(labels, index, seed, "fresh attacker") < 0.5
    if len(index):
        n_first = int(in_first.sum())
        require_filled(labels, index, {"the fresh attacker": n_first, "the test": len(index) - n_first})
    return index[in_first], index[~in_first]


def _without(index: Index, others: Index, labels: GuardedLabels) -> Index:
    """Return the labels at `index` that are not among `others`, ascending (faster than setdiff1d, which hashes)."""
    is_kept = np.zeros(len(labels), np.bool_)
    is_kept[index] = True
    is_kept[others] = False
    return np.flatnonzero(is_kept)


def _named(splits: Sequence[str]) -> str:
    return ", ".join(sorted(set(splits))[:6])
