"""`fit --method transport`: of one attribute, of all combinations of the classes of several, or one after another."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from salcli.data.labels import Attribute, GuardedLabels, smallest_code
from salcli.erasers.base import Fit
from salcli.erasers.transport.eraser import TransportEraser
from salcli.erasers.transport.fitting import Fitted, fit_one
from salcli.erasers.transport.gaussians import IDENTITY, POOLED, Shrinkage
from salcli.erasers.transport.noise import noisy
from salcli.erasers.transport.scored import Scores
from salcli.erasers.transport.sequence import SequenceEraser
from salcli.errors import LabelError, UsageError
from salcli.linalg.blas import blas_product
from salcli.options import Record, option
from salcli.streaming.engine import Engine, one_blas_thread
from salcli.streaming.passes import LabelledSource
from salcli.streaming.progress import Progress

MOST_CLASSES = 64
"""Of several attributes together; with more combinations they are moved one after another."""


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
    score: str | None = option(
        None,
        help="Column of numbers that the classes are cut from: rows that have one and no class, as salcli label can "
        "write them, take part in covariances by a regression on it.",
        metavar="COL",
        text=True,
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
    ) -> Fit[TransportEraser | SequenceEraser]:
        """Fit a transport to labelled rows (see `Method.fit`).

        Raises
        ------
        LabelError : numbers, too many classes, a class in too few groups, or no scores as `score` needs them
        UsageError : noise or a score with several attributes that do not allow it
        RankError : rows do not covary with the labels, or do not vary within classes
        NotEnoughMemory : the matrices of all classes do not fit into memory
        """
        labels, shrinkage = _parts(rows.labels), None
        if parameters.shrinkage is not None:
            shrinkage = Shrinkage(parameters.shrinkage, parameters.towards or POOLED)
        _require_one(parameters, rows.labels, labels)
        scores = None if parameters.score is None else Scores.read(rows, parameters.score, progress)
        blas_product()  # loaded later, its library would not be limited to one thread
        found = list[Fitted]()
        for part in labels:
            with one_blas_thread():
                one = fit_one(
                    replace(rows, labels=part),
                    shrinkage,
                    keep_mean=parameters.keep_mean,
                    before=SequenceEraser(tuple(each.eraser for each in found)) if found else None,
                    scores=scores,
                    seed=seed,
                    engine=engine,
                    progress=progress,
                )
            found.append(one)
        if len(found) > 1:
            return _sequence(found, labels)
        eraser = one.eraser if not parameters.noise else noisy(one.eraser, one.moments, parameters.noise)
        header: dict[str, Any] = {"transport": {**one.about, "noise": parameters.noise}}
        if scores is not None:
            effective = one.effective_rows.round(1).tolist()
            header["scored"] = {
                "column": parameters.score, "n_unlabelled": len(scores.rows), "effective_rows": effective
            }  # fmt: skip
        return Fit(eraser, one.mean_step.singular_values, one.mean_step.rank, header=header, doubts=one.doubts)


METHOD = TransportMethod()


def _sequence(found: list[Fitted], labels: list[GuardedLabels]) -> Fit[TransportEraser | SequenceEraser]:
    """Return the fit of transports one after another, of the attributes of `labels`."""
    names = [part.attributes[0].name for part in labels]
    steps = [{"attribute": name, **one.about} for name, one in zip(names, found, strict=True)]
    spectrum = np.sort(np.concatenate([one.mean_step.singular_values for one in found]))[::-1]
    doubts = tuple(f"{name}: {doubt}" for name, one in zip(names, found, strict=True) for doubt in one.doubts)
    return Fit(
        SequenceEraser(tuple(one.eraser for one in found)),
        spectrum,
        sum(one.mean_step.rank for one in found),
        header={"transports": {"steps": steps}},
        doubts=doubts,
    )


def _require_one(parameters: TransportParameters, labels: GuardedLabels, parts: list[GuardedLabels]) -> None:
    """Check that options which are about one attribute have one.

    Raises
    ------
    UsageError : they have several
    """
    if parameters.score is not None and len(labels.attributes) > 1:
        raise UsageError("`score` is what the classes of one attribute are cut from, and several are guarded")
    if parameters.noise and len(parts) > 1:
        raise UsageError(
            f"`noise` goes with one transport; these attributes have more than {MOST_CLASSES} combinations of classes, "
            "and are moved one after another"
        )


def _parts(labels: GuardedLabels) -> list[GuardedLabels]:
    """Return labels with one attribute each: all combinations of classes that occur, or the attributes as they are.

    Raises
    ------
    LabelError : an attribute is numeric, or one of several has too many classes
    """
    for attribute in labels.attributes:
        if attribute.classes is None:
            raise LabelError(
                f"{labels.path}: column {attribute.name!r} is numeric, expected classes: method transport moves the "
                "rows of a class as one; use method sal or leace, or bins of the numbers"
            )
    if len(labels.attributes) == 1:
        return [labels]
    codes = labels.strata(np.arange(len(labels)))
    if (n := int(codes.max()) + 1) > MOST_CLASSES:
        for attribute in labels.attributes:
            if len(attribute.classes or ()) > MOST_CLASSES:
                raise LabelError(
                    f"{labels.path}: column {attribute.name!r} has {len(attribute.classes or ()):,} classes, expected "
                    f"at most {MOST_CLASSES} of each of several attributes: guard it alone, or merge classes"
                )
        return [replace(labels, attributes=(attribute,)) for attribute in labels.attributes]
    names = " × ".join(attribute.name for attribute in labels.attributes)
    first = np.array([np.flatnonzero(codes == code)[0] for code in range(n)])
    classes = tuple(" × ".join((a.classes or ())[a.values[row]] for a in labels.attributes) for row in first)
    product = Attribute(names, codes.astype(smallest_code(n)), classes)
    return [replace(labels, attributes=(product,))]
