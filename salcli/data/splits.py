"""`RowRule`: which labelled rows an eraser is fitted on, and which stay fresh, said so that it can be repeated."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index, Selection, as_index
from salcli.errors import LabelError, ParameterError, UsageError, warn


@dataclass(frozen=True)
class RowRule:
    """The rule by which `fit` chooses rows. It is stored in the artifact; the rows themselves are not."""

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
        """Read the rule back from an artifact's header."""
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Say the rule as plain values."""
        return asdict(self)

    def fitted(self, labels: GuardedLabels, matched: Selection) -> Selection:
        """Choose, among the `matched` labels, those whose rows are fitted.

        Raises
        ------
        LabelError : no row is left
        """
        chosen = self._not_held_out(labels, matched)
        if not len(chosen):
            names = "" if labels.splits is None else f" (column {labels.split_column!r}: {_named(labels.splits)})"
            where = f"marked {self.fit_split!r}" if self.fit_split is not None else "to fit"
            raise LabelError(f"{labels.path}: no labelled row is {where}{names}")
        if self.sample is None:
            return chosen
        if self.sample > len(chosen):
            warn(f"`sample={self.sample}`: only {len(chosen)} labelled rows are there; all are used")
            return chosen
        return stratified_sample(labels, as_index(chosen), self.sample, self.seed)

    def held_out(self, labels: GuardedLabels, matched: Index) -> Index:
        """Name the rows that `holdout` kept out (empty without one)."""
        return np.setdiff1d(matched, self._not_held_out(labels, matched)) if self.holdout else matched[:0]

    def _not_held_out(self, labels: GuardedLabels, matched: Selection) -> Selection:
        if self.fit_split is not None and labels.splits is not None:
            return marked(labels, as_index(matched), self.fit_split)
        if self.holdout:
            matched = as_index(matched)
            return matched[seeded_shares(labels, matched, self.seed) >= self.holdout]
        return matched


def marked(labels: GuardedLabels, index: Index, name: str) -> Index:
    """Keep the labels at `index` whose split is `name`."""
    splits = labels.splits or ()
    is_marked = np.fromiter((splits[i] == name for i in index), dtype=np.bool_, count=len(index))
    return np.asarray(index[is_marked], dtype=np.int64)


def seeded_shares(labels: GuardedLabels, index: Index, seed: int, purpose: str = "holdout") -> NDArray[np.float64]:
    """Hash each label's key or row number to [0, 1): the same on every machine, whatever the row order.

    Returns
    -------
    `[n]` shares
    """
    salt = f"salcli {purpose} {seed}".encode()
    shares = np.empty(len(index))
    for position, label in enumerate(index):
        name = labels.identity(int(label)).encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(name, digest_size=8, key=hashlib.sha256(salt).digest()).digest()
        shares[position] = (int.from_bytes(digest, "big") >> 11) / 2.0**53
    return shares


def stratified_sample(labels: GuardedLabels, index: Index, size: int, seed: int) -> Index:
    """Draw `size` of the labels at `index`, with every stratum in its share (largest remainder).

    Which ones does not depend on the order of the label CSV.

    Returns
    -------
    `[size]`, in the order of `index`
    """
    order = np.arange(len(index))
    if labels.keys is not None:
        order = np.array(sorted(order.tolist(), key=lambda i: labels.identity(int(index[i]))), dtype=np.int64)
    (drawn,) = stratified_parts(labels.strata(index[order]), [size / len(index)], seed, sizes=[size])
    return index[np.sort(order[drawn])]


def stratified_parts(
    strata: Index, shares: Sequence[float], seed: int, *, sizes: Sequence[int] | None = None
) -> list[Index]:
    """Divide positions 0…n-1 at random into parts of the given shares, each stratum in proportion.

    Parameters
    ----------
    strata : `[n]` stratum of each position
    shares : of each part, sum at most 1
    seed : of the shuffle
    sizes : the exact size of each part; default: the shares of n, by largest remainder

    Returns
    -------
    one array of positions for each part; the positions left over belong to none
    """
    rng = np.random.default_rng(seed)
    n = len(strata)
    totals = _apportion(np.asarray(shares) * n, round(sum(shares) * n)) if sizes is None else np.asarray(sizes)
    members = [rng.permutation(np.flatnonzero(strata == s)) for s in range(int(strata.max(initial=-1)) + 1)]
    taken = np.zeros(len(members), dtype=np.int64)
    parts = []
    for total in totals:
        left = np.array([len(m) for m in members]) - taken
        quota = _apportion(np.array([len(m) for m in members]) * (total / n), int(total), limit=left)
        chosen = [m[t : t + q] for m, t, q in zip(members, taken, quota, strict=True)]
        parts.append(np.concatenate([*chosen, np.zeros(0, np.int64)]))
        taken += quota
    return parts


def _apportion(quotas: NDArray[np.float64], total: int, limit: Index | None = None) -> Index:
    """Round quotas to whole numbers that add up to `total` (largest remainder first), none above its limit."""
    limit = np.full(len(quotas), np.iinfo(np.int64).max) if limit is None else limit
    whole = np.minimum(np.floor(quotas).astype(np.int64), limit)
    while (missing := total - int(whole.sum())) > 0:
        open_ = np.flatnonzero(whole < limit)
        order = open_[np.argsort(-(quotas - whole)[open_], kind="stable")]
        whole[order[:missing]] += 1
    return whole


def _named(splits: Sequence[str]) -> str:
    return ", ".join(sorted(set(splits))[:6])


TEST, DEV = "test", "dev"


@dataclass(frozen=True, eq=False)
class EvaluationRows:
    """Labels by their part in the evaluation. Fresh and test rows took no part in the fit."""

    fitted: Index
    """Rows the eraser was fitted on; they train the in-sample attacker."""
    fresh: Index
    """Rows that train the fresh attacker; empty if there are none."""
    test: Index
    """Rows that both are measured on; the fitted rows themselves if nothing was held out."""
    has_held_out: bool
    """Whether test rows took no part in the fit."""


def divide_rows(labels: GuardedLabels, matched: Index, rule: RowRule) -> EvaluationRows:
    """Divide the matched labels as the eraser's rule says (see the design, "Which rows do what").

    With a split column: dev rows train the fresh attacker (no dev: a seeded half of test), the other test rows are
    the test. With a hold-out: a seeded half of it trains the fresh attacker, the other half is the test.
    """
    fitted = as_index(rule.fitted(labels, matched))
    if rule.fit_split is not None:
        test = np.setdiff1d(marked(labels, matched, TEST), fitted)
        fresh = np.setdiff1d(marked(labels, matched, DEV), fitted)
        if not len(fresh):
            fresh, test = _halves(labels, test, rule.seed)
    else:
        fresh, test = _halves(labels, np.setdiff1d(rule.held_out(labels, matched), fitted), rule.seed)
    if not len(test):
        return EvaluationRows(fitted, fresh[:0], fitted, has_held_out=False)
    return EvaluationRows(fitted, fresh, test, has_held_out=True)


def _halves(labels: GuardedLabels, index: Index, seed: int) -> tuple[Index, Index]:
    in_first = seeded_shares(labels, index, seed, "fresh attacker") < 0.5
    return index[in_first], index[~in_first]
