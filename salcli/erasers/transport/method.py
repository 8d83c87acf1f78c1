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
from salcli.streaming.passes import LabelledSource, fold, gather_rows
from salcli.streaming.progress import Progress

MOST_CLASSES = 64  # of several attributes together
LEAST_ROWS = 0.1  # of a class, a dimension
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

        Raises
        ------
        LabelError : numbers, more classes than `MOST_CLASSES`, or a class with too few rows
        RankError : rows do not covary with the labels, or do not vary within classes
        NotEnoughMemory : the matrices of all classes do not fit into memory
        """
        rows = replace(rows, labels=_with_one_attribute(rows.labels))
        attribute, d = rows.labels.attributes[0], rows.source.d
        classes = attribute.classes or ()
        _require_rows(rows, attribute)
        needed = 8 * MATRICES * len(classes) * d * d
        memory.require_memory(needed, f"covariances of {len(classes)} classes in {d} dimensions", "merge classes")
        held, rest = _divided(rows, seed)
        x, kept = gather_rows(rows.source, rows.row_of_label[held], progress)
        held = held[kept]
        blas_product()  # loaded on a thread, its library would not be limited to one of its own
        moments = fold(_only(rows, rest), ClassMoments, engine, progress, joining=JOINING)
        codes = attribute.codes(held)
        trials: tuple[Trial, ...] = ()
        if parameters.shrinkage is None:
            trials = _trials(moments, x, codes, progress)
            chosen = best_of(trials).shrinkage
        else:
            chosen = Shrinkage(parameters.shrinkage, parameters.towards or POOLED)
        moments = moments.add(x, attribute.design(held))
        mean_step = fit_sal(moments.cross)
        eraser = ClassGaussians.of(moments, x, codes, keep_mean=parameters.keep_mean).transport(chosen)
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
            doubts=_doubts(moments, trials),
        )


METHOD = TransportMethod()


def _trials(moments: ClassMoments, x: NDArray[Any], codes: Index, progress: Progress) -> tuple[Trial, ...]:
    order = np.random.default_rng(0).permutation(len(x))
    x, codes = x[order], codes[order]
    gaussians = ClassGaussians.of(moments, x, codes)
    return try_all(gaussians.transport, x, codes, len(moments.counts), progress)


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


def _require_rows(rows: LabelledSource, attribute: Attribute) -> None:
    """Check that each class has rows enough for a covariance.

    Raises
    ------
    LabelError : it names the class
    """
    least = max(10, int(LEAST_ROWS * rows.source.d))
    name, n = min(attribute.counts().items(), key=lambda each: each[1])
    if n < least:
        raise LabelError(
            f"{rows.labels.path}: column {attribute.name!r}: class {name} has {n} fitted rows, expected at least "
            f"{least} for covariances in {rows.source.d} dimensions: merge classes, or use method sal"
        )


def _divided(rows: LabelledSource, seed: int) -> tuple[Index, Index]:
    """Return the labels that are held out for the choice of shrinkage, and the others, ascending.

    Raises
    ------
    LabelError : the groups of rows leave one of both without a class
    """
    everyone, attribute = np.arange(len(rows)), rows.labels.attributes[0]
    held = held_out(rows.labels, everyone, min(HELD_OUT, MOST_HELD_OUT / len(rows)), seed)
    rest = np.setdiff1d(everyone, held)
    for part in (held, rest):
        for code in np.setdiff1d(np.arange(len(attribute.classes or ())), attribute.codes(part))[:1]:
            raise LabelError(
                f"{rows.labels.path}: column {attribute.name!r}: class {(attribute.classes or ())[code]} is in too few "
                "groups, expected some on either side of a third that is held out"
            )
    return held, rest


def _only(rows: LabelledSource, index: Index) -> LabelledSource:
    return LabelledSource.of(rows.source, rows.labels.restricted_to(index), rows.row_of_label[index])


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
