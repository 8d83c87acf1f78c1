"""`fit --method transport`: one pass for the moments of each class, and a sample of rows to choose shrinkage by."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salcli.data.labels import Attribute, GuardedLabels, Index, smallest_code
from salcli.erasers.base import Fit
from salcli.erasers.linear_probes import held_out
from salcli.erasers.sal import fit_sal
from salcli.erasers.transport.choice import Trial, best_of, try_all
from salcli.erasers.transport.eraser import TransportEraser
from salcli.erasers.transport.gaussians import IDENTITY, POOLED, ClassGaussians, Shrinkage
from salcli.erasers.transport.noise import noisy
from salcli.errors import LabelError, UsageError
from salcli.linalg.blas import blas_product
from salcli.linalg.class_moments import ClassMoments
from salcli.options import Record, option
from salcli.streaming import memory
from salcli.streaming.engine import Engine
from salcli.streaming.passes import LabelledSource, gather_rows
from salcli.streaming.progress import Progress
from salcli.streaming.sums import fold

MOST_CLASSES = 64  # of several attributes together
LEAST_ROWS, AT_LEAST = 0.1, 10  # of a class: a dimension, and in all
HELD_OUT, MOST_HELD_OUT = 1 / 3, 2_400  # rows by which shrinkage is chosen
FEW_ROWS = 50  # a dimension: with fewer, estimation error leaves much to be read
MATRICES = 5  # of [d, d] a class that are in memory at once
JOINING = 32  # partitions are so large that few sums wait for `+`


@dataclass(frozen=True)
class TransportParameters(Record):
    """How transport is fitted."""

    shrinkage: float | None = option(
        None,
        metavar="X",
        help="How far covariances of classes are shrunk; default: by what readers read of held-out fitted rows.",
        bounds=(0, 1),
    )
    towards: str | None = option(
        None,
        "--shrink-towards",
        metavar="T",
        help="pooled (the covariance within classes; default with `shrinkage`) or identity.",
        choices=(POOLED, IDENTITY),
    )
    noise: float = option(
        0.0,
        metavar="ν",
        help="Share of the variance of moved rows that becomes noise by a secret, which apply reads from a file; half "
        "of it in all but 25 leading components; dear: it costs neighbours and the main task.",
        bounds=(0, 1),
    )
    keep_mean: bool = option(
        False,
        off="--no-keep-mean",
        help="Set the coordinates that are removed first to their mean instead of 0, for models that stay as they are.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.towards is not None and self.shrinkage is None:
            raise UsageError("`towards` says what `shrinkage=X` is towards: give both, or neither")


class TransportMethod:
    """Maps the rows of all classes to one Gaussian; one pass over second moments by class, and a sample in memory."""

    name = "transport"
    summary = "against nonlinear readers: makes the classes' means and covariances alike, row by row; needs many rows"
    Parameters = TransportParameters

    def fit(
        self,
        rows: LabelledSource,
        parameters: TransportParameters,
        *,
        task: Attribute | None = None,  # noqa: ARG002 (the protocol has it)
        seed: int = 0,
        engine: Engine,
        progress: Progress,
    ) -> Fit[TransportEraser]:
        """Fit a transport to labelled rows (see `Method.fit`).

        The moments of held-out rows are added after shrinkage was chosen on them, so that the map is fitted on all.
        Classes with too few rows for a covariance have that of all classes, and take no part in the choice.

        Raises
        ------
        LabelError : numbers, more classes than `MOST_CLASSES`, or a class in too few groups
        RankError : rows do not covary with the labels, or do not vary within classes
        NotEnoughMemory : the matrices of all classes do not fit into memory
        """
        rows = replace(rows, labels=_with_one_attribute(rows.labels))
        attribute, d = rows.labels.attributes[0], rows.source.d
        classes = attribute.classes or ()
        counts = np.array(list(attribute.counts().values()))
        few = counts < _least_rows(d)
        needed = 8 * MATRICES * len(classes) * d * d
        memory.require_memory(needed, f"covariances of {len(classes)} classes in {d} dimensions", "merge classes")
        held, rest = _divided(rows, seed, few)
        x, kept = gather_rows(rows.source, rows.row_of_label[held], progress)
        held = held[kept]
        blas_product()  # loaded on a thread, its library would not be limited to one of its own
        moments = fold(_only(rows, rest), ClassMoments, engine, progress, joining=JOINING)
        codes = attribute.codes(held)
        trials: tuple[Trial, ...] = ()
        chosen = Shrinkage(1.0, POOLED)
        if parameters.shrinkage is not None:
            chosen = Shrinkage(parameters.shrinkage, parameters.towards or POOLED)
        elif np.sum(~few) > 1:
            trials = _trials(moments, x, codes, few, progress)
            chosen = best_of(trials).shrinkage
        moments = moments.add(x, attribute.design(held))
        mean_step = fit_sal(moments.cross)
        eraser = ClassGaussians.of(moments, x, codes, keep_mean=parameters.keep_mean, few=few).transport(chosen)
        if parameters.noise:
            eraser = noisy(eraser, moments, parameters.noise)
        about = {
            **chosen.to_dict(),
            "noise": parameters.noise,
            "n_classes": len(classes),
            "least_rows": int(moments.counts.min()),
            "gate": eraser.posterior.certain,
            "n_held_out": len(held) if trials else 0,
            "tried": [trial.to_dict() for trial in trials],
        }
        return Fit(
            eraser,
            mean_step.singular_values,
            mean_step.rank,
            header={"transport": about},
            doubts=_doubts_of_classes(rows.labels, counts, d) + _doubts(moments, trials),
        )


METHOD = TransportMethod()


def _trials(
    moments: ClassMoments, x: NDArray[Any], codes: Index, few: NDArray[np.bool_], progress: Progress
) -> tuple[Trial, ...]:
    """Return what is read of held-out rows `x` `[n, d]` of other classes than the `few` `[c]`, by shrinkage."""
    gaussians = ClassGaussians.of(moments, x, codes, few=few)
    order = np.random.default_rng(0).permutation(len(x))
    order = order[~few[codes[order]]]
    return try_all(gaussians.transport, x[order], (np.cumsum(~few) - 1)[codes[order]], int(np.sum(~few)), progress)


def _with_one_attribute(labels: GuardedLabels) -> GuardedLabels:
    """Return labels with one attribute: the only one, or all combinations of classes that occur.

    Raises
    ------
    LabelError : an attribute is numeric, or there are too many combinations
    """
    for attribute in labels.attributes:
        if attribute.classes is None:
            raise LabelError(
                f"{labels.path}: column {attribute.name!r} is numeric, expected classes: method transport moves the "
                "rows of a class as one; use method sal or leace, or bins of the numbers"
            )
    if len(labels.attributes) == 1:
        return labels
    codes = labels.strata(np.arange(len(labels)))
    n, names = int(codes.max()) + 1, " × ".join(attribute.name for attribute in labels.attributes)
    if n > MOST_CLASSES:
        raise LabelError(
            f"{labels.path}: columns {names} make {n} classes, expected at most {MOST_CLASSES}: guard one of them, "
            "and fit another eraser to what this one writes"
        )
    first = np.array([np.flatnonzero(codes == code)[0] for code in range(n)])
    classes = tuple(" × ".join((a.classes or ())[a.values[row]] for a in labels.attributes) for row in first)
    product = Attribute(names, codes.astype(smallest_code(n)), classes)
    return replace(labels, attributes=(product,))


def _least_rows(d: int) -> int:
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
    attribute, least = labels.attributes[0], _least_rows(d)
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


def _doubts(moments: ClassMoments, trials: tuple[Trial, ...]) -> tuple[str, ...]:
    doubts, (n, d) = [], (moments.n, len(moments.cross.mean_x))
    if n < FEW_ROWS * d:
        doubts.append(
            f"{n:,} fitted rows are few for covariances in {d} dimensions: what nonlinear readers read falls as rows "
            "grow (of 100-dimensional word vectors .93 with 1,500 rows, .85 with 3,000, .78 with 5,825)"
        )
    if trials and best_of(trials).shrinkage.share == 1:
        doubts.append(
            "on held-out fitted rows every transport was read better than removing class means alone, which is "
            "therefore all that this eraser does: use method sal, or more rows"
        )
    return tuple(doubts)
