"""Options of `fit`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from salcli.data.hashes import HASH_ALGORITHMS
from salcli.errors import ParameterError, UsageError
from salcli.options.cluster import ClusterOptions
from salcli.options.labels import LabelOptions
from salcli.options.reading import ReadOptions
from salcli.options.record import Record, option, seed_option

if TYPE_CHECKING:  # help is shown without numpy
    from salcli.data.splits import SplitRule

DEFAULT_FIT_SPLIT = "train"


def require_split(fit_split: str | None, *, has_splits: bool) -> None:
    """Check that `fit_split` names a part of the split only if the labels have a split column (`has_splits`).

    Raises
    ------
    ParameterError : they have none
    """
    if fit_split is not None and not has_splits:
        raise ParameterError("fit_split", fit_split, "there is no split column (`split_column` names one)")


@dataclass(frozen=True)
class FitOptions(Record):
    """How to fit an eraser."""

    labels: LabelOptions = field(default_factory=LabelOptions)
    fit_split: str | None = option(
        None, help="Part of the split that is fitted; default: train.", metavar="NAME", text=True
    )
    holdout: float = option(0.0, help="Share of labelled rows kept out, by a seeded hash.", metavar="F")
    sample: int | None = option(None, help="Fit on N rows, stratified by class.", metavar="N")
    method: str = option(
        "sal", help="How it is fitted; `salcli methods` lists the methods, and when to use which.", metavar="M"
    )
    parameters: Any = None
    """`Parameters` of the method (see `salcli.erasers.base.METHODS`); None: its defaults."""
    read: ReadOptions = field(default_factory=ReadOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    hash_algorithm: str = option(
        HASH_ALGORITHMS[0],
        "--hash",
        help="Hash of the embeddings that the eraser records, by which evaluate recognises the file. Hashing a large "
        "file takes longer than the fit: blake3 is several times as fast as sha256, none leaves it out.",
        metavar="A",
        choices=(*HASH_ALGORITHMS, "none"),
    )
    sha256: bool | None = option(
        None,
        "--sha256",
        off="--no-sha256",
        help="The same as `hash_algorithm=sha256` or `hash_algorithm=none`.",
    )
    checkpoint: str | None = option(
        None,
        help="Folder in which the sums of each shard are kept, so that fit, started again, adds up only those that are "
        "missing or have changed (sal, leace, splince).",
        metavar="DIR",
    )
    seed: int = seed_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sha256 is not None:
            meant = "sha256" if self.sha256 else "none"
            if self.hash_algorithm not in (HASH_ALGORITHMS[0], meant):
                alias = "`sha256`" if self.sha256 else "`sha256=False`"
                raise UsageError(f"{alias} and `hash_algorithm={self.hash_algorithm}` contradict each other: give one")
            object.__setattr__(self, "hash_algorithm", meant)

    def rule(self, *, has_splits: bool) -> "SplitRule":
        """Return the rule for the rows that are fitted.

        Parameters
        ----------
        has_splits : whether the labels have a split column

        Raises
        ------
        ParameterError : `fit_split` is set, and there is no split column
        """
        from salcli.data.splits import SplitRule

        require_split(self.fit_split, has_splits=has_splits)
        return SplitRule(
            (self.fit_split or DEFAULT_FIT_SPLIT) if has_splits else None, self.holdout, self.sample, self.seed
        )
