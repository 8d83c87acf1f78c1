"""`UnitEraser`: erased rows divided by their lengths; and how a linear method is fitted so that this is harmless.

The length ‖Px‖ of an erased row differs between classes, so that class means differ again after the division. The means
of Px / ‖Px‖ are equal if P removes what covaries with z of the rows x / ‖Px‖: a fixed point, found by fitting P to such
rows again and again. Each fit costs one pass, and the eraser has no more directions than that of a single fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.base import Fit
from salcli.erasers.blocks import Change
from salcli.erasers.linear import LinearEraser
from salcli.errors import ShapeError, UsageError
from salcli.linalg.decompositions import singular_values
from salcli.linalg.unit import normalize, row_lengths
from salcli.options import option
from salcli.streaming.progress import Progress, Silent

Array = NDArray[np.float64]
M = TypeVar("M")
LOST = 1e-9
"""Erased rows shorter than this share of their former length are rounding errors, and are set to zero."""
EQUAL = 2.0**-20
UNIT_ROUNDS = 20
"""Largest singular value of Cov(x', z) of unit rows at which class means count as equal: 8 eps of float32."""


@dataclass(frozen=True, eq=False)
class UnitEraser(LinearEraser):
    """x' = y / ‖y‖ with y = x − (x right) leftᵀ; rows of zeros stay zero."""

    kind: ClassVar[str] = "unit"
    normalizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean.any():
            raise ShapeError("an eraser of unit rows subtracts no mean")

    def _changed(self, x: NDArray[Any], strength: float, dtype: np.dtype[Any]) -> Change:
        return _and_divided(super()._changed(x, strength, dtype))

    def _reduced(self) -> Change:
        return _and_divided(super()._reduced())


def _and_divided(erase: Change) -> Change:
    def change(block: Array, spare: Array) -> Array:
        lengths = row_lengths(block)
        return normalize(erase(block, spare), LOST * lengths)

    return change


@dataclass(frozen=True, eq=False)
class UnitMap:
    """Rows divided by the lengths that they have after an erasure; by their own lengths without one."""

    is_by_row: ClassVar[bool] = True
    width: int
    eraser: LinearEraser | None = None

    def __call__(self, x: NDArray[Any]) -> Array:
        """Return x / ‖Px‖ `[n, d]`, float64, of rows `x` `[n, d]`, and zero where Px is zero."""
        unit = normalize(x.astype(np.float64))
        if self.eraser is None:
            return unit
        lengths = row_lengths(self.eraser(unit))
        factors = np.zeros(len(unit))
        np.divide(1.0, lengths, out=factors, where=lengths > LOST)
        unit *= factors[:, None]
        return unit


def unit_option() -> Any:
    """Return the field `unit` of a method's parameters."""
    return option(
        False,
        help="Write rows of length 1, for search by cosine, and fit so that the class means of these are equal; "
        "removed coordinates are 0.",
    )


def unit_rounds_option() -> Any:
    """Return the field `unit_rounds` of a method's parameters."""
    return option(UNIT_ROUNDS, help="With `unit`: most fits, each a pass over the rows.", metavar="N", bounds=(1, None))


def require_unit(parameters: Any, *, keeps_mean: bool = False) -> None:
    """Check that parameters do not contradict `unit`.

    Parameters
    ----------
    parameters : of a method, with `unit`
    keeps_mean : whether the mean is to be kept

    Raises
    ------
    UsageError : they do
    """
    if not parameters.unit:
        if getattr(parameters, "unit_rounds", UNIT_ROUNDS) != UNIT_ROUNDS:
            raise UsageError("`unit_rounds` is about rows of length 1: give `unit` too")
        return
    if getattr(parameters, "k", None) is not None or getattr(parameters, "alpha", None) is not None:
        raise UsageError("`unit` makes class means equal, which needs all directions: it cannot go with `k` or `alpha`")
    if keeps_mean:
        raise UsageError("`unit` sets removed coordinates to 0: it cannot go with `keep_mean`")
    if not getattr(parameters, "center", True):
        raise UsageError("`unit` makes class means equal, which needs centring: it cannot go with `center=False`")


def fit_unit(
    moments_of: Callable[[Progress, UnitMap], M],
    fit: Callable[[M], Fit[LinearEraser]],
    covariance: Callable[[M], Array],
    d: int,
    most: int,
    progress: Progress,
) -> Fit[UnitEraser]:
    """Fit a linear method so that class means are equal after erased rows are divided by their lengths.

    Parameters
    ----------
    moments_of : returns the moments of mapped rows, from one pass, whose progress it shows
    fit : fits the method to moments; a mean of its eraser is not used
    covariance : returns Cov(x, z) `[d, c]` of moments, z guarded
    d : dimensions
    most : largest number of fits
    progress : shows the fits as a stage

    Returns
    -------
    the best fit, whose header has `unit`: the number of fits `n_rounds`, the largest singular value of Cov(x', z)
    before the first and after each (`gaps`), and whether the least of them is rounding (`is_equal`)

    Raises
    ------
    RankError : the unit rows do not covary with the labels
    """
    found, eraser, gaps = None, None, list[float]()
    best: tuple[float, Fit[LinearEraser], LinearEraser] | None = None
    with progress.stage("unit rows", most, "fits") as advance:
        for n_rounds in range(most + 1):
            moments = moments_of(Silent(), UnitMap(d, eraser))
            left = covariance(moments)
            if eraser is not None:
                left = left - eraser.left @ (eraser.right.T @ left)
            gaps.append(float(singular_values(left)[0]))
            if found is not None and eraser is not None and (best is None or gaps[-1] < best[0]):
                best = gaps[-1], found, eraser
            if n_rounds == most or (best is not None and best[0] <= EQUAL):
                break
            found = fit(moments)
            eraser = LinearEraser(np.zeros(d), found.eraser.left, found.eraser.right)
            advance(1)
    assert best is not None
    gap, found, eraser = best
    doubts = found.doubts
    if gap > EQUAL:
        doubts += (
            f"after {n_rounds} fits the class means of unit rows still differ (largest covariance with a label "
            f"{gap:.2g}, before erasure {gaps[0]:.2g}); more `unit_rounds` may bring them closer",
        )
    header = {**found.header, "unit": {"n_rounds": n_rounds, "gaps": gaps, "is_equal": gap <= EQUAL}}
    unit = UnitEraser(eraser.mean, eraser.left, eraser.right)
    return Fit(unit, found.singular_values, found.rank, found.k_rule, True, header, doubts)
