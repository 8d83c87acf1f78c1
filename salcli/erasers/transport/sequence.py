"""`SequenceEraser`: transports of several attributes, each fitted to what the one before returns.

The combinations of the classes of many attributes are too many for a covariance each. One after another, each transport
makes the classes of one attribute alike; those after it change its rows by classes that it does not know, so that what
is left of an attribute is measured, not promised.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from salcli.erasers.blocks import BlockEraser, Change, require_float64
from salcli.erasers.transport.eraser import Posterior, TransportEraser
from salcli.errors import ShapeError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SequenceEraser(BlockEraser):
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
    def k(self) -> int:
        """Directions that are removed, by all steps together."""
        return sum(step.k for step in self.steps)

    def _changed(self, x: NDArray[Any], strength: float, dtype: np.dtype[Any]) -> Change:  # noqa: ARG002 (others use them)
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

        return change

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
