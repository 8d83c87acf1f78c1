"""One transport: a pass for the moments of each class, and held-out rows to choose shrinkage by."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import GuardedLabels, Index
from salcli.erasers.base import Fit
from salcli.erasers.linear import LinearEraser
from salcli.erasers.linear_probes import held_out
from salcli.erasers.sal import fit_sal
from salcli.erasers.transport.choice import Trial, best_of, try_all
from salcli.erasers.transport.eraser import TransportEraser
from salcli.erasers.transport.gaussians import POOLED, ClassGaussians, Shrinkage
from salcli.erasers.transport.scored import Scores
from salcli.erasers.transport.sequence import SequenceEraser
from salcli.errors import LabelError
from salcli.linalg.class_moments import ClassMoments
from salcli.streaming import memory
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource, gather_rows
from salcli.streaming.progress import Progress
from salcli.streaming.sums import fold

Array = NDArray[np.float64]
LEAST_ROWS, AT_LEAST = 0.1, 10  # of a class: a dimension, and in all
HELD_OUT, MOST_HELD_OUT = 1 / 3, 2_400  # rows by which shrinkage is chosen
FEW_ROWS = 50  # a dimension: with fewer, estimation error leaves much to be read
MATRICES = 5  # of [d, d] a class that are in memory at once
JOINING = 32  # partitions are so large that few sums wait for `+`


@dataclass(frozen=True)
class Moved:
    """Rows after some transports, as the next one is fitted to them."""

    is_by_row: ClassVar[bool] = True
    eraser: SequenceEraser

    @property
    def width(self) -> int:
        """Width of the rows."""
        return self.eraser.d

    def __call__(self, x: NDArray[Any]) -> Array:
        """Return moved rows `[n, d]` float64 of rows `x` `[n, d]`."""
        return self.eraser(x, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A transport of one attribute, and what was found on the way."""

    eraser: TransportEraser
    mean_step: Fit[LinearEraser]
    moments: ClassMoments
    about: dict[str, Any]
    """For the header."""
    doubts: tuple[str, ...]
    effective_rows: Array
    """`[c]` of each class: as many of its own rows would make covariances as good."""


def fit_one(
    rows: LabelledSource,
    shrinkage: Shrinkage | None,
    *,
    keep_mean: bool,
    before: SequenceEraser | None = None,
    scores: Scores | None = None,
    seed: int,
    engine: Engine,
    progress: Progress,
) -> Fitted:
    """Fit a transport of one attribute.

    The moments of held-out rows are added after shrinkage was chosen on them, so that the map is fitted on all.

    Parameters
    ----------
    rows : labelled rows, with one attribute of classes
    shrinkage : None: chosen on held-out rows
    keep_mean : see `fit_sal`
    before : transports of other attributes, whose rows this one is fitted to
    scores : by which rows without a class take part in covariances, without transports before
    seed : of the rows that are held out
    engine, progress : of the passes

    Raises
    ------
    LabelError : a class in too few groups, or scores that do not vary
    RankError : rows do not covary with the labels, or do not vary within classes
    NotEnoughMemory : the matrices of all classes do not fit into memory
    """
    attribute, d = rows.labels.attributes[0], rows.source.d
    counts = np.array(list(attribute.counts().values()))
    n_classes, few = len(counts), counts < least_rows(d)
    needed = 8 * MATRICES * n_classes * d * d
    memory.require_memory(needed, f"covariances of {n_classes} classes in {d} dimensions", "merge classes")
    held, rest = _divided(rows, seed, few)
    held = np.random.default_rng(0).permutation(held)
    x, kept = gather_rows(rows.source, rows.row_of_label[held], progress)
    held = held[kept]
    features = None if before is None else Moved(before)
    x = x if features is None else features(x)
    moments = fold(_only(rows, rest), ClassMoments, engine, progress, features, joining=JOINING)
    memory.release_freed_memory()  # of the pass
    origin, codes = moments.cross.mean_x, attribute.codes(held)

    def covariances(index: Index) -> tuple[Array | None, Array]:
        if scores is None:
            return None, np.bincount(attribute.codes(index), minlength=n_classes).astype(np.float64)
        return scores.covariances(rows, index, origin, progress)

    trials: tuple[Trial, ...] = ()
    if shrinkage is None and np.sum(~few) > 1:
        gaussians = ClassGaussians.of(moments, x, codes, few=few, covariances=covariances(rest)[0])
        at = ~few[codes]
        trials = try_all(gaussians.transport, x[at], (np.cumsum(~few) - 1)[codes[at]], int(np.sum(~few)), progress)
        del gaussians  # matrices of [d, d]
    shrinkage = shrinkage or (best_of(trials).shrinkage if trials else Shrinkage(1.0, POOLED))
    moments = moments.add(x, attribute.design(held))
    of_scores, n_effective = covariances(np.union1d(held, rest))
    gaussians = ClassGaussians.of(moments, x, codes, keep_mean=keep_mean, few=few, covariances=of_scores)
    eraser = gaussians.transport(shrinkage)
    about = {
        **shrinkage.to_dict(),
        "n_classes": n_classes,
        "least_rows": int(moments.counts.min()),
        "gate": eraser.posterior.certain,
        "n_held_out": len(held) if trials else 0,
        "tried": [trial.to_dict() for trial in trials],
    }
    n = float(n_effective.sum())
    shown = f"{n:,.0f} fitted rows" if scores is None else f"{moments.n:,} fitted rows, with the scored ones {n:,.0f},"
    doubts = _doubts(f"{shown} are few for covariances in {d} dimensions" if n < FEW_ROWS * d else "", trials)
    doubts = _doubts_of_classes(rows.labels, counts, d) + doubts
    return Fitted(eraser, fit_sal(moments.cross), moments, about, doubts, n_effective)


