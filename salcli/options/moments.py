"""Options of `moments`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from salcli.data.hashes import HASH_ALGORITHMS
from salcli.options.cluster import ClusterOptions
from salcli.options.fit import FitOptions
from salcli.options.labels import LabelOptions
from salcli.options.reading import ReadOptions
from salcli.options.record import Record, option, seed_option

if TYPE_CHECKING:  # help is shown without numpy
    from salcli.data.splits import SplitRule


@dataclass(frozen=True)
class MomentsOptions(Record):
    """How to add up the rows of one shard."""

    labels: LabelOptions = field(default_factory=LabelOptions)
    fit_split: str | None = option(
        None, help="Part of the split that is added up; default: train.", metavar="NAME", text=True
    )
    holdout: float = option(0.0, help="Share of labelled rows kept out, by a seeded hash of the key.", metavar="F")
    method: str = option("sal", help="What the moments are for: sal, leace or splince.", metavar="M")
    center: bool = option(True, off="--no-center", help="Of sal: centre X and Z, as the fit is to do.")
    task: str | None = option(None, help="Of splince: column of the main task's classes.", metavar="COL", text=True)
    exact: bool = option(
        False,
        help="Add up in float64 throughout: where `salcli fit` says that rounding is too large. Slower for float32.",
    )
    read: ReadOptions = field(default_factory=ReadOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    hash_algorithm: str = option(
        HASH_ALGORITHMS[0],
        "--hash",
        help="Hash of the embeddings that is recorded, by which a shard that is there twice is known: blake3, sha256 "
        "or none.",
        metavar="A",
        choices=(*HASH_ALGORITHMS, "none"),
    )
    seed: int = seed_option()

    def rule(self, *, has_splits: bool) -> "SplitRule":
        """Return the rule for the rows that are added up (see `FitOptions.rule`)."""
        return FitOptions(fit_split=self.fit_split, holdout=self.holdout, seed=self.seed).rule(has_splits=has_splits)
