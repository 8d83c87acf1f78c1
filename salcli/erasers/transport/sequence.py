"""`SequenceEraser`: transports of several attributes, each fitted to what the one before returns.

The combinations of the classes of many attributes are too many for a covariance each. One after another, each transport
makes the classes of one attribute alike; those after it change its rows by classes that it does not know, so that what
is left of an attribute is measured, not promised.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from salcli.erasers.base import Eraser
from salcli.erasers.linear import in_blocks, require_float64, require_rows, result_for, rows_at_once
from salcli.erasers.transport.eraser import Posterior, TransportEraser
from salcli.errors import ParameterError, ShapeError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SequenceEraser(Eraser):
    """x' = Tₐ(… T₂(T₁(x))), or λ of the way from x to there."""

    kind: ClassVar[str] = "transports"
    names: ClassVar[tuple[str, ...]] = (
        "sizes",
        "means",
        "directions",
        "centres",
        "maps",
        "posterior_weights",
        "posterior_bias",
        "certain",
    )

    steps: tuple[TransportEraser, ...]
    """One or more, of the same width."""

    def __post_init__(self) -> None:
        if not self.steps or len({step.d for step in self.steps}) > 1:
            raise ShapeError("a sequence has one or more transports of the same dimensions")

    @property
    def d(self) -> int:
        """Width of the rows it takes."""
        return self.steps[0].d

    @property
    def d_out(self) -> int:
        """Width of the rows it returns."""
        return self.d

    @property
    def k(self) -> int:
        """Directions that are removed, by all steps together."""
        return sum(step.k for step in self.steps)

    @property
    def rows_at_once(self) -> int | None:
        """Batches of how many rows are best (see `LinearEraser.rows_at_once`)."""
        return rows_at_once(self.d)

    def __call__(
        self,
        x: NDArray[Any],
        *,
        strength: float = 1.0,
        dtype: DTypeLike | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return rows after all transports, or rows that are moved λ = strength of the way there.

        Parameters
        ----------
        x : `[n, d]`
        strength : λ ∈ [0, 1]
        dtype : of the result, default: x's; the arithmetic is float64
        out : an earlier result, or x itself, that may be overwritten: its memory is used if it suffices

        Returns
        -------
        `[n, d]`

        Raises
        ------
        ShapeError : rows of another width
        ParameterError : strength outside [0, 1]
        RowRangeError : a result that dtype cannot hold, also of rows that hold NaN or Inf
        """
        if not 0 <= strength <= 1:
            raise ParameterError("strength", strength, "outside 0…1")
        require_rows(x, self.d)

        def change(block: Array, spare: Array) -> Array:
            start = block.copy() if strength < 1 else None
            for step in self.steps:
                moved = step.moved(block, spare)
                block, spare = moved, block
            if start is not None:
                block -= start
                block *= strength
                block += start
            return block

        return in_blocks(x, change, result_for(x, self.d, dtype, out))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what an artifact holds: the arrays of all steps, side by side."""
        steps, of = self.steps, [step.posterior for step in self.steps]
        found = (
            np.array([(step.k, step.n_classes) for step in steps], np.float64),
            np.stack([step.mean for step in steps]),
            np.hstack([step.directions for step in steps]),
            np.stack([step.centre for step in steps]),
            np.concatenate([step.maps for step in steps]),
            np.hstack([posterior.weights for posterior in of]),
            np.concatenate([posterior.bias for posterior in of]),
            np.array([posterior.certain for posterior in of]),
        )
        return dict(zip(self.names, found, strict=True))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> Self:  # noqa: ARG003 (others use it)
        """Return the eraser that an artifact holds (see `Eraser.from_arrays`).

        Raises
        ------
        ShapeError, RangeError : the arrays are no such eraser
        """
        sizes = require_float64(arrays, "sizes")
        is_whole = sizes.ndim == 2 and sizes.shape[1] == 2 and bool(np.all((sizes >= 1) & (sizes == np.floor(sizes))))
        if not is_whole or not 0 < sizes.sum() < 2**53:
            raise ShapeError("sizes are no whole numbers [a, 2] of directions and classes")
        sizes = sizes.astype(np.int64)
        means, directions, centres, maps, weights, bias, certain = (require_float64(arrays, n) for n in cls.names[1:])
        if (axes := [a.ndim for a in (means, directions, centres, maps, weights, bias, certain)]) != [
            2,
            2,
            2,
            3,
            2,
            1,
            1,
        ]:
            raise ShapeError(f"its arrays have {axes} axes, not those of a sequence of transports")
        n, (k, c) = len(sizes), sizes.sum(axis=0).tolist()
        lengths = (len(means), directions.shape[1], len(centres), len(maps), weights.shape[1], len(bias), len(certain))
        if lengths != (n, k, n, c, c, c, n):
            raise ShapeError(f"its arrays are not those of {n} transports with {k} directions and {c} classes")
        ends = np.cumsum(sizes, axis=0)[:-1]
        parts = zip(
            means,
            np.split(directions, ends[:, 0], axis=1),
            centres,
            np.split(maps, ends[:, 1]),
            np.split(weights, ends[:, 1], axis=1),
            np.split(bias, ends[:, 1]),
            certain.tolist(),
            strict=True,
        )
        return cls(tuple(TransportEraser(m, v, o, a, Posterior(w, b, gate)) for m, v, o, a, w, b, gate in parts))

    def residue(self, x: NDArray[Any], dtype: DTypeLike) -> float:
        """Return what rounding erased rows to `dtype` brings back (see `TransportEraser.residue`)."""
        rounded = self(x, dtype=dtype).astype(np.float64)
        return float(np.sqrt(np.mean((rounded - self(x, dtype=np.float64)) ** 2)))