def least_rows(d: int) -> int:
    """Return the rows of a class that a covariance in `d` dimensions takes."""
    return max(AT_LEAST, int(LEAST_ROWS * d))


def _divided(rows: LabelledSource, seed: int, few: NDArray[np.bool_]) -> tuple[Index, Index]:
    """Return the labels that are held out for the choice of shrinkage, and the others, ascending.

    Raises
    ------
    LabelError : the groups of rows leave one of both without a class that is none of the `few` `[c]`
    """
    everyone, attribute = np.arange(len(rows)), rows.labels.attributes[0]
    held = held_out(rows.labels, everyone, min(HELD_OUT, MOST_HELD_OUT / len(rows)), seed)
    rest = np.setdiff1d(everyone, held)
    for part in (held, rest):
        for code in np.setdiff1d(np.flatnonzero(~few), attribute.codes(part))[:1]:
            raise LabelError(
                f"{rows.labels.path}: column {attribute.name!r}: class {(attribute.classes or ())[code]} is in too few "
                "groups, expected some on either side of a third that is held out"
            )
    return held, rest


def _only(rows: LabelledSource, index: Index) -> LabelledSource:
    return LabelledSource.of(rows.source, rows.labels.restricted_to(index), rows.row_of_label[index])


def _doubts_of_classes(labels: GuardedLabels, counts: NDArray[np.int64], d: int) -> tuple[str, ...]:
    """Return the warning of classes with few of `counts` `[c]` rows."""
    attribute, least = labels.attributes[0], least_rows(d)
    few = np.flatnonzero(counts < least)
    if not len(few):
        return ()
    named = ", ".join(f"{(attribute.classes or ())[code]} ({counts[code]})" for code in few[:3])
    more = f" and {len(few) - 3} more" if len(few) > 3 else ""
    does = (
        "their covariance is taken for that of all classes, so more of them can be read"
        if len(counts) - len(few) > 1
        else "class means alone are removed, as method sal does"
    )
    return (
        f"{labels.path}: column {attribute.name!r}: classes with few fitted rows for a covariance in {d} dimensions: "
        f"{named}{more}, expected at least {least}: {does}; merge classes",
    )


def _doubts(few: str, trials: tuple[Trial, ...]) -> tuple[str, ...]:
    doubts = []
    if few:
        doubts.append(
            f"{few}: what nonlinear readers read falls as rows grow (of 100-dimensional word vectors .93 with 1,500 "
            "rows, .85 with 3,000, .78 with 5,825)"
        )
    if trials and best_of(trials).shrinkage.share == 1:
        doubts.append(
            "on held-out fitted rows every transport was read better than removing class means alone, which is "
            "therefore all that this eraser does: use method sal, or more rows"
        )
    return tuple(doubts)
